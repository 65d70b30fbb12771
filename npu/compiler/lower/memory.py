"""Operators that only move data: joins, padding, reshapes, slices. Most become views; the rest are 1x1 copies."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from npu.compiler.ir import StepWeights, View
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.fusions import is_strided_view, same_quantization
from npu.compiler.lower.geometry import (
    Box,
    as_shape,
    box,
    concatenation_boxes,
    crop,
    fold_shape,
    images,
    joined_shapes,
    pad_amounts,
)
from npu.graph.attributes import StridedSliceOptions, UnpackOptions
from npu.graph.dtype import DType
from npu.graph.graph import Op
from npu.graph.shapes.parts import strided_index
from npu.isa.operations import IDENTITY, Rounding
from npu.layouts import MapShape
from npu.machine.rules import ceil_div
from npu.records import replace


def lower_join(builder: Builder, op: Op) -> None:
    """CONCATENATION, PACK: inputs that could be written in place have been; the others are copied.

    uint8 ones of another quantization go through a table, as the reference rescales.
    """
    axis, shapes = joined_shapes(builder.graph, op)
    own, finish = op.outputs[0], builder.finish(op)
    output = builder.tensor(own)
    whole, parts = _joined_boxes(builder, finish.tensor, axis, shapes)
    placed: set[int] = set()
    for tensor, boxes in zip(op.inputs, parts, strict=True):
        nest = builder.fusions.nest.get(tensor)
        if tensor not in placed and nest is not None and nest.parent == own and nest.offset == boxes[0].offset:
            placed.add(tensor)
            continue
        is_copied = output.dtype is not DType.UINT8 or same_quantization(builder.tensor(tensor), output)
        end = finish if is_copied else builder.rescaled(op, tensor)
        for part, piece in _pieces(builder, builder.input(tensor), boxes):
            target = crop(builder.reshaped(builder.result(end, is_raw=True), whole), part.offset, part.shape)
            if piece.element.bits == 32:
                builder.copy(piece, target)
            else:
                builder.point(piece, target, end.minimum, end.maximum, end.lut)
    builder.output(finish.tensor)


def _joined_boxes(builder: Builder, own: int, axis: int, shapes: Sequence[Sequence[int]]) -> tuple[MapShape, list[list[Box]]]:
    """The output as a folded map, and its boxes for each input; as a plane if that brings together what lies apart."""
    shape = builder.tensor(own).shape
    parts = concatenation_boxes(shape, axis, shapes)
    if len(parts[0]) > 1 and builder.output(own).is_dense:
        shape, shapes = _as_plane(shape, axis), [_as_plane(part, axis) for part in shapes]
        parts = concatenation_boxes(shape, 1, shapes)
    return fold_shape(shape), parts


def _as_plane(shape: Sequence[int], axis: int) -> tuple[int, int]:
    """A row for every position in front of `axis`, in which lies the rest."""
    return math.prod(shape[:axis]), math.prod(shape[axis:])


def _pieces(builder: Builder, source: View, boxes: Sequence[Box]) -> list[tuple[Box, View]]:
    """Pair boxes of equal shape with the parts of a source that fill them in row order."""
    height, width, depth = boxes[0].shape
    folded = builder.reshaped(source, (height * len(boxes), width, depth))
    return [(part, crop(folded, (i * height, 0, 0), part.shape)) for i, part in enumerate(boxes)]


def lower_reshape(builder: Builder, op: Op) -> None:
    """RESHAPE, SQUEEZE, EXPAND_DIMS: the same elements in the same order."""
    nest = builder.fusions.nest.get(op.inputs[0])
    if nest is not None and nest.parent == op.outputs[0]:
        builder.output(op.outputs[0])
        return
    folded = fold_shape(builder.tensor(op.outputs[0]).shape)
    builder.alias(op.outputs[0], builder.reshaped(builder.input(op.inputs[0]), folded))


def lower_pad(builder: Builder, op: Op) -> None:
    """PAD, PADV2: the input in the middle of the output, the output's zero point or the given raw value around it."""
    amounts = pad_amounts(builder.graph, op)
    own = op.outputs[0]
    value = constant_values(builder, op.inputs[2])[0] if op.kind == "PADV2" else builder.zero_point(own)
    shape = builder.tensor(op.inputs[0]).shape
    pad_maps(builder, builder.input(op.inputs[0]), builder.output(own), shape, amounts, value)


