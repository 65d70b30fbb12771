"""The loop nest in which the MAC array consumes weights; the only place that knows it."""

from __future__ import annotations

import numpy as np

from npu.machine.rules import ARRAY_CHANNELS as LANES
from npu.native import types as ty
from npu.native.kernel import IrValue, intrinsic, keep, kernel

DEPTH_FIRST = 0
PART_KERNEL_FIRST = 1
DEPTHWISE = 2
TO_SYMBOLS, TO_WEIGHTS, TO_GROUPS = range(3)
GROUP = 16
NO_BYTE = -2
ORDER = np.dtype(
    [
        (name, np.int64)
        for name in (
            "mode",
            "depth",  # channels of this core
            "kernel_height",
            "kernel_width",
            "ifm_depth",
            "block_depth",  # of this core
            "ifm_block_depth",
            "ofm_ublock_depth",
            "ifm_ublock_depth",
            "sub_kernel_height",
            "sub_kernel_width",
            "element_rounding",
            "channel_start",  # of the array: the first channel of this core, and the distance to its next
            "channel_step",
            "group_bytes",  # TO_GROUPS: from one group of channels to the next
        )
    ]
)
"""Shape and order of the weights of one core."""


@kernel(ty.void(ty.int16[::1], ty.uint64, ty.int16[::1], ty.uint64))
def _copy_lanes(source, at, target, to):  # type: ignore[no-untyped-def]
    """target[to : to + LANES] = source[at : at + LANES]: read, then written, which compiles to one load and one store."""
    a, b, c, d = source[at], source[at + np.uint64(1)], source[at + np.uint64(2)], source[at + np.uint64(3)]
    e, f, g, h = source[at + np.uint64(4)], source[at + np.uint64(5)], source[at + np.uint64(6)], source[at + np.uint64(7)]
    target[to], target[to + np.uint64(1)], target[to + np.uint64(2)], target[to + np.uint64(3)] = a, b, c, d
    target[to + np.uint64(4)], target[to + np.uint64(5)], target[to + np.uint64(6)], target[to + np.uint64(7)] = e, f, g, h


@kernel(ty.void(ty.int16[::1], ty.uint64, ty.int8[::1], ty.uint64, ty.uint64))
def _split_lanes(source, at, target, to, other):  # type: ignore[no-untyped-def]
    """The first and last four of LANES symbols as bytes to two places, in `_copy_lanes`' form."""
    a, b, c, d = source[at], source[at + np.uint64(1)], source[at + np.uint64(2)], source[at + np.uint64(3)]
    e, f, g, h = source[at + np.uint64(4)], source[at + np.uint64(5)], source[at + np.uint64(6)], source[at + np.uint64(7)]
    target[to], target[to + np.uint64(1)], target[to + np.uint64(2)], target[to + np.uint64(3)] = a, b, c, d
    target[other], target[other + np.uint64(1)], target[other + np.uint64(2)], target[other + np.uint64(3)] = e, f, g, h


@intrinsic(ty.void(ty.int64, ty.int64, ty.int64))
def _split_channels(builder: IrValue, source: IrValue, target: IrValue, other: IrValue) -> None:
    """`_split_lanes` of LANES channels that lie one after the other, all by their addresses."""
    from llvmlite import ir

    def vector(count: int, bits: int) -> IrValue:
        return ir.VectorType(ir.IntType(bits), count)

    symbols = builder.load(builder.inttoptr(source, vector(LANES * LANES, 16).as_pointer()))
    symbols.align = 1
    fours = builder.bitcast(builder.trunc(symbols, vector(LANES * LANES, 8)), vector(2 * LANES, 32))
    for first, place in enumerate((target, other)):
        own = ir.Constant(vector(LANES, 32), list(range(first, 2 * LANES, 2)))
        half = builder.shuffle_vector(fours, ir.Constant(fours.type, ir.Undefined), own)
        builder.store(half, builder.inttoptr(place, half.type.as_pointer())).align = 1


@intrinsic(ty.void(ty.int64, ty.int64, ty.int64))
def _copy_channels(builder: IrValue, source: IrValue, step: IrValue, target: IrValue) -> None:
    """LANES weights of LANES channels, which are `step` bytes apart, one after the other to a place: all by their addresses."""
    from llvmlite import ir

    lanes = ir.VectorType(ir.IntType(16), LANES)
    for channel in range(LANES):
        place = builder.add(source, builder.mul(step, step.type(channel)))
        weights = builder.load(builder.inttoptr(place, lanes.as_pointer()))
        weights.align = 2
        to = builder.add(target, target.type(2 * LANES * channel))
        builder.store(weights, builder.inttoptr(to, lanes.as_pointer())).align = 2


@kernel(ty.void(ty.int16[::1], *[ty.int64] * 4, ty.int16[::1], *[ty.int64] * 3))
def _copy_ublock(weights, base, step, channels, used, symbols, at, lanes, ublock):  # type: ignore[no-untyped-def]
    """symbols[at :]: `used` of `lanes` weights of `channels` of `ublock` channels, `step` weights apart; the others are 0."""
    if used == LANES and channels == LANES == ublock:
        _copy_channels(np.int64(weights.ctypes.data) + 2 * base, 2 * step, np.int64(symbols.ctypes.data) + 2 * at)
        keep(weights, symbols)
        return
    to = np.uint64(at)
    for channel in range(channels):
        place = np.uint64(base + channel * step)
        for i in range(used):
            symbols[to + np.uint64(i)] = weights[place + np.uint64(i)]
        for i in range(used, lanes):
            symbols[to + np.uint64(i)] = 0
        to += np.uint64(lanes)
    for i in range((ublock - channels) * lanes):
        symbols[to + np.uint64(i)] = 0


