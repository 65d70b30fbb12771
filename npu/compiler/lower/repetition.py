"""TILE and MIRROR_PAD: parts of a map in further places of a larger one."""

from __future__ import annotations

from collections.abc import Sequence

from npu.compiler.ir import View
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.geometry import box, crop, fold_shape, images, pad_amounts
from npu.graph.attributes import MirrorPadMode, MirrorPadOptions
from npu.graph.graph import Op


def lower_tile(builder: Builder, op: Op) -> None:
    """TILE: what is there is copied behind itself, along one axis after the other, until the axis is full."""
    source, full = builder.tensor(op.inputs[0]).shape, builder.tensor(op.outputs[0]).shape
    target = builder.output(op.outputs[0])
    origin, filled = [0] * len(full), list(source)
    pieces = box(origin, filled, full)
    height, width, depth = pieces[0].shape
    folded = builder.reshaped(builder.input(op.inputs[0]), (height * len(pieces), width, depth))
    for number, part in enumerate(pieces):
        builder.copy(crop(folded, (number * height, 0, 0), part.shape), crop(target, part.offset, part.shape))
    for axis in reversed(range(len(full))):
        while filled[axis] < full[axis]:
            shape = list(filled)
            shape[axis] = min(filled[axis], full[axis] - filled[axis])
            start = [filled[axis] if other == axis else 0 for other in range(len(full))]
            _copy_box(builder, target, full, shape, start)
            filled[axis] += shape[axis]


def _copy_box(builder: Builder, target: View, full: Sequence[int], shape: Sequence[int], start: Sequence[int]) -> None:
    """Copy the box of `shape` at the origin of a tensor of shape `full` to `start`."""
    for first, second in zip(box([0] * len(full), shape, full), box(start, shape, full), strict=True):
        builder.copy(crop(target, first.offset, first.shape), crop(target, second.offset, second.shape))


def lower_mirror_pad(builder: Builder, op: Op) -> None:
    """MIRROR_PAD of height and width: the map, then every row and column beside it."""
    options = op.attributes
    assert isinstance(options, MirrorPadOptions)
    edge = 0 if options.mode is MirrorPadMode.SYMMETRIC else 1
    amounts = (*(((0, 0),) * 3), *pad_amounts(builder.graph, op))[-3:]
    count = fold_shape(builder.tensor(op.inputs[0]).shape)[0] // (1, *builder.tensor(op.inputs[0]).shape)[-3]
    source, target = builder.input(op.inputs[0]), builder.output(op.outputs[0])
    for x, y in zip(images(source, count), images(target, count), strict=True):
        height, width, depth = x.shape
        top, left = amounts[0][0], amounts[1][0]
        builder.copy(x, crop(y, (top, left, 0), x.shape))
        for to, of in _mirrored(*amounts[0], height, edge):
            builder.copy(crop(y, (of, left, 0), (1, width, depth)), crop(y, (to, left, 0), (1, width, depth)))
        for to, of in _mirrored(*amounts[1], width, edge):
            builder.copy(crop(y, (0, of, 0), (y.shape[0], 1, depth)), crop(y, (0, to, 0), (y.shape[0], 1, depth)))


def _mirrored(before: int, after: int, extent: int, edge: int) -> list[tuple[int, int]]:
    """(place, place of the map that it repeats) of everything beside `extent` places that start at `before`."""
    last = before + extent - 1
    return [
        *((before - 1 - step, before + edge + step) for step in range(before)),
        *((last + 1 + step, last - edge - step) for step in range(after)),
    ]
