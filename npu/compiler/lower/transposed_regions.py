"""Operators between TRANSPOSE operators that undo each other work on the maps as they were in front of them.

Converters of models whose channels come before their places put a convolution between two transposes, and all else of a
sequence between a convolution and the next: functions, sums, PAD, SLICE. These give the same whatever the order of the axes,
as does a reduction that leaves one axis, and a product with a constant matrix whose columns change places instead.
Dimensions of 1 are no axes here: a view that puts one in, or takes one away, changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np

from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Op, Tensor
from npu.graph.idle import VIEWS
from npu.graph.operands import Shape
from npu.graph.ops import OPS
from npu.graph.readers import readers_of
from npu.graph.shapes import common
from npu.graph.shapes.common import normalized_axis
from npu.records import dataclass, replace

_LEAST_RANK = 4
_FUNCTIONS = frozenset(row.name for row in OPS if row.is_lut)
_BROADCASTING = frozenset(row.name for row in OPS if row.shape is common.elementwise) | {"PRELU"}
_PADS = frozenset({"PAD", "PADV2", "MIRROR_PAD"})
_REDUCTIONS = frozenset({"MEAN", "REDUCE_MAX", "REDUCE_MIN", "SUM"})


def without_undone_transposes(graph: Graph, ops: Sequence[int]) -> Graph:
    """The graph without those transposes of the operators `ops` that only lie around such operators."""
    transposes = [index for index in ops if graph.ops[index].kind == "TRANSPOSE"]
    finder, rewriter, taken = _Finder(graph, ops), _Rewriter(graph), set[int]()
    for index in transposes:
        region = None if index in taken else finder.region(index)
        if region is not None and taken.isdisjoint(region.transposes):
            taken |= region.transposes
            rewriter.rewrite(region)
    return rewriter.graph() if taken else graph


@dataclass(frozen=True, slots=True)
class _TransposedRegion:
    """Tensors whose axes change places, the operators between them, and the transposes around.

    `order[m]` is the axis that stands at place m in front of the transposes.
    """

    order: tuple[int, ...]
    tensors: set[int] = field(default_factory=set)
    ops: set[int] = field(default_factory=set)
    transposes: set[int] = field(default_factory=set)
    ends: set[int] = field(default_factory=set)
    """Operators that read a tensor of the region, and make one of their own."""


class _Finder:
    """Finds what lies between transposes among the operators `ops`."""

    def __init__(self, graph: Graph, ops: Sequence[int]) -> None:
        self._graph, self._inside, self._readers = graph, frozenset(ops), readers_of(graph)
        self._producer = {tensor: index for index in ops for tensor in graph.ops[index].outputs}

    def region(self, index: int) -> _TransposedRegion | None:
        """What lies behind transpose `index`, if all around it are transposes that move the axes back; else None."""
        moved = self._moved(index)
        if moved is None:
            return None
        region = _TransposedRegion(tuple(int(place) for place in np.argsort(moved)))
        waiting = [self._graph.ops[index].outputs[0]]
        while waiting:
            tensor = waiting.pop()
            if tensor in region.tensors:
                continue
            if not self._has_axes(tensor, len(moved)):
                return None
            region.tensors.add(tensor)
            for around, expected in self._around(tensor, moved, region.order):
                op = self._graph.ops[around]
                if tensor in op.inputs and self._ends(op):
                    region.ends.add(around)
                    continue
                if op.kind == "TRANSPOSE":
                    if self._moved(around) != expected:
                        return None
                    region.transposes.add(around)
                elif not self._may_change(op):
                    return None
                elif around not in region.ops:
                    region.ops.add(around)
                    waiting += [*self._maps(op), *op.outputs]
        return region

    def _around(self, tensor: int, moved: tuple[int, ...], order: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
        """The operators that make and read a tensor of a region, and how a transpose there must move its axes."""
        yield self._producer[tensor], moved
        for reader in self._readers[tensor]:
            yield reader, order

    def _has_axes(self, tensor: int, count: int) -> bool:
        """Whether a tensor has so many axes, and only operators of the partition see it."""
        one, readers = self._graph.tensors[tensor], self._readers[tensor]
        is_own = tensor in self._producer and self._inside.issuperset(readers) and tensor not in self._graph.outputs
        return is_own and not one.is_variable and len(_axes(one.shape)) == count and 0 not in one.shape

    def _moved(self, index: int) -> tuple[int, ...] | None:
        """Of each axis of what a transpose makes, which of the input's it is; None if it is not constant."""
        op = self._graph.ops[index]
        table = self._graph.tensors[op.inputs[1]].data
        if table is None:
            return None
        before, after = (self._graph.tensors[tensor].shape for tensor in (op.inputs[0], op.outputs[0]))
        places = [int(axis) for axis in table.reshape(-1)]
        axes = _axes(before)
        return tuple(axes.index(places[axis]) for axis in _axes(after))

    def _maps(self, op: Op) -> list[int]:
        """What an operator reads of a region."""
        tensors = self._graph.tensors
        return [tensor for tensor in op.inputs if tensor >= 0 and not tensors[tensor].is_constant]

    def _may_change(self, op: Op) -> bool:
        """Whether an operator does the same in another order of the axes, all its parameters being constants."""
        shapes = [self._graph.tensors[tensor].shape for tensor in (*self._maps(op), *op.outputs)]
        if op.kind in VIEWS:
            return _extents(shapes[0]) == _extents(shapes[-1])
        if op.kind in _BROADCASTING:
            result = shapes[-1]
            constants = [one for one in op.inputs if self._graph.tensors[one].is_constant]
            return all(shape == result for shape in shapes) and all(
                _has_extents_along(self._graph.tensors[one].shape, result) for one in constants
            )
        if op.kind in _PADS or op.kind == "SLICE":
            return len(shapes) == 2 and all(a == b for a, b in zip(*shapes, strict=True) if a == 1 or b == 1)
        if op.kind == "CONCATENATION":
            return len(shapes) == len(op.inputs) + 1
        return op.kind in _FUNCTIONS

    def _ends(self, op: Op) -> bool:
        """Whether what an operator makes of a map has no order of the axes, or a matrix behind it can make up for that."""
        tensors, result = self._graph.tensors, op.outputs[0]
        if op.kind in _REDUCTIONS:
            return len(op.inputs) == 2 and tensors[op.inputs[1]].is_constant and len(_axes(tensors[result].shape)) <= 1
        readers = self._readers[result]
        is_seen = not readers or not self._inside.issuperset(readers) or result in self._graph.outputs
        if op.kind not in VIEWS or is_seen:
            return False
        return all(_is_product_of(self._graph, self._graph.ops[reader], result) for reader in readers)


