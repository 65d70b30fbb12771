"""run: compile if needed, execute bit-exactly, time every operator."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from npu.arguments import INTEGER, require_type
from npu.errors import InterpreterError, stream_errors_at
from npu.graph.graph import Graph, Quantization, Tensor
from npu.isa.operations import Operation
from npu.numerics.arrays import Array
from npu.progress import Progress
from npu.records import dataclass
from npu.reports.report import Report
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.operator import LOOP_LIMIT, RuntimeOptions
from npu.tabular import Record, Tabular
from npu.toolchain.executable import prepare
from npu.toolchain.labels import execution_errors_at
from npu.toolchain.origin import Origin
from npu.toolchain.session import Session
from npu.toolchain.sources import Source
from npu.toolchain.tensors import Recorder, named_tensors
from npu.toolchain.timing import TimedModel, time_executable
from sim.container import CompiledFile
from sim.delegate import EthosUDelegate
from sim.machine import Hook
from sim.memory import NpuMemory
from sim.timeline import Timeline

Inputs = Sequence[Array] | Mapping[str, Array] | None
"""Of a model: in its order, by name, or None for random ones."""


@dataclass(frozen=True, slots=True)
class RunResult(Tabular):
    """What came out: `outputs` in model order with their `output_names`, the report, and the times it was made from."""

    outputs: list[Array]
    output_names: tuple[str, ...]
    output_quantization: tuple[Quantization | None, ...] = field(repr=False)
    report: Report
    timed: TimedModel = field(repr=False)
    inputs: list[Array] = field(repr=False)
    """What it ran on, in model order."""
    tensors: Mapping[str, Array] = field(default_factory=dict, repr=False)
    """Every feature map and tensor by a telling name, if asked for (see `npu.toolchain.tensors`)."""

    def records(self) -> list[Record]:
        """The operators of the report."""
        return self.report.records()

    def headline(self) -> str:
        """That of the report."""
        return self.report.headline()

    @property
    def timeline(self) -> Timeline:
        """NPU jobs and CPU operators in order of time."""
        return self.timed.timeline


def run(
    model: Source,
    session: Session,
    inputs: Inputs = None,
    *,
    seed: int = 0,
    progress: Progress | None = None,
    dump: bool = False,
    with_events: bool = False,
    origin: Origin | None = None,
) -> RunResult:
    """Compile a plain model if need be, execute the compiled file bit-exactly, and time it.

    `inputs`, of the types and shapes of the model's, are in model order or by name, or the array of its only one; without them,
    seeded random data of each type's full range. `dump` also returns every tensor, `with_events` keeps what a trace of the
    times shows. InterpreterError for inputs that do not fit. `origin` names the
    operators of another compiler's file.
    """
    executable = prepare(model, session, progress, origin=origin)
    file, graph, name = executable.file, executable.model.graphs[0], executable.name
    with stream_errors_at(name):
        recorder = Recorder(file, executable.operators if executable.operators.has_names else None) if dump else None
        interpreter = CpuInterpreter(
            model=executable.model,
            experimental_delegates=[EthosUDelegate(file=file, hook=_hook(file, recorder, progress))],
            experimental_preserve_all_tensors=dump,
            options=RuntimeOptions(while_limit=LOOP_LIMIT),
        )
    interpreter.tell(progress)
    with execution_errors_at(name, file):
        given, outputs, names = execute(interpreter, graph, inputs, seed)
    tensors = named_tensors(executable.model, interpreter, recorder.written) if recorder else {}
    timed = time_executable(executable, with_events=with_events, executions=interpreter.executions())
    quantization = tuple(graph.tensors[index].quantization for index in graph.outputs)
    return RunResult(outputs, names, quantization, timed.report, timed, given, tensors)


def _hook(file: CompiledFile, recorder: Recorder | None, progress: Progress | None) -> Hook | None:
    """What is called after each operation: the recorder, and who is told how far the jobs are. A loop runs a job again."""
    record = recorder.hook if recorder else None
    if progress is None:
        return record
    total = sum(len(file.operations(job.graph, job.index)) for job in file.jobs())
    count = itertools.count(1)

    def hook(index: int, operation: Operation, memory: NpuMemory) -> None:
        if record is not None:
            record(index, operation, memory)
        progress("operations of the NPU", min(next(count), total), total)

    return hook


def execute(
    interpreter: CpuInterpreter, graph: Graph, inputs: Inputs, seed: int
) -> tuple[list[Array], list[Array], tuple[str, ...]]:
    """Allocate, set the inputs (seeded random ones if none are given), invoke: inputs, outputs and the names of these.

    InterpreterError if an input does not fit.
    """
    interpreter.allocate_tensors()
    details = interpreter.get_input_details()
    require_type("seed", seed, INTEGER, "a whole number from 0 up")
    if seed < 0:
        raise InterpreterError(f"seed: must be a whole number from 0 up, got {seed}")
    if isinstance(inputs, np.ndarray) and len(details) == 1 and inputs.ndim == len(details[0]["shape"]):
        inputs = [inputs]
    arrays = _ordered(inputs, [detail["name"] for detail in details])
    if arrays is None:
        random = np.random.default_rng(seed)  # whose module takes as long to load as a small model to run
        arrays = [random_input(graph.tensors[index], random) for index in graph.inputs]
    for position, (detail, array) in enumerate(zip(details, arrays, strict=True)):
        shape, dtype = tuple(int(extent) for extent in detail["shape"]), np.dtype(detail["dtype"])
        if array.shape != shape or array.dtype != dtype:
            raise InterpreterError(
                f"input {position} {detail['name']!r}: must be {dtype} of shape {list(shape)}, "
                f"got {array.dtype} of shape {list(array.shape)}{_how_to_quantize(detail, array)}"
                f"{_order(details) if array.shape != shape else ''}"
            )
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    made = interpreter.get_output_details()
    return arrays, [interpreter.get_tensor(output["index"]) for output in made], tuple(output["name"] for output in made)


def _order(details: Sequence[Mapping[str, Any]]) -> str:
    """A hint for inputs that may stand in another order than the model's."""
    return (
        f"; the model's inputs are, in this order, {', '.join(detail['name'] for detail in details)}"
        if len(details) > 1
        else ""
    )


