"""Buffers into a memory: the search for a better order, and copies of constants, ask thousands of times."""

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.kernel import kernel


@kernel(ty.int64(ty.int64[::1], ty.int64[::1], ty.int64[::1], ty.int64[::1], ty.int64[:, ::1], ty.int64[::1]))
def place_in_order(sizes, first, others, order, taken, offsets):  # type: ignore[no-untyped-def]
    """Put each buffer at the lowest gap that holds it between those with which it is live; the end of all is returned.

    `others[first[i]:first[i + 1]]` are live with buffer i. `taken` has a row for each buffer, `offsets` begin with -1.
    """
    total = 0
    for position in range(len(order)):
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
