"""Shapes of what is put together from parts, or cut into them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npu.graph.attributes import StridedSliceOptions
from npu.graph.operands import Mismatch, Operands, Shape
from npu.graph.shapes.common import Shapes, inserted, normalized_axis, replaced, without


def concatenation(operands: Operands) -> Shapes:
    first, *others = operands.shapes
    axis = normalized_axis(operands.options.axis, len(first))
    for other in others:
        if len(other) != len(first) or replaced(other, axis, 0) != replaced(first, axis, 0):
            raise Mismatch(f"inputs must agree in all dimensions but {axis}, got {list(first)} and {list(other)}")
    return [replaced(first, axis, sum(shape[axis] for shape in operands.shapes))]


def pack(operands: Operands) -> Shapes:
    shapes = operands.shapes
    if len(set(shapes)) != 1:
        raise Mismatch(f"inputs must have the same shape, got {[list(shape) for shape in shapes]}")
    if operands.options.values_count != len(shapes):
        raise Mismatch(f"values_count must be the number of inputs {len(shapes)}, got {operands.options.values_count}")
    return [inserted(shapes[0], normalized_axis(operands.options.axis, len(shapes[0]) + 1), len(shapes))]


def unpack(operands: Operands) -> Shapes:
    whole, count = operands.shape(0), len(operands.outputs)
    axis = normalized_axis(operands.options.axis, len(whole))
    if not whole[axis] == count == operands.options.num:
        raise Mismatch(
            f"dimension {axis} and num must be the number of outputs {count}, got {list(whole)} and {operands.options.num}"
        )
    return [without(whole, (axis,))] * count


def split(operands: Operands) -> Shapes:
    whole, count, axis = operands.shape(1), len(operands.outputs), operands.number(0)
    if operands.options.num_splits != count:
        raise Mismatch(f"num_splits must be the number of outputs {count}, got {operands.options.num_splits}")
    if axis is None:
        return None
    axis = normalized_axis(axis, len(whole))
    if whole[axis] % count:
        raise Mismatch(f"dimension {axis} must be a multiple of {count}, got {whole[axis]}")
    return [replaced(whole, axis, whole[axis] // count)] * count


def split_v(operands: Operands) -> Shapes:
    whole, count, sizes, axis = operands.shape(0), len(operands.outputs), operands.numbers(1), operands.number(2)
    if operands.options.num_splits != count:
        raise Mismatch(f"num_splits must be the number of outputs {count}, got {operands.options.num_splits}")
    if sizes is None or axis is None:
        return None
    axis = normalized_axis(axis, len(whole))
    parts = split_sizes(sizes, whole[axis])
    if len(parts) != count or sum(parts) != whole[axis] or min(parts) < 0:
        raise Mismatch(f"sizes of {count} pieces must add up to {whole[axis]}, got {parts}")
    return [replaced(whole, axis, size) for size in parts]


def split_sizes(sizes: Sequence[int], extent: int) -> list[int]:
    """The sizes with what is left in place of a single -1."""
    if sizes.count(-1) != 1:
        return list(sizes)
    rest = extent - sum(size for size in sizes if size != -1)
    return [rest if size == -1 else size for size in sizes]


def slice_box(ifm: Shape, begin: Sequence[int], size: Sequence[int]) -> list[tuple[int, int]]:
    """First element and the one behind the last along every axis of a SLICE."""
    if len(begin) != len(ifm) or len(size) != len(ifm):
        raise Mismatch(f"begin and size must have {len(ifm)} entries, got {list(begin)} and {list(size)}")
    box = [(b, n if s == -1 else b + s) for n, b, s in zip(ifm, begin, size, strict=True)]
    if any(not 0 <= first <= end <= n for (first, end), n in zip(box, ifm, strict=True)):
        raise Mismatch(f"slice must lie inside {list(ifm)}, got begin {list(begin)} and size {list(size)}")
    return box


def slice_(operands: Operands) -> Shapes:
    begin, size = operands.numbers(1), operands.numbers(2)
    if begin is None or size is None:
        return None
    return [tuple(end - first for first, end in slice_box(operands.shape(0), begin, size))]


def strided_slice(operands: Operands) -> Shapes:
    begin, end, strides = (operands.numbers(position) for position in (1, 2, 3))
    if begin is None or end is None or strides is None:
        return None
    index = strided_index(operands.shape(0), begin, end, strides, operands.options)
    return [np.broadcast_to(np.int8(0), operands.shape(0))[index].shape]


def strided_index(
    ifm: Shape, begin: Sequence[int], end: Sequence[int], strides: Sequence[int], options: StridedSliceOptions
) -> tuple[slice | int | None, ...]:
    """The numpy index that a STRIDED_SLICE means."""
    masks: dict[str, int] = {
        name: getattr(options, f"{name}_mask") for name in ("ellipsis", "new_axis", "shrink_axis", "begin", "end")
    }
    if not len(begin) == len(end) == len(strides):
        raise Mismatch(f"begin, end and strides must be equally long, got {len(begin)}, {len(end)}, {len(strides)}")
    if masks["new_axis"] >> len(begin):
        raise Mismatch(f"new_axis_mask must name entries of begin, of which there are {len(begin)}, got {masks['new_axis']}")
    new = [bool(masks["new_axis"] >> i & 1) for i in range(len(begin))]
    index: list[slice | int | None] = []
    axis = 0
    for i in range(len(begin)):
        if masks["ellipsis"] >> i & 1:
            skipped = len(ifm) - axis - new[i + 1 :].count(False)
            index += [slice(None)] * skipped
            axis += skipped
        elif new[i]:
            index.append(None)
        else:
            if axis >= len(ifm):
                raise Mismatch(f"begin must have at most {len(ifm) + sum(new)} entries, got {len(begin)}")
            first = None if masks["begin"] >> i & 1 else begin[i]
            last = None if masks["end"] >> i & 1 else end[i]
            shrinks, offset = bool(masks["shrink_axis"] >> i & 1), bool(options.offset)
            index.append(_entry(ifm[axis], (first, last, strides[i]), end[i] if offset else None, i if shrinks else None))
            axis += 1
    return tuple(index)


def _entry(size: int, given: tuple[int | None, int | None, int], length: int | None, removed: int | None) -> slice | int:
    """The index of one axis; `length` from its start if ends are offsets, `removed` is the entry's number if the axis goes."""
    first, last, stride = given
    if stride == 0:
        raise Mismatch("strides must not be 0")
    start, stop, _ = slice(first, last, stride).indices(size)
    if removed is not None:
        if not 0 <= start < size:
            raise Mismatch(f"begin {removed} must be in [{-size}, {size}) where the axis is removed, got {first}")
        if stride < 0:
            raise Mismatch(f"stride {removed} must be positive where the axis is removed, got {stride}")
        return start
    if length is not None:  # from where the slice starts, whatever the mask of ends says
        stop = start + length
        if not -1 <= stop <= size:
            raise Mismatch(f"ends as offsets must stay within {size} elements, got {length} from {start}")
    if not range(start, stop, stride):
        return slice(0, 0)
    return slice(start, stop if stop >= 0 else None, stride)


def dynamic_update_slice(operands: Operands) -> Shapes:
    ifm, update = operands.shape(0), operands.shape(1)
    if len(update) != len(ifm) or any(u > n for u, n in zip(update, ifm, strict=True)):
        raise Mismatch(f"update must fit into {list(ifm)}, got {list(update)}")
    return [ifm]
