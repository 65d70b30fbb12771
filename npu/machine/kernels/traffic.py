"""Beats and bursts with which boxes of feature maps cross a port, by layout.

Rules found with the beat counters of published measurements and exact on them to a few beats: bricks are moved whole, row by
row; rows of NHWC maps cost the beats that they touch; NHWC outputs are written in pieces of 16 channels of a pixel. No
measurement shows an OFM whose axes are stored in another order: it is taken to be written as it lies.
"""

from __future__ import annotations

import numpy as np

from npu.layouts import BRICK_DEPTH
from npu.machine.kernels.arithmetic import ceil_div, inlined
from npu.machine.kernels.rows import FEATURE_MAP_ROW, OPERATION_ROW
from npu.native import types as ty
from npu.native.kernel import kernel

_I = ty.int64
_BEATS_AND_BURSTS = ty.several(_I, 2)


@inlined
def touched_beats(start, length, beat):  # type: ignore[no-untyped-def]
    """Beats that `length` bytes from byte address `start` touch."""
    return ceil_div(start + length, beat) - start // beat


@inlined
def period(stride, beat):  # type: ignore[no-untyped-def]
    """Strides after which addresses modulo a beat, a power of two, repeat."""
    return beat // min(beat, stride & -stride) if stride else 1


@inlined
def brick_traffic(fm, rows, columns, depth, beat):  # type: ignore[no-untyped-def]
    """(beats, bursts) of a box of whole bricks."""
    runs = rows * ceil_div(depth, BRICK_DEPTH)
    row = columns * BRICK_DEPTH * fm.element_bytes
    return runs * ceil_div(row, beat), runs * ceil_div(row, fm.burst_bytes)


@kernel(_BEATS_AND_BURSTS(FEATURE_MAP_ROW, *(_I,) * 9), error_model="numpy")
def nhwc_traffic(fm, y, rows, x, columns, channel, depth, is_whole, piece, beat):  # type: ignore[no-untyped-def]
    """(beats, bursts) of a box of an NHWC map: of rows that are one run each if `is_whole`, else of runs of `piece` channels.

    Addresses modulo a beat repeat after some rows and some pixels, so one period of each is enough.
    """
    size = fm.element_bytes
    beats, bursts = np.int64(0), np.int64(0)
    down, across = period(fm.stride_y, beat), period(fm.stride_x, beat)
    pixels = 1 if is_whole else min(columns, across)
    for i in range(min(rows, down)):
        first = fm.address + (y + i) * fm.stride_y + x * fm.stride_x + channel * size
        row_repeats = ceil_div(rows - i, down)
        for j in range(pixels):
            repeats = row_repeats if is_whole else row_repeats * ceil_div(columns - j, across)
            for c in range(0, depth, piece):
                length = (columns - 1) * fm.stride_x + depth * size if is_whole else min(piece, depth - c) * size
                touched = touched_beats(first + j * fm.stride_x + c * size, length, beat)
                beats += touched * repeats
                bursts += ceil_div(touched * beat, fm.burst_bytes) * repeats
    return beats, bursts


@inlined
def read_traffic(fm, y, rows, x, columns, channel, depth, beat):  # type: ignore[no-untyped-def]
    """(beats, bursts) of reading a box of an IFM."""
    if rows == 0 or columns == 0 or fm.burst_bytes == 0:
        return np.int64(0), np.int64(0)
    if fm.layout == 1:
        return brick_traffic(fm, rows, columns, depth, beat)
    is_whole = depth == fm.depth and fm.stride_x == depth * fm.element_bytes
    return nhwc_traffic(fm, y, rows, x, columns, 0 if is_whole else channel, depth, is_whole, max(depth, 1), beat)


@inlined
def along(axis, y, x, z):  # type: ignore[no-untyped-def]
    """What holds for an axis, of what holds for rows, columns and channels."""
    return y if axis == 0 else x if axis == 1 else z


@inlined
def write_traffic(op, y, rows, x, columns, z, depth, beat):  # type: ignore[no-untyped-def]
    """(beats, bursts) of writing a block of the OFM, whose axes are stored in any order."""
    fm, a, b, c = op.ofm, op.stored_rows, op.stored_columns, op.stored_channels
    if fm.burst_bytes == 0:
        return np.int64(0), np.int64(0)
    y, x, z = along(a, y, x, z), along(b, y, x, z), along(c, y, x, z)
    rows, columns, depth = along(a, rows, columns, depth), along(b, rows, columns, depth), along(c, rows, columns, depth)
    if fm.layout == 1:
        return brick_traffic(fm, rows, columns, depth, beat)
    whole = along(c, fm.height, fm.width, fm.depth)
    is_whole = whole <= BRICK_DEPTH and fm.stride_x == whole * fm.element_bytes
    return nhwc_traffic(fm, y, rows, x, columns, z, depth, is_whole, depth if is_whole else BRICK_DEPTH, beat)


@kernel(_I(OPERATION_ROW, *(_I,) * 7), error_model="numpy")
def second_input_beats(op, y, rows, x, columns, z, depth, beat):  # type: ignore[no-untyped-def]
    """Beats of the second operand for one block; an axis of extent 1 is read once, with the first block along it."""
    fm, size = op.ifm2, op.ifm.element_bytes
    if fm.burst_bytes == 0:
        return np.int64(0)
    if fm.height == 1:
        if y > 0 and op.ofm.height > 1:
            return np.int64(0)
        rows = np.int64(1)
    if fm.width == 1:
        if x > 0 and op.ofm.width > 1:
            return np.int64(0)
        columns = np.int64(1)
    if fm.depth == 1:
        if z > 0 and op.ofm.depth > 1:
            return np.int64(0)
        depth = np.int64(1)
    if fm.layout == 1:
        return rows * columns * ceil_div(depth, BRICK_DEPTH) * ceil_div(BRICK_DEPTH * size, beat)
    if fm.depth <= BRICK_DEPTH or depth == fm.depth:
        return rows * ceil_div(columns * depth * size, beat)
    return rows * columns * ceil_div(depth * size, beat)
