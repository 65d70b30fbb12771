"""Weights and output stages as the fast kernels read them; the only place that converts them."""

from __future__ import annotations

import numpy as np

from npu.machine.kernels.rows import integers
from npu.native import types as ty
from npu.native.kernel import kernel
from npu.numerics.output_stage import FLOOR, REQUANTIZE, STAGE, STAGE_ARGUMENTS, fill_channels

GROUP_BYTES = 64
"""What 16 channels have of the weights for four inputs."""
IMPOSSIBLE = -1


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


@kernel(STAGE_ARGUMENTS)
def make_stage(biases, scales, shifts, bounds, zero_point, limit, is_floor, stage):  # type: ignore[no-untyped-def]
    """`fill_channels`, for Python."""
    return fill_channels(biases, scales, shifts, bounds, zero_point, limit, is_floor, stage)


CHANNEL_RULES = np.dtype(
    integers(
        "input_offset",  # what the kernels' inputs are larger by than the operation's
        "reach",  # largest magnitude of the operation's inputs
        "zero_point",  # of the output
        "limit",  # bound of sums
        "max_shift",
        "is_clamped",  # whether no negative result is left
    )
)
RULES = ty.record(CHANNEL_RULES)[::1]


@kernel(ty.int64(ty.int8[::1], ty.int64[::1], ty.int64[::1], ty.int64[::1], RULES, STAGE))
def make_channels(groups, biases, scales, shifts, rules, stage):  # type: ignore[no-untyped-def]
    """Fill the zeroed `stage` for packed weights. Returns the output stage, or IMPOSSIBLE if a sum may leave what it can do."""
    rule, depth, blocks = rules[0], shifts.shape[0], stage.shape[0]
    length = groups.shape[0] // blocks
    totals, magnitudes = np.empty(GROUP_BYTES, np.int32), np.empty(GROUP_BYTES, np.int32)
    moved, bounds = np.empty(depth, np.int64), np.empty(depth, np.int64)
    low, high, bound = np.int64(64), np.int64(0), np.int64(0)
    for block in range(blocks):
        totals[:] = 0
        magnitudes[:] = 0
        for start in range(block * length, (block + 1) * length, GROUP_BYTES):
            for k in range(GROUP_BYTES):
                value = np.int32(groups[np.uint64(start) + np.uint64(k)])
                totals[np.uint64(k)] += value
                magnitudes[np.uint64(k)] += abs(value)
        for c in range(16 * block, min(depth, 16 * block + 16)):
            total, magnitude = np.int64(0), np.int64(0)
            for k in range(4 * (c % 16), 4 * (c % 16) + 4):
                total, magnitude = total + totals[k], magnitude + magnitudes[k]
            moved[c], bounds[c] = biases[c] - rule.input_offset * total, magnitude * rule.reach + abs(biases[c])
            low, high, bound = min(low, shifts[c]), max(high, shifts[c]), max(bound, bounds[c])
    is_floor = rule.is_clamped != 0 and low >= 32
    if high > rule.max_shift or bound >= rule.limit:
        return IMPOSSIBLE
    if not fill_channels(moved, scales, shifts, bounds, rule.zero_point, rule.limit, is_floor, stage):
        return IMPOSSIBLE
    return FLOOR if is_floor else REQUANTIZE
