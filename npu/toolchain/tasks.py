"""What a compiled file does in order: NPU jobs, CPU operators, and the subgraphs that operators execute."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from graphlib import TopologicalSorter

from npu.errors import stream_errors_at
from npu.graph.cpu_cost import cpu_cycles
from npu.graph.ethos_u import Input, is_npu_job
from npu.graph.graph import ABSENT, Graph
from npu.graph.verify import called_graphs
from npu.hardware.variant import Cpu
from npu.isa.decoded import Decoded
from npu.records import dataclass
from sim.container import CompiledFile, job_title
from sim.timeline import COPY_IN, COPY_OUT, Called, Copy, CpuTask, TimedJob, build_timeline
from sim.timing import schedule
from sim.trace import Trace

Task = TimedJob | CpuTask | Called | Copy


@dataclass(frozen=True, slots=True)
class TimedStream:
    """A command stream decoded, and what happens when."""

    decoded: tuple[Decoded, ...]
    trace: Trace


def time_streams(file: CompiledFile, graph: int = 0, *, with_events: bool = False) -> dict[int, TimedStream]:
    """The streams of the NPU jobs of a graph of a compiled file by the index of their operator, in execution order."""
    return {
        index: _time_stream(file, graph, index, with_events=with_events)
        for index, op in enumerate(file.model.graphs[graph].ops)
        if is_npu_job(op)
    }


def tasks_of(
    graph: Graph,
    sources: Mapping[int, tuple[int, ...]],
    streams: Mapping[int, TimedStream],
    cpu: Cpu,
    calls: Mapping[int, Called],
) -> Iterator[Task]:
    """The operators of the main graph of a compiled file in order, between the copies of the model's inputs and outputs.

    `sources` names the source operators that each one works for, `streams` is what `time_streams` gives and `calls` what
    `calls_of` gives.
    """
    yield Copy(COPY_IN, _bytes_of(graph, graph.inputs))
    yield from _operators_of(graph, sources, streams, cpu, calls)
    yield Copy(COPY_OUT, _bytes_of(graph, graph.outputs))


def _operators_of(
    graph: Graph,
    sources: Mapping[int, tuple[int, ...]],
    streams: Mapping[int, TimedStream],
    cpu: Cpu,
    calls: Mapping[int, Called],
) -> Iterator[Task]:
    for index, op in enumerate(graph.ops):
        operators = sources.get(index, ())
        if index in streams:
            trace = streams[index].trace
            if len(operators) != len(trace.kinds):
                operators = (operators[0] if operators else -1,) * len(trace.kinds)
            yield TimedJob(trace, operators, _bytes_of(graph, op.inputs[Input.FIRST_MAP :]), _bytes_of(graph, op.outputs))
        else:
            operator = operators[0] if operators else index
            yield CpuTask(operator, cpu_cycles(graph, op, cpu))
            if index in calls:
                yield dataclasses.replace(calls[index], operator=operator)


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


def npu_cycles_of_jobs(file: CompiledFile) -> dict[tuple[int, int], int]:
    """Cycles of the NPU for every job of a compiled file by subgraph and index of its operator."""
    cycles: dict[tuple[int, int], int] = {}
    for number in range(len(file.model.graphs)):
        for index, stream in time_streams(file, number).items():
            alone = build_timeline([TimedJob(stream.trace, (index,) * len(stream.trace.kinds))], file.variant)
            cycles[number, index] = alone.cycles_of("npu")
    return cycles


def calls_of(file: CompiledFile, executions: Sequence[int] | None = None) -> dict[int, Called]:
    """What the operators of the main graph that execute other subgraphs (WHILE, IF, CALL) take for these, by index.

    `executions` is how often operators executed each subgraph in one inference; without it, each is taken once. If several
    operators execute the same one, its time is shared by how often their own subgraphs were executed. CALL_ONCE only
    initialises.
    """
    graphs = file.model.graphs
    sites = _call_sites(graphs)
    runs = [1] * len(graphs) if executions is None else [1, *executions[1:]]
    offered = [0] * len(graphs)
    for number, calls in sites.items():
        for _, callee in calls:
            offered[callee] += runs[number]
    times: dict[int, tuple[float, float]] = {}
    for number in TopologicalSorter({n: [callee for _, callee in calls] for n, calls in sites.items()}).static_order():
        inside: dict[int, tuple[float, float]] = {}
        for index, callee in sites[number]:
            share = runs[callee] / offered[callee] if offered[callee] else 0.0
            inside[index] = _plus(inside.get(index, (0.0, 0.0)), (share * times[callee][0], share * times[callee][1]))
        if number == 0:
            return {index: Called(index, round(npu), round(cpu)) for index, (npu, cpu) in inside.items()}
        times[number] = reduce(_plus, inside.values(), _own_cycles(file, number))
    return {}


def _plus(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    return one[0] + other[0], one[1] + other[1]


def _call_sites(graphs: Sequence[Graph]) -> dict[int, list[tuple[int, int]]]:
    """(operator, subgraph that it executes) of every subgraph that an inference may reach."""
    sites: dict[int, list[tuple[int, int]]] = {}
    waiting = [0]
    for number in waiting:  # grows while it is walked
        if number not in sites:
            ops = enumerate(graphs[number].ops)
            sites[number] = [(index, callee) for index, op in ops if op.kind != "CALL_ONCE" for callee in called_graphs(op)]
            waiting += [callee for _, callee in sites[number]]
    return sites


def _own_cycles(file: CompiledFile, number: int) -> tuple[float, float]:
    """Cycles of the NPU and of the CPU for one execution of a subgraph, without those that it executes."""
    tasks = list(_operators_of(file.model.graphs[number], {}, time_streams(file, number), file.variant.cpu, {}))
    timeline = build_timeline(tasks, file.variant)
    return timeline.cycles_of("npu"), timeline.cycles_of("cpu")
