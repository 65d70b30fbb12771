"""The one table of operators that the interpreter can run: kind to implementation with its type combinations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from npu.errors import InterpreterError
from npu.runtime.custom import CustomOperator, find_custom_operator
from npu.runtime.implementation import Implementation

_MODULES = (
    "convolution", "pooling", "fully_connected", "activation", "arithmetic", "shape", "reduction", "quantize", "slicing",
    "elementwise", "resize", "gather", "layout", "comparison", "control", "normalization", "embedding", "lstm", "rnn", "svdf",
    "text", "suppression", "spectrum", "segments",
)  # fmt: skip
"""Those with the operators that most models have come first."""
_CUSTOM_MODULES = ("npu.runtime.operators.detection", "npu.runtime.operators.executorch")


class _Operators(Mapping[str, Implementation]):
    """Rows by kind. Modules are imported, in order, until one has the kind: few models need more than a few."""

    def __init__(self) -> None:
        self._rows: dict[str, Implementation] = {}
        self._waiting = list(_MODULES)

    def _import_next(self) -> None:
        name = self._waiting[0]
        rows = import_module(f"npu.runtime.operators.{name}").OPERATORS
        self._rows.update({row.kind: row for row in rows})
        if name in self._waiting:  # threads may have come here together
            self._waiting.remove(name)

    def __getitem__(self, kind: str) -> Implementation:
        while kind not in self._rows and self._waiting:
            self._import_next()
        return self._rows[kind]

    def __iter__(self) -> Iterator[str]:
        while self._waiting:
            self._import_next()
        return iter(self._rows)

    def __len__(self) -> int:
        return len(list(iter(self)))


OPERATORS: Mapping[str, Implementation] = _Operators()


def find_operator(kind: str, label: str) -> Implementation:
    """The implementation of an operator; InterpreterError if there is none."""
    if kind not in OPERATORS:
        raise InterpreterError(f"{label}: must be an operator that has a CPU kernel, got {kind}")
    return OPERATORS[kind]


def find_custom(name: str) -> CustomOperator | None:
    """The kernel of a custom operator: one that was registered, else one of this project, None if there is neither."""
    registered = find_custom_operator(name)
    if registered is not None:
        return registered
    for module in _CUSTOM_MODULES:
        operators: Mapping[str, CustomOperator] = import_module(module).CUSTOM_OPERATORS
        if name in operators:
            return operators[name]
    return None
