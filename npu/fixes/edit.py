"""What fixes share: a change with its description, and a subgraph under change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from npu.graph.dtype import DType
from npu.graph.graph import Graph, Op, Tensor
from npu.records import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """What was done to which operator of the source; `operator` is how people call it."""

    operator: str
    what: str


_QUANTIZED = (DType.INT8, DType.UINT8, DType.INT16)
Accepts = Callable[[Graph, Op], bool]
"""Whether the target takes an operator of a graph."""


class Editor:
    """A subgraph that is being changed: tensors are appended, operators replaced in place."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.tensors: list[Tensor] = list(graph.tensors)
        self.ops: list[list[Op]] = [[op] for op in graph.ops]
        self.changes: list[Change] = []

    def add(self, tensor: Tensor) -> int:
        """The index of a new tensor."""
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def put(self, position: int, ops: list[Op], what: str) -> None:
        """Operators in place of the one at `position` of the given graph."""
        op = self._graph.ops[position]
        name = self._graph.tensors[op.outputs[0]].name if op.outputs and op.outputs[0] >= 0 else ""
        self.ops[position] = ops
        self.changes.append(Change(f"{op.name} {name!r}", what))

    def graph(self) -> Graph:
        """The subgraph as changed so far."""
        ops = tuple(op for group in self.ops for op in group)
        return replace(self._graph, tensors=tuple(self.tensors), ops=ops)


def is_static(tensor: Tensor) -> bool:
    """Whether the shape in the file is the only one that the tensor can have."""
    return all(extent > 0 for extent in tensor.shape) and -1 not in (tensor.shape_signature or ())


def same_quantization(first: Tensor, second: Tensor) -> bool:
    """Whether both are quantized alike: equal 8- or 16-bit type, one positive scale, one zero point."""
    one, other = first.quantization, second.quantization
    if first.dtype is not second.dtype or first.dtype not in _QUANTIZED or one is None or other is None:
        return False
    if one.scales.size != 1 or other.scales.size != 1:
        return False
    return bool(one.scales[0] == other.scales[0] and one.scales[0] > 0 and one.zero_point == other.zero_point)
