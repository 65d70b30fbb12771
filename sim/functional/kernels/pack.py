"""Weights in the order in which the fast kernels read them; the only place that converts them."""

from __future__ import annotations

import numba as nb
import numpy as np

from npu.numerics.kernel import kernel


@kernel(nb.int64(nb.int16[:, ::1], nb.int64[:, ::1]))
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


@kernel(nb.void(nb.int16[:, ::1], nb.int64[::1], nb.int8[::1], nb.int64, nb.int64))
def pack(weights, order, packed, group, lanes):  # type: ignore[no-untyped-def]
    """packed[o // group][k // lanes][o % group][k % lanes] = weights[o, order[k]], 0 where the order is -1."""
    length = order.shape[0]
    for o in range(weights.shape[0]):
        start = o // group * group * length + o % group * lanes
        for k in range(0, length, lanes):
            for j in range(lanes):
                at = order[k + j]
                packed[start + k * group + j] = np.int8(weights[o, at]) if at >= 0 else np.int8(0)
