"""Constant weights in the layout of the kernels: blocks of 16 output channels, zero where channels or elements are missing.

Every packed operand is one byte vector, so that the weights cache can compare it: the weights, then biases and factors of each
block of 16 channels.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from npu.numerics.arrays import Array
from npu.numerics.output_stage import CHANNELS, EVEN_LANES, FLOOR, LIMITS, REQUANTIZE
from npu.records import dataclass
from npu.runtime.xnnpack.kernels.stage import make_stage
from npu.runtime.xnnpack.memory import guarded

_SUM_LIMIT = 1 << 31
SCALED_SUM_LIMIT = 1 << 30
"""Scaled sums are doubled first."""
_ONE_ROUNDING, _MAX_FLOOR_SHIFT = 31, 50
"""Shifts for which the output stage FLOOR has numbers are between."""
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


@dataclass(frozen=True, slots=True)
class Stage:
    """Biases and factors of every 16 channels, and the output stage of scaled results."""

    channels: Array
    finish: int = REQUANTIZE


@dataclass(frozen=True, slots=True)
class PackedProduct:
    """The byte vector of an operand, and what is where."""

    packed: Array
    layout: PackedLayout
    finish: int


@dataclass(frozen=True, slots=True)
class OutputLimits:
    """Zero point and clamp of 8-bit results."""

    zero_point: int
    low: int
    high: int
    is_unsigned: bool

    @property
    def offset(self) -> int:
        """What is subtracted from results while kernels have them as signed bytes."""
        return 128 if self.is_unsigned else 0

    def for_kernels(self) -> Array:
        """LIMITS."""
        limits, offset = np.zeros(1, LIMITS), self.offset
        limits["even_lanes"], limits["flip_outputs"] = EVEN_LANES, offset
        limits["zero_point"], limits["low"], limits["high"] = self.zero_point - offset, self.low - offset, self.high - offset
        return limits


def blocks(channels: int) -> tuple[int, int]:
    """How many blocks of 16 channels, and how many channels the last one has."""
    groups = -(-channels // 16)
    return groups, channels - 16 * (groups - 1)


def pack_matrix(weights: Array, stage: Stage) -> PackedProduct:
    """weights (out, segments, elements) float32, or int8 with four elements side by side."""
    channels, segments, elements = weights.shape
    groups, tail = blocks(channels)
    unit = 4 if weights.dtype == np.int8 else 1
    length = -(-elements // unit)
    dense = np.zeros((groups * 16, segments, length * unit), weights.dtype)
    dense[:channels, :, :elements] = weights
    ordered = dense.reshape(groups, 16, segments, length, unit).transpose(0, 2, 3, 1, 4)
    return _joined(ordered, stage, PackedLayout(segments, length, groups, tail, segments * length * _UNIT_BYTES, 0))


def pack_taps(weights: Array, stage: Stage) -> PackedProduct:
    """weights (taps, channels) float32, or int8 with four taps side by side; `length` of the layout is the number of taps."""
    taps, channels = weights.shape
    groups, tail = blocks(channels)
    unit = 4 if weights.dtype == np.int8 else 1
    padded = -(-taps // unit) * unit
    dense = np.zeros((padded, groups * 16), weights.dtype)
    dense[:taps, :channels] = weights
    ordered = dense.reshape(padded // unit, unit, groups, 16).transpose(2, 0, 3, 1)
    return _joined(ordered, stage, PackedLayout(padded, taps, groups, tail, padded // unit * _UNIT_BYTES, 0))


def pack_ones(taps: int, channels: int, dtype: np.dtype[Any], stage: Stage) -> PackedProduct:
    """Depthwise weights of 1, which all blocks of channels have in common."""
    groups, tail = blocks(channels)
    weights = np.ones((taps, 16), np.float32 if dtype == np.float32 else np.int8)
    product = pack_taps(weights, stage)
    return replace(product, layout=replace(product.layout, groups=groups, tail=tail, step=0))


def _joined(ordered: Array, stage: Stage, layout: PackedLayout) -> PackedProduct:
    size = ordered.nbytes
    packed = guarded((size + stage.channels.nbytes,), np.dtype(np.uint8))
    packed[:size] = np.ascontiguousarray(ordered).reshape(-1).view(np.uint8)
    packed[size:] = stage.channels.view(np.uint8)
    return PackedProduct(packed, replace(layout, stage_offset=size), stage.finish)


def plain_stage(dtype: np.dtype[np.void], **of_channels: Array) -> Stage:
    """A stage of fields that hold something for every channel, by name."""
    groups, _ = blocks(len(of_channels["bias"]))
    stage = np.zeros(groups, dtype)
    for name, values in of_channels.items():
        padded = np.zeros(groups * 16, dtype[name].base)
        padded[: len(values)] = values
        stage[name] = padded.reshape(groups, 16)
    return Stage(stage)


def scaled_stage(
    bias: Array, bounds: Array, factors: tuple[Array, Array], limits: OutputLimits, *, may_floor: bool = True
) -> Stage | None:
    """CHANNELS; None if sums, at most `bounds`, or factors are beyond its numbers."""
    scales, shifts = _plain_where_zero(factors[0].astype(np.int64), 31 - factors[1].astype(np.int64), bounds)
    is_floor = may_floor and limits.low >= limits.zero_point
    is_floor = is_floor and shifts.min() > _ONE_ROUNDING and shifts.max() <= _MAX_FLOOR_SHIFT
    stage = np.zeros(blocks(len(bias))[0], CHANNELS)
    zero_point = limits.zero_point - limits.offset
    if not make_stage(bias.astype(np.int64), scales, shifts, bounds, zero_point, SCALED_SUM_LIMIT, bool(is_floor), stage):
        return None
    return Stage(stage, FLOOR if is_floor else REQUANTIZE)


def _plain_where_zero(scales: Array, shifts: Array, bounds: Array) -> tuple[Array, Array]:
    """Factors and shifts, 0 and a common shift for channels where every result rounds to 0."""
    most = (np.minimum(bounds, SCALED_SUM_LIMIT) * scales + (1 << 30)) >> 31
    is_zero = (scales == 0) | ((shifts > _ONE_ROUNDING) & (most < 1 << np.maximum(shifts - 32, 0)))
    return np.where(is_zero, 0, scales), np.where(is_zero, 32, shifts)


def bounds_of(weights: Array, bias: Array) -> Array:
    """What 8-bit sums of weights (out, ...) and bias are at most."""
    sums: Array = np.abs(weights.reshape(weights.shape[0], -1).astype(np.int64)).sum(axis=1) * 255
    return sums + np.abs(bias.astype(np.int64))


def sums_fit(weights: Array, bias: Array) -> bool:
    """Whether 8-bit sums of weights (out, ...) and bias stay below 2**31."""
    return bool(np.all(bounds_of(weights, bias) < _SUM_LIMIT))


def folded_bias(weights: Array, bias: Array, zero_point: int) -> Array:
    """The bias for inputs that are read as unsigned bytes, 128 larger: bias - (128 + zero point) * sum of weights, int32."""
    sums = weights.reshape(weights.shape[0], -1).astype(np.int64).sum(axis=1)
    folded: Array = (bias.astype(np.int64) - (128 + zero_point) * sums).astype(np.int32)
    return folded
