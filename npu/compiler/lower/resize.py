"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR: by the operation that does it, where there is one, or by 2, 4 or 8.

By 2, 4 or 8 they are windows over the nearest upscaled map, on raw values.
By a factor f the reference kernel's weights are multiples of 1 / f (of 1 / 2f with half pixel centres), exact in its 10
fractional bits. Means of f neighbours of the map upscaled f times have them too, for out[i] at in[i / f]. At half pixel centres
the output lies between two of these: f + 1 neighbours, of which the first and the last count half. The last doubling is the
hardware's, earlier ones are maps. The kernel rounds to nearest, ties away from zero, like an average pooling. Windows over the
map before it take fewer products, but more operations: `npu.compiler.lower.resize_phases`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import numpy as np
import numpy.typing as npt

from npu.compiler.ir import StepWeights, View
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.geometry import crop, images, needed_after
from npu.compiler.lower.memory import repeat
from npu.compiler.lower.resize_phases import phased_ways
from npu.compiler.lower.resize_places import own_axes, resize_by_places
from npu.graph.attributes import ResizeBilinearOptions, ResizeNearestNeighborOptions
from npu.graph.graph import Op
from npu.graph.resizes import BothAxes
from npu.isa.operations import IDENTITY, IfmPadding, KernelWindow, PoolingMode, ResizeMode, Rounding, Upscale
from npu.records import dataclass

_FACTORS = (2, 4, 8)


@dataclass(frozen=True, slots=True)
class _Part:
    """Part of an axis of a resize with half pixel centres.

    `size` elements of the output from `start` are windows of `kernel` elements over the doubled `count` elements from `first`.
    """

    first: int
    count: int
    start: int
    size: int
    kernel: int


def lower_resize_bilinear(builder: Builder, op: Op) -> None:
    """RESIZE_BILINEAR: from 1x1, to the same size, to f * n, or to f * (n - 1) + 1 with aligned corners; f is 2, 4 or 8.

    Or to any size that the operation of its own has places for.
    """
    options = op.attributes
    assert isinstance(options, ResizeBilinearOptions)
    if options.half_pixel_centers and options.align_corners:
        raise builder.error(op, "align_corners and half_pixel_centers must not both be true")
    over_upscaled = _between if options.half_pixel_centers else _mean
    axes = own_axes(builder, op, options)
    for x, y, factor in _resized(builder, op, axes, aligned=options.align_corners):
        ways: list[Callable[[], None]] = []
        if factor is not None:
            ways.append(partial(_make_upscaled, builder, x, y, factor, over_upscaled))
            ways += phased_ways(builder, x, y, factor, half_pixel=options.half_pixel_centers, aligned=options.align_corners)
        if axes is not None:
            ways.append(partial(resize_by_places, builder, x, y, ResizeMode.BILINEAR, axes))
        builder.make_cheapest(ways)


