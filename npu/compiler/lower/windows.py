"""Windows whose strides or dilations the registers cannot say, as several that they can.

Along an axis every n-th output is made by a window of its own, over every m-th row (or column) of the input: maps have any
pitch. So a dilation of 6 becomes three windows with a dilation of 2, and each output of a stride of 4 a window by itself.

Or one window over another view of the same map: columns, as many as the stride has, are one column with their channels; those
that a window stands on lie behind one another; a far dilation is a near one with zeros between the weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from npu.compiler.ir import View
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.geometry import crop, laid_out, needed_after, spread
from npu.compiler.lower.memory import pad_map
from npu.graph.graph import Op
from npu.hardware.variant import Accelerator
from npu.isa.operations import IfmPadding, KernelWindow
from npu.isa.rules import MAX_EXTENT
from npu.machine.rules import ceil_div
from npu.records import dataclass, replace

MOST_WINDOWS = 1024
"""Windows that one may become: more make streams longer than maps."""

_MOST_TIMES = 8
"""So many times the elements of a kernel is the most that one with zeros has: more take longer than windows of their own."""


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """A kernel that slides over a map."""

    ifm: View
    ofm: View
    kernel: KernelWindow
    padding: IfmPadding


@dataclass(frozen=True, slots=True)
class _SlidingAxis:
    """One along an axis: extents of input and output, elements of the window and of the padding before it."""

    extent: int
    output: int
    size: int
    stride: int
    dilation: int
    before: int


@dataclass(frozen=True, slots=True)
class _Outputs:
    """Every `apart`-th output from `start_out` on, and every `pitch`-th element from `start` on, which they read."""

    start_out: int
    apart: int
    start: int
    pitch: int
    axis: _SlidingAxis

    @property
    def after(self) -> int:
        axis = self.axis
        return needed_after(axis.extent, axis.output, (axis.size - 1) * axis.dilation + 1, axis.stride, axis.before)


def split_window(builder: Builder, op: Op, window: SlidingWindow) -> list[SlidingWindow]:
    """The window itself if the registers can say it, or those that do the same together."""
    return [piece for apart in _taken_apart(builder, op, window) for piece in _pieces(apart)]


def _taken_apart(builder: Builder, op: Op, window: SlidingWindow) -> list[SlidingWindow]:
    """Windows whose strides and dilations the registers can say."""
    kernel, padding, limits = window.kernel, window.padding, builder.variant.accelerator
    strides, dilations = (kernel.stride_y, kernel.stride_x), (kernel.dilation_y, kernel.dilation_x)
    most_rows = max(1, min(limits.max_kernel_height, limits.max_kernel_elements // kernel.width))
    most_columns = limits.max_kernel_elements // min(kernel.dilated_height, most_rows)
    is_far = max(dilations) > 1 and (kernel.dilated_height > most_rows or kernel.dilated_width > most_columns)
    if max(strides) <= limits.max_kernel_stride and max(dilations) <= limits.max_dilation and not is_far:
        return [window]
    (height, width, _), (oh, ow, _) = window.ifm.shape, window.ofm.shape
    vertical = _SlidingAxis(height, oh, kernel.height, kernel.stride_y, kernel.dilation_y, padding.top)
    horizontal = _SlidingAxis(width, ow, kernel.width, kernel.stride_x, kernel.dilation_x, padding.left)
    rows, columns = _parts(vertical, limits, most_rows), _parts(horizontal, limits, most_columns)
    if min(part.axis.extent for part in (*rows, *columns)) < 1:
        return _taken_apart(builder, op, _padded(builder, window))
    if len(rows) * len(columns) > MOST_WINDOWS:
        must = f"strides or dilations above the hardware's must take at most {MOST_WINDOWS} windows, got"
        raise builder.error(op, f"{must} {len(rows) * len(columns)}")
    return [_window_of(window, row, column) for row in rows for column in columns]


@dataclass(frozen=True, slots=True)
class _AxisPiece:
    """A part of an axis: where its outputs start and how many they are, what they read, behind how much padding."""

    made: int
    outputs: int
    start: int
    before: int
    extent: int


def _pieces(window: SlidingWindow) -> Iterator[SlidingWindow]:
    """The window over as many rows and columns at a time as the registers can say."""
    (height, width, depth), (oh, ow, channels) = window.ifm.shape, window.ofm.shape
    kernel, padding = window.kernel, window.padding
    if max(height + padding.top + padding.bottom, width + padding.left + padding.right) <= MAX_EXTENT:
        yield window
        return
    rows = _cut(height, oh, kernel.dilated_height, kernel.stride_y, padding.top)
    columns = _cut(width, ow, kernel.dilated_width, kernel.stride_x, padding.left)
    for y, x in product(rows, columns):
        bottom = needed_after(y.extent, y.outputs, kernel.dilated_height, kernel.stride_y, y.before)
        right = needed_after(x.extent, x.outputs, kernel.dilated_width, kernel.stride_x, x.before)
        yield SlidingWindow(
            crop(window.ifm, (y.start, x.start, 0), (y.extent, x.extent, depth)),
            crop(window.ofm, (y.made, x.made, 0), (y.outputs, x.outputs, channels)),
            kernel,
            IfmPadding(y.before, x.before, bottom, right),
        )


def _cut(extent: int, output: int, size: int, stride: int, before: int) -> list[_AxisPiece]:
    most, pieces = (MAX_EXTENT - size) // stride + 1, []
    for made in range(0, output, most):
        outputs, first = min(most, output - made), made * stride - before
        start, end = max(first, 0), min(first + (outputs - 1) * stride + size, extent)
        pieces.append(_AxisPiece(made, outputs, start, start - first, end - start))
    return pieces


WeightedWindow: TypeAlias = tuple[SlidingWindow, npt.NDArray[np.int16]]
"""A window and its weights (O, KH, KW, I)."""


def without_idle_ends(window: SlidingWindow, values: npt.NDArray[np.int16]) -> WeightedWindow:
    """The same without the outer rows and columns of the kernel that meet nothing but padding: small maps have many."""
    (height, width, depth), (oh, ow, _) = window.ifm.shape, window.ofm.shape
    kernel, padding = window.kernel, window.padding
    vertical = _SlidingAxis(height, oh, kernel.height, kernel.stride_y, kernel.dilation_y, padding.top)
    horizontal = _SlidingAxis(width, ow, kernel.width, kernel.stride_x, kernel.dilation_x, padding.left)
    rows, columns = _busy(vertical), _busy(horizontal)
    if (len(rows), len(columns)) == (kernel.height, kernel.width):
        return window, values
    if not rows or not columns:  # all that is left is a product with zero, of anything
        values, rows, columns = np.zeros_like(values), range(1), range(1)
        vertical, horizontal = replace(vertical, before=0), replace(horizontal, before=0)
    (y, top), (x, left) = _start(vertical, rows), _start(horizontal, columns)
    made = KernelWindow(
        len(rows),
        len(columns),
        kernel.stride_y,
        kernel.stride_x,
        kernel.dilation_y if len(rows) > 1 else 1,
        kernel.dilation_x if len(columns) > 1 else 1,
    )
    bottom = needed_after(height - y, oh, made.dilated_height, kernel.stride_y, top)
    right = needed_after(width - x, ow, made.dilated_width, kernel.stride_x, left)
    ifm = crop(window.ifm, (y, x, 0), (height - y, width - x, depth))
    met = values[:, rows.start : rows.stop, columns.start : columns.stop]
    return SlidingWindow(ifm, window.ofm, made, IfmPadding(top, left, bottom, right)), np.ascontiguousarray(met)


def _busy(axis: _SlidingAxis) -> range:
    """The elements of a kernel from the first that meets the input to the last."""
    last = (axis.output - 1) * axis.stride
    met = [tap for tap in range(axis.size) if _meets(axis, tap, last)]
    return range(met[0], met[-1] + 1) if met else range(0)


def _meets(axis: _SlidingAxis, tap: int, last: int) -> bool:
    """Whether an element of the kernel lies over the input at one output at least; the last one is `last` behind the first."""
    at = tap * axis.dilation - axis.before
    first = at if at >= 0 else at % axis.stride
    return first < axis.extent and first - at <= last


def _start(axis: _SlidingAxis, busy: range) -> tuple[int, int]:
    """Where the input begins for a kernel whose first elements are gone, and the padding before it."""
    before = axis.before - busy.start * axis.dilation
    return max(-before, 0), max(before, 0)


def columns_to_depth(
    builder: Builder, window: SlidingWindow, values: npt.NDArray[np.int16], *, has_rows: bool
) -> WeightedWindow:
    """The same as a window one column wide: the columns that it stands on lie behind one another, as channels do.

    `has_rows`: the rows that it stands on will, too.
    """
    if window.padding.left or window.padding.right:
        window = _padded(builder, window, has_rows=has_rows)
    ifm, kernel = window.ifm, window.kernel
    if ifm.pitches[1] != ifm.shape[2]:
        ifm = replace(builder.temporary("packed", ifm.shape, ifm.element), zero_point=ifm.zero_point)
        builder.copy(window.ifm, ifm)
    rows, columns = ifm.pitches
    shape = ifm.shape[0], window.ofm.shape[1], kernel.width * columns
    made = replace(
        window,
        ifm=laid_out(ifm, (0, 0), shape, (rows, kernel.stride_x * columns)),
        kernel=replace(kernel, width=1, stride_x=1, dilation_x=1),
    )
    return made, values.reshape(*values.shape[:2], 1, -1)


def fold_columns(window: SlidingWindow, values: npt.NDArray[np.int16]) -> WeightedWindow | None:
    """The same with stride 1: as many columns as the stride has become one, with their channels.

    Nothing is copied; weights of columns that the window does not stand on are 0. None where columns do not come out even.
    """
    ifm, kernel, padding, together = window.ifm, window.kernel, window.padding, window.kernel.stride_x
    height, width, depth = ifm.shape
    if together == 1 or kernel.dilation_x > 1 or width % together or ifm.pitches[1] != depth:
        return None
    places = [divmod(column - padding.left, together) for column in range(kernel.width)]
    first, last = places[0][0], places[-1][0]
    folded = np.zeros((*values.shape[:2], last - first + 1, together, depth), values.dtype)
    for column, (place, part) in enumerate(places):
        folded[:, :, place - first, part] = values[:, :, column]
    left, size, columns = -first, folded.shape[2], width // together
    right = needed_after(columns, window.ofm.shape[1], size, 1, left)
    made = SlidingWindow(
        laid_out(ifm, (0, 0), (height, columns, together * depth), (ifm.pitches[0], together * depth)),
        window.ofm,
        replace(kernel, width=size, stride_x=1),
        replace(padding, left=left, right=right),
    )
    return made, folded.reshape(*folded.shape[:3], -1)


def with_zeros(window: SlidingWindow, values: npt.NDArray[np.int16], limits: Accelerator) -> WeightedWindow | None:
    """The same with dilations within the limits, and zeros between the weights. None where it is so, or would be too large."""
    kernel, most = window.kernel, limits.max_dilation
    dilations = kernel.dilation_y, kernel.dilation_x
    said = [max(one for one in range(1, most + 1) if dilation % one == 0) for dilation in dilations]
    apart = [dilation // one for dilation, one in zip(dilations, said, strict=True)]
    if apart == [1, 1]:
        return None
    height, width = ((size - 1) * step + 1 for size, step in zip(values.shape[1:3], apart, strict=True))
    most_elements = min(limits.max_kernel_elements, _MOST_TIMES * kernel.height * kernel.width)
    if height > limits.max_kernel_height or height * width > most_elements:
        return None
    stretched = np.zeros((len(values), height, width, values.shape[3]), values.dtype)
    stretched[:, :: apart[0], :: apart[1]] = values
    made = replace(kernel, height=height, width=width, dilation_y=said[0], dilation_x=said[1])
    return replace(window, kernel=made), stretched


def rows_to_depth(builder: Builder, window: SlidingWindow, values: npt.NDArray[np.int16]) -> WeightedWindow:
    """The same as a window one row high: copies of the rows that it stands on lie behind one another, as channels do."""
    if window.padding.top or window.padding.bottom:
        window = _padded(builder, window)
    ifm, kernel, height = window.ifm, window.kernel, window.ofm.shape[0]
    _, width, depth = ifm.shape
    stacked = builder.temporary("rows", (height, width, kernel.height * depth), ifm.element)
    for row in range(kernel.height):
        source = spread(ifm, (row, 0), (kernel.stride_y, 1), (height, width))
        builder.copy(replace(source, zero_point=0), crop(stacked, (0, 0, row * depth), (height, width, depth)))
    made = replace(
        window,
        ifm=replace(stacked, zero_point=ifm.zero_point),
        kernel=replace(kernel, height=1, stride_y=1, dilation_y=1),
    )
    return made, values.transpose(0, 2, 1, 3).reshape(len(values), 1, values.shape[2], -1)


def _padded(builder: Builder, window: SlidingWindow, *, has_rows: bool = True) -> SlidingWindow:
    """The same over a map that holds its padding, that of rows only with `has_rows`."""
    (height, width, depth), padding = window.ifm.shape, window.padding
    top, bottom = (padding.top, padding.bottom) if has_rows else (0, 0)
    shape = (height + top + bottom, width + padding.left + padding.right, depth)
    padded = builder.temporary("padded", shape, window.ifm.element)
    pad_map(builder, window.ifm, padded, (top, padding.left, 0), window.ifm.zero_point)
    rest = IfmPadding() if has_rows else replace(padding, left=0, right=0)
    return replace(window, ifm=replace(padded, zero_point=window.ifm.zero_point), padding=rest)


def _window_of(window: SlidingWindow, row: _Outputs, column: _Outputs) -> SlidingWindow:
    y, x = row.axis, column.axis
    starts, steps = (row.start, column.start), (row.pitch, column.pitch)
    return SlidingWindow(
        spread(window.ifm, starts, steps, (y.extent, x.extent)),
        spread(window.ofm, (row.start_out, column.start_out), (row.apart, column.apart), (y.output, x.output)),
        KernelWindow(y.size, x.size, y.stride, x.stride, y.dilation, x.dilation),
        IfmPadding(y.before, x.before, row.after, column.after),
    )


def _parts(axis: _SlidingAxis, limits: Accelerator, most: int) -> list[_Outputs]:
    apart, pitch = _distances(axis, limits, most)
    return [_part(axis, phase, apart, pitch) for phase in range(apart)]


def _distances(axis: _SlidingAxis, limits: Accelerator, most: int) -> tuple[int, int]:
    """The fewest parts, and the pitch with which their strides and dilations can be said, in windows of `most` elements."""
    dilation = axis.dilation if axis.size > 1 else 1
    largest = min(limits.max_dilation, (most - 1) // max(axis.size - 1, 1))
    pitches = [dilation // said for said in range(max(largest, 1), 0, -1) if dilation % said == 0]
    for apart in range(1, axis.output):
        for pitch in pitches:
            if apart * axis.stride % pitch == 0 and apart * axis.stride // pitch <= limits.max_kernel_stride:
                return apart, pitch
    return axis.output, pitches[0]


def _part(axis: _SlidingAxis, phase: int, apart: int, pitch: int) -> _Outputs:
    """Outputs `phase`, `phase + apart` ...; the first of them reads from `first` on, which may lie in the padding."""
    outputs, first = ceil_div(axis.output - phase, apart), phase * axis.stride - axis.before
    start = first if first >= 0 else first % pitch
    before, dilation = (start - first) // pitch, axis.dilation // pitch if axis.size > 1 else 1
    stride = apart * axis.stride // pitch if outputs > 1 else 1
    needed = (outputs - 1) * stride + (axis.size - 1) * dilation + 1 - before
    extent = min(ceil_div(axis.extent - start, pitch), needed)
    return _Outputs(phase, apart, start, pitch, _SlidingAxis(extent, outputs, axis.size, stride, dilation, before))
