"""MEAN and SUM over height and width, or over the last dimension: pooling whose factor holds scales and the count."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from npu.compiler.ir import StepWeights, View
from npu.compiler.lower.activation_tables import Quantized
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.geometry import fold_shape, images
from npu.compiler.lower.memory import constant_values
from npu.compiler.lower.quantize import register_scale
from npu.graph.graph import Op
from npu.graph.permutation import side_by_side
from npu.isa.operations import KernelWindow, PoolingMode, Rounding, Scale
from npu.isa.rules import MAX_EXTENT
from npu.layouts import MapShape
from npu.numerics.scaling import round_away
from npu.records import replace

_MAX_HEIGHT = 256
_MAX_AREA = 1 << 16
_MOST_SUMS = 1 << 20
"""Sums of which each is looked at for their factor."""
_LARGEST_FACTOR = (1 << 31) - 1
_BEYOND = 1 << 62
"""What no product of a sum and a factor reaches."""


def lower_mean(builder: Builder, op: Op) -> None:
    """MEAN: the count is divided into the multiplier and cut off, as TFLite's QuantizedMeanOrSum does."""
    _lower(builder, op, lambda count: divided(_ratio(builder, op), count), Rounding.DOUBLE)


def lower_sum(builder: Builder, op: Op) -> None:
    """SUM between different quantizations; of int8 where a factor gives what the kernel's float32 does."""
    source, target = (builder.quantized(tensor) for tensor in (op.inputs[0], op.outputs[0]))
    if (source.scale, source.zero_point) == (target.scale, target.zero_point):
        raise builder.error(op, "input and output must differ in scale or zero point")
    if not source.element.is_signed:
        _lower(builder, op, lambda _: _ratio(builder, op), Rounding.DOUBLE)
        return

    def factor(count: int) -> Scale:
        scale = factor_of_sums(source, target, count)
        if scale is None:
            raise builder.error(op, "a factor must round every sum as float32 does, which none of 31 bits does here")
        return scale

    _lower(builder, op, factor, Rounding.NATURAL)


def _ratio(builder: Builder, op: Op) -> Scale:
    return register_scale(float(builder.scale(op.inputs[0])) / float(builder.scale(op.outputs[0])))


