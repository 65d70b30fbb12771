"""RESIZE_BILINEAR by a factor of 2: nearest upscaling, then an average over 2x2; both work on raw values.

With out[i] at in[i / 2] the reference kernel's weights are 0, 1/2 or 1 (exact in its 10 fractional bits), and so is the mean of
two neighbours of the upscaled map. Its rounding is to nearest, ties away from zero, like that of an average pooling.
"""

from __future__ import annotations

from npu.compiler.ir import PoolingStep, View
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.geometry import crop, images, needed_after
from npu.compiler.lower.pooling import mean_scale, repeat
from npu.graph.attributes import ResizeBilinearOptions, ResizeNearestNeighborOptions
from npu.graph.graph import Op
from npu.isa.operations import Kernel, Padding, PoolingMode, Rounding, Upscale


def lower_resize_bilinear(builder: Builder, op: Op) -> None:
    """RESIZE_BILINEAR: from 1x1, to the same size, to 2n, or to 2n - 1 with aligned corners."""
    options = op.attributes
    assert isinstance(options, ResizeBilinearOptions)
    if options.half_pixel_centers:
        raise builder.error(op, "half_pixel_centers must be false")
    _resize(builder, op, 2, aligned=options.align_corners)


def lower_resize_nearest(builder: Builder, op: Op) -> None:
    """RESIZE_NEAREST_NEIGHBOR: from 1x1, to the same size, or to 2n, where half pixel centres make no difference."""
    options = op.attributes
    assert isinstance(options, ResizeNearestNeighborOptions)
    if options.align_corners:
        raise builder.error(op, "align_corners must be false")
    _resize(builder, op, 1, aligned=False)


def _resize(builder: Builder, op: Op, size: int, *, aligned: bool) -> None:
    batch, oh, ow, _ = builder.tensor(op.outputs[0]).shape
    _, ih, iw, _ = builder.tensor(op.inputs[0]).shape
    source, target = builder.input(op.inputs[0]), builder.output(op.outputs[0])
    wanted = (2 * ih - 1, 2 * iw - 1) if aligned else (2 * ih, 2 * iw)
    for x, y in zip(images(source, batch), images(target, batch), strict=True):
        if (ih, iw) == (oh, ow):
            builder.copy(x, y)
        elif (ih, iw) == (1, 1):
            builder.copy(x, crop(y, (0, 0, 0), x.shape))
            repeat(builder, y, x.shape)
        elif (oh, ow) == wanted:
            _double(builder, x, y, size)
        else:
            raise builder.error(op, f"output must be {wanted[0]}x{wanted[1]}, {ih}x{iw} or from 1x1, got {oh}x{ow}")


def _double(builder: Builder, ifm: View, ofm: View, size: int) -> None:
    """Average over size x size positions of the twice upscaled map; beyond its end positions do not count."""
    bottom = needed_after(2 * ifm.shape[0], ofm.shape[0], size, 1, 0)
    right = needed_after(2 * ifm.shape[1], ofm.shape[1], size, 1, 0)
    padding = Padding(0, 0, bottom, right)
    builder.emit(
        PoolingStep(
            source=builder.index,
            ifm=ifm,
            ofm=ofm,
            minimum=-128,
            maximum=127,
            mode=PoolingMode.AVERAGE,
            scale=mean_scale(size * size) if padding == Padding() else None,
            rounding=Rounding.NATURAL,
            kernel=Kernel(size, size),
            padding=padding,
            upscale=Upscale.NEAREST,
        )
    )
