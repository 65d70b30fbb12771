"""What a compiled model takes, without executing it: its NPU jobs and CPU operators as a timeline and a report."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any

from npu.compiler.memory import arena_budget
from npu.errors import stream_errors_at
from npu.graph.cpu_cost import cpu_cycles
from npu.graph.ethos_u import Input, Region, is_npu_job
from npu.graph.graph import ABSENT, Graph, Model
from npu.hardware.accuracy import accuracy_of
from npu.hardware.variant import Variant
from npu.isa.decode import Decoded
from npu.progress import Progress
from npu.records import dataclass
from npu.reports.operator_map import OperatorMap, hardware_names
from npu.reports.report import Report, run_report
from npu.toolchain.compile import arena_notes
from npu.toolchain.executable import prepare
from npu.toolchain.origin import Origin
from npu.toolchain.session import Executable, Session
from npu.toolchain.sources import Source
from sim.arena import arena_use
from sim.assumptions import assumption
from sim.container import CompiledFile, job_title
from sim.perfetto import inference_trace
from sim.pmu import pmu_report
from sim.timeline import COPY_IN, COPY_OUT, Copy, CpuTask, TimedJob, Timeline, build_timeline
from sim.timing import schedule
from sim.trace import Trace
from sim.work import work_shares

Task = TimedJob | CpuTask | Copy


@dataclass(frozen=True, slots=True)
class TimedStream:
    """A command stream decoded, and what happens when."""

    decoded: tuple[Decoded, ...]
    trace: Trace


@dataclass(frozen=True, slots=True)
class TimedModel:
    """A compiled model with its time: `streams` holds the command stream of each of `jobs`."""

    variant: Variant = field(repr=False)
    operators: OperatorMap = field(repr=False)
    jobs: tuple[TimedJob, ...] = field(repr=False)
    streams: tuple[TimedStream, ...] = field(repr=False)
    timeline: Timeline = field(repr=False)
    report: Report

    @property
    def names(self) -> dict[int, str]:
        """What to call the source operators: number, type and output."""
        return {operator.index: f"{operator.index} {operator.type} {operator.name}" for operator in self.operators.operators}

    def report_with_pmu(self) -> Report:
        """The report with the performance counters of all jobs and of every source operator that runs on the NPU."""
        content = pmu_report(self.jobs)
        return dataclasses.replace(self.report, pmu=content)

    def trace(self) -> dict[str, Any]:
        """The whole inference in the Chrome trace-event format; needs a model that was timed with events."""
        streams = [[operation.operation for operation in stream.decoded] for stream in self.streams]
        memory = {"arena in use": [arena_use(stream) for stream in streams]}
        if self.variant.memory_mode.has_separate_cache:
            memory["fast memory in use"] = [arena_use(stream, Region.FAST) for stream in streams]
        return inference_trace(self.timeline, self.jobs, self.names, memory)


def time_model(
    model: Source,
    session: Session,
    *,
    progress: Progress | None = None,
    with_events: bool = False,
    with_weights: bool = True,
    origin: Origin | None = None,
) -> TimedModel:
    """Compile a plain model if need be, and time it without executing it; `with_events` keeps what a trace shows.

    `with_weights=False` estimates how far weights can be compressed in place of compressing them. `origin`
    names the operators of another compiler's file.
    """
    executable = prepare(model, session, progress, with_weights=with_weights, origin=origin)
    return time_executable(executable, with_events=with_events)


def time_executable(executable: Executable, *, with_events: bool = False) -> TimedModel:
    """`time_model` for a model that is prepared already."""
    operators, variant, graph = executable.operators, executable.variant, executable.model.graphs[0]
    with stream_errors_at(executable.name):
        streams = time_streams(executable.file, with_events=with_events)
    tasks = list(tasks_of(graph, operators.sources, streams, variant))
    timeline = build_timeline(tasks, variant)
    jobs = tuple(task for task in tasks if isinstance(task, TimedJob))
    report = run_report(operators, executable.name, executable.model, timeline, [job.trace for job in jobs], variant)
    notes = (
        *executable.notes,
        *_other_hardware(operators.made_for, hardware_names(variant)),
        *arena_notes(_arena_bytes(graph), arena_budget(variant)),
        *_other_signatures(executable.model),
        *_notes(streams.values()),
    )
    error = accuracy_of(variant, work_of(streams.values()))
    report = dataclasses.replace(report, timing_error=error, notes=notes or None, model_sha256=executable.digest)
    return TimedModel(variant, operators, jobs, tuple(streams.values()), timeline, report)


def work_of(streams: Iterable[TimedStream]) -> Mapping[str, float]:
    """The share of the NPU's cycles of every kind of operation."""
    return work_shares(([operation.operation for operation in stream.decoded], stream.trace) for stream in streams)


