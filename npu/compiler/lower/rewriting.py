"""What the rewrites of a graph before its lowering share: kinds of operators, who sees a tensor, and both under change."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from npu.graph.dtype import DType
from npu.graph.graph import Graph, Op, Tensor
from npu.graph.idle import VIEWS
from npu.graph.operands import Shape
from npu.graph.ops import OPS
from npu.graph.readers import readers_of
from npu.graph.shapes import common
from npu.records import replace

CONVOLUTIONS = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D"})
PADS = frozenset({"PAD", "PADV2", "MIRROR_PAD"})
FUNCTIONS = frozenset(row.name for row in OPS if row.is_lut)
"""Operators of which each value is one of the operand's."""
BROADCASTING = frozenset(row.name for row in OPS if row.shape is common.elementwise) | {"PRELU"}
"""Operators whose operands repeat along the dimensions that they have one of."""


class TensorUses:
    """Who makes and who reads the tensors of a graph, among the operators `ops`."""

    def __init__(self, graph: Graph, ops: Collection[int]) -> None:
        self.graph, self.inside, self.readers = graph, frozenset(ops), readers_of(graph)
        self.producer = {tensor: index for index in ops for tensor in graph.ops[index].outputs}

    def sole_reader(self, tensor: int) -> int | None:
        """The operator that alone reads a tensor which nobody else sees."""
        readers = self.readers[tensor]
        return readers[0] if len(readers) == 1 and self.are_all_readers_inside(tensor) else None

    def views_behind(self, index: int) -> list[int]:
        """The views one behind the other of what an operator makes, each the only reader of what is in front of it."""
        views: list[int] = []
        following = self.sole_reader(self.graph.ops[index].outputs[0])
        while following is not None and self.graph.ops[following].kind in VIEWS:
            views.append(following)
            following = self.sole_reader(self.graph.ops[following].outputs[0])
        return views

    def are_all_readers_inside(self, tensor: int) -> bool:
        """Whether nobody sees a tensor but the operators `ops`."""
        return self.inside.issuperset(self.readers[tensor]) and tensor not in self.graph.outputs


class Rewriter:
    """Tensors and operators of a graph under change; an operator keeps its number."""

    def __init__(self, graph: Graph) -> None:
        self.before, self.tensors, self.ops = graph, list(graph.tensors), list(graph.ops)

    @property
    def graph(self) -> Graph:
        """The graph as it is by now."""
        return replace(self.before, tensors=tuple(self.tensors), ops=tuple(self.ops))

    def put(self, index: int, kind: str, inputs: tuple[int, ...], output: int) -> int:
        """Let operator `index` be one of this kind."""
        self.ops[index] = Op(kind, inputs, (output,))
        return output

    def resize(self, tensor: int, shape: Shape, like: int | None = None) -> None:
        """Give a tensor another shape, and all else of `like`."""
        one = self.tensors[tensor if like is None else like]
        self.tensors[tensor] = replace(one, shape=shape, shape_signature=None)

    def add(self, tensor: Tensor) -> int:
        """The number of a new tensor."""
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def like(self, tensor: int, shape: Shape) -> int:
        """A new tensor that is as another one, but of this shape."""
        return self.add(replace(self.tensors[tensor], shape=shape, shape_signature=None))

    def with_data(self, tensor: int, data: npt.NDArray[np.generic]) -> int:
        """A new constant that is as another one, but holds this."""
        return self.add(replace(self.tensors[tensor], shape=data.shape, shape_signature=None, data=np.ascontiguousarray(data)))

    def numbers(self, values: object) -> int:
        """A new constant of int32: a parameter."""
        data = np.array(values, np.int32)
        return self.add(Tensor("numbers", data.shape, DType.INT32, None, data))


def extents(shape: Shape) -> list[int]:
    """Those of the dimensions that are not 1."""
    return [extent for extent in shape if extent != 1]
