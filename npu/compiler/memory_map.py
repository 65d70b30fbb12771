"""What lies where in memory, and when, for people: the only place that makes this table of a compilation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from npu.compiler.allocate import LiveRange, live_bytes, round_up
from npu.compiler.ir import ConvolutionStep
from npu.compiler.lifetime import LogicalBuffer, trace_lifetimes
from npu.compiler.state import GraphState, State
from npu.compiler.weights import WeightSlice
from npu.graph.ethos_u import Region
from npu.records import dataclass


@dataclass(frozen=True, slots=True)
class PlacedBuffer:
    """`bytes` bytes at byte `offset` of `memory`, in use from operator `first` to operator `last` of `graph`.

    `kind` is "tensor" for what the CPU or the application sees, "map" for what lies between steps of the NPU, and "copy" for
    constants that are copied ahead of use.
    """

    graph: int
    name: str
    kind: str
    memory: str
    offset: int
    bytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Compression:
    """Weights of operator `op`: bytes in the model, and encoded with scale records."""

    graph: int
    op: int
    kind: str
    original_bytes: int
    encoded_bytes: int

    @property
    def ratio(self) -> float:
        return self.encoded_bytes / self.original_bytes


@dataclass(frozen=True, slots=True)
class MemoryPeak:
    """The most bytes that maps and copies take at a time in `memory`, and the operators at which they do.

    `visible_bytes` are the most that tensors which the CPU or the application sees take alone: no compilation takes less.
    """

    graph: int
    memory: str
    bytes: int
    ops: tuple[int, ...]
    visible_bytes: int


@dataclass(frozen=True, slots=True)
class MemoryMap:
    """Everything in arena and cache, the peaks, and how far weights were compressed."""

    stays: tuple[PlacedBuffer, ...] = ()
    peaks: tuple[MemoryPeak, ...] = ()
    compressions: tuple[Compression, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """For a JSON file: lists of objects with the fields of the records."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(_lines(self)) + "\n"


def _lines(table: MemoryMap) -> Iterator[str]:
    yield "memory       offset      bytes  operators  kind    name"
    for stay in table.stays:
        span = f"{stay.first}-{stay.last}"
        yield f"{stay.memory:8} {stay.offset:>10,} {stay.bytes:>10,}  {span:>9}  {stay.kind:6}  {stay.name}"
    for peak in table.peaks:
        ops = ", ".join(map(str, peak.ops))
        yield f"peak of {peak.memory}: {peak.bytes:,} bytes at operator(s) {ops} of graph {peak.graph}"
    for compression in table.compressions:
        sizes = f"{compression.original_bytes:>10,} to {compression.encoded_bytes:>10,} bytes ({compression.ratio:.2f})"
        yield f"weights of operator {compression.op:>3} {compression.kind:24} {sizes}"


def memory_map(state: State) -> MemoryMap:
    """The table of a compilation whose memory is planned."""
    stays: list[PlacedBuffer] = []
    peaks: list[MemoryPeak] = []
    compressions: list[Compression] = []
    for number, graph in enumerate(state.graphs):
        ops = _operators(graph)
        if not ops:  # a graph whose outputs need no operator: nothing runs in which something could stay
            continue
        spans = _spans(graph)
        stays += _stays(number, graph, ops, spans)
        peaks += _peaks(number, graph, ops, spans)
        compressions += _compressions(number, graph)
    order = sorted(stays, key=lambda stay: (stay.graph, stay.memory, stay.first, stay.offset, stay.name))
    return MemoryMap(tuple(order), tuple(peaks), tuple(compressions))


def _operators(state: GraphState) -> list[int]:
    """The operator at every event."""
    ops: list[int] = []
    for node, row in zip(state.nodes, state.jobs, strict=True):
        ops += [job.step.source for job in row] if node.program else [node.ops[0]]
    return ops


def _spans(state: GraphState) -> list[tuple[LogicalBuffer, LiveRange]]:
    works = [[job.step for job in row] for row in state.jobs]
    lifetimes = trace_lifetimes(state.graph, state.nodes, works, state.layouts)
    return list(lifetimes.spans.items())


