"""Which buffers lie in a fast memory that only the NPU uses, and which in the arena behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

from npu.compiler.allocate import LiveRange, allocate, round_up
from npu.compiler.ir import Step, Storage
from npu.compiler.layout import choose_layouts, storage_bytes, views
from npu.compiler.lifetime import (
    Lifetimes,
    LogicalBuffer,
    PlanNode,
    Sharing,
    buffer_of,
    share_in_place,
    shared_spans,
    trace_lifetimes,
)
from npu.graph.graph import Graph
from npu.hardware.variant import MemoryMode
from npu.isa.operations import Layout
from npu.records import dataclass

_STAGING_BYTES = 96 * 1024
"""Room for three of the largest weight slices."""


@dataclass(frozen=True, slots=True)
class FastBuffers:
    """`sharing` tells whose memory a buffer uses, `spans` how long every owner in the fast memory is in use."""

    sharing: Sharing
    spans: Mapping[LogicalBuffer, LiveRange]


def choose_fast(
    lifetimes: Lifetimes,
    sharing: Sharing,
    works: Sequence[Sequence[Step]],
    limit: int,
) -> FastBuffers:
    """The buffers that go to the fast memory of `limit` bytes: those with most traffic per byte and event that fit.

    Whatever the CPU or the application sees stays in the arena. Buffers that share memory there, as one replaces the other,
    part where others of them, together or alone, find room.
    """
    if not limit:
        return FastBuffers(sharing, {})
    owner = sharing.owner
    traffic, groups, members = _traffic(works), shared_spans(lifetimes, sharing), _members(owner)
    order = {buffer: number for number, buffer in enumerate(owner)}
    usage, chosen = [0] * lifetimes.events, list[tuple[LogicalBuffer, LiveRange]]()

    def take(spans: Mapping[LogicalBuffer, LiveRange], users: Mapping[LogicalBuffer, Iterable[LogicalBuffer]]) -> None:
        def worth(buffer: LogicalBuffer) -> float:
            span = spans[buffer]
            return sum(traffic.get(user, 0) for user in users[buffer]) / (span.size_bytes * (span.last - span.first + 1))

        for buffer in sorted(users, key=lambda buffer: (-worth(buffer), order[buffer])):
            span, size = spans[buffer], round_up(spans[buffer].size_bytes)
            if max(usage[span.first : span.last + 1]) + size <= limit:
                for event in range(span.first, span.last + 1):
                    usage[event] += size
                chosen.append((buffer, span))

    take(groups, {root: row for root, row in members.items() if len(_unseen(row)) == len(row)})
    whole = dict(chosen)
    rest = [row for root, row in members.items() if root not in whole and len(row) > 1]
    parts = {row[0]: row for row in map(_unseen, rest) if len(row) > 1}
    first = len(chosen)
    take({part: _joined(lifetimes.spans[buffer] for buffer in row) for part, row in parts.items()}, parts)
    parted = {buffer: part for part, _ in chosen[first:] for buffer in parts[part]}
    first = len(chosen)
    take(lifetimes.spans, {buffer: (buffer,) for row in rest for buffer in _unseen(row) if buffer not in parted})
    parted |= {buffer: buffer for buffer, _ in chosen[first:]}
    while chosen and allocate([span for _, span in chosen]).total_bytes > limit:
        chosen.pop()
    fast = dict(chosen)
    parted = {buffer: part for buffer, part in parted.items() if part in fast}
    left = {root: next((buffer for buffer in row if buffer not in parted), root) for root, row in members.items()}
    owner = {buffer: parted.get(buffer, left[root]) for buffer, root in owner.items()}
    return FastBuffers(Sharing.among(owner, sharing.starts), fast)


def far_maps(
    graph: Graph, nodes: Sequence[PlanNode], limit: int, layouts: Mapping[Storage, Layout] | None = None
) -> frozenset[Storage]:
    """The maps that find no room in a fast memory of `limit` bytes, in the usual `layouts` if none are given."""
    works = [node.steps for node in nodes]
    layouts = choose_layouts(step for steps in works for step in steps) if layouts is None else layouts
    lifetimes = trace_lifetimes(graph, nodes, works, layouts)
    chosen = choose_fast(lifetimes, share_in_place(lifetimes, nodes, works, layouts), works, limit)
    return frozenset(
        buffer for buffer, root in chosen.sharing.owner.items() if isinstance(buffer, Storage) and root not in chosen.spans
    )


def room_for_maps(mode: MemoryMode) -> int:
    """Bytes of a separate fast memory that maps may take, 0 where the mode has none: some are kept for staged constants."""
    size = mode.arena_cache_bytes if mode.has_separate_cache else 0
    return size - min(size // 12, _STAGING_BYTES)


def _members(owner: Mapping[LogicalBuffer, LogicalBuffer]) -> dict[LogicalBuffer, list[LogicalBuffer]]:
    members: dict[LogicalBuffer, list[LogicalBuffer]] = {}
    for buffer, root in owner.items():
        members.setdefault(root, []).append(buffer)
    return members


def _unseen(row: Sequence[LogicalBuffer]) -> list[LogicalBuffer]:
    """The buffers that only the NPU sees."""
    return [buffer for buffer in row if not isinstance(buffer, int)]


def _joined(spans: Iterable[LiveRange]) -> LiveRange:
    return reduce(LiveRange.joined, spans)


def _traffic(works: Sequence[Sequence[Step]]) -> dict[LogicalBuffer, int]:
    """Bytes that the steps read and write of every buffer."""
    traffic: dict[LogicalBuffer, int] = {}
    for storage, uses in Counter([view.storage for steps in works for step in steps for view in views(step)]).items():
        if storage.data is None:
            buffer = buffer_of(storage)
            traffic[buffer] = traffic.get(buffer, 0) + uses * storage_bytes(storage, Layout.NHWC)
    return traffic
