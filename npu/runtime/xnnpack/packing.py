"""Constant weights in the layout of the kernels: blocks of 16 output channels, zero where channels or elements are missing.

Every packed operand is one byte vector, so that the weights cache can compare it: the weights, then one stage per block of 16
channels (the bias; for scaled 8-bit results also left shift, multiplier and right shift).
"""

from __future__ import annotations

import numpy as np

from npu.numerics.arrays import Array
from npu.records import dataclass
from npu.runtime.xnnpack.memory import guarded

_SUM_LIMIT = 1 << 31
_UNIT_BYTES = 16 * 4
"""What 16 channels read for one float32 element, or for four 8-bit ones."""


@dataclass(frozen=True, slots=True)
class PackedLayout:
    """Where things lie in a packed operand: `length` elements (or groups of four bytes) per stretch, `step` bytes per block."""

    segments: int
    length: int
    groups: int
    tail: int
    step: int
    stage_offset: int


def blocks(channels: int) -> tuple[int, int]:
    """How many blocks of 16 channels, and how many channels the last one has."""
    groups = -(-channels // 16)
    return groups, channels - 16 * (groups - 1)


def pack_matrix(weights: Array, bias: Array, factors: tuple[Array, Array] | None) -> tuple[Array, PackedLayout]:
    """weights (out, segments, elements) float32, or int8 with four elements side by side; bias (out) float32 or int32."""
    channels, segments, elements = weights.shape
    groups, tail = blocks(channels)
    unit = 4 if weights.dtype == np.int8 else 1
    length = -(-elements // unit)
    dense = np.zeros((groups * 16, segments, length * unit), weights.dtype)
    dense[:channels, :, :elements] = weights
    ordered = dense.reshape(groups, 16, segments, length, unit).transpose(0, 2, 3, 1, 4)
    return _joined(ordered, bias, factors, PackedLayout(segments, length, groups, tail, segments * length * _UNIT_BYTES, 0))


def pack_taps(weights: Array, bias: Array, factors: tuple[Array, Array] | None) -> tuple[Array, PackedLayout]:
    """weights (taps, channels) float32, or int8 with four taps side by side; `length` of the layout is the number of taps."""
    taps, channels = weights.shape
    groups, tail = blocks(channels)
    unit = 4 if weights.dtype == np.int8 else 1
    padded = -(-taps // unit) * unit
    dense = np.zeros((padded, groups * 16), weights.dtype)
    dense[:taps, :channels] = weights
    ordered = dense.reshape(padded // unit, unit, groups, 16).transpose(2, 0, 3, 1)
    return _joined(ordered, bias, factors, PackedLayout(padded, taps, groups, tail, padded // unit * _UNIT_BYTES, 0))


def _joined(
    ordered: Array, bias: Array, factors: tuple[Array, Array] | None, layout: PackedLayout
) -> tuple[Array, PackedLayout]:
    stages = [_lanes(bias, layout.groups)]
    if factors is not None:
        multiplier, exponent = factors
        stages.append(_lanes(np.maximum(exponent, 0).astype(np.int32), layout.groups))
        stages.append(_lanes(multiplier.astype(np.int32), layout.groups))
        stages.append(_lanes(np.maximum(-exponent, 0).astype(np.int32), layout.groups))
    stage = np.stack(stages, axis=1)
    size = ordered.nbytes
    packed = guarded((size + stage.nbytes,), np.dtype(np.uint8))
    packed[:size] = np.ascontiguousarray(ordered).reshape(-1).view(np.uint8)
    packed[size:] = np.ascontiguousarray(stage).reshape(-1).view(np.uint8)
    return packed, PackedLayout(layout.segments, layout.length, layout.groups, layout.tail, layout.step, size)


def _lanes(values: Array, groups: int) -> Array:
    padded = np.zeros(groups * 16, values.dtype)
    padded[: values.size] = values
    result: Array = padded.reshape(groups, 16)
    return result


def sums_fit(weights: Array, bias: Array, exponent: Array | None = None) -> bool:
    """Whether 8-bit sums of weights (out, ...) and bias, with their left shift, stay below 2**31."""
    largest = np.abs(weights.reshape(weights.shape[0], -1).astype(np.int64)).sum(axis=1) * 255 + np.abs(bias.astype(np.int64))
    shifted = largest if exponent is None else largest << np.maximum(exponent, 0)
    return bool(np.all(shifted < _SUM_LIMIT))


def folded_bias(weights: Array, bias: Array, zero_point: int) -> Array:
    """The bias for inputs that are read as unsigned bytes, 128 larger: bias - (128 + zero point) * sum of weights, int32."""
    sums = weights.reshape(weights.shape[0], -1).astype(np.int64).sum(axis=1)
    folded: Array = (bias.astype(np.int64) - (128 + zero_point) * sums).astype(np.int32)
    return folded
