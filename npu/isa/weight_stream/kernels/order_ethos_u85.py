"""The loop nest in which the MAC array of Ethos-U85 consumes weights; the only place that knows it."""

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.kernel import kernel

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
            *(
                "element_rounding",
                "extra",
            ),  # what elements are rounded to, and zeros behind them, in symbols of a channel group
            *("stream", "streams"),  # each takes every so manyth group of 4 channels
        )
    ]
)
"""Shape and order of the weights of one stream."""
CHANNELS = 4
"""That a stream has side by side."""


@kernel(ty.several(ty.int64, 2)(ty.int16[::1], ty.int16[::1], ty.record(ORDER)[::1], ty.boolean))
def restore(symbols, weights, orders, is_counting):  # type: ignore[no-untyped-def]
    """Put the symbols of a stream into weights (O, KH, KW, I); their number, and the first padding that is not 0 (or -1).

    `is_counting`: only tell the number.
    """
    n = orders[0]
    at, stray = np.int64(0), np.int64(-1)
    share = n.ofm_ublock_depth // n.streams
    inputs = np.int64(1) if n.is_depthwise != 0 else n.ifm_depth
    direction, ib = np.int64(1), np.int64(0)
    for ob in range(0, n.depth, n.block_depth):
        block = min(n.block_depth, n.depth - ob)
        while 0 <= ib < inputs:
            ib_depth = min(n.ifm_block_depth, inputs - ib)
            for sx in range(0, n.kernel_width, n.sub_kernel_width):
                sub_width = min(n.sub_kernel_width, n.kernel_width - sx)
                for sy in range(0, n.kernel_height, n.sub_kernel_height):
                    sub_height = min(n.sub_kernel_height, n.kernel_height - sy)
                    for uo in range(0, np.int64(1) if n.is_depthwise != 0 else ib_depth, n.ifm_ublock_depth):
                        for oo in range(0, block, n.ofm_ublock_depth):
                            rounding = n.element_rounding
                            left = (sub_height * sub_width + rounding - 1) // rounding * rounding
                            for py in range(n.stride_y):
                                rows = max(np.int64(0), (sub_height - py + n.stride_y - 1) // n.stride_y)
                                for px in range(n.stride_x):
                                    columns = max(np.int64(0), (sub_width - px + n.stride_x - 1) // n.stride_x)
                                    for ky in range(rows):
                                        for kx in range(columns):
                                            x = kx if ky & 1 == 0 else columns - 1 - kx
                                            row, column = sy + py + ky * n.stride_y, sx + px + x * n.stride_x
                                            left -= 1
                                            if is_counting:
                                                at += share * n.ifm_ublock_depth
                                            else:
                                                for ui in range(0, n.ifm_ublock_depth, n.step):
                                                    og = CHANNELS * n.stream
                                                    while og < n.ofm_ublock_depth:
                                                        for oi in range(CHANNELS):
                                                            o = ob + oo + og + oi
                                                            for iz in range(n.step):
                                                                i = ib + uo + ui + iz
                                                                if o < n.depth and i < inputs:
                                                                    place = (
                                                                        o * n.kernel_height + row
                                                                    ) * n.kernel_width + column
                                                                    weights[place * inputs + i] = symbols[at]
                                                                elif symbols[at] != 0 and stray < 0:
                                                                    stray = at
                                                                at += 1
                                                        og += CHANNELS * n.streams
                                            if n.is_depthwise != 0 and left % n.element_rounding == 0:
                                                for k in range(n.extra * share if not is_counting else 0):
                                                    if symbols[at + k] != 0 and stray < 0:
                                                        stray = at + k
                                                at += n.extra * share
                            if left > 0:
                                more = left + (n.extra if n.is_depthwise != 0 else np.int64(0))
                                zeros = more * n.ifm_ublock_depth * share
                                for k in range(zeros if not is_counting else 0):
                                    if symbols[at + k] != 0 and stray < 0:
                                        stray = at + k
                                at += zeros
            ib = ib + direction * n.ifm_block_depth
        direction = -direction
        ib += direction * n.ifm_block_depth
    return at, stray
