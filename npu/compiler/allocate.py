"""Addresses by lifetime: the only place that packs buffers into a memory.

Buffers whose lifetimes overlap get disjoint ranges; everything else may share. Greedy placement in a few orders, then a
short deterministic hill climb on the order until the lower bound is met or the budget of attempts is spent.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence

import numpy as np

from npu.compiler.kernels.placement import climb, place_among, place_in_order
from npu.numerics.arrays import Ints
from npu.records import dataclass

ALIGNMENT = 16
"""Bytes; the Ethos-U driver wants 16-byte aligned bases and DMA on Ethos-U55 16-byte aligned addresses."""

_CLIMB_PLACEMENTS = 40000
"""Single-buffer placements that the hill climb may try: bounds the time of large graphs."""

_MORE_BUFFERS = 64
"""Room for buffers that are added later."""


@dataclass(frozen=True, slots=True)
class LiveRange:
    """`size_bytes` bytes that are live from event `first` to event `last`, both included."""

    size_bytes: int
    first: int
    last: int

    def joined(self, other: LiveRange) -> LiveRange:
        """That of a buffer that serves both."""
        first, last = min(self.first, other.first), max(self.last, other.last)
        return LiveRange(max(self.size_bytes, other.size_bytes), first, last)


@dataclass(frozen=True, slots=True)
class Allocation:
    """`offsets[i]` is the byte offset of buffer i; all buffers lie within `total_bytes`."""

    offsets: tuple[int, ...]
    total_bytes: int


def round_up(value: int, multiple: int = ALIGNMENT) -> int:
    """`value` rounded up to a multiple."""
    return -(-value // multiple) * multiple


def live_bytes(buffers: Sequence[LiveRange], events: int) -> list[int]:
    """Sum of the aligned sizes of the buffers that are live at each of `events` events."""
    change = [0] * (events + 1)
    for buffer in buffers:
        size = round_up(buffer.size_bytes)
        change[buffer.first] += size
        change[buffer.last + 1] -= size
    total, usage = 0, []
    for delta in change[:events]:
        total += delta
        usage.append(total)
    return usage


def allocate(buffers: Sequence[LiveRange]) -> Allocation:
    """A packing of `buffers`, every offset a multiple of ALIGNMENT. Deterministic."""
    if not buffers:
        return Allocation((), 0)
    bound = max(live_bytes(buffers, max(buffer.last for buffer in buffers) + 1))
    placer = _Placer(buffers)
    order, total, offsets = _greedy(buffers, placer)
    if total > bound:
        total = placer.climb(order, total, offsets, bound)
    return Allocation(tuple(offsets.tolist()), total)


class _Placer:
    """What is live together, and the packing that an order gives: each buffer in turn at the lowest gap that holds it."""

    def __init__(self, buffers: Sequence[LiveRange]) -> None:
        conflicts = _conflicts(buffers)
        sizes = np.array([round_up(buffer.size_bytes) for buffer in buffers], np.int64)
        first = np.array([0, *itertools.accumulate(map(len, conflicts))], np.int64)
        self._live = sizes, first, np.array([*itertools.chain.from_iterable(conflicts)], np.int64)
        self._taken = np.empty((len(buffers), 2), np.int64)

    def place(self, order: Ints) -> tuple[int, Ints]:
        """The end of all, and the offsets, of the packing for an order."""
        offsets = np.full(len(order), -1, np.int64)
        return place_in_order(*self._live, order, 0, sys.maxsize, self._taken, offsets), offsets

    def climb(self, order: Ints, total: int, offsets: Ints, bound: int) -> int:
        """The end of all after moves towards the front of `order`, which it changes with `offsets`: not below `bound`."""
        tries = _CLIMB_PLACEMENTS // len(order)
        return int(climb(*self._live, order, total, bound, tries, self._taken, offsets, np.empty_like(offsets)))


def _conflicts(buffers: Sequence[LiveRange]) -> list[list[int]]:
    """For every buffer the others that are live at the same time as it."""
    order = sorted(range(len(buffers)), key=lambda index: buffers[index].first)
    conflicts: list[list[int]] = [[] for _ in buffers]
    active: list[int] = []
    for index in order:
        active = [other for other in active if buffers[other].last >= buffers[index].first]
        for other in active:
            conflicts[index].append(other)
            conflicts[other].append(index)
        active.append(index)
    return conflicts


def _greedy(buffers: Sequence[LiveRange], placer: _Placer) -> tuple[Ints, int, Ints]:
    """The best of a few placement orders, with the end of all and the offsets."""
    keys = (
        lambda index: (-buffers[index].size_bytes, buffers[index].first, index),
        lambda index: (-buffers[index].size_bytes * (buffers[index].last - buffers[index].first + 1), index),
        lambda index: (buffers[index].first, -buffers[index].size_bytes, index),
        lambda index: (buffers[index].first - buffers[index].last, -buffers[index].size_bytes, index),
    )
    orders = [np.array(sorted(range(len(buffers)), key=key), np.int64) for key in keys]
    return min(((order, *placer.place(order)) for order in orders), key=lambda placed: placed[1])


class Packer:
    """Adds buffers one by one to a memory in which others have their place already."""

    def __init__(self, buffers: Sequence[LiveRange], allocation: Allocation) -> None:
        rows = [
            (offset, offset + round_up(buffer.size_bytes), buffer.first, buffer.last)
            for buffer, offset in zip(buffers, allocation.offsets, strict=True)
        ]
        self._given, self._given_bytes = np.array(sorted(rows), np.int64).reshape(-1, 4), allocation.total_bytes
        self._count, self._wanted = np.array([0]), np.zeros(4, np.int64)
        self._give_room(self._given)
        self.clear()

    def clear(self) -> None:
        """Take what was added out again."""
        self._placed[: len(self._given)] = self._given
        self._count[0] = len(self._given)
        self.total_bytes = self._given_bytes

    def place(self, buffer: LiveRange, limit: int) -> int | None:
        """The lowest offset at which `buffer` fits below `limit` bytes, where it then is; None if there is none."""
        size = round_up(buffer.size_bytes)
        if self._count[0] == len(self._placed):
            self._give_room(self._placed)
        self._wanted[:] = size, buffer.first, buffer.last, limit - size
        offset: int = self._place()
        if offset < 0:
            return None
        self.total_bytes = max(self.total_bytes, offset + size)
        return offset

    def _give_room(self, rows: Ints) -> None:
        """Make room for more buffers. The call is made ready here: that takes longer than to place most of them."""
        self._placed = np.concatenate((rows, np.zeros((len(rows) + _MORE_BUFFERS, 4), np.int64)))
        self._place = place_among.bind(self._placed, self._count, self._wanted)
