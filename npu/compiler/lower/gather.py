"""GATHER of constant indices: evenly spaced ones are a slice, others one strided copy for each evenly spaced part of them.

Computed ones number the rows of a transfer of Ethos-U85.

Copies that are no slices of channels move single elements along the last axis. A convolution with one weight of 1 for every
output channel may take less there, and where few elements lie behind the axis; it takes indices in any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

from npu.compiler.ir import View
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.geometry import crop, fold_shape, gathered, laid_out, spread
from npu.compiler.lower.memory import select_channels, take
from npu.graph.attributes import GatherOptions
from npu.graph.dtype import DType
from npu.graph.graph import Op
from npu.graph.progressions import Progression, progressions
from npu.graph.shapes.gathers import batch_dims
from npu.records import dataclass

_MOST_ROWS = 65535
"""Of a transfer."""
_MOST_CHANNELS = 512
"""Channels that are selected among: the weights are a matrix of them."""


@dataclass(frozen=True, slots=True)
class _Gather:
    """What is taken from tensor `source` of `shape` along `axis` into tensor `target`: `parts` of `indices`."""

    source: int
    target: int
    shape: tuple[int, ...]
    axis: int
    indices: tuple[int, ...]
    parts: tuple[Progression, ...]

    @property
    def outer(self) -> int:
        """Positions in front of the axis."""
        return math.prod(self.shape[: self.axis])

    @property
    def inner(self) -> int:
        """Elements that lie behind one position of the axis."""
        return math.prod(self.shape[self.axis + 1 :])


def lower_gather(builder: Builder, op: Op) -> None:
    """GATHER: the elements at constant indices of an axis, or at computed ones where transfers can be told them."""
    if builder.tensor(op.inputs[1]).data is None:
        _gather_computed(builder, op)
        return
    axis, indices = gathered(builder.graph, op)
    shape, parts = builder.tensor(op.inputs[0]).shape, progressions(indices)
    if len(parts) == 1:
        _take_evenly(builder, op, axis, parts[0])
    else:
        builder.make_cheapest(list(_ways(builder, _Gather(op.inputs[0], op.outputs[0], shape, axis, indices, parts))))


def _gather_computed(builder: Builder, op: Op) -> None:
    """A row for every index, a plane for every element of the dimensions that input and indices have in common."""
    if not builder.family.gathers:
        raise builder.error(op, "indices must be constant")
    source, numbers = (builder.tensor(index) for index in op.inputs)
    options = op.attributes or GatherOptions()
    assert isinstance(options, GatherOptions)
    axis, batch = options.axis % len(source.shape), batch_dims(options.batch_dims, numbers.shape)
    between = source.shape[batch:axis]
    if numbers.dtype is not DType.INT32 or math.prod(between) != 1:
        needed = "computed indices must be int32, and the axis behind the common dimensions"
        raise builder.error(op, f"{needed}, got {numbers.dtype} and {list(between)} between")
    planes, extent, inner = math.prod(source.shape[:axis]), source.shape[axis], math.prod(source.shape[axis + 1 :])
    count = math.prod(numbers.shape[batch:])
    if max(planes, count, inner) > _MOST_ROWS:
        raise builder.error(
            op, f"rows, planes and elements of a transfer must be at most {_MOST_ROWS}, got {planes, count, inner}"
        )
    with builder.output_as(op.outputs[0], (planes, count, inner)) as target:
        table = builder.reshaped(builder.input(op.inputs[0]), (planes, extent, inner))
        builder.gather(table, builder.reshaped(builder.input(op.inputs[1]), (planes, count, 1)), target)


def _take_evenly(builder: Builder, op: Op, axis: int, part: Progression) -> None:
    """A slice with a step along one axis."""
    shape = list(builder.tensor(op.inputs[0]).shape)
    offset, steps = [0] * len(shape), [1] * len(shape)
    offset[axis], shape[axis], steps[axis] = part.first, part.count, part.step
    take(builder, op, offset, shape, steps)


def _ways(builder: Builder, gather: _Gather) -> Iterator[Callable[[], None]]:
    axis, rank, inner = gather.axis, len(gather.shape), gather.inner
    if axis == rank - 1 and all(part.step == part.places == 1 for part in gather.parts):
        yield partial(_copy_channels, builder, gather)
    if axis < rank - 2 and gather.outer == 1:
        yield partial(_copy_rows, builder, gather)
    yield partial(_copy_columns, builder, gather)
    channels = max(gather.shape[axis], len(gather.indices)) * inner
    if channels <= _MOST_CHANNELS and builder.tensor(gather.source).dtype.bits < 32:
        yield partial(_select, builder, gather)


def _copy_channels(builder: Builder, gather: _Gather) -> None:
    """Slices of the channels, one beside the other."""
    source = builder.input(gather.source)
    with builder.output_as(gather.target, fold_shape((*gather.shape[:-1], len(gather.indices)))) as target:
        for part in gather.parts:
            shape = (*source.shape[:2], part.count)
            builder.copy(crop(source, (0, 0, part.first), shape), crop(target, (0, 0, part.place), shape))


def _copy_rows(builder: Builder, gather: _Gather) -> None:
    """Along the first axis: a row for every position, with the channels as they are."""
    shape, axis = gather.shape, gather.axis
    columns = math.prod(shape[axis + 1 : -1]), shape[-1]
    source = builder.reshaped(builder.input(gather.source), (shape[axis], *columns))
    with builder.output_as(gather.target, (len(gather.indices), *columns)) as target:
        for part in gather.parts:
            extents = part.count, columns[0]
            ifm = spread(source, (part.first, 0), (part.step, 1), extents)
            builder.copy(ifm, spread(target, (part.place, 0), (part.places, 1), extents))


def _copy_columns(builder: Builder, gather: _Gather) -> None:
    """Along any axis: a column for every position, a row for everything in front of it."""
    outer, inner = gather.outer, gather.inner
    source = builder.reshaped(builder.input(gather.source), (outer, gather.shape[gather.axis], inner))
    with builder.output_as(gather.target, (outer, len(gather.indices), inner)) as target:
        for part in gather.parts:
            ifm = _columns(source, part.first, part.step, part)
            builder.copy(ifm, _columns(target, part.place, part.places, part))


def _columns(view: View, first: int, step: int, part: Progression) -> View:
    """The columns of a part; as channels where they are single elements that lie side by side in source and target."""
    rows, _, depth = view.shape
    if depth == part.step == part.places == 1:
        return laid_out(view, (0, first), (rows, 1, part.count), (view.pitches[0], part.count))
    return spread(view, (0, first), (1, step), (rows, part.count))


def _select(builder: Builder, gather: _Gather) -> None:
    """All that lies from the axis on as channels, of which a convolution takes those of the indices."""
    lead, inner = gather.shape[: gather.axis], gather.inner
    channels = [index * inner + at for index in gather.indices for at in range(inner)]
    whole = fold_shape((*lead, gather.shape[gather.axis] * inner))
    source = builder.reshaped(builder.input(gather.source), whole)
    with builder.output_as(gather.target, fold_shape((*lead, len(channels)))) as target:
        select_channels(builder, source, target, channels)