def pad_maps(
    builder: Builder, source: View, target: View, shape: Sequence[int], amounts: Sequence[tuple[int, int]], value: int
) -> None:
    """Write `source`, which holds a tensor of `shape`, into `target` with `amounts` of `value` around it; it may lie there."""
    before = (0, 0, 0, *(b for b, _ in amounts))[-3:]
    maps = images(source, math.prod(shape[:-3]))
    count = math.prod(extent + sum(pair) for extent, pair in zip(shape[:-3], amounts[:-3], strict=True))
    for number, y in enumerate(images(target, count)):
        x = _map_under(number, shape[:-3], amounts[:-3])
        if x is None:
            _fill(builder, maps[0], y, 0, value)
        else:
            offset = (before[0], before[1], before[2])
            inner = crop(y, offset, maps[x].shape)
            if not _is_one_place(maps[x], inner):
                builder.copy(maps[x], inner)
            _fill_around(builder, maps[x], y, offset, value)


def _is_one_place(view: View, other: View) -> bool:
    """Whether two views of a shape are the same elements of a storage: both may be parts of a join."""
    return view.storage is other.storage and view.start == other.start and view.pitches == other.pitches


def _map_under(number: int, shape: Sequence[int], amounts: Sequence[tuple[int, int]]) -> int | None:
    """Which map of the input lies at map `number` of the padded output, None where it is padding."""
    index, factor = 0, 1
    for extent, (first, last) in zip(reversed(shape), reversed(amounts), strict=True):
        number, at = divmod(number, extent + first + last)
        if not first <= at < first + extent:
            return None
        index, factor = index + (at - first) * factor, factor * extent
    return index


def pad_map(builder: Builder, source: View, target: View, before: MapShape, value: int) -> None:
    """Write `source` into `target` at offset `before` and `value` around it."""
    builder.copy(source, crop(target, before, source.shape))
    _fill_around(builder, source, target, before, value)


def _fill_around(builder: Builder, source: View, target: View, before: MapShape, value: int) -> None:
    """Write `value` around the box at offset `before` of `target` that has the shape of `source`."""
    low = [0, 0, 0]
    high = list(target.shape)
    for axis in range(3):
        start, end = before[axis], before[axis] + source.shape[axis]
        for first, last in ((low[axis], start), (end, high[axis])):
            if last > first:
                offset = [last_low if i != axis else first for i, last_low in enumerate(low)]
                shape = [h - o if i != axis else last - first for i, (h, o) in enumerate(zip(high, low, strict=True))]
                _fill(builder, source, crop(target, as_shape(offset), as_shape(shape)), offset[0] - before[0], value)
        low[axis], high[axis] = start, end


def _fill(builder: Builder, source: View, target: View, row: int, value: int) -> None:
    """Set a box to a value: copies of anything readable, clamped to that value, so that no constant is needed.

    It begins at `row` of the source, which may be beside it: the nearest rows are read, which are there when a map is made row
    by row. A box that is much larger than the source is doubled from what is there.
    """
    tile = as_shape([min(a, b) for a, b in zip(source.shape, target.shape, strict=True)])
    counts = [ceil_div(extent, own) for extent, own in zip(target.shape, tile, strict=True)]
    if math.prod(counts) > 2 * sum((count - 1).bit_length() for count in counts) + 2:
        nearest = min(max(row, 0), source.shape[0] - tile[0])
        builder.fill(crop(source, (nearest, 0, 0), tile), crop(target, (0, 0, 0), tile), value)
        repeat(builder, target, tile)
        return
    for y in range(0, target.shape[0], tile[0]):
        for x in range(0, target.shape[1], tile[1]):
            for c in range(0, target.shape[2], tile[2]):
                rest = (target.shape[0] - y, target.shape[1] - x, target.shape[2] - c)
                shape = as_shape([min(a, b) for a, b in zip(tile, rest, strict=True)])
                nearest = min(max(row + y, 0), source.shape[0] - shape[0])
                builder.fill(crop(source, (nearest, 0, 0), shape), crop(target, (y, x, c), shape), value)


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


