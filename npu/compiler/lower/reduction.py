"""REDUCE_MAX and REDUCE_MIN: pooling along one axis, or several side by side, at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from npu.compiler.ir import View
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.geometry import fold_shape, laid_out
from npu.compiler.lower.memory import constant_values
from npu.graph.graph import Op
from npu.graph.permutation import axis_groups
from npu.isa.operations import IDENTITY, ElementwiseMode, KernelWindow, PoolingMode, Rounding, Scale
from npu.isa.rules import MAX_EXTENT
from npu.records import replace

_CHANNELS = 16
"""Channels that pooling has in hand at a time."""

_MOST_ROWS = 256
"""Of the window of a pooling, as the rules have it for TFLite's own."""


def lower_reduce_max(builder: Builder, op: Op) -> None:
    """REDUCE_MAX."""
    groups = _groups(builder, op)
    if not groups:
        builder.alias(op.outputs[0], _shaped(builder, op, builder.input(op.inputs[0])))
        return
    outer, _, inner = groups[-1]
    with builder.output_as(op.outputs[0], (outer, 1, inner)) as target:
        _compare(builder, _largest(builder, builder.input(op.inputs[0]), groups[:-1]), target, groups[-1])


def lower_reduce_min(builder: Builder, op: Op) -> None:
    """REDUCE_MIN: the largest of the complements, complemented."""
    source = builder.input(op.inputs[0])
    complement = builder.temporary("complement", source.shape, source.element)
    _complement(builder, source, complement)
    largest = _largest(builder, complement, _groups(builder, op))
    with builder.output_as(op.outputs[0], largest.shape) as target:
        _complement(builder, largest, target)


def _shaped(builder: Builder, op: Op, view: View) -> View:
    return builder.reshaped(view, fold_shape(builder.tensor(op.outputs[0]).shape))


def _groups(builder: Builder, op: Op) -> list[tuple[int, int, int]]:
    """The axes that are reduced, those side by side together: elements around, along and behind them."""
    shape = builder.tensor(op.inputs[0]).shape
    axes = {axis % len(shape) for axis in constant_values(builder, op.inputs[1])}
    groups = [group for group in axis_groups(shape, axes) if group[1] > 1]
    for _, extent, _ in groups:
        if extent > MAX_EXTENT:
            raise builder.error(op, f"must compare at most {MAX_EXTENT} elements behind each other, got {extent}")
    return groups


def _largest(builder: Builder, view: View, groups: Sequence[tuple[int, int, int]]) -> View:
    """The largest elements along each group of axes after the other."""
    for outer, extent, inner in groups:
        target = builder.temporary("largest", (outer, 1, inner), view.element)
        _compare(builder, view, target, (outer, extent, inner))
        view = target
    return view


def _compare(builder: Builder, view: View, target: View, group: tuple[int, int, int]) -> None:
    outer, extent, inner = group
    ways = [partial(_pool, builder, view, target, parts) for parts in _ways(extent, inner)]
    if outer == 1 and inner > 1 and extent <= _MOST_ROWS:
        ways.append(partial(_pool_rows, builder, view, target, (extent, inner)))
    turned = turned_ways(builder, view, target, (outer, extent), PoolingMode.MAX) if inner == 1 else []
    builder.make_cheapest([*ways, *turned])


def largest_of_channels(builder: Builder, view: View, target: View) -> None:
    """The largest channel of every position of a map, to positions one behind the other."""
    height, width, depth = view.shape
    _compare(builder, view, target, (height * width, depth, 1))


def turned_ways(
    builder: Builder,
    view: View,
    target: View,
    extent: tuple[int, int],
    mode: PoolingMode,
    scale: Scale = IDENTITY,
    rounding: Rounding = Rounding.NATURAL,
) -> list[Callable[[], None]]:
    """The ways over channels that become columns, where OFMs can be stored so: positions lie side by side then, as channels do,
    and as many are compared at a time as the array has lanes: of all positions at once, or of those of a row, which leaves a
    map as it lies. `extent`: positions and channels of the view; `target` holds one element for each position, without gaps."""
    count, depth = extent
    if not builder.family.transposes or depth == 1 or count == 1:
        return []
    height, width, _ = view.shape
    planes = [(1, count)] if count <= MAX_EXTENT else []
    if height > 1 and width > 1 and height * width == count:
        planes.append((height, width))

    def turn(rows: int, columns: int) -> None:
        turned = builder.temporary("turned", (rows, depth, columns), view.element)
        builder.transpose(builder.reshaped(view, (rows, columns, depth)), turned)
        source = replace(turned, zero_point=view.zero_point)
        result = laid_out(target, (0, 0), (rows, 1, columns), (columns, columns))
        builder.pool(source, result, mode, kernel=KernelWindow(1, depth), scale=scale, rounding=rounding)

    return [partial(turn, *shape) for shape in planes]


def _pool(builder: Builder, view: View, target: View, parts: Sequence[tuple[int, int]]) -> None:
    """Compare so many elements at a time, of which so many lie behind each other then."""
    outer = target.shape[0]
    for number, (part, behind) in enumerate(parts, 1):
        is_last = number == len(parts)
        made = target if is_last else builder.temporary("largest", (outer, 1, behind), view.element)
        builder.pool(builder.reshaped(view, (outer, part, behind)), made, PoolingMode.MAX, kernel=KernelWindow(1, part))
        view = made


def _pool_rows(builder: Builder, view: View, target: View, extent: tuple[int, int]) -> None:
    """Compare rows, one element behind the other along them: positions side by side are in hand at a time then, too."""
    rows, inner = extent
    depth = view.shape[2] if inner % view.shape[2] == 0 else math.gcd(inner, _CHANNELS)
    columns = inner // depth
    made = laid_out(target, (0, 0), (1, columns, depth), (inner, depth))
    builder.pool(builder.reshaped(view, (rows, columns, depth)), made, PoolingMode.MAX, kernel=KernelWindow(rows, 1))


def _ways(extent: int, inner: int) -> list[list[tuple[int, int]]]:
    """How many elements may be compared at a time, and how many lie behind each other then, the fewest steps first.

    One pooling over all of them compares one channel's elements one by one if `inner` is 1; two about as long as each other
    fetch least at a time.
    """
    divisors = [number for number in range(1, math.isqrt(extent) + 1) if extent % number == 0]
    splits = [split for number in divisors for split in (number, extent // number) if split * inner <= MAX_EXTENT or split == 1]

    def steps(split: int) -> int:
        return extent // split * -(-split * inner // _CHANNELS) + split * -(-inner // _CHANNELS)

    likely = min(splits, key=steps), min(splits, key=lambda split: abs(split - extent // split))
    return [_parts(extent, inner, split) for split in dict.fromkeys((*likely, extent))]


def _parts(extent: int, inner: int, split: int) -> list[tuple[int, int]]:
    if 1 < split < extent:
        return [(extent // split, split * inner), (split, inner)]
    return [(extent, inner)]


def _complement(builder: Builder, view: View, target: View) -> None:
    """The largest value becomes the smallest: -1 - x, or of unsigned values the largest less x."""
    ends = view.element.minimum + view.element.maximum
    builder.elementwise(ElementwiseMode.SUB, view, target, ends, is_reversed=True)
