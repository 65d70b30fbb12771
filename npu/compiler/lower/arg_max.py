"""ARG_MAX over the last dimension: value and position become one number, of which the largest tells where it was."""

from __future__ import annotations

from functools import partial

import numpy as np

from npu.compiler.ir import StepWeights, View
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.geometry import crop
from npu.compiler.lower.parts import parts_with_room
from npu.compiler.lower.reduction import largest_of_channels
from npu.graph.graph import Op
from npu.isa.operations import IDENTITY, INT16, INT32, ElementwiseMode, Rounding
from npu.isa.rules import MAX_EXTENT
from npu.records import replace

MAX_DEPTH = 128
"""Channels that 7 bits tell apart; 9 bits are the value and its sign."""


def lower_arg_max(builder: Builder, op: Op) -> None:
    """128 * value + 127 - channel of every channel, their maximum, and 127 less its low bits. The first of equals wins.

    A result of 64 bits is two words, of which the high one is 0.
    """
    x = builder.input(op.inputs[0])
    height, width, depth = x.shape
    words = builder.tensor(op.outputs[0]).dtype.bits // INT32.bits
    with builder.output_as(op.outputs[0], (height, width, words)) as y:
        for part in parts_with_room(builder, x, INT16.bytes * (depth + 1 + words), MAX_EXTENT):
            (row, column, _), (rows, columns, _) = part.offset, part.shape
            _find(builder, crop(x, part.offset, part.shape), crop(y, (row, column, 0), (rows, columns, words)))


def _find(builder: Builder, x: View, y: View) -> None:
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
    made = StepWeights.unbiased(np.full((depth, 1, 1, 1), MAX_DEPTH, np.int16), IDENTITY)
    return replace(made, biases=MAX_DEPTH - 1 - np.arange(depth, dtype=np.int64))


def _low_bits() -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """127 - (x & 127): every line of the table falls from 127 to 0."""
    words = np.full(512, (MAX_DEPTH - 1) | (-MAX_DEPTH & 0xFFFF) << 16, np.int64)
    return words.astype("<u4").view(np.uint8)
