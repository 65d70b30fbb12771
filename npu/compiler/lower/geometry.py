"""Shapes: how a tensor of any rank becomes height, width, depth, and where parts of it lie."""

from __future__ import annotations

import math
from collections.abc import Sequence

from npu.compiler.ir import View
from npu.graph.attributes import ConcatenationOptions, GatherOptions, PackOptions
from npu.graph.graph import Graph, Op
from npu.hardware.variant import Variant
from npu.isa.families import family_of
from npu.isa.operations import ElementType
from npu.layouts import MapShape
from npu.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class Box:
    """A box of a folded map: it starts at `offset` and has `shape`."""

    offset: MapShape
    shape: MapShape


def fold_shape(shape: Sequence[int]) -> MapShape:
    """Height, width, depth of a tensor: missing leading dimensions are 1, surplus ones are folded into the height."""
    padded = (1, 1, 1, *shape)[-max(3, len(shape)) :]
    return math.prod(padded[:-2]), padded[-2], padded[-1]


def box(offset: Sequence[int], shape: Sequence[int], full: Sequence[int]) -> list[Box]:
    """The boxes of the folded map `fold_shape(full)` that hold the N-dimensional box at `offset` with `shape`, in row order."""
    rank = max(3, len(full))
    offset = ((0,) * rank + tuple(offset))[-rank:]
    shape = ((1,) * rank + tuple(shape))[-rank:]
    full = ((1,) * rank + tuple(full))[-rank:]
    starts, rows = [0], 1
    for start, count, whole in zip(offset[:-2], shape[:-2], full[:-2], strict=True):
        if count == whole:  # a whole dimension keeps what lies in front of it in one piece
            starts, rows = [s * whole for s in starts], rows * whole
        else:
            firsts = [s + r for s in starts for r in range(rows)]
            starts, rows = [f * whole + start for f in firsts], count
    return [Box((start, offset[-2], offset[-1]), (rows, shape[-2], shape[-1])) for start in starts]


def concatenation_boxes(output: Sequence[int], axis: int, inputs: Sequence[Sequence[int]]) -> list[list[Box]]:
    """For each input of a concatenation the boxes of the folded output that hold it."""
    boxes, position = [], 0
    for shape in inputs:
        offset = [0] * len(output)
        offset[axis] = position
        boxes.append(box(offset, shape, output))
        position += shape[axis]
    return boxes


def joined_shapes(graph: Graph, op: Op) -> tuple[int, list[tuple[int, ...]]]:
    """The axis along which the inputs of a join lie one behind the other, and their shapes; PACK gives them an axis of 1."""
    options, shapes = op.attributes, [tuple(graph.tensors[tensor].shape) for tensor in op.inputs]
    assert isinstance(options, ConcatenationOptions | PackOptions)
    axis = options.axis % len(graph.tensors[op.outputs[0]].shape)
    return axis, [(*one[:axis], 1, *one[axis:]) for one in shapes] if isinstance(options, PackOptions) else shapes


def gathered(graph: Graph, op: Op) -> tuple[int, tuple[int, ...]]:
    """The axis along which a GATHER takes, counted from the first, and its indices."""
    options, table = op.attributes or GatherOptions(), graph.tensors[op.inputs[1]].data
    assert isinstance(options, GatherOptions)
    assert table is not None
    return options.axis % len(graph.tensors[op.inputs[0]].shape), tuple(table.reshape(-1).tolist())


def as_shape(extents: Sequence[int]) -> MapShape:
    """Height, width and depth, which are given one by one."""
    height, width, depth = extents
    return height, width, depth


def crop(view: View, offset: MapShape, shape: MapShape) -> View:
    """The box of a view that starts at `offset` (relative to the view) and has `shape`."""
    if view.pitch is not None:
        rows, columns = view.pitch
        offset = 0, 0, offset[0] * rows + offset[1] * columns + offset[2]
    y, x, c = (a + b for a, b in zip(view.offset, offset, strict=True))
    return replace(view, offset=(y, x, c), shape=shape)


def spread(view: View, start: tuple[int, int], steps: tuple[int, int], shape: tuple[int, int]) -> View:
    """The rows and columns of a view from `start` on, `steps` from one to the next."""
    extents = (*shape, view.shape[2])
    if steps == (1, 1):
        return crop(view, (*start, 0), extents)
    rows, columns = view.pitches
    return laid_out(view, start, extents, (rows * steps[0], columns * steps[1]))


def laid_out(view: View, start: tuple[int, int], shape: MapShape, pitch: tuple[int, int]) -> View:
    """What lies from row and column `start` of a view on, as another map: `pitch` elements between rows and columns."""
    rows, columns = view.pitches
    first = view.start + start[0] * rows + start[1] * columns
    return replace(view, offset=(0, 0, first), shape=shape, pitch=pitch)


def in_pairs(view: View) -> View:
    """A map of two channels of 32 bits, with none between them, as one of 64 bits."""
    height, width, _ = view.full
    element = ElementType(2 * view.element.bits, view.element.is_signed)
    return replace(view, full=(height, width, 1), shape=(*view.shape[:2], 1), element=element)


def pitch_as(view: View, shape: MapShape) -> tuple[int, int] | None:
    """Elements between rows and columns of a map of another shape with the same elements in row order, if there is one."""
    (height, width, depth), (rows, columns) = view.shape, view.pitches
    if view.is_contiguous:
        return shape[1] * shape[2], shape[2]
    apart = columns if height == 1 or rows == width * columns else rows if width == 1 else 0
    if apart and shape[2] == depth:
        return shape[1] * apart, apart
    if apart and shape[1] * shape[2] == depth:
        return apart, shape[2]
    return None


def images(view: View, count: int) -> list[View]:
    """The `count` maps of equal height that lie one below the other in a view."""
    rows = view.shape[0] // count
    return [crop(view, (image * rows, 0, 0), (rows, *view.shape[1:])) for image in range(count)]


def pad_amounts(graph: Graph, op: Op) -> tuple[tuple[int, int], ...]:
    """Elements that a PAD puts before and after each dimension."""
    table = graph.tensors[op.inputs[1]].data
    assert table is not None
    return tuple((int(before), int(after)) for before, after in table.reshape(-1, 2))


def same_padding(extent: int, output: int, kernel: int, stride: int) -> tuple[int, int]:
    """Elements before and after a dimension under TFLite's SAME scheme; `kernel` is dilated."""
    total = max((output - 1) * stride + kernel - extent, 0)
    return total // 2, total - total // 2


def padding_before(
    extent: int, output: int, kernel: int, stride: int, *, is_same: bool, carried: tuple[int, int] = (0, 0)
) -> int:
    """Elements before a dimension: those of a scheme and those of a PAD that the window carries; `kernel` is dilated."""
    own = same_padding(extent + sum(carried), output, kernel, stride)[0] if is_same else 0
    return carried[0] + own


def largest_padding(variant: Variant) -> tuple[int, int]:
    """Rows and columns before and after an IFM that the padding registers can say; those of left and right are alike."""
    product = variant.accelerator.product
    family = family_of(product)
    return family.largest("NPU_SET_IFM_PAD_TOP", product), family.largest("NPU_SET_IFM_PAD_BOTTOM", product)


def needed_after(extent: int, output: int, kernel: int, stride: int, before: int) -> int:
    """Elements that a window needs behind the end of a dimension."""
    return max((output - 1) * stride + kernel - before - extent, 0)
