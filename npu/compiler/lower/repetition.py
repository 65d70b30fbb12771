"""TILE and MIRROR_PAD: parts of a map in further places of a larger one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from npu.compiler.ir import View
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.geometry import box, crop, pad_amounts
from npu.graph.attributes import MirrorPadMode, MirrorPadOptions
from npu.graph.graph import Op


def lower_tile(builder: Builder, op: Op) -> None:
    """TILE: what is there is copied behind itself, along one axis after the other, until the axis is full.

    One more of the input may come from there again: it need not wait for the first, but may be further away.
    """
    builder.make_cheapest([partial(_tile, builder, op, reads_again=reads_again) for reads_again in (True, False)])


def _tile(builder: Builder, op: Op, *, reads_again: bool) -> None:
    source, full = list(builder.tensor(op.inputs[0]).shape), builder.tensor(op.outputs[0]).shape
    target = builder.output(op.outputs[0])
    origin, filled = [0] * len(full), source.copy()
    _place(builder, op, target, origin)
    for axis in reversed(range(len(full))):
        while filled[axis] < full[axis]:
            shape = filled.copy()
            shape[axis] = min(filled[axis], full[axis] - filled[axis])
            start = [filled[axis] if other == axis else 0 for other in range(len(full))]
            if reads_again and shape == source:
                _place(builder, op, target, start)
            else:
                _copy_box(builder, target, full, shape, origin, start)
            filled[axis] += shape[axis]


def _copy_box(
    builder: Builder, target: View, full: Sequence[int], shape: Sequence[int], source: Sequence[int], to: Sequence[int]
) -> None:
    """Copy the box of `shape` at `source` of a tensor of shape `full` to `to`."""
    for first, second in zip(box(source, shape, full), box(to, shape, full), strict=True):
        builder.copy(crop(target, first.offset, first.shape), crop(target, second.offset, second.shape))


def _place(builder: Builder, op: Op, target: View, start: Sequence[int]) -> None:
    """Copy the input to `start` of the output."""
    shape, full = (builder.tensor(tensor).shape for tensor in (op.inputs[0], op.outputs[0]))
    pieces = box(start, shape, full)
    height, width, depth = pieces[0].shape
    folded = builder.reshaped(builder.input(op.inputs[0]), (height * len(pieces), width, depth))
    for number, part in enumerate(pieces):
        builder.copy(crop(folded, (number * height, 0, 0), part.shape), crop(target, part.offset, part.shape))


def lower_mirror_pad(builder: Builder, op: Op) -> None:
    """MIRROR_PAD: the map, then what lies beside it, along one axis after the other."""
    options = op.attributes
    assert isinstance(options, MirrorPadOptions)
    edge = 0 if options.mode is MirrorPadMode.SYMMETRIC else 1
    amounts, full = pad_amounts(builder.graph, op), builder.tensor(op.outputs[0]).shape
    target, filled = builder.output(op.outputs[0]), list(builder.tensor(op.inputs[0]).shape)
    start = [before for before, _ in amounts]
    nest = builder.fusions.nest.get(op.inputs[0])
    if nest is None or nest.parent != op.outputs[0]:  # else the map has been made there
        _place(builder, op, target, start)
    for axis, (before, after) in enumerate(amounts):
        slab = [1 if other == axis else extent for other, extent in enumerate(filled)]
        for to, of in _mirrored(before, after, filled[axis], edge):
            source, copy = ([place if other == axis else at for other, at in enumerate(start)] for place in (of, to))
            _copy_box(builder, target, full, slab, source, copy)
        start[axis], filled[axis] = 0, full[axis]


def _mirrored(before: int, after: int, extent: int, edge: int) -> list[tuple[int, int]]:
    """(place, place of the map that it repeats) of everything beside `extent` places that start at `before`."""
    last = before + extent - 1
    return [
        *((before - 1 - step, before + edge + step) for step in range(before)),
        *((last + 1 + step, last - edge - step) for step in range(after)),
    ]