@kernel(ty.boolean(ty.int16[::1]))
def _are_bytes(symbols):  # type: ignore[no-untyped-def]
    """Whether all symbols are int8."""
    bits = np.uint16(0)
    for k in range(symbols.shape[0]):
        bits |= np.uint16(symbols[np.uint64(k)] + 128)
    return bits <= 255


@kernel(ty.int64(ty.int16[::1], ty.int16[::1], ty.int8[::1], ty.int64[::1], ty.record(ORDER)[::1], ty.int64))
def move(symbols, weights, groups, places, orders, direction):  # type: ignore[no-untyped-def]
    """Symbols in stream order from the flat weights (O, KH, KW, I), the weights from the symbols, or groups from the symbols.

    `groups` are bytes, four of a channel after another, GROUP channels together; `places` says where in its group each weight
    (KH, KW, I) of the first channel goes. `orders` is one ORDER row. `symbols` must be as many as the order has. Returns the
    first padding symbol that is not 0, else -1; NO_BYTE if a weight for `groups` is none.
    """
    order = orders[0]
    mode, depth, ifm_depth = order.mode, order.depth, order.ifm_depth
    kernel_height, kernel_width = order.kernel_height, order.kernel_width
    block_depth, ifm_block_depth = order.block_depth, order.ifm_block_depth
    ofm_ublock, ifm_ublock = order.ofm_ublock_depth, order.ifm_ublock_depth
    sub_height, sub_width, rounding = order.sub_kernel_height, order.sub_kernel_width, order.element_rounding
    channel_start, channel_step = order.channel_start, order.channel_step
    step = channel_step * kernel_height * kernel_width * ifm_depth
    at, stray, group_bytes = np.int64(0), np.int64(-1), np.uint64(order.group_bytes)
    symbols_at, groups_at = np.int64(symbols.ctypes.data), np.int64(groups.ctypes.data)
    is_dense = channel_step == 1 and channel_start % LANES == 0 and block_depth % LANES == 0 and ofm_ublock == LANES
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
                                    if direction == TO_SYMBOLS:
                                        row = (channel_start + (block + ublock) * channel_step) * kernel_height + top + y
                                        base = (row * kernel_width + left + x) * ifm_depth + first
                                        used = max(np.int64(0), min(lanes, ifm_depth - first))
                                        channels = max(np.int64(0), min(ofm_ublock, depth - block - ublock))
                                        if y >= height:
                                            channels = np.int64(0)
                                        _copy_ublock(weights, base, step, channels, used, symbols, at, lanes, ofm_ublock)
                                        at += ofm_ublock * lanes
                                        continue
                                    one, other, is_split = np.int64(0), np.int64(0), False
                                    if direction == TO_GROUPS and y < height and first + LANES <= ifm_depth and lanes == LANES:
                                        place = ((top + y) * kernel_width + left + x) * ifm_depth + first
                                        one, other = places[place], places[place + 4]
                                        is_split = places[place + 3] == one + 3 and places[place + 7] == other + 3
                                    start = block + ublock
                                    if is_split and is_dense and start + LANES <= depth:
                                        channel = channel_start + start
                                        to = groups_at + channel // GROUP * order.group_bytes + channel % GROUP * 4
                                        _split_channels(symbols_at + 2 * at, to + one, to + other)
                                        at += LANES * LANES
                                        start += LANES
                                    elif is_split:
                                        for o in range(start, min(start + ofm_ublock, depth)):
                                            channel = np.uint64(channel_start + o * channel_step)
                                            to = channel // np.uint64(GROUP) * group_bytes + channel % np.uint64(
                                                GROUP
                                            ) * np.uint64(4)
                                            a, b = to + np.uint64(one), to + np.uint64(other)
                                            _split_lanes(symbols, np.uint64(at), groups, a, b)
                                            at += LANES
                                        start = min(start + ofm_ublock, depth)
                                    for o in range(start, block + ublock + ofm_ublock):
                                        row = (channel_start + o * channel_step) * kernel_height + top + y
                                        base = (row * kernel_width + left + x) * ifm_depth + first
                                        used = max(np.int64(0), min(lanes, ifm_depth - first))
                                        if o >= depth or y >= height:
                                            used = np.int64(0)
                                        if direction == TO_GROUPS:
                                            channel = channel_start + o * channel_step
                                            to = channel // GROUP * order.group_bytes + channel % GROUP * 4
                                            place = ((top + y) * kernel_width + left + x) * ifm_depth + first
                                            for i in range(used):
                                                groups[to + places[place + i]] = np.int8(symbols[at + i])
                                            for i in range(used, lanes):
                                                if symbols[at + i] != 0 and stray < 0:
                                                    stray = at + i
                                        elif used == LANES:
                                            _copy_lanes(symbols, np.uint64(at), weights, np.uint64(base))
                                        else:
                                            for i in range(used):
                                                weights[base + i] = symbols[at + i]
                                            for i in range(used, lanes):
                                                if symbols[at + i] != 0 and stray < 0:
                                                    stray = at + i
                                        at += lanes
    return NO_BYTE if stray < 0 and direction == TO_GROUPS and not _are_bytes(symbols) else stray
