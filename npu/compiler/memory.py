"""Where everything lies: regions and addresses of tensors, storages and staged constants of one graph."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from npu.compiler.allocate import Allocation, LiveRange, Packer, allocate, live_bytes
from npu.compiler.fast_memory import choose_fast, room_for_maps
from npu.compiler.ir import Storage
from npu.compiler.lifetime import LogicalBuffer, PlanNode, share_in_place, shared_spans, trace_lifetimes
from npu.compiler.schedule import LARGEST_SLICE_BYTES, WORTH_MEMORY, Job
from npu.compiler.staging import CopySpeed, StagingLimits, Transfer, TransferPlan, plan_transfers
from npu.graph.ethos_u import Region
from npu.graph.graph import Graph
from npu.hardware.variant import Variant
from npu.isa.operations import Layout
from npu.records import dataclass, replace

_NOTEWORTHY = 1.02
"""Growth of the arena by staged slices from which on packing everything anew is tried."""

_LOOSE = 1.1
"""Times what is live at once that an arena must have for that: packing anew takes longer than all other planning."""

_NEGLIGIBLE_SHARE = 128
"""One part in so many of the feature maps' peak is nothing that copies of constants need to save."""

_STAGING_SHARE = 4
"""One part in so many of a separate fast memory may be slices, even if no map leaves room for them."""


@dataclass(frozen=True, slots=True)
class RegionOffset:
    """A byte offset in a region."""

    region: int
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class MemoryPlan:
    """Addresses of one graph. `transfers[i]` and `buffers[i]` belong to node i.

    `feature_bytes[e]` are the bytes of the arena that feature maps take at event e. `arena_end` and `fast_end` are where its
    last buffers end, after those of graphs that lie before it. `maps_bytes` is what it would all take without copies, `cycles`
    an estimate of those of the NPU.
    """

    places: Mapping[LogicalBuffer, RegionOffset]
    transfers: tuple[tuple[Transfer, ...], ...]
    buffers: tuple[tuple[RegionOffset, ...], ...]
    starts: tuple[int, ...]
    feature_bytes: tuple[int, ...]
    arena_bytes: int
    fast_bytes: int
    arena_end: int
    fast_end: int
    maps_bytes: int
    cycles: float

    @property
    def bytes(self) -> int:
        """All that it takes."""
        return self.arena_bytes + self.fast_bytes


def plan_memory(
    graph: Graph,
    nodes: Sequence[PlanNode],
    jobs: Sequence[Sequence[Job]],
    layouts: Mapping[Storage, Layout],
    variant: Variant,
    copies_bytes: int | None = None,
    *,
    arena_start: int = 0,
    fast_start: int = 0,
) -> MemoryPlan:
    """Addresses of everything that `graph` needs, from `arena_start` of the arena and `fast_start` of the fast region on.

    Copies of constants raise what the maps need by `copies_bytes` at most, or to what the memory mode gives.
    """
    works = [[job.step for job in row] for row in jobs]
    lifetimes = trace_lifetimes(graph, nodes, works, layouts)
    chosen = choose_fast(lifetimes, share_in_place(lifetimes, nodes, works, layouts), works, room_for_maps(variant.memory_mode))
    owner, fast = chosen.owner, chosen.spans
    groups = shared_spans(lifetimes, owner)
    slow = {buffer: span for buffer, span in groups.items() if buffer not in fast}
    arena, cache = allocate(list(slow.values())), allocate(list(fast.values()))
    places = _places(slow, arena, Region.ARENA, arena_start) | _places(fast, cache, Region.FAST, fast_start)
    separate = variant.memory_mode.has_separate_cache
    limit = variant.memory_mode.arena_cache_bytes if separate else arena_budget(variant)
    region, base = (Region.FAST, fast_start) if separate else (Region.ARENA, arena_start)
    maps, allocation = (list(fast.values()), cache) if separate else (list(slow.values()), arena)
    limits = _staging_limits(allocation.total_bytes, limit - base, jobs, copies_bytes, separate=separate)
    starts, speed = lifetimes.starts, CopySpeed.on(variant)

    def planned(*, is_ahead: bool) -> tuple[Packer, list[TransferPlan]]:
        packer, rows = Packer(maps, allocation), zip(jobs, starts, strict=False)
        return packer, [plan_transfers(row, start, packer, limits, speed, is_ahead=is_ahead) for row, start in rows]

    packer, plans = planned(is_ahead=False)
    if limits.late > limits.early and _waits(plans, jobs):
        roomy, ahead = planned(is_ahead=True)
        if _cycles(ahead) < (1 - WORTH_MEMORY) * _cycles(plans):
            packer, plans = roomy, ahead
    transfers = [plan.transfers for plan in plans]
    staged = [LiveRange(t.constants.bytes, max(t.issue - 1, 0), t.last) for row in transfers for t in row]
    everything = [*slow.values(), *staged]
    least = max(arena.total_bytes * _NOTEWORTHY, max(live_bytes(everything, lifetimes.events), default=0) * _LOOSE)
    if not separate and packer.total_bytes > least:
        joint = allocate(everything)
        if joint.total_bytes < packer.total_bytes:
            packer = Packer(everything, joint)
            places = _places(slow, joint, Region.ARENA, arena_start)
            transfers = _moved(transfers, joint.offsets[len(slow) :])
    arena_bytes, fast_bytes = (arena.total_bytes, packer.total_bytes) if separate else (packer.total_bytes, 0)
    return MemoryPlan(
        places={buffer: places[root] for buffer, root in owner.items()},
        transfers=tuple(transfers),
        buffers=tuple(tuple(RegionOffset(region, base + transfer.offset) for transfer in row) for row in transfers),
        starts=starts,
        feature_bytes=tuple(live_bytes(list(slow.values()), lifetimes.events)),
        arena_bytes=arena_bytes,
        fast_bytes=fast_bytes,
        arena_end=arena_start + arena_bytes,
        fast_end=fast_start + fast_bytes,
        maps_bytes=arena.total_bytes + cache.total_bytes,
        cycles=_cycles(plans),
    )


