"""Weights and output stages as the fast kernels read them; the only place that converts them."""

from __future__ import annotations

import numpy as np

from npu.machine.kernels.rows import integers
from npu.native import types as ty
from npu.native.kernel import RowsAt, keep, kernel
from npu.numerics.output_stage import CHANNELS, FLOOR, REQUANTIZE, STAGE_ARGUMENTS, fill_channels
from sim.functional.kernels.output import DOUBLE, rounding_shift

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
        *("low", "high"),  # of the clamp, less the zero point
        "finish",  # filled in: the output stage, or IMPOSSIBLE
    )
)
"""An operation whose weights are packed."""
_stage_at, _bytes_at, _words_at = (RowsAt(element, has_length=True) for element in (ty.record(CHANNELS), ty.int8, ty.int64))


CONSTANT_SCALE, CONSTANT_SHIFT = 1 << 30, 40
"""With which a bias of the result, 10 bits to the left, gives that result."""


@kernel(ty.void(*[ty.int64[::1]] * 4, *[ty.int64] * 3, ty.int64[::1], ty.boolean[::1]))
def constant_channels(biases, spreads, scales, shifts, rounding, low, high, results, is_constant):  # type: ignore[no-untyped-def]
    """The result less the zero point of every channel, and whether it is the same for all sums within the spread of the bias.

    Converters give channels whose weights are all but zero such constants, with biases and shifts beyond all others.
    """
    for c in range(biases.shape[0]):
        least, most = biases[c] - spreads[c], biases[c] + spreads[c]
        is_constant[c] = False
        if max(abs(least), abs(most)) < np.int64(1) << 31:  # so that the product fits 64 bits and grows with the sum
            first = min(max(rounding_shift(least * scales[c], shifts[c], rounding, 31), low), high)
            last = min(max(rounding_shift(most * scales[c], shifts[c], rounding, 31), low), high)
            results[c], is_constant[c] = first, first == last


@kernel(ty.void(ty.record(PACKED)[::1], ty.int64[::1], ty.int64[::1], ty.int64[::1], ty.int64, ty.int64))
def make_channels(operations, biases, scales, shifts, limit, max_shift):  # type: ignore[no-untyped-def]
    """Make the stages of operations and say their output stages; IMPOSSIBLE if a sum or a shift may leave what those can do."""
    size = shifts.shape[0]
    moved, bounds = np.empty(size, np.int64), np.empty(size, np.int64)
    for index in range(operations.shape[0]):
        one = operations[index]
        at, depth = 8 * one.first, one.depth
        own_biases, own_bounds = _words_at(biases.ctypes.data + at, depth), _words_at(bounds.ctypes.data + at, depth)
        own_scales, own_shifts = _words_at(scales.ctypes.data + at, depth), _words_at(shifts.ctypes.data + at, depth)
        own_moved = _words_at(moved.ctypes.data + at, depth)
        _sum_up(one, own_biases, own_moved, own_bounds)
        if not _is_within(own_bounds, own_shifts, depth, limit, max_shift):
            _use_constants(one, own_biases, own_scales, own_shifts, own_moved, own_bounds)
        low = np.int64(64)
        for c in range(depth):
            low = min(low, own_shifts[c])
        is_floor, stage = one.low >= 0 and low >= 32, _stage_at(one.stage, one.blocks)
        one.finish = FLOOR if is_floor else REQUANTIZE
        if not _is_within(own_bounds, own_shifts, depth, limit, max_shift) or not fill_channels(
            own_moved, own_scales, own_shifts, own_bounds, one.zero_point, limit, is_floor, stage
        ):
            one.finish = IMPOSSIBLE
    keep(moved, bounds, biases, scales, shifts)


@kernel(ty.boolean(ty.int64[::1], ty.int64[::1], ty.int64, ty.int64, ty.int64))
def _is_within(bounds, shifts, depth, limit, max_shift):  # type: ignore[no-untyped-def]
    bound, shift = np.int64(0), np.int64(0)
    for c in range(depth):
        bound, shift = max(bound, bounds[c]), max(shift, shifts[c])
    return bound < limit and shift <= max_shift


@kernel(ty.void(ty.record(PACKED), *[ty.int64[::1]] * 5))
def _use_constants(one, biases, scales, shifts, moved, bounds):  # type: ignore[no-untyped-def]
    """Make channels that always have the same result ones without weights."""
    depth, groups = one.depth, _bytes_at(one.groups, one.blocks * one.length)
    results, is_constant, spreads = np.empty(depth, np.int64), np.empty(depth, np.bool_), np.empty(depth, np.int64)
    for c in range(depth):
        spreads[c] = bounds[c] - abs(biases[c])
    constant_channels(biases, spreads, scales, shifts, np.int64(DOUBLE), one.low, one.high, results, is_constant)
    for c in range(depth):
        if is_constant[c]:
            moved[c] = results[c] << 10
            bounds[c], scales[c], shifts[c] = abs(moved[c]), np.int64(CONSTANT_SCALE), np.int64(CONSTANT_SHIFT)
            first = c // 16 * one.length + c % 16 * 4
            for at in range(first, first + one.length, GROUP_BYTES):
                for k in range(4):
                    groups[at + k] = np.int8(0)


@kernel(ty.void(ty.record(PACKED), ty.int64[::1], ty.int64[::1], ty.int64[::1]))
def _sum_up(one, biases, moved, bounds):  # type: ignore[no-untyped-def]
    """Fill `moved` with biases for the kernels' inputs, `bounds` with largest magnitudes of sums."""
    totals, magnitudes = np.empty(GROUP_BYTES, np.int32), np.empty(GROUP_BYTES, np.int32)
    groups = _bytes_at(one.groups, one.blocks * one.length)
    for block in range(one.blocks):
        totals[:] = 0
        magnitudes[:] = 0
        for start in range(block * one.length, (block + 1) * one.length, GROUP_BYTES):
            for k in range(GROUP_BYTES):
                value = np.int32(groups[np.uint64(start) + np.uint64(k)])
                totals[np.uint64(k)] += value
                magnitudes[np.uint64(k)] += abs(value)
        for lane in range(min(np.int64(16), one.depth - 16 * block)):
            total, magnitude, c = np.int64(0), np.int64(0), 16 * block + lane
            for k in range(4 * lane, 4 * lane + 4):
                total, magnitude = total + totals[k], magnitude + magnitudes[k]
            moved[c], bounds[c] = biases[c] - one.input_offset * total, magnitude * one.reach + abs(biases[c])
