"""Where everything lies: regions and addresses of tensors, storages and staged constants of one graph."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from npu.compiler.allocate import Allocation, LiveRange, Packer, allocate, live_bytes
from npu.compiler.fast_memory import FastBuffers, choose_fast
from npu.compiler.ir import Step, Storage
from npu.compiler.jobs import Job
from npu.compiler.lifetime import Lifetimes, LogicalBuffer, PlanNode, Sharing, share_in_place, shared_spans, trace_lifetimes
from npu.compiler.slicing import LARGEST_SLICE_BYTES, WORTH_MEMORY
from npu.compiler.staging import StagingLimits, Transfer, TransferPlan, TransferPlanner
from npu.graph.ethos_u import Region
from npu.graph.graph import Graph
from npu.hardware.variant import Variant
from npu.isa.operations import Layout
from npu.machine.port_rates import port_rate
from npu.records import dataclass, replace

_NOTEWORTHY = 1.02
"""Growth of the arena by staged slices from which on packing everything anew is tried."""

_LOOSE = 1.1
"""Times what is live at once that an arena must have for that: packing anew takes longer than all other planning."""

_FAR = 4 / 3
"""So many times what the arena may have is far beyond it."""

_NEGLIGIBLE_SHARE = 128
"""One part in so many of the feature maps' peak is nothing that copies of constants need to save."""

_STAGING_SHARE = 4
"""One part in so many of a separate fast memory may be slices, even if no map leaves room for them."""


_Slices: TypeAlias = tuple[tuple[int, ...], ...]
"""The first OFM channel of every job of every node: 0 where a step begins."""


