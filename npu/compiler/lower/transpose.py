"""TRANSPOSE: copies between maps of any pitch of rows and columns, which is all that the hardware has for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from npu.compiler.ir import View
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.memory import constant_values, lower_reshape
from npu.compiler.lower.plan import same_quantisation
from npu.graph.graph import Op
from npu.graph.permutation import Cut, cut_axes, moved_axes
from npu.isa.rules import MAX_EXTENT


def lower_transpose(builder: Builder, op: Op) -> None:
    """TRANSPOSE between tensors of the same quantisation; one that moves nothing is a reshape."""
    source, target = builder.tensor(op.inputs[0]), builder.tensor(op.outputs[0])
    if not same_quantisation(source, target):
        raise builder.error(op, "input and output must have the same scale and zero point")
    order = constant_values(builder, op.inputs[1])
    if len(moved_axes(source.shape, order)) < 2:
        lower_reshape(builder, op)
    else:
        _permute(builder, builder.input(op.inputs[0]), builder.output(op.outputs[0]), source.shape, order)


def _permute(builder: Builder, source: View, target: View, shape: Sequence[int], order: Sequence[int]) -> None:
    """Copy `source`, which holds a tensor of `shape`, to `target`; through a dense map where gaps would take more copies."""
    made = [shape[axis] for axis in order]
    pitches, steps = axis_pitches(shape, source), axis_pitches(made, target)
    fewest = len(moved_axes(shape, order))
    if len(moved_axes(shape, order, pitches)) > fewest:
        dense = builder.temporary("dense", source.shape, source.element)
        builder.copy(source, dense)
        _permute(builder, dense, target, shape, order)
    elif len(moved_axes(shape, order, target=steps)) > fewest:
        dense = builder.temporary("permuted", target.shape, target.element)
        _permute(builder, source, dense, shape, order)
        builder.copy(dense, target)
    else:
        _copy(builder, source, target, cut_axes(moved_axes(shape, order, pitches, steps)))


def axis_pitches(shape: Sequence[int], view: View) -> list[int]:
    """Elements from one position to the next along every axis of a tensor of `shape` whose folded map is `view`."""
    rows, columns = view.pitches
    outer = [rows * math.prod(shape[axis + 1 : -2]) for axis in range(len(shape) - 2)]
    return [*outer, *(columns, 1)[-len(shape) :]]


def _copy(builder: Builder, source: View, target: View, cut: Cut) -> None:
    """Copy the maps of a cut, each in pieces that the registers can say."""
    inner = (cut.rows, cut.columns, cut.depth)
    positions = [range(axis.extent) for axis in cut.outer]
    starts = [range(0, axis.extent, MAX_EXTENT) for axis in inner]
    for position in product(*positions, *starts):
        moves = list(zip((*cut.outer, *inner), position, strict=True))
        rows, columns, depth = (
            min(axis.extent - start, MAX_EXTENT) for axis, start in zip(inner, position[len(cut.outer) :], strict=True)
        )
        read = _strided(source, sum(axis.source * at for axis, at in moves), (cut.rows.source, cut.columns.source))
        written = _strided(target, sum(axis.target * at for axis, at in moves), (cut.rows.target, cut.columns.target))
        shape = (rows, columns, depth)
        builder.copy(replace(read, shape=shape), replace(written, shape=shape))


def _strided(view: View, start: int, pitch: tuple[int, int]) -> View:
    """A view of other pitches that starts `start` elements behind the first of `view`."""
    y, x, c = view.offset
    rows, columns = view.pitches
    return replace(view, offset=(0, 0, y * rows + x * columns + c + start), pitch=pitch)
