"""Shapes of reductions, of what is gathered by index, and of what is made from numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from npu.graph.dtype import DType
from npu.graph.operands import Mismatch, Operands, Shape
from npu.graph.shapes.common import Shapes, check_indices, inserted, normalized_axis, reduced_axes, without


def reduction(operands: Operands) -> Shapes:
    ifm, axes = operands.shape(0), operands.numbers(1)
    return None if axes is None else [without(ifm, reduced_axes(axes, len(ifm)), keep=operands.options.keep_dims)]


def arg(operands: Operands) -> Shapes:
    _has_type(operands, operands.options.output_type)
    ifm, axes = operands.shape(0), operands.numbers(1)
    if axes is None:
        return None
    if len(axes) != 1:
        raise Mismatch(f"axis must be one number, got {len(axes)}")
    axis = normalized_axis(axes[0], len(ifm))
    if ifm[axis] == 0:
        raise Mismatch(f"input must have elements on axis {axis}, got {list(ifm)}")
    return [without(ifm, (axis,))]


def _has_type(operands: Operands, said: DType) -> None:
    """The output has the type that the options say, which LiteRT gives it whatever the file declares."""
    output = operands.outputs[0]
    if said not in (DType.FLOAT32, output.dtype):  # FLOAT32 is the schema's default: nothing is said
        raise Mismatch(f"output '{output.name}' must be {said}, as the operator's options say, got {output.dtype}")


def top_k(operands: Operands) -> Shapes:
    ifm, count = operands.shape(0), operands.number(1)
    if count is None:
        return None
    if not ifm or not 0 <= count <= ifm[-1]:
        raise Mismatch(f"k must be in [0, {ifm[-1] if ifm else 0}], got {count}")
    return [(*ifm[:-1], count)] * 2


def batch_dims(given: int, indices: Shape) -> int:
    """How many dimensions a GATHER has in common with indices of a shape; `given` may be counted from their last."""
    return given + (len(indices) if given < 0 else 0)


def gather(operands: Operands) -> Shapes:
    ifm, indices, options = operands.shape(0), operands.shape(1), operands.options
    axis = normalized_axis(options.axis, len(ifm))
    batch = batch_dims(options.batch_dims, indices)
    if not 0 <= batch <= axis or ifm[:batch] != indices[:batch]:
        raise Mismatch(
            f"the first {batch} dimensions must agree and not exceed axis {axis}, got {list(ifm)} and {list(indices)}"
        )
    check_indices(operands, 1, ifm[axis : axis + 1])
    return [(*ifm[:axis], *indices[batch:], *ifm[axis + 1 :])]


def gather_nd(operands: Operands) -> Shapes:
    ifm, indices = operands.shape(0), operands.shape(1)
    if not indices or indices[-1] > len(ifm):
        raise Mismatch(f"the last dimension of indices must be at most {len(ifm)}, got {list(indices)}")
    check_indices(operands, 1, ifm[: indices[-1]])
    return [(*indices[:-1], *ifm[indices[-1] :])]


def scatter_nd(operands: Operands) -> Shapes:
    indices, updates, shape = operands.shape(0), operands.shape(1), operands.numbers(2)
    if shape is None:
        return None
    depth = indices[-1] if indices else 0
    if min(shape, default=0) < 0 or not indices or depth > len(shape) or updates != (*indices[:-1], *shape[depth:]):
        raise Mismatch(f"indices {list(indices)} and updates {list(updates)} must fit the shape, got {shape}")
    check_indices(operands, 0, shape[:depth])
    return [tuple(shape)]


def sparse_to_dense(operands: Operands) -> Shapes:
    indices, values, shape = operands.shape(0), operands.shape(2), operands.numbers(1)
    rank, rows = operands.shape(1)[0] if len(operands.shape(1)) == 1 else 0, indices[0] if indices else 1
    if len(indices) > 2 or (indices[1] if len(indices) == 2 else 1) != rank or math.prod(values) not in (1, rows):
        raise Mismatch(f"indices must be rows of {rank} numbers with one value each, got {list(indices)} and {list(values)}")
    if shape is None:
        return None
    check_indices(operands, 0, _sized(shape))
    return [tuple(shape)]


def _sized(values: Sequence[int]) -> Shape:
    """A shape that a tensor holds."""
    if min(values, default=0) < 0:
        raise Mismatch(f"shape must have no negative dimension, got {list(values)}")
    return tuple(values)


def shape_of(operands: Operands) -> Shapes:
    _has_type(operands, operands.options.out_type)
    return [(len(operands.shape(0)),)]


def scalar(operands: Operands) -> Shapes:
    return [()]


def fill(operands: Operands) -> Shapes:
    shape, value = operands.numbers(0), operands.shape(1)
    if math.prod(value) != 1:
        raise Mismatch(f"value must be a scalar, got {list(value)}")
    return None if shape is None else [_sized(shape)]


def one_hot(operands: Operands) -> Shapes:
    indices, depth, axis = operands.shape(0), operands.number(1), operands.options.axis
    if depth is None:
        return None
    if depth < 0:
        raise Mismatch(f"depth must not be negative, got {depth}")
    return [inserted(indices, len(indices) if axis == -1 else normalized_axis(axis, len(indices) + 1), depth)]


def suppression(operands: Operands) -> Shapes:
    """Of NON_MAX_SUPPRESSION: as many indices (and scores) as are asked for, and how many of them are some."""
    boxes, scores, size = operands.shape(0), operands.shape(1), operands.number(2)
    if len(scores) != 1 or boxes != (*scores, 4):
        raise Mismatch(f"boxes and scores must be [n, 4] and [n], got {list(boxes)} and {list(scores)}")
    if size is None:
        return None
    if size < 0:
        raise Mismatch(f"size must not be negative, got {size}")
    return [*[(size,)] * (len(operands.outputs) - 1), ()]


def segments(operands: Operands) -> Shapes:
    ifm, shape, numbers = operands.shape(0), operands.shape(1), operands.numbers(1)
    if not ifm or shape != ifm[:1]:
        raise Mismatch(f"segments must have a number for every row of {list(ifm)}, got {list(shape)}")
    if numbers is not None and any(later - number not in (0, 1) for number, later in pairwise([0, *numbers])):
        raise Mismatch(f"segments must be numbered from 0 without gaps, in order, got {numbers[:8]}")
    return None if numbers is None else [(numbers[-1] + 1 if numbers else 0, *ifm[1:])]


def unsorted_segments(operands: Operands) -> Shapes:
    ifm, shape, count = operands.shape(0), operands.shape(1), operands.number(2)
    if ifm[: len(shape)] != shape:
        raise Mismatch(f"segments must have the first dimensions of {list(ifm)}, got {list(shape)}")
    if count is None:
        return None
    if count < 0:
        raise Mismatch(f"number of segments must not be negative, got {count}")
    numbers = operands.numbers(1)
    if numbers and max(numbers) >= count:
        raise Mismatch(f"segments must be below {count}, got {max(numbers)}")
    return [(count, *ifm[len(shape) :])]


def broadcast_shape(operands: Operands) -> Shapes:
    """Of BROADCAST_ARGS, whose operands are shapes."""
    if any(len(shape) != 1 for shape in operands.shapes):
        raise Mismatch(f"shapes must have rank 1, got {' and '.join(str(list(shape)) for shape in operands.shapes)}")
    return [max(operands.shapes)]
