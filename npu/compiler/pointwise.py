"""Steps that work element by element may see their maps in any shape that has the same elements in the same order."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping

from npu.compiler.ir import ElementwiseStep, PoolingStep, Step, Storage, View
from npu.compiler.layout import views
from npu.isa.operations import IfmPadding, KernelWindow, Layout, PoolingMode, Upscale
from npu.layouts import BRICK_DEPTH, MapShape
from npu.records import replace

_DEEPEST = 128
"""The deepest block: more channels are several blocks."""

_MOST_DEPTHS = 3
"""Of the depths that divide a map so many of the largest are looked at, and the largest that is written in whole rows."""

_LARGEST_EXTENT = 1 << 16
_ONE_BY_ONE, _NO_PADDING = KernelWindow(), IfmPadding()


def shapes_to_try(step: Step, layouts: Mapping[Storage, Layout]) -> Iterator[MapShape]:
    """Shapes that the maps of a step could be given; none where its result depends on more than the element itself."""
    kinds = {layouts[view.storage] for view in views(step) if view.storage in layouts}
    if len(kinds) > 1 or not is_pointwise(step) or not all(_is_one_piece(view, layouts) for view in views(step)):
        return
    unit = BRICK_DEPTH if Layout.NHCWB16 in kinds else 1
    yield from (shape for shape in _shapes_of(math.prod(step.ofm.shape), unit) if shape != step.ofm.shape)


@functools.lru_cache(1 << 10)
def _shapes_of(elements: int, unit: int) -> tuple[MapShape, ...]:
    """Shapes worth a look of maps with so many elements, of which the channels are a multiple of a unit."""
    depths = _divisors(elements, _DEEPEST, unit)
    in_rows = [depth for depth in depths if depth <= BRICK_DEPTH][-1:]
    shapes = []
    for depth in dict.fromkeys((*in_rows, *depths[-_MOST_DEPTHS:])):
        plane = elements // depth
        height = _divisors(plane, math.isqrt(plane))[-1]
        shapes.append((height, plane // height, depth))
    return tuple(shape for shape in shapes if shape[1] <= _LARGEST_EXTENT)


def shape_forms(step: Step, layouts: Mapping[Storage, Layout]) -> list[Step]:
    """The step, and what it would be in each of the other shapes."""
    return [step, *(with_shape(step, shape) for shape in shapes_to_try(step, layouts))]


def with_shape(step: Step, shape: MapShape) -> Step:
    """The step with maps of another shape."""
    changed = replace(step, ifm=_reshaped(step.ifm, shape), ofm=_reshaped(step.ofm, shape))
    if isinstance(changed, ElementwiseStep) and changed.ifm2 is not None:
        return replace(changed, ifm2=_reshaped(changed.ifm2, shape))
    return changed


def is_pointwise(step: Step) -> bool:
    """Whether every element of the result comes from those at the same place of the operands."""
    if isinstance(step, PoolingStep):
        is_alike = step.ifm.shape == step.ofm.shape and step.mode is not PoolingMode.REDUCE_SUM and step.upscale is Upscale.NONE
        return is_alike and step.kernel == _ONE_BY_ONE and step.padding == _NO_PADDING
    return isinstance(step, ElementwiseStep) and all(view.shape == step.ofm.shape for view in views(step))


def _is_one_piece(view: View, layouts: Mapping[Storage, Layout]) -> bool:
    """Whether the elements of a view lie one behind the other, in bricks or without."""
    if view.storage.is_rolling or view.pitch is not None or view.storage not in layouts:
        return False
    if layouts[view.storage] is Layout.NHCWB16:
        return view.is_whole and view.shape[2] % BRICK_DEPTH == 0
    (height, width, depth), (_, full_width, full_depth) = view.shape, view.full
    return (depth == full_depth or height == width == 1) and (width == full_width or height == 1)


def _reshaped(view: View, shape: MapShape) -> View:
    y, x, c = view.offset
    _, width, depth = view.full
    return replace(view, full=shape, shape=shape, offset=(0, 0, (y * width + x) * depth + c))


def _divisors(number: int, limit: int, unit: int = 1) -> list[int]:
    """Divisors of `number` up to `limit` that are multiples of `unit`, the largest last."""
    return [value for value in range(unit, min(number, limit) + 1, unit) if number % value == 0]
