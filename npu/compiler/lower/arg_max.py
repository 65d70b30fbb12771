"""ARG_MAX: an operation of its own, or value and position as one number, whose largest tells both, over the last dimension."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from npu.compiler.ir import StepWeights, View
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.geometry import crop, in_pairs, laid_out, pitch_as
from npu.compiler.lower.memory import constant_values
from npu.compiler.lower.parts import parts_with_room
from npu.compiler.lower.reduction import largest_of_channels, turned_ways
from npu.graph.graph import Op
from npu.isa.operations import IDENTITY, INT16, INT32, ElementwiseMode, KernelWindow, PoolingMode, Rounding, Scale
from npu.isa.rules import MAX_EXTENT
from npu.numerics.arg_max import MOST_KEYS, PLACE_SHIFT, most_compared
from npu.records import replace

_PLACE = Scale(1, PLACE_SHIFT)
"""Leaves the place alone."""
_FIND = PoolingMode.ARGMAX_X


def lower_arg_max(builder: Builder, op: Op) -> None:
    """Ethos-U85 finds the place of the first of the largest. Else that of 128 * value + 127 - channel of every channel.

    A result of 64 bits is two words, of which the high one is 0.
    """
    shape, (axis,) = builder.tensor(op.inputs[0]).shape, constant_values(builder, op.inputs[1])
    axis %= len(shape)
    outer, extent, inner = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    finds_places = builder.family.finds_places
    most, words = most_compared(finds_places=finds_places), builder.tensor(op.outputs[0]).dtype.bits // INT32.bits
    if extent > most:
        raise builder.error(op, f"must compare at most {most} elements, got {extent}")
    x = builder.input(op.inputs[0])
    if axis < len(shape) - 1:
        if not finds_places:
            raise builder.error(op, f"the axis must be the last of {list(shape)}, got {axis}")
        if inner > 1:
            _find_behind(builder, op, x, (outer, extent, inner), words)
            return
        x = builder.reshaped(x, (1, outer, extent))
    height, width, depth = x.shape
    between = x.element.bytes * depth if finds_places else INT16.bytes * (depth + 1 + words)
    find = _find_places if finds_places else _find_by_keys
    with builder.output_as(op.outputs[0], (height, width, words)) as y:
        for part in parts_with_room(builder, x, between, MAX_EXTENT):
            (row, column, _), (rows, columns, _) = part.offset, part.shape
            find(builder, crop(x, part.offset, part.shape), crop(y, (row, column, 0), (rows, columns, words)))


def _find_behind(builder: Builder, op: Op, x: View, group: tuple[int, int, int], words: int) -> None:
    """Elements that do not lie one behind the other are columns: `inner` of them are compared at a time."""
    outer, extent, inner = group
    if max(outer, inner) > MAX_EXTENT:
        limit = f"elements in front of the axis, and behind it, must be at most {MAX_EXTENT}"
        raise builder.error(op, f"{limit}, got {outer} and {inner}")
    with builder.output_as(op.outputs[0], (outer, inner, words)) as y:
        target = laid_out(y if words == 1 else in_pairs(y), (0, 0), (outer, 1, inner), (inner, inner))
        source = builder.reshaped(x, (outer, extent, inner))
        builder.pool(source, target, _FIND, kernel=KernelWindow(1, extent), scale=_PLACE, rounding=Rounding.FLOOR)


def _find_places(builder: Builder, x: View, y: View) -> None:
    """The place of the first of the largest channels of every position; they lie one behind the other."""
    depth, count = x.shape[2], x.shape[0] * x.shape[1]
    pitch = pitch_as(x, (count, depth, 1))
    source = laid_out(x, (0, 0), (count, depth, 1), pitch) if pitch else builder.reshaped(x, (count, depth, 1))
    target = laid_out(y if y.shape[2] == 1 else in_pairs(y), (0, 0), (count, 1, 1), (1, 1))
    at_once = partial(builder.pool, source, target, _FIND, kernel=KernelWindow(1, depth), scale=_PLACE, rounding=Rounding.FLOOR)
    builder.make_cheapest([at_once, *turned_ways(builder, x, target, (count, depth), _FIND, _PLACE, Rounding.FLOOR)])


def _find_by_keys(builder: Builder, x: View, y: View) -> None:
    keys = builder.temporary("keys", x.shape, INT16)
    builder.convolve(x, keys, _weights(x.shape[2]), rounding=Rounding.NATURAL, is_depthwise=True)
    ways = (_write_words_apart, _write_words_together)[: y.shape[2]]
    builder.make_cheapest([partial(write, builder, keys, y) for write in ways])


def _write_words_apart(builder: Builder, keys: View, y: View) -> None:
    height, width, words = y.shape
    low, *high = (crop(y, (0, 0, word), (height, width, 1)) for word in range(words))
    largest, index = (builder.temporary(name, (height * width, 1, 1), INT16) for name in ("largest", "index"))
    largest_of_channels(builder, keys, largest)
    builder.point(largest, index, lut=_low_bits())
    builder.widen(builder.reshaped(index, low.shape), low)
    for zeros in high:
        builder.elementwise(ElementwiseMode.MUL, low, zeros, 0)


def _write_words_together(builder: Builder, keys: View, y: View) -> None:
    """Both words side by side with 16 bits each, then all at once: a slow memory gets one piece."""
    height, width, words = y.shape
    index = builder.temporary("index", (height * width, 1, words), INT16)
    low, high = (crop(index, (0, 0, word), (height * width, 1, 1)) for word in range(words))
    largest_of_channels(builder, keys, low)
    builder.fill(low, high, 0)
    builder.point(low, low, lut=_low_bits())
    builder.widen(builder.reshaped(index, y.shape), y)


def _weights(depth: int) -> StepWeights:
    made = StepWeights.unbiased(np.full((depth, 1, 1, 1), MOST_KEYS, np.int16), IDENTITY)
    return replace(made, biases=MOST_KEYS - 1 - np.arange(depth, dtype=np.int64))


def _low_bits() -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """127 - (x & 127): every line of the table falls from 127 to 0."""
    words = np.full(512, (MOST_KEYS - 1) | (-MOST_KEYS & 0xFFFF) << 16, np.int64)
    return words.astype("<u4").view(np.uint8)