def _stays(
    number: int, state: GraphState, ops: Sequence[int], spans: list[tuple[LogicalBuffer, LiveRange]]
) -> Iterator[PlacedBuffer]:
    plan = state.planned
    for buffer, span in spans:
        name, kind = (state.graph.tensors[buffer].name, "tensor") if isinstance(buffer, int) else (buffer.name, "map")
        place = plan.places[buffer]
        memory = Region(place.region).name.lower()
        yield PlacedBuffer(number, name, kind, memory, place.offset, span.size_bytes, ops[span.first], ops[span.last])
    for row, places in zip(plan.transfers, plan.buffers, strict=True):
        for copy, place in zip(row, places, strict=True):
            name, memory = f"constants + {copy.constants.offset}", Region(place.region).name.lower()
            yield PlacedBuffer(
                number, name, "copy", memory, place.offset, copy.constants.bytes, ops[copy.issue], ops[copy.last]
            )


def _peaks(
    number: int, state: GraphState, ops: Sequence[int], spans: list[tuple[LogicalBuffer, LiveRange]]
) -> Iterator[MemoryPeak]:
    """By the buffers in use, of which several may lie in one place: what is shared counts once."""
    plan = state.planned
    for region in (Region.ARENA, Region.FAST):
        buffers = {(plan.places[buffer].offset, span) for buffer, span in spans if plan.places[buffer].region == region}
        for row, places in zip(plan.transfers, plan.buffers, strict=True):
            pairs = zip(row, places, strict=True)
            buffers |= {(p.offset, LiveRange(t.constants.bytes, t.issue, t.last)) for t, p in pairs if p.region == region}
        usage = _bytes_in_use(list(_merged(buffers)), len(ops))
        if max(usage, default=0):
            worst = max(usage)
            at = dict.fromkeys(ops[event] for event, live in enumerate(usage) if live == worst)
            visible = state.visible_bytes if region == Region.ARENA else 0
            yield MemoryPeak(number, region.name.lower(), worst, tuple(at), visible)


def _bytes_in_use(buffers: Sequence[tuple[int, LiveRange]], events: int) -> list[int]:
    """Bytes of all at every event, what two have in common once: a result may begin in front of what it replaces."""
    common = list[LiveRange]()
    active = list[tuple[int, int, int]]()
    for offset, span in sorted(buffers, key=lambda pair: pair[1].first):
        end = offset + round_up(span.size_bytes)
        active = [other for other in active if other[2] >= span.first]
        for begin, other_end, last in active:
            if begin < end and offset < other_end:
                common.append(LiveRange(min(end, other_end) - max(begin, offset), span.first, min(span.last, last)))
        active.append((offset, end, span.last))
    usage = live_bytes([span for _, span in buffers], events)
    return [own - twice for own, twice in zip(usage, live_bytes(common, events), strict=True)] if common else usage


def _merged(buffers: set[tuple[int, LiveRange]]) -> Iterator[tuple[int, LiveRange]]:
    """Buffers of one place that are in use at the same time as one: a result that replaces its operand."""
    current: tuple[int, LiveRange] | None = None
    for offset, buffer in sorted(buffers, key=lambda pair: (pair[0], pair[1].first, pair[1].last)):
        if current is not None and current[0] == offset and buffer.first <= current[1].last:
            current = (offset, current[1].joined(buffer))
            continue
        if current is not None:
            yield current
        current = (offset, buffer)
    if current is not None:
        yield current


def _compressions(number: int, state: GraphState) -> Iterator[Compression]:
    original: dict[int, dict[int, int]] = {}
    encoded: dict[int, dict[WeightSlice, int]] = {}
    for job in (job for row in state.jobs for job in row):
        if isinstance(job.step, ConvolutionStep) and job.constants is not None:
            original.setdefault(job.step.source, {})[id(job.step.weights)] = job.step.weights.values.size
            encoded.setdefault(job.step.source, {})[job.constants] = job.constants.bytes
    for op, sizes in original.items():
        yield Compression(number, op, state.graph.ops[op].kind, sum(sizes.values()), sum(encoded[op].values()))
