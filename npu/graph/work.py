"""How much arithmetic an operator is: multiply-accumulates and elements, from shapes alone."""

from __future__ import annotations

from npu.graph.graph import Graph, Op
from npu.graph.macs import input_shape, output_elements
from npu.graph.ops import BY_NAME

__all__ = ["input_shape", "macs", "output_elements"]


def macs(graph: Graph, op: Op) -> int:
    """Multiply-accumulates of one operator; 0 for operators that are not products with weights."""
    row = BY_NAME.get(op.kind)
    return row.macs(graph, op) if row is not None and row.macs and op.outputs and op.inputs else 0
