"""The loop nest in which the MAC array consumes weights; the only place that knows it."""

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.kernel import kernel

DEPTH_FIRST = 0
PART_KERNEL_FIRST = 1
DEPTHWISE = 2
LANES = 8
"""IFM channels that real hardware takes together."""


@kernel(ty.void(ty.int16[::1], ty.uint64, ty.int16[::1], ty.uint64))
def _copy_lanes(source, at, target, to):  # type: ignore[no-untyped-def]
    """target[to : to + LANES] = source[at : at + LANES]: read, then written, which compiles to one load and one store."""
    a, b, c, d = source[at], source[at + np.uint64(1)], source[at + np.uint64(2)], source[at + np.uint64(3)]
    e, f, g, h = source[at + np.uint64(4)], source[at + np.uint64(5)], source[at + np.uint64(6)], source[at + np.uint64(7)]
    target[to], target[to + np.uint64(1)], target[to + np.uint64(2)], target[to + np.uint64(3)] = a, b, c, d
    target[to + np.uint64(4)], target[to + np.uint64(5)], target[to + np.uint64(6)], target[to + np.uint64(7)] = e, f, g, h


@kernel(ty.int64(ty.int16[::1], ty.int16[::1], ty.int64[::1], ty.boolean))
def move(symbols, weights, numbers, to_symbols):  # type: ignore[no-untyped-def]
    """Symbols in stream order from the flat weights (O, KH, KW, I) or, unless `to_symbols`, the weights from the symbols.

    `numbers`: mode, this core's channels, kernel height, width, IFM depth, this core's block depth, IFM block depth, ublock
    depths of OFM and IFM, sub-kernel height, width, element rounding, and the array's first channel of this core and the
    distance to its next. `symbols` must be as many as the order has. Returns the first padding symbol that is not 0, else -1.
    """
    mode, depth, kernel_height, kernel_width, ifm_depth = numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
    block_depth, ifm_block_depth, ofm_ublock, ifm_ublock = numbers[5], numbers[6], numbers[7], numbers[8]
    sub_height, sub_width, rounding = numbers[9], numbers[10], numbers[11]
    channel_start, channel_step = numbers[12], numbers[13]
    at, stray = np.int64(0), np.int64(-1)
    for block in range(0, depth, block_depth):
        block_channels = min(block_depth, depth - block)
        for ifm_block in range(0, 1 if mode == DEPTHWISE else ifm_depth, ifm_block_depth):
            if mode == DEPTHWISE:
                outer, inner, lanes = np.int64(1), ifm_ublock, np.int64(1)
            elif mode == PART_KERNEL_FIRST:
                outer, inner, lanes = min(ifm_block_depth, ifm_depth - ifm_block), np.int64(1), ifm_ublock
            else:
                outer, inner, lanes = np.int64(1), ifm_block_depth, ifm_ublock
            for top in range(0, kernel_height, sub_height):
                height = min(sub_height, kernel_height - top)
                for left in range(0, kernel_width, sub_width):
                    width = min(sub_width, kernel_width - left)
                    elements = (height * width + rounding - 1) // rounding * rounding
                    for outer_depth in range(0, outer, ifm_ublock):
                        for ublock in range(0, block_channels, ofm_ublock):
                            for element in range(elements):
                                y = element // width
                                x = element - y * width
                                for inner_depth in range(0, inner, ifm_ublock):
                                    first = ifm_block + outer_depth + inner_depth
                                    for o in range(block + ublock, block + ublock + ofm_ublock):
                                        row = (channel_start + o * channel_step) * kernel_height + top + y
                                        base = (row * kernel_width + left + x) * ifm_depth + first
                                        used = max(np.int64(0), min(lanes, ifm_depth - first))
                                        if o >= depth or y >= height:
                                            used = np.int64(0)
                                        if to_symbols:
                                            for i in range(used):
                                                symbols[at + i] = weights[base + i]
                                            for i in range(used, lanes):
                                                symbols[at + i] = 0
                                        elif used == LANES:
                                            _copy_lanes(symbols, np.uint64(at), weights, np.uint64(base))
                                        else:
                                            for i in range(used):
                                                weights[base + i] = symbols[at + i]
                                            for i in range(used, lanes):
                                                if symbols[at + i] != 0 and stray < 0:
                                                    stray = at + i
                                        at += lanes
    return stray
