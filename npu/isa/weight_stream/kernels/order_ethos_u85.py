"""The loop nest in which the MAC array of Ethos-U85 consumes weights; the only place that knows it."""

from __future__ import annotations

import numpy as np

from npu.machine.kernels.arithmetic import ceil_div
from npu.native import types as ty
from npu.native.kernel import Inlined, kernel

ORDER = np.dtype(
    [
        (name, np.int64)
        for name in (
            *("depth", "kernel_height", "kernel_width", "ifm_depth"),  # of the weights (O, KH, KW, I)
            "is_depthwise",
            *("block_depth", "ifm_block_depth"),
            *("ofm_ublock_depth", "ifm_ublock_depth", "step"),
            *("sub_kernel_height", "sub_kernel_width"),
            *("stride_y", "stride_x"),  # in which elements of a sub-kernel are taken
            *("element_rounding", "extra"),  # what elements are rounded to, and zeros behind them, in symbols of a channel
            *("stream", "streams"),  # each takes every so manyth group of 4 channels
        )
    ]
)
"""Shape and order of the weights of one stream."""
CHANNELS = 4
"""That a stream has side by side."""
COUNT, TO_WEIGHTS, TO_SYMBOLS = range(3)
"""Directions."""


@Inlined
def zeros(symbols, at, count, stray):  # type: ignore[no-untyped-def]
    """The first of the padding so far that is not 0 (or -1), after so many more symbols of it."""
    for k in range(at, at + count):
        if symbols[k] != 0 and stray < 0:
            stray = k
    return stray


@Inlined
def element(symbols, weights, n, at, outputs, inputs, place, direction):  # type: ignore[no-untyped-def]
    """Move the weights of one kernel element of a micro-block, of output and input channels from these on; the first padding
    among them that is not 0 (or -1)."""
    stray = np.int64(-1)
    for first in range(0, n.ifm_ublock_depth, n.step):
        for group in range(CHANNELS * n.stream, n.ofm_ublock_depth, CHANNELS * n.streams):
            for o in range(outputs + group, outputs + group + CHANNELS):
                for i in range(inputs + first, inputs + first + n.step):
                    if o < n.depth and i < n.ifm_depth:
                        own = (o * n.kernel_height * n.kernel_width + place) * n.ifm_depth + i
                        if direction == TO_SYMBOLS:
                            symbols[at] = weights[own]
                        else:
                            weights[own] = symbols[at]
                    elif symbols[at] != 0 and stray < 0:
                        stray = at
                    at += 1
    return stray


@Inlined
def sub_kernel(symbols, weights, n, at, box, outputs, inputs, direction):  # type: ignore[no-untyped-def]
    """The weights of a sub-kernel of a micro-block: where the next symbol is, and the first padding that is not 0 (or -1).

    Its elements come by the remainder of their place by the stride, every other row from its end.
    """
    top, height, left, width = box
    stray, share = np.int64(-1), n.ofm_ublock_depth // n.streams
    size, extra = share * n.ifm_ublock_depth, n.extra * share
    missing = ceil_div(height * width, n.element_rounding) * n.element_rounding
    for y, x in np.ndindex(n.stride_y, n.stride_x):
        rows, columns = ceil_div(max(height - y, np.int64(0)), n.stride_y), ceil_div(max(width - x, np.int64(0)), n.stride_x)
        for k in range(rows * columns):
            row, column = k // columns, k % columns
            if row & 1 != 0:
                column = columns - 1 - column
            place = (top + y + row * n.stride_y) * n.kernel_width + left + x + column * n.stride_x
            if direction != COUNT:
                nonzero = element(symbols, weights, n, at, outputs, inputs, place, direction)
                stray = nonzero if stray < 0 else stray
            at += size
            missing -= 1
            if n.is_depthwise != 0 and missing % n.element_rounding == 0:
                stray = stray if direction == COUNT else zeros(symbols, at, extra, stray)
                at += extra
    if missing > 0:
        count = (missing + (n.extra if n.is_depthwise != 0 else 0)) * size
        stray = stray if direction == COUNT else zeros(symbols, at, count, stray)
        at += count
    return at, stray


@kernel(ty.several(ty.int64, 2)(ty.int16[::1], ty.int16[::1], ty.record(ORDER)[::1], ty.int64))
def move(symbols, weights, orders, direction):  # type: ignore[no-untyped-def]
    """Put the symbols of a stream into weights (O, KH, KW, I), or those weights into symbols, which must be 0, or only count.

    Returns the number of symbols, and the first padding that is not 0 (or -1). Every other block of the OFM walks the blocks of
    the IFM from the last to the first.
    """
    n = orders[0]
    at, stray = np.int64(0), np.int64(-1)
    blocks = ceil_div(n.ifm_depth, n.ifm_block_depth)
    for outer in range(0, n.depth, n.block_depth):
        outputs = min(n.block_depth, n.depth - outer)
        is_backwards = outer // n.block_depth & 1 != 0
        for number in range(blocks):
            first = (blocks - 1 - number if is_backwards else number) * n.ifm_block_depth
            inputs = min(n.ifm_block_depth, n.ifm_depth - first)
            for left in range(0, n.kernel_width, n.sub_kernel_width):
                for top in range(0, n.kernel_height, n.sub_kernel_height):
                    box = (
                        *(top, min(n.sub_kernel_height, n.kernel_height - top)),
                        *(left, min(n.sub_kernel_width, n.kernel_width - left)),
                    )
                    for i in range(first, first + inputs, n.ifm_ublock_depth):
                        for o in range(outer, outer + outputs, n.ofm_ublock_depth):
                            at, nonzero = sub_kernel(symbols, weights, n, at, box, o, i, direction)
                            stray = nonzero if stray < 0 else stray
    return at, stray