def factor_of_sums(source: Quantized, target: Quantized, count: int) -> Scale | None:
    """The factor that rounds every sum of `count` values as TFLite's float32 does, the nearest to that of the scales.

    What is wanted of a sum is the sum times the factor and a half, rounded down: that gives a least and a largest factor.
    """
    ratio, (least, most) = float(source.scale) / float(target.scale), _ends(target)
    given = register_scale(ratio)
    if not given.shift or (most - least) / ratio > _MOST_SUMS:
        return None
    first, last = (count * end for end in _ends(source))
    first, last = max(first, math.floor((least - 1) / ratio)), min(last, math.ceil((most + 1) / ratio))
    centred = np.arange(first, last + 1)  # beyond these the result is an end of the range
    scale = source.scale / target.scale
    sums, bias = centred + count * source.zero_point, np.float32(-source.zero_point) * scale * np.float32(count)
    wanted = np.clip(round_away(sums.astype(np.float32) * scale + bias).astype(np.int64), least, most)
    low = np.where(wanted > least, (2 * wanted - 1) << given.shift - 1, -_BEYOND)
    high = np.where(wanted < most, ((2 * wanted + 1) << given.shift - 1) - 1, _BEYOND)
    is_below, sizes = centred < 0, np.abs(centred)
    low, high = np.where(is_below, -high, low), np.where(is_below, -low, high)
    has_size = sizes > 0
    smallest = int(np.max(-(-low[has_size] // sizes[has_size]), initial=0))
    largest = int(np.min(high[has_size] // sizes[has_size], initial=_LARGEST_FACTOR))
    return Scale(min(max(given.scale, smallest), largest), given.shift) if smallest <= largest else None


def _ends(values: Quantized) -> tuple[int, int]:
    return values.element.minimum - values.zero_point, values.element.maximum - values.zero_point


def _lower(builder: Builder, op: Op, factor: Callable[[int], Scale], rounding: Rounding) -> None:
    finish = builder.finish(op)
    ifm, kernel, out, batch = _windows(builder, op)
    scale = factor(kernel.height * kernel.width)

    def pool() -> None:
        with builder.output_as(finish.tensor, out) as target:
            ofm = replace(target, zero_point=finish.zero_point, element=finish.element)
            for x, y in zip(images(ifm, batch), images(ofm, batch), strict=True):
                builder.pool(x, y, PoolingMode.AVERAGE, finish=finish, scale=scale, kernel=kernel, rounding=rounding)

    def convolve(whole: View) -> None:
        height, width, depth = whole.shape
        ones = StepWeights.unbiased(np.ones((1, 1, 1, depth), np.int16), scale)
        with builder.output_as(finish.tensor, (height, width, 1)) as target:
            ofm = replace(target, zero_point=finish.zero_point, element=finish.element)
            builder.convolve(whole, ofm, ones, finish=finish, rounding=rounding)

    channels = _summed_channels(builder, op)
    builder.make_cheapest([pool] if channels is None else [pool, partial(convolve, channels)])


def _summed_channels(builder: Builder, op: Op) -> View | None:
    """The 8-bit map whose channels are added up, if it adds up the last dimensions; None if others.

    A convolution with ones has many channels at a time, a pooling looks at one after the other.
    """
    source = op.inputs[0]
    shape, axes = builder.tensor(source).shape, constant_values(builder, op.inputs[1])
    summed = {axis % len(shape) for axis in axes if shape[axis] > 1}
    whole = builder.input(source, builder.zero_point(source))
    left = [axis for axis, extent in enumerate(shape) if extent > 1 and axis not in summed]
    first = max(left, default=-1) + 1
    depth = math.prod(shape[first:])
    folded = fold_shape((*shape[:first], depth))
    if not summed or min(summed) < first or builder.quantized(source).element.bits != 8 or depth > MAX_EXTENT:
        return None
    return builder.reshaped(whole, folded) if whole.is_dense or whole.shape == folded else None


def _windows(builder: Builder, op: Op) -> tuple[View, KernelWindow, MapShape, int]:
    """The map, the window that is taken of it, the shape of what comes out, and how many images both hold."""
    tensor = builder.tensor(op.inputs[0])
    shape, rank = tensor.shape, len(tensor.shape)
    axes = {axis % rank for axis in constant_values(builder, op.inputs[1])}
    ifm = builder.input(op.inputs[0], builder.zero_point(op.inputs[0]))
    height, width, depth = ifm.shape
    batch = tensor.elements // (width * depth * (shape[-3] if rank > 2 else 1))
    rows = height // batch
    if axes and axes <= {rank - 3, rank - 2} and (rows <= _MAX_HEIGHT or rank - 3 not in axes):
        kernel = KernelWindow(rows if rank - 3 in axes else 1, width if rank - 2 in axes else 1)
        out = (batch * (rows // kernel.height), width // kernel.width, depth)
    else:
        outer, extent, inner = side_by_side(shape, axes) or (0, 0, 0)
        if not extent:
            raise builder.error(op, f"axes must lie side by side, got {sorted(axes)}")
        ifm, kernel, batch = builder.reshaped(ifm, (outer, extent, inner)), KernelWindow(1, extent), 1
        out = (outer, 1, inner)
    if kernel.height * kernel.width > _MAX_AREA:
        raise builder.error(op, f"must take at most {_MAX_AREA} elements")
    return ifm, kernel, out, batch


def divided(scale: Scale, count: int) -> Scale:
    """scale / count with as many bits as 64-bit integer division keeps, cut off."""
    bits = min(count.bit_length() - 1, 32, 62 - scale.shift)
    return Scale((scale.scale << bits) // count, scale.shift + bits)
