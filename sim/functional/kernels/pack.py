"""Weights and output stages as the fast kernels read them; the only place that converts them."""

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.kernel import kernel


@kernel(ty.int64(ty.int16[:, ::1], ty.int64[:, ::1]))
def summarise(weights, sums):  # type: ignore[no-untyped-def]
    """sums[:, o] = sum and sum of magnitudes of weights[o]. Returns the largest magnitude, 128 for -128 counted as 127."""
    largest = np.int64(0)
    for o in range(weights.shape[0]):
        total, magnitude, low, high = np.int32(0), np.int32(0), np.int16(0), np.int16(0)
        for k in range(weights.shape[1]):
            value = weights[o, k]
            total = np.int32(total + value)
            magnitude = np.int32(magnitude + abs(np.int32(value)))
            low, high = min(low, value), max(high, value)
        sums[0, o], sums[1, o] = total, magnitude
        largest = max(largest, max(np.int64(high), np.int64(-1 - low)))
    return largest


@kernel(ty.void(ty.int16[:, ::1], ty.int64[::1], ty.int8[::1], ty.int64, ty.int64))
def pack(weights, order, packed, group, lanes):  # type: ignore[no-untyped-def]
    """packed[o // group][k // lanes][o % group][k % lanes] = weights[o, order[k]], 0 where the order is -1."""
    length = order.shape[0]
    for o in range(weights.shape[0]):
        start = o // group * group * length + o % group * lanes
        for k in range(0, length, lanes):
            first = order[k]
            if lanes == 4 and first >= 0 and order[k + 3] == first + 3:  # as nearly all are; a run of weights has no gaps
                to = start + k * group
                packed[to], packed[to + 1] = np.int8(weights[o, first]), np.int8(weights[o, first + 1])
                packed[to + 2], packed[to + 3] = np.int8(weights[o, first + 2]), np.int8(weights[o, first + 3])
                continue
            for j in range(lanes):
                at = order[k + j]
                packed[start + k * group + j] = np.int8(weights[o, at]) if at >= 0 else np.int8(0)


@kernel(
    ty.boolean(ty.int64[::1], ty.int64[::1], ty.int64[::1], ty.int64[::1], ty.int64, ty.int64, ty.boolean, ty.int32[:, :, ::1])
)
def make_stage(biases, scales, shifts, bounds, zero_point, limit, may_floor, stage):  # type: ignore[no-untyped-def]
    """Fill `stage` (zeroed, see `rows.ROW`). False if a sum, at most `bounds`, may leave what the kernels can do.

    The multiplication takes the sum times 2**(left + 1) and keeps the high half of the product, so a shift below 31
    becomes a left shift of the sum and one above 31 a second, rounded division.
    """
    one = np.int64(1)
    for c in range(shifts.shape[0]):
        shift, block, lane = shifts[c], c // 16, c % 16
        left, right = max(np.int64(0), 31 - shift), max(np.int64(0), shift - 31)
        if shift > 61 or left > 30 or scales[c] >= one << 31 or bounds[c] >= limit >> left:
            return False
        term = one << (right - 1) if right > 0 else np.int64(0)
        stage[block, 0, lane] = np.int32(biases[c])
        stage[block, 1, lane] = np.int32(left + 1)
        stage[block, 2, lane] = np.int32(scales[c])
        stage[block, 3, lane] = np.int32(term)
        stage[block, 4, lane] = np.int32(-1 if right > 0 else 0)
        stage[block, 5, lane] = np.int32(right)
        if may_floor:
            addend = (one << 30) + (term << 31) + (zero_point << shift)
            stage[block, 6 + (lane & 1), lane & ~1] = np.int32(addend & np.int64(0xFFFFFFFF))
            stage[block, 6 + (lane & 1), lane | 1] = np.int32(addend >> 32)
            stage[block, 8, lane] = np.int32(shift - 32)
    return True