def _arena_bytes(graph: Graph) -> int:
    """Size of the scratch tensor that the NPU's jobs share, 0 without one."""
    jobs = [op for op in graph.ops if is_npu_job(op) and len(op.inputs) > Input.SCRATCH]
    return max((graph.tensors[op.inputs[Input.SCRATCH]].bytes for op in jobs if op.inputs[Input.SCRATCH] >= 0), default=0)


def _other_hardware(made_for: str, taken: str) -> tuple[str, ...]:
    """What to say of a file that was compiled for other memories than those that it is timed with."""
    if made_for in ("", taken):
        return ()
    return (f"compiled for {made_for}, timed for {taken}; --config, --system and --memory-mode choose",)


def _other_signatures(model: Model) -> Iterator[str]:
    """What to say of a model whose first subgraph, the one that is run and timed, is not all that can be called."""
    others = [signature.key for signature in model.signatures if signature.graph != 0]
    if others:
        yield f"signatures {', '.join(others)}: neither run nor timed; npu.Interpreter runs them"


def _notes(streams: Iterable[TimedStream]) -> Iterator[str]:
    for job, stream in enumerate(streams):
        for operation in stream.decoded:
            assumed = assumption(operation.operation)
            if assumed is not None:
                yield f"job {job}, {operation.place}: {assumed}"


def time_streams(file: CompiledFile, graph: int = 0, *, with_events: bool = False) -> dict[int, TimedStream]:
    """The streams of the NPU jobs of a graph of a compiled file by the index of their operator, in execution order."""
    return {
        index: _time_stream(file, graph, index, with_events=with_events)
        for index, op in enumerate(file.model.graphs[graph].ops)
        if is_npu_job(op)
    }


def tasks_of(
    graph: Graph, sources: Mapping[int, tuple[int, ...]], streams: Mapping[int, TimedStream], variant: Variant
) -> Iterator[Task]:
    """The operators of a compiled graph in order, between the copies of the model's inputs and outputs.

    `sources` names the source operators that each one works for, `streams` is what `time_streams` gives.
    """
    yield Copy(COPY_IN, _bytes_of(graph, graph.inputs))
    for index, op in enumerate(graph.ops):
        operators = sources.get(index, ())
        if index in streams:
            trace = streams[index].trace
            if len(operators) != len(trace.kinds):
                operators = (operators[0] if operators else -1,) * len(trace.kinds)
            yield TimedJob(trace, operators, _bytes_of(graph, op.inputs[Input.FIRST_MAP :]), _bytes_of(graph, op.outputs))
        else:
            yield CpuTask(operators[0] if operators else index, cpu_cycles(graph, op, variant.cpu))
    yield Copy(COPY_OUT, _bytes_of(graph, graph.outputs))


def _time_stream(file: CompiledFile, graph: int, index: int, *, with_events: bool) -> TimedStream:
    """A command stream decoded and timed, once: neither depends on the values of tensors."""
    decoded, key = file.operations(graph, index), (graph, index, with_events)
    if key not in file.traces:
        words = file.stream(graph, index).words
        with stream_errors_at(job_title(index)):
            file.traces[key] = schedule(decoded, file.variant, stream_words=len(words), with_events=with_events)
    return TimedStream(decoded, file.traces[key])


def _bytes_of(graph: Graph, indices: tuple[int, ...]) -> int:
    """Bytes of the tensors that are computed, not constant."""
    tensors = (graph.tensors[index] for index in indices if index != ABSENT)
    return sum(tensor.bytes for tensor in tensors if tensor.data is None)
