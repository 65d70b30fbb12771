"""Shape inference: the shapes that an operator's outputs get from its operands and options, as TFLite's kernels compute them.

A rule returns one shape for every output, or None where a shape depends on elements that nobody knows yet. It raises Mismatch
for operands that no kernel takes together. Which operator has which rule is in `npu.graph.ops`. Here is what several rules
need, and those of operators that work element by element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from npu.graph.attributes import Padding
from npu.graph.operands import Mismatch, Operands, Shape

Shapes = Sequence[Shape] | None
ShapeRule = Callable[[Operands], Shapes]


def normalized_axis(axis: int, rank: int) -> int:
    """An axis counted from the front. A scalar has none, but one that says 0 or -1 is left to its kernel."""
    if not -rank <= axis < rank:
        raise Mismatch(f"axis must be in [{-rank}, {rank}), got {axis}")
    return axis % rank


def rank_of(shape: Shape, rank: int, what: str) -> None:
    """Mismatch for a shape of another rank."""
    if len(shape) != rank:
        raise Mismatch(f"{what} must have rank {rank}, got {list(shape)}")


def broadcast(*shapes: Shape) -> Shape:
    """The common shape of operands, as numpy and TFLite define it; numpy makes arrays to find out, ten times as long."""
    rank = max([len(shape) for shape in shapes], default=0)
    common = [1] * rank
    for shape in shapes:
        for axis, extent in enumerate(shape, rank - len(shape)):
            if extent != 1 and common[axis] not in (1, extent):
                raise Mismatch(f"shapes must be broadcastable, got {' and '.join(str(list(shape)) for shape in shapes)}")
            common[axis] = common[axis] if extent == 1 else extent
    return tuple(common)


def window_extent(extent: int, kernel: int, stride: int, dilation: int, padding: Padding) -> int:
    """Positions of a window along an axis; not positive where the window is larger than the map."""
    lost = 0 if padding is Padding.SAME else (kernel - 1) * dilation
    return int((extent - lost + stride - 1) / stride)


def pad_amounts(ifm: Shape, paddings: Shape, values: Sequence[int]) -> list[tuple[int, int]]:
    """Elements before and after every axis."""
    if paddings != (len(ifm), 2):
        raise Mismatch(f"paddings must have shape [{len(ifm)}, 2], got {list(paddings)}")
    pairs = list(zip(values[::2], values[1::2], strict=True))
    if any(min(pair) < 0 for pair in pairs):
        raise Mismatch(f"paddings must not be negative, got {pairs}")
    return pairs


def reduced_axes(values: Sequence[int], rank: int) -> tuple[int, ...]:
    """The axes that a reduction removes, each once."""
    return tuple(sorted({normalized_axis(axis, rank) for axis in values})) if rank else ()


def without(shape: Shape, axes: Sequence[int], *, keep: bool = False) -> Shape:
    """A shape without some axes, or with 1 in their place."""
    return tuple(1 if axis in axes else size for axis, size in enumerate(shape) if keep or axis not in axes)


def replaced(shape: Shape, axis: int, size: int) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])


def inserted(shape: Shape, axis: int, size: int) -> Shape:
    return (*shape[:axis], size, *shape[axis:])


def same(operands: Operands) -> Shapes:
    """The shape of the first input."""
    return [operands.shape(0)]


def elementwise(operands: Operands) -> Shapes:
    """The common shape of all inputs."""
    return [broadcast(*operands.shapes)]


def alike(operands: Operands) -> Shapes:
    """The shape that all inputs have."""
    first, *others = operands.shapes
    if any(shape != first for shape in others):
        raise Mismatch(f"inputs must have the same shape, got {' and '.join(str(list(shape)) for shape in operands.shapes)}")
    return [first]


def select(operands: Operands) -> Shapes:
    """Of values of one shape; the condition is a scalar, as large, or one for every row."""
    condition, left, right = operands.shapes
    if left != right:
        raise Mismatch(f"both values must have the same shape, got {list(left)} and {list(right)}")
    by_row = len(condition) == 1 and len(left) > 1 and condition[0] == left[0]
    if condition not in ((), left) and not by_row:
        raise Mismatch(f"condition must be a scalar, {list(left)} or its first dimension, got {list(condition)}")
    return [_selected(operands, left)]


def select_v2(operands: Operands) -> Shapes:
    return [_selected(operands, broadcast(*operands.shapes))]


def _selected(operands: Operands, shape: Shape) -> Shape:
    """LiteRT leaves the rank of one element as the model has it."""
    declared = operands.outputs[0].shape if operands.outputs else ()
    return declared if math.prod(shape) == math.prod(declared) == 1 else shape


def prelu(operands: Operands) -> Shapes:
    ifm, slope = operands.shape(0), operands.shape(1)
    if broadcast(ifm, slope) != ifm:
        raise Mismatch(f"slope must broadcast to the input's {list(ifm)}, got {list(slope)}")
    return [ifm]


def unknown(operands: Operands) -> Shapes:
    """Of operators whose output is as large as the elements say."""
    return None


def check_indices(operands: Operands, position: int, sizes: Sequence[int]) -> None:
    """Raise Mismatch if constant indices, one for each of `sizes` in turn, point outside."""
    numbers = operands.numbers(position)
    for axis, size in enumerate(sizes):
        own = (numbers or ())[axis :: len(sizes)]
        if own and not 0 <= min(own) <= max(own) < size:
            raise Mismatch(f"indices must be in [0, {size}), got {min(own)} to {max(own)}")