def _make_upscaled(
    builder: Builder, ifm: View, ofm: View, factor: int, make: Callable[[Builder, View, View, int], None]
) -> None:
    make(builder, _doubled(builder, ifm, ofm, factor // 2), ofm, factor)


def lower_resize_nearest(builder: Builder, op: Op) -> None:
    """RESIZE_NEAREST_NEIGHBOR: from 1x1, to the same size, to f * n (half pixel centres make no difference), or aligned.

    Or to any size that the operation of its own has places for.
    """
    options = op.attributes
    assert isinstance(options, ResizeNearestNeighborOptions)
    axes = own_axes(builder, op, options)
    for x, y, factor in _resized(builder, op, axes, aligned=options.align_corners):
        ways: list[Callable[[], None]] = []
        if factor is not None:
            ways.append(partial(_make_repeated, builder, x, y, factor, aligned=options.align_corners))
        if axes is not None:
            ways.append(partial(resize_by_places, builder, x, y, ResizeMode.NEAREST, axes))
        builder.make_cheapest(ways)


def _make_repeated(builder: Builder, ifm: View, ofm: View, factor: int, *, aligned: bool) -> None:
    source = _doubled(builder, ifm, ofm, factor // 2)
    if aligned:
        _shifted(builder, source, ofm, factor // 2)
    else:
        _mean(builder, source, ofm, 1)


def _shifted(builder: Builder, ifm: View, ofm: View, by: int) -> None:
    """The twice upscaled map from row and column `by` on: a window whose last element alone counts.

    An axis of one element is that element wherever the window stands.
    """
    height, width = (by + 1 if size > 1 else 1 for size in ofm.shape[:2])
    values = np.zeros((ofm.shape[2], height, width, 1), np.int16)
    values[:, -1, -1] = 1
    builder.convolve(
        ifm,
        ofm,
        StepWeights.unbiased(values, IDENTITY),
        rounding=Rounding.NATURAL,
        kernel=KernelWindow(height, width),
        upscale=Upscale.NEAREST,
        is_depthwise=True,
    )


def _resized(builder: Builder, op: Op, axes: BothAxes | None, *, aligned: bool) -> Iterator[tuple[View, View, int | None]]:
    """Source, target and factor of every image that is more than a copy or one element repeated; those are made here.

    There is a factor unless the operation has `axes`.
    """
    batch, oh, ow, _ = builder.tensor(op.outputs[0]).shape
    _, ih, iw, _ = builder.tensor(op.inputs[0]).shape
    factors = [set(_factors(size, out, aligned=aligned)) for size, out in ((ih, oh), (iw, ow))]
    factor = min(factors[0] & factors[1], default=None)
    source, target = builder.input(op.inputs[0]), builder.output(op.outputs[0])
    for x, y in zip(images(source, batch), images(target, batch), strict=True):
        if (ih, iw) == (oh, ow):
            builder.copy(x, y)
        elif (ih, iw) == (1, 1):
            builder.copy(x, crop(y, (0, 0, 0), x.shape))
            repeat(builder, y, x.shape)
        elif factor is not None or axes is not None:
            yield x, y, factor
        else:
            wanted = "2, 4 or 8 times the input" + (", counted between corners" if aligned else "")
            raise builder.error(op, f"output must be {wanted}, equal to it, or from 1x1, got {ih}x{iw} to {oh}x{ow}")


def _factors(size: int, out: int, *, aligned: bool) -> Iterator[int]:
    """The factors that take an axis from `size` to `out` elements; one element may stay one by any."""
    less = 1 if aligned else 0
    return (factor for factor in _FACTORS if out == factor * (size - less) + less or size == out == 1)


def _doubled(builder: Builder, source: View, ofm: View, factor: int) -> View:
    """A map with every element of `source` repeated `factor` (a power of two) times along both axes, but one that stays one."""
    while factor > 1:
        times = [1 if size == out == 1 else 2 for size, out in zip(source.shape[:2], ofm.shape[:2], strict=True)]
        height, width, depth = source.shape
        target = builder.temporary("doubled", (times[0] * height, times[1] * width, depth), source.element)
        _mean(builder, source, target, 1)
        source, factor = target, factor // 2
    return source


def _mean(builder: Builder, ifm: View, ofm: View, size: int) -> None:
    """Average over size x size positions of the twice upscaled map; beyond its end positions do not count.

    Along an axis of one element all are the same.
    """
    rows, columns = (1 if count == out == 1 else size for count, out in zip(ifm.shape[:2], ofm.shape[:2], strict=True))
    bottom = needed_after(2 * ifm.shape[0], ofm.shape[0], rows, 1, 0)
    right = needed_after(2 * ifm.shape[1], ofm.shape[1], columns, 1, 0)
    padding = IfmPadding(0, 0, bottom, right)
    builder.pool(
        ifm,
        ofm,
        PoolingMode.AVERAGE,
        scale=builder.mean_scale(rows * columns) if padding.is_none else None,
        kernel=KernelWindow(rows, columns),
        padding=padding,
        upscale=Upscale.NEAREST,
    )


def _between(builder: Builder, ifm: View, ofm: View, factor: int) -> None:
    """Means of `factor` neighbours of the twice upscaled map, half an element off; beyond its ends the ends go on."""
    rows, columns = (list(_parts(ifm.shape[axis], ofm.shape[axis], factor)) for axis in (0, 1))
    depth = ifm.shape[2]
    for row, column in product(rows, columns):
        x = crop(ifm, (row.first, column.first, 0), (row.count, column.count, depth))
        y = crop(ofm, (row.start, column.start, 0), (row.size, column.size, depth))
        if (row.kernel, column.kernel) == (1, 1):
            _mean(builder, x, y, 1)
            continue
        builder.convolve(
            x,
            y,
            _weights(builder, row.kernel, column.kernel, depth),
            rounding=Rounding.NATURAL,
            kernel=KernelWindow(row.kernel, column.kernel),
            upscale=Upscale.NEAREST,
            is_depthwise=True,
        )


def _parts(count: int, size: int, factor: int) -> Iterator[_Part]:
    """The ends of an axis, where nothing changes within half an element of the source, and what lies between them."""
    half = factor // 2
    end = -(-half // 2)
    if size == 1:
        yield _Part(0, 1, 0, 1, 1)
        return
    yield _Part(0, end, 0, half, 1)
    if size > factor:
        yield _Part(0, count, half, size - factor, factor + 1)
    yield _Part(count - end, end, size - half, half, 1)


def _weights(builder: Builder, height: int, width: int, depth: int) -> StepWeights:
    """1, 2, ..., 2, 1 along every axis that is longer than 1; the factor is 1 / their sum."""
    plane = np.outer(_taps(height), _taps(width))
    values = np.broadcast_to(plane[None, :, :, None], (depth, height, width, 1)).copy()
    return StepWeights.unbiased(values, builder.mean_scale(int(plane.sum())))


def _taps(size: int) -> npt.NDArray[np.int16]:
    taps = np.full(size, 2 if size > 1 else 1, np.int16)
    taps[[0, -1]] = 1
    return taps
