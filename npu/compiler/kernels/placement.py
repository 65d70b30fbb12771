"""Buffers into a memory: the search for a better order, and copies of constants, ask thousands of times."""

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.kernel import kernel

LIST = ty.int64[::1]

_MULTIPLIER, _MODULUS = 48271, 2**31 - 1
"""Of the minimal standard generator of random numbers (Park, Miller and Stockmeyer, CACM 36(7), 1993)."""


@kernel(ty.int64(LIST, LIST, LIST, LIST, ty.int64, ty.int64, ty.int64[:, ::1], LIST))
def place_in_order(sizes, first, others, order, begin, most, taken, offsets):  # type: ignore[no-untyped-def]
    """Put each buffer from `begin` on at the lowest gap that holds it between those with which it is live; the end of all.

    `others[first[i]:first[i + 1]]` are live with buffer i. `taken` has a row for each buffer; `offsets` of buffers from `begin`
    on are -1. As soon as one ends above `most`, that is the end.
    """
    total = np.int64(0)
    for position in range(begin):
        total = max(total, offsets[order[position]] + sizes[order[position]])
    for position in range(begin, len(order)):
        index, count = order[position], 0
        for place in range(first[index], first[index + 1]):
            start = offsets[others[place]]
            if start >= 0:
                end, row = start + sizes[others[place]], count
                while row > 0 and (taken[row - 1, 0] > start or (taken[row - 1, 0] == start and taken[row - 1, 1] > end)):
                    taken[row, 0], taken[row, 1] = taken[row - 1, 0], taken[row - 1, 1]
                    row -= 1
                taken[row, 0], taken[row, 1] = start, end
                count += 1
        offset = 0
        for row in range(count):
            if taken[row, 0] - offset >= sizes[index]:
                break
            offset = max(offset, taken[row, 1])
        offsets[index] = offset
        total = max(total, offset + sizes[index])
        if total > most:
            break
    return total


@kernel(ty.int64(LIST, LIST, LIST, LIST, ty.int64, ty.int64, ty.int64, ty.int64[:, ::1], LIST, LIST))
def climb(sizes, first, others, order, total, bound, tries, taken, offsets, trial):  # type: ignore[no-untyped-def]
    """Move buffers that end where all end, or others that are live with them, towards the front of the order; the end of all.

    `order` and `offsets` are a packing that ends at `total` and become the best one, which ends at `bound` at least. Moves that
    change nothing are kept. `trial` has room for offsets.
    """
    chance = np.int64(1)
    for _ in range(tries):
        if total <= bound:
            break
        victim, count = np.int64(0), 0
        for index in range(len(order)):
            if offsets[index] + sizes[index] == total:
                count += 1
                chance = chance * _MULTIPLIER % _MODULUS
                if chance % count == 0:
                    victim = np.int64(index)
        chance = chance * _MULTIPLIER % _MODULUS
        if first[victim + 1] > first[victim] and chance & 64:
            victim = others[first[victim] + chance // 128 % (first[victim + 1] - first[victim])]
        position = 0
        while order[position] != victim:
            position += 1
        chance = chance * _MULTIPLIER % _MODULUS
        place = chance % (position + 1)
        for later in range(position, place, -1):
            order[later] = order[later - 1]
        order[place] = victim
        for later in range(len(order)):
            trial[order[later]] = offsets[order[later]] if later < place else -1
        end = place_in_order(sizes, first, others, order, place, total, taken, trial)
        if end <= total:
            total = end
            for index in range(len(order)):
                offsets[index] = trial[index]
        else:
            for later in range(place, position):
                order[later] = order[later + 1]
            order[position] = victim
    return total


@kernel(ty.int64(ty.int64[:, ::1], ty.int64[::1], ty.int64[::1]))
def place_among(placed, count, wanted):  # type: ignore[no-untyped-def]
    """Put a buffer at the lowest offset that is free while it is live; the offset, or -1 if it would be above the highest.

    Rows of `placed` are (offset, end, first event, last event) by offset, of which there are count[0]: one more afterwards.
    `wanted` are size, first and last event, and the highest offset.
    """
    size, begin, end, highest = wanted[0], wanted[1], wanted[2], wanted[3]
    offset = np.int64(0)
    for row in range(count[0]):
        if offset > highest:
            return np.int64(-1)
        if placed[row, 2] <= end and begin <= placed[row, 3]:
            if placed[row, 0] - offset >= size:
                break
            offset = max(offset, placed[row, 1])
    if offset > highest:
        return np.int64(-1)
    row = count[0]
    while row > 0 and placed[row - 1, 0] > offset:
        for column in range(4):
            placed[row, column] = placed[row - 1, column]
        row -= 1
    placed[row, 0], placed[row, 1], placed[row, 2], placed[row, 3] = offset, offset + size, begin, end
    count[0] += 1
    return offset
