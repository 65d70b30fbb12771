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
import numpy.typing as npt

from npu.compiler.lower.rewriting import BROADCASTING, FUNCTIONS, PADS, Rewriter, TensorUses, extents
from npu.graph import attributes as at
from npu.graph.graph import Graph, Op
from npu.graph.idle import VIEWS
from npu.graph.operands import Shape
from npu.graph.readers import readers_of
from npu.graph.shapes.common import normalized_axis
from npu.records import dataclass, replace

_LEAST_RANK = 4
_REDUCTIONS = frozenset({"MEAN", "REDUCE_MAX", "REDUCE_MIN", "SUM"})


def without_undone_transposes(graph: Graph, ops: Sequence[int]) -> tuple[Graph, dict[int, tuple[int, ...]]]:
    """The graph without those transposes of the operators `ops` that only lie around such operators.

    And in which order the results of operators have their axes: of each, the place in the result of the source.
    """
    transposes = [index for index in ops if graph.ops[index].kind == "TRANSPOSE"]
    if not transposes:
        return graph, {}
    finder, rewriter, taken, orders = _Finder(graph, ops), _RegionRewriter(graph), set[int](), dict[int, tuple[int, ...]]()
    for index in transposes:
        region = None if index in taken else finder.region(index)
        if region is not None and taken.isdisjoint(region.transposes):
            taken |= region.transposes
            rewriter.rewrite(region)
            orders.update((finder.producer[tensor], region.order) for tensor in region.tensors)
    return (rewriter.graph if orders else graph), orders


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


class _Finder(TensorUses):
    """Finds what lies between transposes among the operators `ops`."""

    def region(self, index: int) -> _TransposedRegion | None:
        """What lies behind transpose `index`, if all around it are transposes that move the axes back; else None."""
        moved = self._moved(index)
        if moved is None:
            return None
        region = _TransposedRegion(tuple(int(place) for place in np.argsort(moved)))
        waiting = [self.graph.ops[index].outputs[0]]
        while waiting:
            tensor = waiting.pop()
            if tensor in region.tensors:
                continue
            if not self._has_axes(tensor, len(moved)):
                return None
            region.tensors.add(tensor)
            for around, expected in self._around(tensor, moved, region.order):
                op = self.graph.ops[around]
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
        yield self.producer[tensor], moved
        for reader in self.readers[tensor]:
            yield reader, order

    def _has_axes(self, tensor: int, count: int) -> bool:
        """Whether a tensor has so many axes, and only operators of the partition see it."""
        one, is_own = self.graph.tensors[tensor], tensor in self.producer and self.are_all_readers_inside(tensor)
        return is_own and not one.is_variable and len(_axes(one.shape)) == count and 0 not in one.shape

    def _moved(self, index: int) -> tuple[int, ...] | None:
        """Of each axis of what a transpose makes, which of the input's it is; None if it is not constant."""
        op = self.graph.ops[index]
        table = self.graph.tensors[op.inputs[1]].data
        if table is None:
            return None
        before, after = (self.graph.tensors[tensor].shape for tensor in (op.inputs[0], op.outputs[0]))
        places = [int(axis) for axis in table.reshape(-1)]
        axes = _axes(before)
        return tuple(axes.index(places[axis]) for axis in _axes(after))

    def _maps(self, op: Op) -> list[int]:
        """What an operator reads of a region."""
        tensors = self.graph.tensors
        return [tensor for tensor in op.inputs if tensor >= 0 and not tensors[tensor].is_constant]

    def _may_change(self, op: Op) -> bool:
        """Whether an operator does the same in another order of the axes, all its parameters being constants."""
        shapes = [self.graph.tensors[tensor].shape for tensor in (*self._maps(op), *op.outputs)]
        if op.kind in VIEWS:
            return extents(shapes[0]) == extents(shapes[-1])
        if op.kind in BROADCASTING:
            result = shapes[-1]
            constants = [one for one in op.inputs if self.graph.tensors[one].is_constant]
            return all(shape == result for shape in shapes) and all(
                _has_extents_along(self.graph.tensors[one].shape, result) for one in constants
            )
        if op.kind in PADS or op.kind == "SLICE":
            return len(shapes) == 2 and all(a == b for a, b in zip(*shapes, strict=True) if a == 1 or b == 1)
        if op.kind == "CONCATENATION":
            return len(shapes) == len(op.inputs) + 1
        return op.kind in FUNCTIONS

    def _ends(self, op: Op) -> bool:
        """Whether what an operator makes of a map has no order of the axes, or a matrix behind it can make up for that."""
        tensors, result = self.graph.tensors, op.outputs[0]
        if op.kind in _REDUCTIONS:
            return len(op.inputs) == 2 and tensors[op.inputs[1]].is_constant and len(_axes(tensors[result].shape)) <= 1
        readers = self.readers[result]
        if op.kind not in VIEWS or not readers or not self.are_all_readers_inside(result):
            return False
        return all(_is_product_of(self.graph, self.graph.ops[reader], result) for reader in readers)


def _is_product_of(graph: Graph, op: Op, tensor: int) -> bool:
    """Whether an operator multiplies all of a tensor, as one row, by a constant matrix."""
    if op.kind != "FULLY_CONNECTED" or op.inputs[0] != tensor:
        return False
    weights = graph.tensors[op.inputs[1]]
    return weights.is_constant and weights.shape[1:] == (graph.tensors[tensor].elements,)


