"""AVERAGE_POOL_2D and MAX_POOL_2D: both work on raw values, without zero points, as the reference kernels do."""

from __future__ import annotations

import math

from npu.compiler.ir import View
from npu.compiler.lower.builder import Builder, Finish
from npu.compiler.lower.convolution import effective_strides, legal_padding, window_padding
from npu.compiler.lower.geometry import crop, images, laid_out, needed_after
from npu.compiler.lower.windows import SlidingWindow, split_window
from npu.graph.attributes import Pool2DOptions
from npu.graph.graph import Op
from npu.isa.operations import IDENTITY, INT16, IfmPadding, KernelWindow, PoolingMode, Scale
from npu.isa.rules import MAX_EXTENT
from npu.records import replace


def lower_average_pool(builder: Builder, op: Op) -> None:
    """AVERAGE_POOL_2D: divides by the number of positions that are not padding."""
    _lower(builder, op, PoolingMode.AVERAGE)


def lower_max_pool(builder: Builder, op: Op) -> None:
    """MAX_POOL_2D: padding never wins."""
    _lower(builder, op, PoolingMode.MAX)


def _lower(builder: Builder, op: Op, mode: PoolingMode) -> None:
    options = op.attributes
    assert isinstance(options, Pool2DOptions)
    batch, oh, ow, _ = builder.tensor(op.outputs[0]).shape
    strides = effective_strides((oh, ow), options.stride_h, options.stride_w)
    kernel = KernelWindow(options.filter_height, options.filter_width, *strides)
    finish = builder.finish(op)
    ifm, ofm = builder.input(op.inputs[0]), builder.result(finish, is_raw=True)
    for x, y in zip(images(ifm, batch), images(ofm, batch), strict=True):
        padding, window = window_padding(x, (oh, ow), kernel, options.padding), kernel
        if mode is PoolingMode.MAX:
            window, padding = _trimmed(x, (oh, ow), kernel, padding)
            x, padding = legal_padding(builder, x, padding, x.element.minimum)
        whole = SlidingWindow(x, y, window, padding)
        if _takes_axes_apart(builder, whole, mode):
            _pool_by_axis(builder, whole, mode, finish)
            continue
        for part in split_window(builder, op, whole):
            emit_pool(builder, part.ifm, part.ofm, mode, part.kernel, part.padding, finish)


_FEW_WINDOWS = {False: 4, True: 32}
"""More of them are worth the map in between of `_pool_by_axis`, where cycles count alone and for the least memory."""
_BETWEEN_BYTES, _BETWEEN_SHARE = 1 << 13, 16
"""The most for its map in between, also by its share of the input: all rows of a 128x128x8 map at a time are 1.4 % faster on
Ethos-U65-512, and take 56 KiB more."""


def _takes_axes_apart(builder: Builder, window: SlidingWindow, mode: PoolingMode) -> bool:
    """Whether far windows are pooled along one axis after the other: in a few steps, not in one for every output."""
    (_, width, depth), (oh, ow, _), kernel = window.ifm.shape, window.ofm.shape, window.kernel
    most = builder.variant.accelerator.max_kernel_stride
    windows = (oh if kernel.stride_y > most else 1) * (ow if kernel.stride_x > most else 1)
    if windows <= _FEW_WINDOWS[builder.keeps_maps] or not window.padding.is_none:
        return False
    element = window.ifm.element
    fits = (
        mode is PoolingMode.MAX or kernel.height == 1 or kernel.height * max(element.maximum, -element.minimum) <= INT16.maximum
    )
    return fits and window.ifm.pitches[1] == depth and width * depth <= MAX_EXTENT


