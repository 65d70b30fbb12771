"""MEAN and SUM over height and width, or over the last dimension: pooling whose factor holds scales and the count."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npu.compiler.ir import StepWeights, View
from npu.compiler.lower.activation_tables import Quantized
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.geometry import images
from npu.compiler.lower.memory import constant_values
from npu.compiler.lower.quantize import register_scale, rule_a
from npu.graph.graph import Op
from npu.graph.permutation import side_by_side
from npu.isa.operations import KernelWindow, PoolingMode, Rounding, Scale
from npu.layouts import MapShape
from npu.numerics.scaling import round_away
from npu.records import replace

_MAX_HEIGHT = 256
_MAX_AREA = 1 << 16


def lower_mean(builder: Builder, op: Op) -> None:
    """MEAN: the count is divided into the multiplier and cut off, as TFLite's QuantizedMeanOrSum does."""
    _lower(builder, op, divided)


def lower_sum(builder: Builder, op: Op) -> None:
    """SUM between different quantizations; of int8 where the factor gives what the reference kernel's float32 does."""
    source, target = (builder.quantized(tensor) for tensor in (op.inputs[0], op.outputs[0]))
    if (source.scale, source.zero_point) == (target.scale, target.zero_point):
        raise builder.error(op, "input and output must differ in scale or zero point")
    count = builder.tensor(op.inputs[0]).elements // builder.tensor(op.outputs[0]).elements
    if source.element.is_signed and not _is_exact(source, target, count):
        raise builder.error(op, "no factor must round a sum otherwise than the reference kernel's float32")
    _lower(builder, op, lambda scale, _: scale)


def _is_exact(source: Quantized, target: Quantized, count: int) -> bool:
    """Whether scaling in integers equals TFLite's in float32 for all sums of `count` values."""
    if count * 256 > _MOST_SUMS:
        return False
    sums = np.arange(count * source.element.minimum, count * source.element.maximum + 1)
    fixed = rule_a(sums - count * source.zero_point, float(source.scale) / float(target.scale))
    scale = source.scale / target.scale
    real = sums.astype(np.float32) * scale + np.float32(-source.zero_point) * scale * np.float32(count)
    floating = round_away(real).astype(np.int64)
    wanted, made = (target.saturated(values + target.zero_point) for values in (floating, fixed))
    return np.array_equal(wanted, made)


_MOST_SUMS = 1 << 20
"""Sums that are compared one by one."""


def _lower(builder: Builder, op: Op, factor: Callable[[Scale, int], Scale]) -> None:
    source, finish = op.inputs[0], builder.finish(op)
    ifm, kernel, out, batch = _windows(builder, op)
    ratio = register_scale(float(builder.scale(source)) / float(builder.scale(op.outputs[0])))
    scale = factor(ratio, kernel.height * kernel.width)

    def pool() -> None:
        with builder.output_as(finish.tensor, out) as target:
            ofm = replace(target, zero_point=finish.zero_point, element=finish.element)
            for x, y in zip(images(ifm, batch), images(ofm, batch), strict=True):
                builder.pool(x, y, PoolingMode.AVERAGE, finish=finish, scale=scale, kernel=kernel, rounding=Rounding.DOUBLE)

    def convolve() -> None:
        whole = builder.input(source, builder.zero_point(source))
        height, width, depth = whole.shape
        ones = StepWeights.unbiased(np.ones((1, 1, 1, depth), np.int16), scale)
        with builder.output_as(finish.tensor, (height, width, 1)) as target:
            ofm = replace(target, zero_point=finish.zero_point, element=finish.element)
            builder.convolve(whole, ofm, ones, finish=finish)

    builder.make_cheapest([pool, convolve] if _is_over_channels(builder, op) else [pool])


def _is_over_channels(builder: Builder, op: Op) -> bool:
    """Whether it adds up 8-bit channels: a convolution with ones has many at a time, a pooling looks at one after the other."""
    tensor = builder.tensor(op.inputs[0])
    axes = {axis % len(tensor.shape) for axis in constant_values(builder, op.inputs[1])}
    return axes == {len(tensor.shape) - 1} and tensor.shape[-1] > 1 and builder.quantized(op.inputs[0]).element.bits == 8


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
