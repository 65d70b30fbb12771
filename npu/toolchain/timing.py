"""What a compiled model takes, without executing it: its NPU jobs and CPU operators as a timeline and a report."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from npu.compiler.memory import arena_budget
from npu.errors import stream_errors_at
from npu.graph.ethos_u import Input, Region, is_npu_job
from npu.graph.graph import Graph, Model
from npu.graph.verify import called_graphs
from npu.hardware.accuracy import accuracy_of
from npu.hardware.variant import Variant
from npu.progress import Progress
from npu.records import dataclass
from npu.reports.operator_map import OperatorMap, hardware_names
from npu.reports.report import Report, run_report
from npu.toolchain.compile import arena_notes
from npu.toolchain.executable import prepare
from npu.toolchain.origin import Origin
from npu.toolchain.session import Executable, Session
from npu.toolchain.sources import Source
from npu.toolchain.tasks import TimedStream, calls_of, tasks_of, time_streams
from sim.arena import arena_use
from sim.assumptions import assumption
from sim.perfetto import inference_trace
from sim.pmu import pmu_report
from sim.timeline import Called, TimedJob, Timeline, build_timeline
from sim.work import work_shares


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
        content = pmu_report(self.jobs, self.variant.accelerator.product)
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


def time_executable(
    executable: Executable, *, with_events: bool = False, executions: Sequence[int] | None = None
) -> TimedModel:
    """`time_model` for a model that is prepared already; `executions` is how often each subgraph was executed by operators."""
    operators, variant, graph = executable.operators, executable.variant, executable.model.graphs[0]
    with stream_errors_at(executable.name):
        streams = time_streams(executable.file, with_events=with_events)
        calls = calls_of(executable.file, executions)
    tasks = list(tasks_of(graph, operators.sources, streams, variant.cpu, calls))
    timeline = build_timeline(tasks, variant)
    jobs = tuple(task for task in tasks if isinstance(task, TimedJob))
    report = run_report(operators, executable.name, executable.model, timeline, [job.trace for job in jobs], variant)
    notes = (
        *executable.notes,
        *_other_hardware(operators.made_for, hardware_names(variant)),
        *arena_notes(_arena_bytes(graph), arena_budget(variant)),
        *_other_signatures(executable.model),
        *_calls(graph, calls, executions),
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


def _calls(graph: Graph, calls: Mapping[int, Called], executions: Sequence[int] | None) -> Iterator[str]:
    """What to say of operators that execute other subgraphs."""
    for index, called in calls.items():
        subgraphs = sorted(set(called_graphs(graph.ops[index])))
        times = [f"{number} ({'once' if executions is None else f'{executions[number]:,} times'})" for number in subgraphs]
        how = "; npu run without --timing-only counts how often" if executions is None else ""
        yield (
            f"{graph.ops[index].name} (operator {called.operator}): {called.npu_cycles:,} cycles of the NPU and "
            f"{called.cpu_cycles:,} of the CPU are those of subgraphs {', '.join(times)}{how}"
        )


def _notes(streams: Iterable[TimedStream]) -> Iterator[str]:
    for job, stream in enumerate(streams):
        for operation in stream.decoded:
            assumed = assumption(operation.operation)
            if assumed is not None:
                yield f"job {job}, {operation.place}: {assumed}"
