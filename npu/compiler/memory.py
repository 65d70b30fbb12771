"""Where everything lies: regions and addresses of tensors, storages and staged constants of one graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from npu.compiler.allocate import Buffer, allocate, live_bytes, round_up
from npu.compiler.ir import Storage
from npu.compiler.layout import reads, storage_bytes
from npu.compiler.lifetime import Item, Node, Span, Timeline, item_of, share_in_place, trace_lifetimes
from npu.compiler.schedule import Job
from npu.compiler.staging import Transfer, plan_transfers
from npu.graph.graph import Graph
from npu.hardware.variant import Variant
from npu.isa.operations import Layout

READ_ONLY_REGION = 0
ARENA_REGION = 1
FAST_REGION = 2


@dataclass(frozen=True, slots=True)
class Place:
    """A byte offset in a region."""

    region: int
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class MemoryPlan:
    """Addresses of one graph. `transfers[i]` and `buffers[i]` belong to node i; `peaks[i]` is its worst event in bytes."""

    places: Mapping[Item, Place]
    transfers: tuple[tuple[Transfer, ...], ...]
    buffers: tuple[tuple[Place, ...], ...]
    starts: tuple[int, ...]
    peaks: tuple[int, ...]
    arena_bytes: int
    fast_bytes: int


def plan_memory(
    graph: Graph,
    nodes: Sequence[Node],
    jobs: Sequence[Sequence[Job]],
    layouts: Mapping[Storage, Layout],
    variant: Variant,
    *,
    arena_start: int = 0,
    fast_start: int = 0,
) -> MemoryPlan:
    """Addresses of everything that `graph` needs, from `arena_start` of the arena and `fast_start` of the fast region on."""
    works = [[job.step for job in row] for row in jobs]
    timeline = trace_lifetimes(graph, nodes, works, layouts)
    owner = share_in_place(timeline, nodes, works, layouts)
    groups = _group(timeline, owner)
    separate = variant.memory_mode.has_separate_cache
    limit = variant.memory_mode.arena_cache_bytes
    usage = [0] * timeline.events if separate else _usage(groups.values(), timeline.events)
    goal = limit if separate else max(usage, default=0)
    transfers = [
        tuple(plan_transfers(row, start, usage[start : start + len(row)], goal, variant)) if node.program else ()
        for node, row, start in zip(nodes, jobs, timeline.starts, strict=False)
    ]
    staged = [Span(t.constants.bytes, t.live, t.last) for row in transfers for t in row]
    fast = _choose_fast(groups, owner, staged, jobs, timeline, limit) if separate else {}
    slow = {item: span for item, span in groups.items() if item not in fast}
    arena, arena_offsets = _pack([*slow.values(), *([] if separate else staged)])
    cache, cache_offsets = _pack([*fast.values(), *(staged if separate else [])])
    roots = {item: Place(ARENA_REGION, arena_start + offset) for item, offset in zip(slow, arena_offsets, strict=False)}
    roots |= {item: Place(FAST_REGION, fast_start + offset) for item, offset in zip(fast, cache_offsets, strict=False)}
    region, base = (FAST_REGION, fast_start) if separate else (ARENA_REGION, arena_start)
    copies = iter((cache_offsets[len(fast) :]) if separate else arena_offsets[len(slow) :])
    buffers = tuple(tuple(Place(region, base + next(copies)) for _ in row) for row in transfers)
    total = _usage([*groups.values(), *staged], timeline.events)
    starts = timeline.starts
    return MemoryPlan(
        places={item: roots[root] for item, root in owner.items()},
        transfers=tuple(transfers),
        buffers=buffers,
        starts=starts,
        peaks=tuple(max(total[a:b]) for a, b in zip(starts, starts[1:], strict=False)),
        arena_bytes=arena,
        fast_bytes=cache,
    )


def step_rooms(
    graph: Graph, nodes: Sequence[Node], layouts: Mapping[Storage, Layout], variant: Variant
) -> list[list[int]]:
    """For every step of every node the bytes that staged constants may take without raising the peak of the feature maps."""
    works = [list(node.program.steps) if node.program else [] for node in nodes]
    timeline = trace_lifetimes(graph, nodes, works, layouts)
    if variant.memory_mode.has_separate_cache:
        return [[variant.memory_mode.arena_cache_bytes // 2] * len(steps) for steps in works]
    usage = _usage(_group(timeline, share_in_place(timeline, nodes, works, layouts)).values(), timeline.events)
    peak = max(usage, default=0)
    return [
        [max(peak - usage[start + index], peak // 8) for index in range(len(steps))]
        for steps, start in zip(works, timeline.starts, strict=False)
    ]


def _group(timeline: Timeline, owner: Mapping[Item, Item]) -> dict[Item, Span]:
    """One span per buffer: that of all items which use it."""
    groups: dict[Item, Span] = {}
    for item, root in owner.items():
        span = timeline.spans[item]
        groups[root] = groups[root].joined(span) if root in groups else span
    return groups


def _buffers(spans: Sequence[Span]) -> list[Buffer]:
    return [Buffer(span.size_bytes, span.first, span.last) for span in spans]


def _usage(spans: object, events: int) -> list[int]:
    return live_bytes(_buffers(list(spans)), events)  # type: ignore[call-overload]


def _pack(spans: Sequence[Span]) -> tuple[int, tuple[int, ...]]:
    allocation = allocate(_buffers(spans))
    return allocation.total_bytes, allocation.offsets


def _choose_fast(
    groups: Mapping[Item, Span],
    owner: Mapping[Item, Item],
    staged: Sequence[Span],
    jobs: Sequence[Sequence[Job]],
    timeline: Timeline,
    limit: int,
) -> dict[Item, Span]:
    """The buffers that go to the fast region: those with most traffic per byte and event, as long as they fit.

    Whatever the CPU or the application sees stays in the arena.
    """
    visible = {root for item, root in owner.items() if isinstance(item, int)}
    traffic: dict[Item, int] = {}
    for row in jobs:
        for job in row:
            for view in (*reads(job.step), job.step.ofm):
                if view.storage.data is None:
                    root = owner[item_of(view.storage)]
                    traffic[root] = traffic.get(root, 0) + storage_bytes(view.storage, Layout.NHWC)
    usage = _usage(staged, timeline.events)

    def worth(item: Item) -> float:
        span = groups[item]
        return traffic.get(item, 0) / (span.size_bytes * (span.last - span.first + 1))

    order = {item: number for number, item in enumerate(groups)}
    chosen: list[Item] = []
    for item in sorted((item for item in groups if item not in visible), key=lambda item: (-worth(item), order[item])):
        span = groups[item]
        size = round_up(span.size_bytes)
        if all(usage[event] + size <= limit for event in range(span.first, span.last + 1)):
            for event in range(span.first, span.last + 1):
                usage[event] += size
            chosen.append(item)
    while chosen and _pack([*(groups[item] for item in chosen), *staged])[0] > limit:
        chosen.pop()
    return {item: groups[item] for item in chosen}
