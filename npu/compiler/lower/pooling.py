"""AVERAGE_POOL_2D and MAX_POOL_2D: both work on raw values, without zero points, as the reference kernels do."""

from __future__ import annotations

from npu.compiler.ir import View
from npu.compiler.lower.builder import IDENTITY, Builder, Finish
from npu.compiler.lower.convolution import effective_strides, legal_padding, window_padding
from npu.compiler.lower.geometry import crop, images, needed_after
from npu.compiler.lower.windows import SlidingWindow, split_window
from npu.graph.attributes import Pool2DOptions
from npu.graph.graph import Op
from npu.isa.operations import IfmPadding, KernelWindow, PoolingMode, Scale
from npu.layouts import MapShape
from npu.records import replace


def mean_scale(count: int) -> Scale:
    """The factor 1 / count: floor((2**(31 + k) + 2**k) / count) and shift 31 + k, k = bits of count - 1.

    The excess makes an exact tie round away from zero, as the reference kernel's integer division does.
    """
    extra = (count - 1).bit_length()
    return Scale(((1 << (31 + extra)) + (1 << extra)) // count, 31 + extra)


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
        for part in split_window(builder, op, SlidingWindow(x, y, window, padding)):
            emit_pool(builder, part.ifm, part.ofm, mode, part.kernel, part.padding, finish)


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
        scale = mean_scale(kernel.height * kernel.width) if padding.is_none else None
    builder.pool(ifm, ofm, mode, finish=finish, scale=scale, kernel=kernel, padding=padding)


def broadcast(builder: Builder, source: View, shape: MapShape) -> View:
    """A map of `shape` with the source repeated along its axes of extent 1; doubles what is there with every copy."""
    target = builder.temporary("broadcast", shape, source.element)
    builder.copy(source, crop(target, (0, 0, 0), source.shape))
    repeat(builder, target, source.shape)
    return View.whole(target.storage, source.zero_point)


def repeat(builder: Builder, target: View, filled: MapShape) -> None:
    """Repeat the box of shape `filled` at the target's origin until the target is full."""
    done = list(filled)
    for axis in (2, 1, 0):
        while done[axis] < target.shape[axis]:
            shape = list(done)
            shape[axis] = min(done[axis], target.shape[axis] - done[axis])
            offset = [0, 0, 0]
            offset[axis] = done[axis]
            extent = (shape[0], shape[1], shape[2])
            builder.copy(crop(target, (0, 0, 0), extent), crop(target, (offset[0], offset[1], offset[2]), extent))
            done[axis] += shape[axis]
