"""Weights and output stages as the fast kernels read them; the only place that converts them."""

from __future__ import annotations

import numpy as np

from npu.machine.kernels.rows import integers
from npu.native import types as ty
from npu.native.kernel import RowsAt, keep, kernel
from npu.numerics.output_stage import CHANNELS, FLOOR, REQUANTIZE, STAGE_ARGUMENTS, fill_channels

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


PACKED = np.dtype(
    integers(
        *("groups", "length", "blocks"),  # address of the weights, bytes of each block of 16 channels, and how many
        *("first", "depth"),  # of the channels of all: the first one, and how many
        "stage",  # address of its zeroed CHANNELS
        "input_offset",  # what the kernels' inputs are larger by than the operation's
        "reach",  # largest magnitude of the operation's inputs
        "zero_point",  # of the output
        "is_clamped",  # whether no negative result is left
        "finish",  # filled in: the output stage, or IMPOSSIBLE
    )
)
"""An operation whose weights are packed."""
_stage_at, _bytes_at, _words_at = (RowsAt(element, has_length=True) for element in (ty.record(CHANNELS), ty.int8, ty.int64))


@kernel(ty.void(ty.record(PACKED)[::1], ty.int64[::1], ty.int64[::1], ty.int64[::1], ty.int64, ty.int64))
def make_channels(operations, biases, scales, shifts, limit, max_shift):  # type: ignore[no-untyped-def]
    """Make the stages of operations and say their output stages; IMPOSSIBLE if a sum or a shift may leave what those can do."""
    size = shifts.shape[0]
    moved, bounds = np.empty(size, np.int64), np.empty(size, np.int64)
    for index in range(operations.shape[0]):
        one = operations[index]
        first, depth = one.first, one.depth
        bound = _sum_up(one, biases, moved, bounds)
        low, high = np.int64(64), np.int64(0)
        for c in range(first, first + depth):
            low, high = min(low, shifts[c]), max(high, shifts[c])
        is_floor = one.is_clamped != 0 and low >= 32
        one.finish = FLOOR if is_floor else REQUANTIZE
        stage, at = _stage_at(one.stage, one.blocks), 8 * first
        own_biases, own_bounds = _words_at(moved.ctypes.data + at, depth), _words_at(bounds.ctypes.data + at, depth)
        own_scales, own_shifts = _words_at(scales.ctypes.data + at, depth), _words_at(shifts.ctypes.data + at, depth)
        if (
            high > max_shift
            or bound >= limit
            or not fill_channels(own_biases, own_scales, own_shifts, own_bounds, one.zero_point, limit, is_floor, stage)
        ):
            one.finish = IMPOSSIBLE
    keep(moved, bounds, scales, shifts)


@kernel(ty.int64(ty.record(PACKED), ty.int64[::1], ty.int64[::1], ty.int64[::1]))
def _sum_up(one, biases, moved, bounds):  # type: ignore[no-untyped-def]
    """Fill `moved` with biases for the kernels' inputs, `bounds` with largest magnitudes of sums; the largest of them."""
    totals, magnitudes = np.empty(GROUP_BYTES, np.int32), np.empty(GROUP_BYTES, np.int32)
    groups, bound = _bytes_at(one.groups, one.blocks * one.length), np.int64(0)
    for block in range(one.blocks):
        totals[:] = 0
        magnitudes[:] = 0
        for start in range(block * one.length, (block + 1) * one.length, GROUP_BYTES):
            for k in range(GROUP_BYTES):
                value = np.int32(groups[np.uint64(start) + np.uint64(k)])
                totals[np.uint64(k)] += value
                magnitudes[np.uint64(k)] += abs(value)
        for lane in range(min(np.int64(16), one.depth - 16 * block)):
            total, magnitude, c = np.int64(0), np.int64(0), one.first + 16 * block + lane
            for k in range(4 * lane, 4 * lane + 4):
                total, magnitude = total + totals[k], magnitude + magnitudes[k]
            moved[c], bounds[c] = biases[c] - one.input_offset * total, magnitude * one.reach + abs(biases[c])
            bound = max(bound, bounds[c])
    return bound
