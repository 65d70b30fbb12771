"""The loop nest in which the MAC array consumes weights; the only place that knows it."""

from __future__ import annotations

import numba as nb
import numpy as np

DEPTH_FIRST = 0
PART_KERNEL_FIRST = 1
DEPTHWISE = 2


@nb.njit(cache=True)
def traverse(  # type: ignore[no-untyped-def]
    index, mode, depth, kernel_height, kernel_width, ifm_depth, block_depth, ifm_block_depth, ofm_ublock, ifm_ublock,
    sub_height, sub_width, rounding, channel_start, channel_step,
):  # fmt: skip
    """Fill `index` (int64): flat position in the (O, KH, KW, I) weights of every symbol in order, -1 for padding.

    `depth` is this core's number of channels; channel j of the core is `channel_start + j * channel_step` of the array.
    Returns the number of symbols.
    """
    position = np.int64(0)
    for block in range(0, depth, block_depth):
        block_channels = min(block_depth, depth - block)
        for ifm_block in range(0, 1 if mode == DEPTHWISE else ifm_depth, ifm_block_depth):
            if mode == DEPTHWISE:
                outer, inner, lanes = 1, ifm_ublock, 1
            elif mode == PART_KERNEL_FIRST:
                outer, inner, lanes = min(ifm_block_depth, ifm_depth - ifm_block), 1, ifm_ublock
            else:
                outer, inner, lanes = 1, ifm_block_depth, ifm_ublock
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
                                    for o in range(block + ublock, block + ublock + ofm_ublock):
                                        row = (channel_start + o * channel_step) * kernel_height + top + y
                                        first = ifm_block + outer_depth + inner_depth
                                        base = (row * kernel_width + left + x) * ifm_depth
                                        is_used = o < depth and y < height
                                        for i in range(first, first + lanes):
                                            index[position] = base + i if is_used and i < ifm_depth else -1
                                            position += 1
    return position


@nb.njit(cache=True)
def gather(weights, index, symbols):  # type: ignore[no-untyped-def]
    """symbols[k] = weights[index[k]], 0 where the index is -1. `weights` is flat, all int16."""
    for k in range(index.shape[0]):
        at = index[k]
        symbols[k] = weights[at] if at >= 0 else np.int16(0)


@nb.njit(cache=True)
def scatter(symbols, index, weights):  # type: ignore[no-untyped-def]
    """weights[index[k]] = symbols[k]. Returns the first k of a padding symbol that is not 0, else -1."""
    for k in range(index.shape[0]):
        at = index[k]
        if at >= 0:
            weights[at] = symbols[k]
        elif symbols[k] != 0:
            return np.int64(k)
    return np.int64(-1)
