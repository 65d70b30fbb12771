"""One row of the operator table: how a kind of operator is prepared, and for which types."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npu.errors import InterpreterError, ModelError
from npu.records import dataclass
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.types import describe, matches


@dataclass(frozen=True, slots=True)
class Implementation:
    """`build` returns what an invoke runs; `types` are patterns of supported type combinations.

    The operator table sets the shapes of the outputs, but for operators whose elements decide them: those `build` sets.
    """

    kind: str
    build: Callable[[OperatorNode], Run]
    types: tuple[str, ...]

    def prepare(self, node: OperatorNode) -> Run:
        """Check the types, then build. InterpreterError names the operator and the types that it cannot have."""
        inputs = tuple([None if tensor is None else tensor.dtype for tensor in node.inputs])
        outputs = tuple([tensor.dtype for tensor in node.outputs])
        if not any(matches(pattern, inputs, outputs) for pattern in self.types):
            supported = ", ".join(self.types)
            raise InterpreterError(f"{node.label}: types must be one of ({supported}), got {describe(inputs, outputs)}")
        is_placed = node.place()
        try:
            with np.errstate(all="ignore"):  # numbers overflow silently, as they do in the reference kernels
                run = np.errstate(all="ignore")(self.build(node))
        except ModelError as error:
            raise node.fail(str(error)) from error
        return run if is_placed else _placing(node, run)


def _placing(node: OperatorNode, run: Run) -> Run:
    """A run that sets the shapes of the outputs first, which what was computed before decides."""

    def placed() -> None:
        node.place(is_running=True)
        run()

    return placed
