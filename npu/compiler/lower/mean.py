"""MEAN over height and width, or over the last dimension: an average pooling whose factor holds both scales and the count."""

from __future__ import annotations

from dataclasses import replace

from npu.compiler.ir import PoolingStep, View
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.geometry import fold_shape, images
from npu.compiler.lower.memory import constant_values
from npu.compiler.lower.quantise import register_scale
from npu.graph.graph import Op
from npu.isa.operations import Kernel, PoolingMode, Scale

_MAX_HEIGHT = 256
_MAX_AREA = 1 << 16


def lower_mean(builder: Builder, op: Op) -> None:
    """MEAN: the count is divided into the multiplier and cut off, as TFLite's QuantizedMeanOrSum does."""
    source, target = op.inputs[0], op.outputs[0]
    shape = builder.tensor(source).shape
    rank = len(shape)
    axes = {axis % rank for axis in constant_values(builder, op.inputs[1])}
    ifm = builder.input(source, builder.zero_point(source))
    height, width, depth = ifm.shape
    batch = builder.tensor(source).elements // (width * depth * (shape[-3] if rank > 2 else 1))
    if axes == {rank - 1}:
        ifm, kernel, batch = builder.reshaped(ifm, (height * width, depth, 1)), Kernel(1, depth), 1
        out = (height * width, 1, 1)
    elif axes and axes <= {rank - 3, rank - 2}:
        rows = height // batch
        kernel = Kernel(rows if rank - 3 in axes else 1, width if rank - 2 in axes else 1)
        out = (batch * (rows // kernel.height), width // kernel.width, depth)
    else:
        raise builder.error(op, f"axes must be height, width, both, or the last, got {sorted(axes)}")
    if kernel.height > _MAX_HEIGHT or kernel.height * kernel.width > _MAX_AREA:
        raise builder.error(op, f"must average over at most {_MAX_HEIGHT} rows and {_MAX_AREA} elements")
    ratio = register_scale(float(builder.scale(source)) / float(builder.scale(target)))
    final = builder.tensor(target).shape
    ofm = builder.temporary("mean", out, ifm.element) if fold_shape(final) != out else builder.output(target)
    ofm = replace(ofm, zero_point=builder.zero_point(target))
    for x, y in zip(images(ifm, batch), images(ofm, batch), strict=True):
        _emit(builder, x, y, kernel, divided(ratio, kernel.height * kernel.width))
    if fold_shape(final) != out:
        builder.alias(target, builder.reshaped(ofm, fold_shape(final)))


def divided(scale: Scale, count: int) -> Scale:
    """scale / count with as many bits as 64-bit integer division keeps, cut off."""
    bits = min(count.bit_length() - 1, 32, 62 - scale.shift)
    return Scale((scale.scale << bits) // count, scale.shift + bits)


def _emit(builder: Builder, ifm: View, ofm: View, kernel: Kernel, scale: Scale) -> None:
    builder.emit(
        PoolingStep(
            source=builder.index,
            ifm=ifm,
            ofm=ofm,
            minimum=-128,
            maximum=127,
            mode=PoolingMode.AVERAGE,
            scale=scale,
            kernel=kernel,
        )
    )
