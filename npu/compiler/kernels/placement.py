"""Buffers into a memory in a given order: the search for a better order asks thousands of times."""

from __future__ import annotations

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