@dataclass(frozen=True, slots=True)
class RegionOffset:
    """A byte offset in a region."""

    region: int
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class MemoryPlan:
    """Addresses of one graph. `transfers[i]` and `buffers[i]` belong to node i.

    `feature_bytes[e]` are the bytes of the arena that feature maps take at event e. `arena_end` and `fast_end` are where its
    last buffers end, after those of graphs that lie before it. `cycles` are those of the NPU by the estimate.
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
    cycles: float


class MapPlan:
    """Where feature maps lie: `slow` in the arena, `fast` in a memory of the NPU's own, spans of what has memory of its own.

    `packer` holds those beside which copies of constants lie.
    """

    def __init__(self, lifetimes: Lifetimes, chosen: FastBuffers, *, separate: bool) -> None:
        self.lifetimes, self.sharing, self.fast = lifetimes, chosen.sharing, chosen.spans
        spans = shared_spans(lifetimes, chosen.sharing)
        self.slow = {buffer: span for buffer, span in spans.items() if buffer not in chosen.spans}
        self.arena, self.cache = allocate(list(self.slow.values())), allocate(list(self.fast.values()))
        self.packer = Packer(list(self.fast.values()), self.cache) if separate else Packer(list(self.slow.values()), self.arena)

    @property
    def bytes(self) -> int:
        """Of all maps."""
        return self.arena.total_bytes + self.cache.total_bytes


@dataclass(frozen=True, slots=True, eq=False)
class CopyPlan:
    """Copies of constants besides the maps, what it all takes, and an estimate of the cycles of the NPU.

    `arena` are new places of the maps where they were packed anew with the copies.
    """

    maps: MapPlan
    transfers: tuple[tuple[Transfer, ...], ...]
    arena: Allocation
    arena_bytes: int
    fast_bytes: int
    cycles: float

    @property
    def bytes(self) -> int:
        """All that it takes."""
        return self.arena_bytes + self.fast_bytes


class MemoryPlanner:
    """Plans the memory of one graph; where maps lie is worked out once for each way in which steps are sliced.

    Maps may take `room` bytes of a separate fast memory.
    """

    def __init__(
        self, graph: Graph, nodes: Sequence[PlanNode], layouts: Mapping[Storage, Layout], variant: Variant, room: int
    ) -> None:
        self.variant, self._room = variant, room
        self._graph, self._nodes, self._layouts = graph, nodes, layouts
        self._sharing: dict[_Slices, tuple[Lifetimes, Sharing]] = {}
        self._maps: dict[_Slices, MapPlan] = {}

    def plan(
        self, jobs: Sequence[Sequence[Job]], copies_bytes: int | None = None, *, arena_start: int = 0, fast_start: int = 0
    ) -> MemoryPlan:
        """Addresses of everything that the graph needs, from `arena_start` of the arena and `fast_start` of the fast region on.

        Copies of constants raise what the maps need by `copies_bytes` at most, or to what the memory mode gives.
        """
        separate = self.variant.memory_mode.has_separate_cache
        region, base = (Region.FAST, fast_start) if separate else (Region.ARENA, arena_start)
        copies = self.copies(jobs, copies_bytes, base)
        maps = copies.maps
        places = _places(maps.slow, copies.arena, Region.ARENA, arena_start)
        places |= _places(maps.fast, maps.cache, Region.FAST, fast_start)
        return MemoryPlan(
            places={buffer: _begin(places[root], maps.sharing.starts[buffer]) for buffer, root in maps.sharing.owner.items()},
            transfers=copies.transfers,
            buffers=tuple(tuple(RegionOffset(region, base + transfer.offset) for transfer in row) for row in copies.transfers),
            starts=maps.lifetimes.starts,
            feature_bytes=tuple(live_bytes(list(maps.slow.values()), maps.lifetimes.events)),
            arena_bytes=copies.arena_bytes,
            fast_bytes=copies.fast_bytes,
            arena_end=arena_start + copies.arena_bytes,
            fast_end=fast_start + copies.fast_bytes,
            cycles=copies.cycles,
        )

    def copies(self, jobs: Sequence[Sequence[Job]], copies_bytes: int | None = None, base: int = 0) -> CopyPlan:
        """The same without addresses; in the memory of the copies the graph begins at `base`."""
        maps, variant = self._map_plan(jobs), self.variant
        lifetimes, arena, packer = maps.lifetimes, maps.arena, maps.packer
        separate = variant.memory_mode.has_separate_cache
        limit = variant.memory_mode.arena_cache_bytes if separate else arena_budget(variant)
        allocation, port = maps.cache if separate else arena, port_rate(variant, variant.memory_mode.constants)
        limits = _staging_limits(allocation.total_bytes, limit - base, jobs, copies_bytes, separate=separate)
        planners = [TransferPlanner(row, start, port) for row, start in zip(jobs, lifetimes.starts, strict=False)]

        def planned(*, is_ahead: bool) -> tuple[int, list[TransferPlan]]:
            packer.clear()
            plans = [planner.plan(packer, limits, is_ahead=is_ahead) for planner in planners]
            return packer.total_bytes, plans

        total_bytes, plans = planned(is_ahead=False)
        if limits.late > limits.early and _waits(plans, jobs):
            roomy_bytes, ahead = planned(is_ahead=True)
            if _cycles(ahead) < (1 - WORTH_MEMORY) * _cycles(plans):
                total_bytes, plans = roomy_bytes, ahead
        transfers = [plan.transfers for plan in plans]
        if not separate and total_bytes > arena.total_bytes * _NOTEWORTHY:
            staged = [LiveRange(t.constants.bytes, max(t.issue - 1, 0), t.last) for row in transfers for t in row]
            everything = [*maps.slow.values(), *staged]
            joint = None
            if total_bytes > max(live_bytes(everything, lifetimes.events), default=0) * _LOOSE:
                joint = allocate(everything)
            if joint is not None and joint.total_bytes < total_bytes:
                arena, total_bytes = joint, joint.total_bytes
                transfers = _moved(transfers, joint.offsets[len(maps.slow) :])
        arena_bytes, fast_bytes = (arena.total_bytes, total_bytes) if separate else (total_bytes, 0)
        return CopyPlan(maps, tuple(transfers), arena, arena_bytes, fast_bytes, _cycles(plans))

    def sharing(self, works: Sequence[Sequence[Step]], slices: _Slices | None = None) -> tuple[Lifetimes, Sharing]:
        """Lifetimes of what runs, and whose memory each buffer uses; without `slices` every step runs at one go."""
        key = tuple((0,) * len(steps) for steps in works) if slices is None else slices
        known = self._sharing.get(key)
        if known is None:
            lifetimes = trace_lifetimes(self._graph, self._nodes, works, self._layouts)
            known = self._sharing[key] = lifetimes, self._least_sharing(lifetimes, works)
        return known

    def _least_sharing(self, lifetimes: Lifetimes, works: Sequence[Sequence[Step]]) -> Sharing:
        """Maps begin in front of others only where all take less memory then, and only the arena counts."""
        is_alone = self.variant.memory_mode.has_separate_cache
        ahead = share_in_place(lifetimes, self._nodes, works, self._layouts, has_leads=not is_alone)
        if not ahead.has_leads:
            return ahead
        plain = share_in_place(lifetimes, self._nodes, works, self._layouts)
        plans = [allocate(list(shared_spans(lifetimes, sharing).values())).total_bytes for sharing in (plain, ahead)]
        return ahead if plans[1] < plans[0] else plain

    def _map_plan(self, jobs: Sequence[Sequence[Job]]) -> MapPlan:
        slices = tuple(tuple([job.channel for job in row]) for row in jobs)
        known = self._maps.get(slices)
        if known is None:
            works, mode = [[job.step for job in row] for row in jobs], self.variant.memory_mode
            lifetimes, sharing = self.sharing(works, slices)
            chosen = choose_fast(lifetimes, sharing, works, self._room)
            known = self._maps[slices] = MapPlan(lifetimes, chosen, separate=mode.has_separate_cache)
        return known


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


def is_hopeless(budget: int, visible_bytes: int) -> bool:
    """Whether tensors that others see exceed what the arena may have by so much that the memory will be another one."""
    return visible_bytes > _FAR * budget


def _places(
    spans: Mapping[LogicalBuffer, LiveRange], allocation: Allocation, region: int, base: int
) -> dict[LogicalBuffer, RegionOffset]:
    return {buffer: RegionOffset(region, base + offset) for buffer, offset in zip(spans, allocation.offsets, strict=False)}


def _begin(place: RegionOffset, start: int) -> RegionOffset:
    """Where a buffer begins in the memory that it uses with others."""
    return RegionOffset(place.region, place.offset + start) if start else place


def _moved(transfers: Sequence[tuple[Transfer, ...]], offsets: Sequence[int]) -> list[tuple[Transfer, ...]]:
    """The transfers with new buffer offsets, given in the order of the transfers."""
    remaining = iter(offsets)
    return [tuple(replace(transfer, offset=next(remaining)) for transfer in row) for row in transfers]


class StepRooms:
    """How many bytes staged constants may take at every step of every node."""

    def __init__(self, nodes: Sequence[PlanNode], planner: MemoryPlanner) -> None:
        works, variant = [node.steps for node in nodes], planner.variant
        lifetimes, sharing = planner.sharing(works)
        groups = shared_spans(lifetimes, sharing)
        usage = live_bytes(list(groups.values()), lifetimes.events)
        least = max(usage, default=0) // _NEGLIGIBLE_SHARE
        if variant.memory_mode.has_separate_cache:
            least = min(2 * LARGEST_SLICE_BYTES, variant.memory_mode.arena_cache_bytes // _STAGING_SHARE)
            groups = {buffer: span for buffer, span in groups.items() if not isinstance(buffer, int)}
            usage = live_bytes(list(groups.values()), lifetimes.events)
        self._usage = [usage[start : start + len(steps)] for steps, start in zip(works, lifetimes.starts, strict=False)]
        self._peak, self._least = max(usage, default=0), least

    def beyond(self, copies_bytes: int | None) -> list[list[int]]:
        """The rooms where copies may take `copies_bytes` beyond the maps' peak, whether the memory has them or not.

        With None about as many as do not raise it. A fast memory that is the NPU's alone has room for two slices then, for
        nobody else uses what they would save.
        """
        peak, least = self._peak, self._least
        if copies_bytes is not None:
            peak, least = peak + copies_bytes, 0
        return [[max(peak - used, least) for used in row] for row in self._usage]
