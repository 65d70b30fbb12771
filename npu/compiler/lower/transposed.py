"""TRANSPOSE_CONV: an ordinary convolution with a flipped kernel over the input, zeros inserted between its elements."""

from __future__ import annotations

import numpy as np

from npu.compiler.lower.builder import Builder
from npu.compiler.lower.convolution import accumulator_rounding, channel_factors, make_weights, weight_values
from npu.compiler.lower.geometry import images, needed_after, same_padding
from npu.graph.attributes import Padding as PaddingScheme
from npu.graph.attributes import TransposeConvOptions
from npu.graph.graph import ABSENT, Op
from npu.isa.operations import IfmPadding, KernelWindow, Upscale


def lower_transpose_conv(builder: Builder, op: Op) -> None:
    """TRANSPOSE_CONV with strides 1 or 2, equal in both directions. Inputs: output shape, weights (O, KH, KW, I), map, bias."""
    options = op.attributes
    assert isinstance(options, TransposeConvOptions)
    stride = _stride(builder, op, options)
    source = op.inputs[2]
    bias = op.inputs[3] if len(op.inputs) > 3 else ABSENT
    values = np.ascontiguousarray(weight_values(builder, op, op.inputs[1])[:, ::-1, ::-1])
    rounding = accumulator_rounding(builder, source, bias)
    records = make_weights(builder, op, values, bias, channel_factors(builder, op, source, op.inputs[1]), rounding)
    batch, oh, ow, _ = builder.tensor(op.outputs[0]).shape
    _, ih, iw, _ = builder.tensor(source).shape
    _, kh, kw, _ = values.shape
    top, bottom = _padding(ih, oh, kh, stride, options.padding)
    left, right = _padding(iw, ow, kw, stride, options.padding)
    finish = builder.finish(op)
    ifm = builder.input(source, builder.zero_point(source))
    ofm = builder.result(finish)
    for x, y in zip(images(ifm, batch), images(ofm, batch), strict=True):
        builder.convolve(
            x,
            y,
            records,
            finish=finish,
            rounding=rounding,
            kernel=KernelWindow(kh, kw),
            padding=IfmPadding(top, left, bottom, right),
            upscale=Upscale.ZEROS if stride == 2 else Upscale.NONE,
        )


def _stride(builder: Builder, op: Op, options: TransposeConvOptions) -> int:
    """The stride of both directions; that of a direction with one element may be any."""
    strides = (options.stride_h, options.stride_w)
    sizes = builder.tensor(op.inputs[2]).shape[1:3]
    used = {stride for stride, size in zip(strides, sizes, strict=True) if size > 1} or {1}
    if len(used) > 1 or not used <= {1, 2}:
        raise builder.error(op, f"strides must be 1x1 or 2x2, got {options.stride_h}x{options.stride_w}")
    return used.pop()


def _padding(extent: int, output: int, kernel: int, stride: int, scheme: PaddingScheme) -> tuple[int, int]:
    """Zeros before and after the upscaled map; the reference kernel pads as the convolution that this one transposes."""
    before, _ = same_padding(output, extent, kernel, stride) if scheme is PaddingScheme.SAME else (0, 0)
    first = kernel - 1 - before
    return first, needed_after(stride * extent, output, kernel, 1, first)