def _cycles(plans: Sequence[TransferPlan]) -> float:
    return sum(plan.cycles for plan in plans)


def _waits(plans: Sequence[TransferPlan], jobs: Sequence[Sequence[Job]]) -> bool:
    """Whether kernels wait for copies so long that memory may be spent on it."""
    return sum(job.cycles for row in jobs for job in row) < (1 - WORTH_MEMORY) * _cycles(plans)


def _staging_limits(
    maps_bytes: int, budget: int, jobs: Sequence[Sequence[Job]], copies_bytes: int | None, *, separate: bool
) -> StagingLimits:
    """The limits of copies.

    Where the memory is for the NPU alone, and nobody counts its bytes, there is room for two copies at a time at least.
    """
    copies = (job.constants.bytes for row in jobs for job in row if job.constants and job.is_staged)
    early = min(max(maps_bytes, 2 * max(copies, default=0)), budget) if separate else maps_bytes
    if copies_bytes is None:
        return StagingLimits(early, budget if early <= budget else early + early // _NEGLIGIBLE_SHARE)
    most = max(min(maps_bytes + copies_bytes, budget), maps_bytes)
    return StagingLimits(min(early, most), most)


def arena_budget(variant: Variant) -> int:
    """Bytes that the arena may have: what the mode gives it where it lies in the cache, and what the board has."""
    mode = variant.memory_mode
    board = variant.system.memories[mode.arena].size_bytes or sys.maxsize
    return board if mode.has_separate_cache else min(board, mode.arena_cache_bytes)


def _places(
    spans: Mapping[LogicalBuffer, LiveRange], allocation: Allocation, region: int, base: int
) -> dict[LogicalBuffer, RegionOffset]:
    return {buffer: RegionOffset(region, base + offset) for buffer, offset in zip(spans, allocation.offsets, strict=False)}


def _moved(transfers: Sequence[tuple[Transfer, ...]], offsets: Sequence[int]) -> list[tuple[Transfer, ...]]:
    """The transfers with new buffer offsets, given in the order of the transfers."""
    remaining = iter(offsets)
    return [tuple(replace(transfer, offset=next(remaining)) for transfer in row) for row in transfers]


class StepRooms:
    """How many bytes staged constants may take at every step of every node."""

    def __init__(self, graph: Graph, nodes: Sequence[PlanNode], layouts: Mapping[Storage, Layout], variant: Variant) -> None:
        works = [list(node.program.steps) if node.program else [] for node in nodes]
        lifetimes = trace_lifetimes(graph, nodes, works, layouts)
        groups = shared_spans(lifetimes, share_in_place(lifetimes, nodes, works, layouts))
        usage, budget = live_bytes(list(groups.values()), lifetimes.events), arena_budget(variant)
        least = max(usage, default=0) // _NEGLIGIBLE_SHARE
        if variant.memory_mode.has_separate_cache:
            budget = variant.memory_mode.arena_cache_bytes
            least = min(2 * LARGEST_SLICE_BYTES, budget // _STAGING_SHARE)
            groups = {buffer: span for buffer, span in groups.items() if not isinstance(buffer, int)}
            usage = live_bytes(list(groups.values()), lifetimes.events)
        self._usage = [usage[start : start + len(steps)] for steps, start in zip(works, lifetimes.starts, strict=False)]
        self._peak, self._budget, self._least = max(usage, default=0), budget, least

    def beyond(self, copies_bytes: int | None) -> list[list[int]]:
        """The rooms where copies may take `copies_bytes` beyond the maps' peak.

        With None about as many as do not raise it. A fast memory that is the NPU's alone has room for two slices then, for
        nobody else uses what they would save.
        """
        peak, least = self._peak, self._least
        if copies_bytes is not None:
            peak, least = max(min(peak + copies_bytes, self._budget), peak), 0
        return [[max(peak - used, least) for used in row] for row in self._usage]