def _pool_by_axis(builder: Builder, window: SlidingWindow, mode: PoolingMode, finish: Finish) -> None:
    """First the rows, each of which is one position with all its pixels as channels; then the columns of what there is.

    An average's sums of rows are int16. So many outputs are made at a time that little memory is needed in between.
    """
    ifm, ofm, kernel = window.ifm, window.ofm, window.kernel
    (oh, ow, depth), stride = ofm.shape, kernel.stride_y
    used = (ow - 1) * kernel.stride_x + kernel.width
    if kernel.height == stride == 1:
        _pool_columns(builder, window, mode, finish)
        return
    element = INT16 if mode is PoolingMode.AVERAGE and kernel.height > 1 else ifm.element
    width = max(used, ow * kernel.stride_x)
    between = min(_BETWEEN_BYTES, math.prod(ifm.shape) * ifm.element.bytes // _BETWEEN_SHARE)
    most = max(1, between // (width * depth * element.bytes))
    for y in range(0, oh, most):
        count = min(most, oh - y)
        rows = builder.temporary("rows", (count, width, depth), element)
        target = replace(rows, shape=(1, count, used * depth), pitch=(count * width * depth, width * depth))
        row = ifm.pitches[0]
        source = laid_out(ifm, (y * stride, 0), (kernel.height, count, used * depth), (row, stride * row))
        builder.pool(source, target, mode, kernel=KernelWindow(kernel.height, 1))
        part = SlidingWindow(
            crop(rows, (0, 0, 0), (count, used, depth)), crop(ofm, (y, 0, 0), (count, ow, depth)), kernel, window.padding
        )
        _pool_columns(builder, part, mode, finish)


def _pool_columns(builder: Builder, window: SlidingWindow, mode: PoolingMode, finish: Finish) -> None:
    """Over pooled rows. Columns of far windows are taken for rows, and those of all rows on which windows stand for columns."""
    ifm, ofm, kernel = window.ifm, window.ofm, window.kernel
    oh, ow, depth = ofm.shape
    scale = builder.mean_scale(kernel.height * kernel.width) if mode is PoolingMode.AVERAGE else IDENTITY
    if kernel.stride_x <= builder.variant.accelerator.max_kernel_stride:
        builder.pool(ifm, ofm, mode, finish=finish, scale=scale, kernel=KernelWindow(1, kernel.width, 1, kernel.stride_x))
        return
    of_places = ofm.pitches[0] == ow * ofm.pitches[1] and ifm.pitches[0] == ow * kernel.stride_x * depth
    if of_places and oh * ow <= MAX_EXTENT:
        ofm, oh, ow = laid_out(ofm, (0, 0), (1, oh * ow, depth), (0, ofm.pitches[1])), 1, oh * ow
    for y in range(oh):
        source = laid_out(ifm, (y, 0), (kernel.width, ow, depth), (depth, kernel.stride_x * depth))
        part = crop(ofm, (y, 0, 0), (1, ow, depth)) if oh > 1 else ofm
        builder.pool(source, part, mode, finish=finish, scale=scale, kernel=KernelWindow(kernel.width, 1))


def _trimmed(ifm: View, output: tuple[int, int], kernel: KernelWindow, padding: IfmPadding) -> tuple[KernelWindow, IfmPadding]:
    """The same maxima with a window that reaches no further than a whole map from the element it stands on.

    Padding never wins, and a window of the SAME scheme stands on an element of the map.
    """
    height, top, bottom = _trim(ifm.shape[0], output[0], kernel.height, kernel.stride_y, padding.top)
    width, left, right = _trim(ifm.shape[1], output[1], kernel.width, kernel.stride_x, padding.left)
    return replace(kernel, height=height, width=width), IfmPadding(top, left, bottom, right)


def _trim(extent: int, output: int, kernel: int, stride: int, before: int) -> tuple[int, int, int]:
    """Size of the window, padding before and after."""
    kept = min(before, extent - 1)
    size = kept + min(kernel - before, extent)
    return size, kept, needed_after(extent, output, size, stride, kept)


def emit_pool(
    builder: Builder, ifm: View, ofm: View, mode: PoolingMode, kernel: KernelWindow, padding: IfmPadding, finish: Finish
) -> None:
    """One pooling step; an average over padding divides by its own count."""
    scale: Scale | None = IDENTITY
    if mode is PoolingMode.AVERAGE:
        scale = builder.mean_scale(kernel.height * kernel.width) if padding.is_none else None
    builder.pool(ifm, ofm, mode, finish=finish, scale=scale, kernel=kernel, padding=padding)