class _RegionRewriter(Rewriter):
    """Tensors and operators of a graph under change."""

    def rewrite(self, region: _TransposedRegion) -> None:
        """Let the tensors of a region have their axes in the order in front of the transposes."""
        for index in region.transposes:
            self._see(index)
        for index in region.ops:
            self._change(index, region)
        for index in region.ends:
            self._end(index, region)
        for tensor in region.tensors:
            self.resize(tensor, _in_order(self.before.tensors[tensor].shape, region.order))

    def _see(self, index: int) -> None:
        """Let an operator be a view of its first input."""
        op = self.before.ops[index]
        self.put(index, "RESHAPE", op.inputs[:1], op.outputs[0])

    def _end(self, index: int, region: _TransposedRegion) -> None:
        """Let an operator read a tensor of a region in the new order of its axes."""
        op = self.before.ops[index]
        shape = self.before.tensors[op.inputs[0]].shape
        if op.kind in _REDUCTIONS:
            reduced = {normalized_axis(int(axis), len(shape)) for axis in self._data(op.inputs[1]).reshape(-1)}
            places = [place for place, axis in enumerate(region.order, _ones(region.order)) if _axes(shape)[axis] in reduced]
            self.ops[index] = replace(op, inputs=(op.inputs[0], self.numbers(places)))
            return
        self._see(index)
        for number in readers_of(self.before)[op.outputs[0]]:
            reader = self.ops[number]
            weights = self._data(reader.inputs[1])
            blocks = weights.reshape(-1, *extents(shape)).transpose(0, *(axis + 1 for axis in region.order))
            moved = self.with_data(reader.inputs[1], blocks.reshape(weights.shape))
            self.ops[number] = replace(reader, inputs=(reader.inputs[0], moved, *reader.inputs[2:]))

    def _change(self, index: int, region: _TransposedRegion) -> None:
        """Let an operator of a region work in the new order of the axes."""
        op = self.before.ops[index]
        if op.kind in VIEWS:
            self._see(index)
        elif op.kind in BROADCASTING:
            full = self.before.tensors[op.outputs[0]].shape
            self.ops[index] = replace(op, inputs=tuple(self._constant_in_order(one, full, region.order) for one in op.inputs))
        elif op.kind in _CHANGES:
            self.ops[index] = _CHANGES[op.kind](self, op, region)

    def _data(self, tensor: int) -> npt.NDArray[np.generic]:
        data = self.before.tensors[tensor].data
        assert data is not None
        return data

    def _constant_in_order(self, tensor: int, full: Shape, order: tuple[int, ...]) -> int:
        """A constant that is broadcast to shape `full`, with its axes in another order; another tensor stays what it is."""
        if not self.before.tensors[tensor].is_constant:
            return tensor
        data = self._data(tensor)
        data = data.reshape((1,) * (len(full) - data.ndim) + data.shape)
        data = data.reshape([data.shape[axis] for axis in _axes(full)]).transpose(order)
        return self.with_data(tensor, data.reshape((1,) * _ones(order) + data.shape))

    def _rows(self, op: Op, operand: int, rest: object, region: _TransposedRegion) -> int:
        """Parameter `operand`, one row for each dimension, in the new order; `rest` for dimensions of 1."""
        shape = self.before.tensors[op.inputs[0]].shape
        rows = self._data(op.inputs[operand]).reshape(len(shape), -1).tolist()
        kept = [rows[axis] for axis in _axes(shape)]
        table = np.array([rest] * _ones(region.order) + [kept[place] for place in region.order])
        return self.numbers(table.reshape(-1) if table.shape[1] == 1 else table)

    def padded(self, op: Op, region: _TransposedRegion) -> Op:
        return replace(op, inputs=(op.inputs[0], self._rows(op, 1, [0, 0], region), *op.inputs[2:]))

    def sliced(self, op: Op, region: _TransposedRegion) -> Op:
        return replace(op, inputs=(op.inputs[0], self._rows(op, 1, [0], region), self._rows(op, 2, [1], region)))

    def joined(self, op: Op, region: _TransposedRegion) -> Op:
        shape, options = self.before.tensors[op.outputs[0]].shape, op.attributes
        assert isinstance(options, at.ConcatenationOptions)
        axis = _axes(shape).index(normalized_axis(options.axis, len(shape)))
        return replace(op, attributes=replace(options, axis=region.order.index(axis) + _ones(region.order)))


_CHANGES: Mapping[str, Callable[[_RegionRewriter, Op, _TransposedRegion], Op]] = {
    **dict.fromkeys(PADS, _RegionRewriter.padded), "SLICE": _RegionRewriter.sliced, "CONCATENATION": _RegionRewriter.joined,
}  # fmt: skip
"""What becomes of an operator whose parameters speak of axes."""


def _axes(shape: Shape) -> list[int]:
    """The dimensions that are not 1."""
    return [axis for axis, extent in enumerate(shape) if extent != 1]


def _has_extents_along(constant: Shape, full: Shape) -> bool:
    """Whether a constant has no more dimensions than what it is broadcast to, nor other extents than that."""
    behind = full[len(full) - len(constant) :]
    return len(constant) <= len(full) and all(one in (1, extent) for one, extent in zip(constant, behind, strict=True))


def _in_order(shape: Shape, order: Sequence[int]) -> Shape:
    """The extents in another order, behind dimensions of 1."""
    known = extents(shape)
    return (1,) * _ones(order) + tuple(known[place] for place in order)


def _ones(order: Sequence[int]) -> int:
    """Dimensions of 1 in front of so many axes."""
    return max(_LEAST_RANK - len(order), 0)
