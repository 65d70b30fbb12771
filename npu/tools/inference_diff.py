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
from npu.numerics.arrays import Array
from npu.progress import Progress
from npu.records import dataclass
from npu.runtime.delegate import RestrictedDelegate, as_delegate
from npu.runtime.interpreter import CpuInterpreter
from npu.tflite.reader import read_model
from npu.tools.batches import DataSetRun, Told, run_on
from npu.tools.parameters import ToolParameters
from npu.tools.registrar import Chosen, choose, make_delegates
from npu.tools.runner import delegation, open_interpreter, outputs, random_inputs, set_inputs
from npu.tools.statistics import Statistics, summarize
from npu.workers import Here, Workers

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
    workers: Workers | None = None,
    plugins: Sequence[str] = (),
    progress: Progress | None = None,
) -> InferenceDiff:
    """Run both on Gaussian inputs (or once on `inputs`). UserError if inputs or outputs of the two do not match.

    Every run begins anew and has inputs of its own, made of `seed` and its number: they are the same wherever it is done.
    """
    setting = _DiffSetting(reference, test, parameters, num_threads, seed, None if inputs is None else tuple(inputs))
    setting.require_plain_reference()
    total = 1 if inputs is not None else runs
    log, outcomes = run_on(
        workers or Here(), DataSetRun(_compare_runs, setting, tuple(plugins)), range(total), "runs", progress
    )
    ends = outcomes[0].ends
    collected = [np.concatenate([outcome.differences[position] for outcome in outcomes]) for position in range(len(ends))]
    return InferenceDiff(
        reference=reference.name,
        test=setting.name,
        log=log,
        runs=total,
        outputs=tuple(_output(name, dtype, values) for (name, dtype), values in zip(ends, collected, strict=True)),
        reference_ms=summarize([outcome.reference_ms for outcome in outcomes]),
        test_ms=summarize([outcome.test_ms for outcome in outcomes]),
        first=_first_difference(setting, total - 1) if is_bisected else None,
    )


@dataclass(frozen=True, slots=True)
class _DiffSetting:
    """What every run has in common."""

    reference: Path
    test: Path | None
    parameters: ToolParameters
    num_threads: int
    seed: int
    inputs: tuple[Array, ...] | None

    @property
    def name(self) -> str:
        return (self.test or self.reference).name

    def require_plain_reference(self) -> None:
        """ModelError for a reference that the CPU kernels do not run."""
        if is_compiled(read_model(self.reference)):
            raise ModelError(
                f"{self.reference.name}: must be a plain model, which the CPU kernels run, but it holds compiled operators; "
                "give the compiled file as --test-model of its source, with --use_npu"
            )

    def given(self, interpreter: CpuInterpreter, number: int) -> list[Array]:
        """The inputs of a run."""
        if self.inputs is not None:
            return list(self.inputs)
        return random_inputs(interpreter, np.random.default_rng([self.seed, number]), is_gaussian=True)


@dataclass(frozen=True, slots=True)
class _BothSides:
    """Both sides, ready to run."""

    chosen: Chosen
    left: CpuInterpreter
    right: CpuInterpreter


@dataclass(frozen=True, slots=True)
class _RunDifference:
    """Differences of each output, of name and type `ends`, and milliseconds."""

    ends: tuple[tuple[str, str], ...]
    differences: tuple[Array, ...]
    reference_ms: float
    test_ms: float


def _open(setting: _DiffSetting) -> _BothSides:
    model = read_model(setting.reference)
    tested = model if setting.test is None else read_model(setting.test)
    chosen = choose(tested, setting.name, setting.parameters, num_threads=setting.num_threads)
    left = open_interpreter(model, (), preserve_all_tensors=True)
    right = open_interpreter(chosen.model, chosen.delegates, num_threads=setting.num_threads, preserve_all_tensors=True)
    _check_same(left, right)
    return _BothSides(chosen, left, right)


def _compare_runs(setting: _DiffSetting, numbers: Sequence[int], told: Told) -> tuple[tuple[str, ...], list[_RunDifference]]:
    pair = _open(setting)
    runs = []
    for number in numbers:
        runs.append(_compare_run(pair, setting.given(pair.left, number)))
        told(1)
    pair.left.close()
    lines = (*pair.chosen.log, *delegation(pair.right, pair.chosen.delegates))
    pair.right.close()
    return lines, runs


def _compare_run(pair: _BothSides, inputs: Sequence[Array]) -> _RunDifference:
    expected, reference_ms = _timed_run(pair.left, inputs)
    actual, test_ms = _timed_run(pair.right, inputs)
    differences = tuple(_difference(a, b) for a, b in zip(expected, actual, strict=True))
    ends = tuple((detail["name"], np.dtype(detail["dtype"]).name) for detail in pair.left.get_output_details())
    return _RunDifference(ends, differences, reference_ms, test_ms)


def _first_difference(setting: _DiffSetting, number: int) -> FirstDifference | None:
    pair = _open(setting)
    inputs = setting.given(pair.left, number)
    _compare_run(pair, inputs)
    return _Bisection(pair, inputs, setting).first()


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


def _timed_run(interpreter: CpuInterpreter, inputs: Sequence[Array]) -> tuple[list[Array], float]:
    """Outputs of an inference that begins anew, and its milliseconds."""
    interpreter.reset_all_variables()
    set_inputs(interpreter, inputs)
    start = time.perf_counter()
    interpreter.invoke()
    milliseconds = (time.perf_counter() - start) * 1e3
    return outputs(interpreter), milliseconds


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


def _output(name: str, dtype: str, difference: Array) -> OutputDifference:
    finite = difference.size > 0 and bool(np.isfinite(difference).all())
    return OutputDifference(
        name=name,
        dtype=dtype,
        elements=int(difference.size),
        differing=int(np.count_nonzero(difference)),
        max=float(difference.max(initial=0)),
        min=float(difference.min()) if difference.size else 0.0,
        mean=float(difference.mean()) if difference.size else 0.0,
        std=float(difference.std()) if finite else 0.0,
    )


class _Bisection:
    """Finds the first differing operator: by the tensors that both sides hold, then by giving a delegate fewer operators."""

    def __init__(self, pair: _BothSides, inputs: Sequence[Array], setting: _DiffSetting) -> None:
        """Both sides of `pair` have run on `inputs`."""
        self._pair = pair
        self._model = pair.left.model
        self._inputs = inputs
        self._setting = setting

    def first(self) -> FirstDifference | None:
        """None if no tensor that both hold differs."""
        left, chosen = self._pair.left, self._pair.chosen
        in_tensors = self._in_tensors(left, self._pair.right, is_same_model=chosen.model is self._model)
        if in_tensors is None or chosen.model is not self._model or not chosen.delegates:
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
        fresh = make_delegates(self._setting.parameters, num_threads=self._setting.num_threads)
        restricted = [RestrictedDelegate(as_delegate(delegate), nodes) for delegate in fresh]
        right = open_interpreter(self._model, restricted, num_threads=self._setting.num_threads, preserve_all_tensors=True)
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