def _how_to_quantize(detail: Mapping[str, Any], array: Array) -> str:
    """A hint for real values that were given to a quantized input."""
    scale, zero_point = detail["quantization"]
    if array.dtype.kind != "f" or not scale:
        return ""
    return f"; quantize it: round(value / {scale:.9g}) + {zero_point}"


def _ordered(inputs: Inputs, names: list[str]) -> list[Array] | None:
    if inputs is None:
        return None
    require_type("inputs", inputs, (Sequence, Mapping, np.ndarray), "arrays in model order, or by name")
    if isinstance(inputs, Mapping):
        wrong = sorted(set(inputs) ^ set(names))
        if wrong:
            raise InterpreterError(f"inputs: names must be {', '.join(names)}; missing or unknown: {', '.join(wrong)}")
        return [np.asarray(inputs[name]) for name in names]
    if len(inputs) != len(names):
        raise InterpreterError(f"inputs: the model has {len(names)} ({', '.join(names)}), got {len(inputs)}")
    return [np.asarray(given) for given in inputs]


def random_input(tensor: Tensor, random: np.random.Generator) -> Array:
    """Data of the tensor's type and shape: integers of the full range, floats of a standard normal distribution."""
    dtype = tensor.dtype.numpy
    if dtype is None:
        raise InterpreterError(f"input {tensor.name!r}: {tensor.dtype} cannot be made at random; give a file for it")
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, tensor.shape, dtype, endpoint=True)
    if dtype.kind == "b":
        return random.integers(0, 2, tensor.shape).astype(bool)
    return random.standard_normal(tensor.shape).astype(dtype)