def _is_product_of(graph: Graph, op: Op, tensor: int) -> bool:
    """Whether an operator multiplies all of a tensor, as one row, by a constant matrix."""
    if op.kind != "FULLY_CONNECTED" or op.inputs[0] != tensor:
        return False
    weights = graph.tensors[op.inputs[1]]
    return weights.is_constant and weights.shape[1:] == (graph.tensors[tensor].elements,)


class _Rewriter:
    """Tensors and operators of a graph under change."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._tensors, self._ops = list(graph.tensors), list(graph.ops)

    def graph(self) -> Graph:
        return replace(self._graph, tensors=tuple(self._tensors), ops=tuple(self._ops))

    def rewrite(self, region: _TransposedRegion) -> None:
        """Let the tensors of a region have their axes in the order in front of the transposes."""
        for index in region.transposes:
            op = self._graph.ops[index]
            self._ops[index] = Op("RESHAPE", op.inputs[:1], op.outputs)
        for index in region.ops:
            self._ops[index] = self._changed(self._graph.ops[index], region)
        for index in region.ends:
            self._end(self._graph.ops[index], index, region)
        for tensor in region.tensors:
            one = self._graph.tensors[tensor]
            self._tensors[tensor] = replace(one, shape=_in_order(one.shape, region.order), shape_signature=None)

    def _end(self, op: Op, index: int, region: _TransposedRegion) -> None:
        """Let an operator read a tensor of a region in the new order of its axes."""
        shape = self._graph.tensors[op.inputs[0]].shape
        if op.kind in _REDUCTIONS:
            table = self._graph.tensors[op.inputs[1]].data
            assert table is not None
            reduced = {normalized_axis(int(axis), len(shape)) for axis in table.reshape(-1)}
            places = [place for place, axis in enumerate(region.order, _ones(region.order)) if _axes(shape)[axis] in reduced]
            self._ops[index] = replace(op, inputs=(op.inputs[0], self._numbers(places)))
            return
        self._ops[index] = Op("RESHAPE", op.inputs[:1], op.outputs)
        for number in readers_of(self._graph)[op.outputs[0]]:
            reader = self._ops[number]
            weights = self._graph.tensors[reader.inputs[1]]
            assert weights.data is not None
            blocks = weights.data.reshape(weights.shape[0], *_extents(shape))
            data = blocks.transpose(0, *(axis + 1 for axis in region.order)).reshape(weights.shape)
            self._tensors.append(replace(weights, data=np.ascontiguousarray(data)))
            self._ops[number] = replace(reader, inputs=(reader.inputs[0], len(self._tensors) - 1, *reader.inputs[2:]))

    def _changed(self, op: Op, region: _TransposedRegion) -> Op:
        """An operator of a region in the new order of the axes."""
        change = _CHANGES.get(op.kind)
        if op.kind in VIEWS:
            return Op("RESHAPE", op.inputs[:1], op.outputs)
        if op.kind in _BROADCASTING:
            full = self._graph.tensors[op.outputs[0]].shape
            return replace(op, inputs=tuple(self._constant_in_order(one, full, region.order) for one in op.inputs))
        return op if change is None else change(self, op, region)

    def _constant_in_order(self, tensor: int, full: Shape, order: tuple[int, ...]) -> int:
        """A constant that is broadcast to shape `full`, with its axes in another order; another tensor stays what it is."""
        one = self._graph.tensors[tensor]
        if one.data is None:
            return tensor
        data = one.data.reshape((1,) * (len(full) - one.data.ndim) + one.data.shape)
        axes = _axes(full)
        data = data.reshape([data.shape[axis] for axis in axes]).transpose(order)
        data = np.ascontiguousarray(data.reshape((1,) * _ones(order) + data.shape))
        self._tensors.append(replace(one, shape=data.shape, shape_signature=None, data=data))
        return len(self._tensors) - 1

    def _numbers(self, values: object) -> int:
        data = np.array(values, np.int32)
        self._tensors.append(Tensor("numbers", data.shape, DType.INT32, None, data))
        return len(self._tensors) - 1

    def _rows(self, op: Op, operand: int, rest: object, region: _TransposedRegion) -> int:
        """Parameter `operand`, one row for each dimension, in the new order; `rest` for dimensions of 1."""
        data = self._graph.tensors[op.inputs[operand]].data
        assert data is not None
        shape = self._graph.tensors[op.inputs[0]].shape
        rows = data.reshape(len(shape), -1).tolist()
        kept = [rows[axis] for axis in _axes(shape)]
        new = [kept[place] for place in region.order]
        table = np.array([rest] * _ones(region.order) + new)
        return self._numbers(table.reshape(-1) if table.shape[1] == 1 else table)

    def padded(self, op: Op, region: _TransposedRegion) -> Op:
        return replace(op, inputs=(op.inputs[0], self._rows(op, 1, [0, 0], region), *op.inputs[2:]))

    def sliced(self, op: Op, region: _TransposedRegion) -> Op:
        return replace(op, inputs=(op.inputs[0], self._rows(op, 1, [0], region), self._rows(op, 2, [1], region)))

    def joined(self, op: Op, region: _TransposedRegion) -> Op:
        shape, options = self._graph.tensors[op.outputs[0]].shape, op.attributes
        assert isinstance(options, at.ConcatenationOptions)
        axis = _axes(shape).index(normalized_axis(options.axis, len(shape)))
        place = region.order.index(axis) + _ones(region.order)
        return replace(op, attributes=replace(options, axis=place))


_CHANGES: Mapping[str, Callable[[_Rewriter, Op, _TransposedRegion], Op]] = {
    **dict.fromkeys(_PADS, _Rewriter.padded), "SLICE": _Rewriter.sliced, "CONCATENATION": _Rewriter.joined,
}  # fmt: skip
"""What becomes of an operator whose parameters speak of axes."""


def _axes(shape: Shape) -> list[int]:
    """The dimensions that are not 1."""
    return [axis for axis, extent in enumerate(shape) if extent != 1]


def _extents(shape: Shape) -> list[int]:
    return [extent for extent in shape if extent != 1]


def _has_extents_along(constant: Shape, full: Shape) -> bool:
    """Whether a constant has no more dimensions than what it is broadcast to, nor other extents than that."""
    behind = full[len(full) - len(constant) :]
    return len(constant) <= len(full) and all(one in (1, extent) for one, extent in zip(constant, behind, strict=True))


def _in_order(shape: Shape, order: Sequence[int]) -> Shape:
    """The extents in another order, behind dimensions of 1."""
    extents = _extents(shape)
    return (1,) * _ones(order) + tuple(extents[place] for place in order)


def _ones(order: Sequence[int]) -> int:
    """Dimensions of 1 in front of so many axes."""
    return max(_LEAST_RANK - len(order), 0)
