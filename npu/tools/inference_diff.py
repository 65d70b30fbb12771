"""Two ways to run a model on the same inputs: how far the outputs are apart, and at which operator they part.

The reference is the one-thread CPU kernels; the test is the same file or another one (compiled, converted) with any delegates.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from npu.errors import ModelError, UserError
from npu.graph.dtype import DType
from npu.graph.ethos_u import is_compiled
from npu.graph.graph import Model
from npu.progress import Progress
from npu.records import dataclass
from npu.runtime.delegate import RestrictedDelegate, as_delegate
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.tensor import Array
from npu.tflite.reader import read_model
from npu.tools.parameters import ToolParameters
from npu.tools.registrar import Chosen, choose
from npu.tools.runner import delegation, open_interpreter, outputs, random_inputs, set_inputs
from npu.tools.statistics import Statistics, summarize

_REAL = "iufb"
_HANDLES = (DType.RESOURCE, DType.VARIANT)
"""Types whose values say nothing that could be compared."""


@dataclass(frozen=True, slots=True)
class OutputDifference:
    """Absolute differences of the stored values of one output over all runs; `differing` of `elements` are not equal."""

    name: str
    dtype: str
    elements: int
    differing: int
    max: float
    min: float
    mean: float
    std: float


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """The first operator, in the order of the reference, whose output differs. `executor` ran it in the test.

    `unseen` operators right before it have no tensor in the test that could be compared: one of them may be to blame.
    """

    node: int
    kind: str
    tensor: str
    executor: str
    max: float
    unseen: int = 0


@dataclass(frozen=True, slots=True)
class InferenceDiff:
    """Result of `compare`. Latencies in milliseconds."""

    reference: str
    test: str
    log: tuple[str, ...]
    runs: int
    outputs: tuple[OutputDifference, ...]
    reference_ms: Statistics
    test_ms: Statistics
    first: FirstDifference | None

    @property
    def is_equal(self) -> bool:
        """Whether there are outputs, and every one is equal in every run."""
        return bool(self.outputs) and not any(output.differing for output in self.outputs)

    def to_json(self) -> str:
        """All numbers for programs."""
        row = {
            "reference": self.reference,
            "test": self.test,
            "delegates": list(self.log),
            "runs": self.runs,
            "equal": self.is_equal,
            "outputs": [{name: getattr(output, name) for name in output.__slots__} for output in self.outputs],
            "reference_ms": self.reference_ms.row(),
            "test_ms": self.test_ms.row(),
            "first_difference": None
            if self.first is None
            else {name: getattr(self.first, name) for name in self.first.__slots__},
        }
        return json.dumps(row, indent=2) + "\n"


def compare(
    reference: Path,
    parameters: ToolParameters,
    test: Path | None = None,
    *,
    runs: int = 10,
    inputs: Sequence[Array] | None = None,
    seed: int = 0,
    num_threads: int = 1,
    is_bisected: bool = False,
    progress: Progress | None = None,
) -> InferenceDiff:
    """Run both on Gaussian inputs (or once on `inputs`). UserError if inputs or outputs of the two do not match."""
    model = read_model(reference)
    if is_compiled(model):
        raise ModelError(
            f"{reference.name}: must be a plain model, which the CPU kernels run, but it holds compiled operators; "
            "give the compiled file as --test-model of its source, with --use_npu"
        )
    tested = model if test is None else read_model(test)
    name = (test or reference).name
    chosen = choose(tested, name, parameters, num_threads=num_threads)
    left = open_interpreter(model, (), preserve_all_tensors=True)
    right = open_interpreter(chosen.model, chosen.delegates, num_threads=num_threads, preserve_all_tensors=True)
    _check_same(left, right)
    generator = np.random.default_rng(seed)
    collected: list[list[Array]] = [[] for _ in left.get_output_details()]
    times: tuple[list[float], list[float]] = ([], [])
    given: list[Array] = []
    total = 1 if inputs is not None else runs
    for done in range(total):
        given = list(inputs) if inputs is not None else random_inputs(left, generator, is_gaussian=True)
        expected, got = (_timed_run(interpreter, given, log) for interpreter, log in zip((left, right), times, strict=True))
        for position, (a, b) in enumerate(zip(expected, got, strict=True)):
            collected[position].append(_difference(a, b))
        if progress is not None:
            progress("runs", done + 1, total)
    details = left.get_output_details()
    return InferenceDiff(
        reference=reference.name,
        test=name,
        log=(*chosen.log, *delegation(right, chosen.delegates)),
        runs=total,
        outputs=tuple(_output(detail, np.concatenate(values)) for detail, values in zip(details, collected, strict=True)),
        reference_ms=summarize(times[0]),
        test_ms=summarize(times[1]),
        first=_Bisection(model, chosen, given, parameters, name, num_threads).first(left, right) if is_bisected else None,
    )


def _check_same(left: CpuInterpreter, right: CpuInterpreter) -> None:
    for what in ("input", "output"):
        sides: list[list[Any]] = []
        for interpreter in (left, right):
            details = getattr(interpreter, f"get_{what}_details")()
            sides.append([(detail["shape"].tolist(), np.dtype(detail["dtype"]).name) for detail in details])
        if sides[0] != sides[1]:
            raise UserError(
                f"inference-diff: {what}s of both models must have the same shapes and types, got {sides[0]} and {sides[1]}"
            )


def _timed_run(interpreter: CpuInterpreter, inputs: Sequence[Array], times: list[float]) -> list[Array]:
    set_inputs(interpreter, inputs)
    start = time.perf_counter()
    interpreter.invoke()
    times.append((time.perf_counter() - start) * 1e3)
    return outputs(interpreter)


def _difference(left: Array, right: Array) -> Array:
    """Absolute difference per element, float64; two NaN or two equal infinities are equal, a lone one is infinitely far.

    Strings and complex numbers are equal or infinitely far.
    """
    if left.shape != right.shape:
        raise UserError(f"inference-diff: outputs must have the same shape, got {list(left.shape)} and {list(right.shape)}")
    if left.dtype.kind not in _REAL:
        return np.where(left.reshape(-1) == right.reshape(-1), 0.0, np.inf)
    a, b = left.astype(np.float64).reshape(-1), right.astype(np.float64).reshape(-1)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        distance = np.abs(a - b)
    return np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance))


def _output(detail: dict[str, Any], difference: Array) -> OutputDifference:
    finite = difference.size > 0 and bool(np.isfinite(difference).all())
    return OutputDifference(
        name=detail["name"],
        dtype=np.dtype(detail["dtype"]).name,
        elements=int(difference.size),
        differing=int(np.count_nonzero(difference)),
        max=float(difference.max(initial=0)),
        min=float(difference.min()) if difference.size else 0.0,
        mean=float(difference.mean()) if difference.size else 0.0,
        std=float(difference.std()) if finite else 0.0,
    )


class _Bisection:
    """Finds the first differing operator: by the tensors that both sides hold, then by giving a delegate fewer operators."""

    def __init__(
        self, model: Model, chosen: Chosen, inputs: list[Array], parameters: ToolParameters, name: str, num_threads: int
    ) -> None:
        self._model = model
        self._chosen = chosen
        self._inputs = inputs
        self._parameters = parameters
        self._name = name
        self._threads = num_threads

    def first(self, left: CpuInterpreter, right: CpuInterpreter) -> FirstDifference | None:
        """None if no tensor that both hold differs. Both have run on the same inputs."""
        in_tensors = self._in_tensors(left, right, is_same_model=self._chosen.model is self._model)
        if in_tensors is None or self._chosen.model is not self._model or not self._chosen.delegates:
            return in_tensors
        low, high = 0, len(self._model.graphs[0].ops)
        while high - low > 1:
            middle = (low + high) // 2
            attempt = self._with_operators(left, range(middle))
            low, high = (low, middle) if attempt is not None else (middle, high)
            in_tensors = attempt or in_tensors
        in_tensors = self._with_operators(left, range(high)) or in_tensors
        return dataclasses.replace(in_tensors, unseen=0)  # fewer operators gave equal results

    def _with_operators(self, left: CpuInterpreter, nodes: range) -> FirstDifference | None:
        fresh = choose(self._model, self._name, self._parameters, num_threads=self._threads).delegates
        restricted = [RestrictedDelegate(as_delegate(item), nodes) for item in fresh]
        right = open_interpreter(self._model, restricted, num_threads=self._threads, preserve_all_tensors=True)
        set_inputs(right, self._inputs)
        right.invoke()
        in_tensors = self._in_tensors(left, right, is_same_model=True)
        right.close()
        return in_tensors

    @staticmethod
    def _in_tensors(left: CpuInterpreter, right: CpuInterpreter, *, is_same_model: bool) -> FirstDifference | None:
        held = dict(_held_tensors(right, by_name=not is_same_model))
        graph = left.model.graphs[0]
        unseen = 0
        for node, op in enumerate(graph.ops):
            keys = {tensor: tensor if is_same_model else graph.tensors[tensor].name for tensor in op.outputs}
            for tensor, key in keys.items():
                if key not in held:
                    continue
                index, executor = held[key]
                if graph.tensors[tensor].dtype in _HANDLES:
                    continue
                ours, theirs = left.get_tensor(tensor), right.get_tensor(index)
                if ours.shape == theirs.shape and (worst := _difference(ours, theirs).max(initial=0)) > 0:
                    return FirstDifference(node, op.kind, graph.tensors[tensor].name, executor, float(worst), unseen)
            unseen = 0 if held.keys() & keys.values() else unseen + 1
        return None


def _held_tensors(interpreter: CpuInterpreter, *, by_name: bool) -> Iterator[tuple[Any, tuple[int, str]]]:
    """(index or name, (tensor index, who wrote it)) of the tensors that steps of the plan write."""
    tensors = interpreter.model.graphs[0].tensors
    for step in interpreter.execution_plan():
        for tensor in step["outputs"]:
            yield tensors[tensor].name if by_name else tensor, (tensor, step["delegate"] or "CPU")