def constant_values(builder: Builder, tensor: int) -> list[int]:
    """The numbers of a constant tensor."""
    return [int(v) for v in builder.constant_data(tensor).reshape(-1)]


def _take(builder: Builder, source: int, target: int, offset: Sequence[int], shape: Sequence[int]) -> None:
    """Let tensor `target` be the box of tensor `source`; copies where the box lies in several pieces."""
    take_box(builder, builder.input(source), builder.tensor(source).shape, target, offset, shape)


def take_box(
    builder: Builder, whole: View, full: Sequence[int], target: int, offset: Sequence[int], shape: Sequence[int]
) -> None:
    """Let tensor `target` be the box of what `whole` holds as a tensor of shape `full`; copied where that has a place."""
    boxes = box(offset, shape, full)
    cut = [axis for axis, extent in enumerate(full) if shape[axis] != extent]
    if len(boxes) > 1 and len(cut) == 1 and whole.is_dense:
        plane = _as_plane(full, cut[0])
        whole = builder.reshaped(whole, fold_shape(plane))
        boxes = box((0, offset[cut[0]] * plane[1] // full[cut[0]]), _as_plane(shape, cut[0]), plane)
    if len(boxes) == 1 and not builder.has_place(target):
        folded = fold_shape(builder.tensor(target).shape)
        builder.alias(target, builder.reshaped(crop(whole, boxes[0].offset, boxes[0].shape), folded))
        return
    height, width, depth = boxes[0].shape
    with builder.output_as(target, (height * len(boxes), width, depth)) as packed:
        for i, part in enumerate(boxes):
            builder.copy(crop(whole, part.offset, part.shape), crop(packed, (i * height, 0, 0), part.shape))


def _split(builder: Builder, op: Op, source: int, axis: int, sizes: Sequence[int]) -> None:
    whole = builder.tensor(source).shape
    axis %= len(whole)
    position = 0
    for target, size in zip(op.outputs, sizes, strict=True):
        offset = [position if i == axis else 0 for i in range(len(whole))]
        _take(builder, source, target, offset, [size if i == axis else e for i, e in enumerate(whole)])
        position += size


def lower_split(builder: Builder, op: Op) -> None:
    """SPLIT: inputs are the axis and the tensor."""
    axis = constant_values(builder, op.inputs[0])[0]
    _split(builder, op, op.inputs[1], axis, [builder.tensor(t).shape[axis] for t in op.outputs])


def lower_split_v(builder: Builder, op: Op) -> None:
    """SPLIT_V: inputs are the tensor, the sizes and the axis."""
    axis = constant_values(builder, op.inputs[2])[0]
    _split(builder, op, op.inputs[0], axis, [builder.tensor(t).shape[axis] for t in op.outputs])


def lower_unpack(builder: Builder, op: Op) -> None:
    """UNPACK: slices of extent 1 that lose their dimension."""
    options = op.attributes
    assert isinstance(options, UnpackOptions)
    _split(builder, op, op.inputs[0], options.axis, [1] * len(op.outputs))


def lower_slice(builder: Builder, op: Op) -> None:
    """SLICE: inputs are the tensor, where the box begins and its sizes (-1: to the end)."""
    begin, size = (constant_values(builder, op.inputs[i]) for i in (1, 2))
    whole = builder.tensor(op.inputs[0]).shape
    shape = [e - b if s == -1 else s for e, b, s in zip(whole, begin, size, strict=True)]
    _take(builder, op.inputs[0], op.outputs[0], begin, shape)


def lower_strided_slice(builder: Builder, op: Op) -> None:
    """STRIDED_SLICE with strides from 1 on: inputs are tensor, begin, end and strides."""
    options = op.attributes
    assert isinstance(options, StridedSliceOptions)
    begin, end, strides = (constant_values(builder, op.inputs[i]) for i in (1, 2, 3))
    whole = builder.tensor(op.inputs[0]).shape
    index = [entry for entry in strided_index(whole, begin, end, strides, options) if entry is not None]
    index += [slice(None)] * (len(whole) - len(index))
    taken = [_taken(entry, extent) for entry, extent in zip(index, whole, strict=True)]
    offset, shape, steps = [one.start for one in taken], [len(one) for one in taken], [one.step for one in taken]
    take(builder, op, offset, shape, steps)


def _taken(entry: slice | int, extent: int) -> range:
    """The positions along an axis that an entry of an index takes."""
    return range(entry, entry + 1) if isinstance(entry, int) else range(*entry.indices(extent))


def take(builder: Builder, op: Op, offset: Sequence[int], shape: Sequence[int], steps: Sequence[int]) -> None:
    """Let the output of an operator be every `steps`-th element, `shape` of them, of its input from `offset` on."""
    if all(step == 1 for step in steps):
        _take(builder, op.inputs[0], op.outputs[0], offset, shape)
    else:
        _take_strided(builder, op, offset, shape, steps)


def _take_strided(builder: Builder, op: Op, offset: Sequence[int], shape: Sequence[int], steps: Sequence[int]) -> None:
    """Every `steps`-th element of a box: maps have any pitch from row to row and from column to column; of channels copies."""
    whole = builder.tensor(op.inputs[0]).shape
    rank = max(3, len(whole))
    whole, shape, steps = ((1,) * (rank - len(extents)) + tuple(extents) for extents in (whole, shape, steps))
    offset = (0,) * (rank - len(offset)) + tuple(offset)
    pitches = [math.prod(whole[axis + 1 :]) for axis in range(rank)]
    source = builder.dense(builder.input(op.inputs[0]))
    rows, columns, depth = shape[-3:]
    pitch = steps[-3] * pitches[-3], steps[-2] * pitches[-2]
    if is_strided_view(builder.graph, op) and not builder.has_place(op.outputs[0]):
        first = sum(o * p for o, p in zip(offset, pitches, strict=True))
        part = replace(source, offset=(0, 0, first), shape=(rows, columns, depth), pitch=pitch)
        builder.alias(op.outputs[0], builder.reshaped(part, fold_shape(builder.tensor(op.outputs[0]).shape)))
        return
    source_depth = (depth - 1) * steps[-1] + 1
    with builder.output_as(op.outputs[0], fold_shape(shape)) as target:
        for to, index in zip(images(target, math.prod(shape[:-3])), np.ndindex(*shape[:-3]), strict=True):
            first = sum((o + i * s) * p for o, i, s, p in zip(offset, (*index, 0, 0, 0), steps, pitches, strict=True))
            part = replace(source, offset=(0, 0, first), shape=(rows, columns, source_depth), pitch=pitch)
            _copy_channels(builder, part, to, steps[-1])


def _copy_channels(builder: Builder, source: View, target: View, step: int) -> None:
    """Every `step`-th channel of a map: a convolution that takes each as it is, or copies, which take no weights."""

    def copy() -> None:
        for channel in range(target.shape[2]):
            part = crop(source, (0, 0, channel * step), (*source.shape[:2], 1))
            builder.copy(part, crop(target, (0, 0, channel), part.shape))

    def select() -> None:
        select_channels(builder, source, target, range(0, source.shape[2], step))

    if step == 1:
        builder.copy(source, target)
    else:
        builder.make_cheapest([copy, select] if source.element.bits < 32 else [copy])


def select_channels(builder: Builder, source: View, target: View, channels: Sequence[int]) -> None:
    """Copy the channels of a map that are named, in that order: a convolution with one weight of 1 for each."""
    values = np.zeros((len(channels), 1, 1, source.shape[2]), np.int16)
    values[np.arange(len(channels)), 0, 0, channels] = 1
    weights = StepWeights.unbiased(values, IDENTITY)
    builder.convolve(replace(source, zero_point=0), replace(target, zero_point=0), weights, rounding=Rounding.NATURAL)
