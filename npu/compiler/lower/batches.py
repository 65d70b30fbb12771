"""SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND: the positions in a block become batches, or the other way round.

Both are a permutation of axes, behind a padding or in front of a crop.
"""

from __future__ import annotations

from collections.abc import Sequence

from npu.compiler.ir import View
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.geometry import fold_shape
from npu.compiler.lower.memory import constant_values, pad_maps, take_box
from npu.compiler.lower.transpose import permute
from npu.graph.graph import Op


def lower_space_to_batch(builder: Builder, op: Op) -> None:
    """Axes (batch, rows, row of the block, ...) of the padded input become (row of the block, ..., batch, rows, ...)."""
    block, (batch, *shape) = constant_values(builder, op.inputs[1]), builder.tensor(op.inputs[0]).shape
    amounts = _pairs(builder, op, len(shape))
    source = _padded(builder, op, [batch, *shape], amounts)
    padded = [extent + sum(pair) for extent, pair in zip(shape, amounts[1:], strict=True)]
    cut = [size for extent, parts in zip(padded, block, strict=False) for size in (extent // parts, parts)]
    whole = [batch, *cut, *padded[len(block) :]]
    inside = range(2, 2 * len(block) + 1, 2)
    order = [*inside, *(axis for axis in range(len(whole)) if axis not in inside)]
    with builder.output_as(op.outputs[0], fold_shape([whole[axis] for axis in order])) as target:
        permute(builder, builder.reshaped(source, fold_shape(whole)), target, whole, order)


def lower_batch_to_space(builder: Builder, op: Op) -> None:
    """The inverse of SPACE_TO_BATCH_ND; what is made is cropped."""
    block, (_, *shape) = constant_values(builder, op.inputs[1]), builder.tensor(op.inputs[0]).shape
    own, axes = builder.tensor(op.outputs[0]).shape, len(block)
    whole = [*block, own[0], *shape]
    order = [axes, *(axis for place in range(axes) for axis in (axes + 1 + place, place)), *range(2 * axes + 1, len(whole))]
    source, moved = builder.reshaped(builder.input(op.inputs[0]), fold_shape(whole)), [whole[axis] for axis in order]
    full = [own[0], *(extent * parts for extent, parts in zip(shape, block, strict=False)), *shape[axes:]]
    if tuple(full) == own:
        with builder.output_as(op.outputs[0], fold_shape(moved)) as target:
            permute(builder, source, target, whole, order)
        return
    uncut = builder.temporary("uncut", fold_shape(moved), source.element)
    permute(builder, source, uncut, whole, order)
    begin = [first for first, _ in _pairs(builder, op, len(shape))]
    take_box(builder, builder.reshaped(uncut, fold_shape(full)), full, op.outputs[0], begin, own)


def _pairs(builder: Builder, op: Op, count: int) -> list[tuple[int, int]]:
    """Paddings or crops of the batch, which has none, and of `count` more axes."""
    numbers = constant_values(builder, op.inputs[2])
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    return [(0, 0), *pairs, *[(0, 0)] * (count - len(pairs))]


def _padded(builder: Builder, op: Op, shape: Sequence[int], amounts: Sequence[tuple[int, int]]) -> View:
    """The input with zero points around it."""
    source = builder.input(op.inputs[0])
    if not any(map(any, amounts)):
        return source
    made = fold_shape([extent + sum(pair) for extent, pair in zip(shape, amounts, strict=True)])
    target = builder.temporary("padded", made, source.element)
    pad_maps(builder, source, target, shape, amounts, builder.zero_point(op.outputs[0]))
    return target
