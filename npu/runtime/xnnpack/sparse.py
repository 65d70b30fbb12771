"""Sparse inference: which operators of a partition form a sparse subgraph, and the 1x1 convolution over non-zero weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from constraints.sparse import sparse_violations
from npu.graph.graph import Graph
from npu.numerics.arrays import Array
from npu.runtime.operator import OperatorNode
from npu.runtime.operators.common import float_bounds
from npu.runtime.xnnpack.convolution import Store
from npu.runtime.xnnpack.kernels.sparse import multiply_sparse
from npu.runtime.xnnpack.memory import guarded
from npu.runtime.xnnpack.operand import ConstantOperand
from npu.runtime.xnnpack.operation import XnnpackOperation

_TAILS = ("MEAN", "DEPTH_TO_SPACE")


def sparse_operators(graph: Graph, ops: Sequence[int]) -> frozenset[int]:
    """The operators of sparse subgraphs among `ops`, which are in execution order; the longest from each first operator."""
    result: set[int] = set()
    position = 0
    while position < len(ops):
        end = _end(graph, ops, position) if graph.ops[ops[position]].kind in ("CONV_2D", "DENSIFY") else None
        if end is None:
            position += 1
            continue
        result.update(ops[position:end])
        position = end
    return frozenset(result)


def _end(graph: Graph, ops: Sequence[int], start: int) -> int | None:
    for end in range(len(ops), start, -1):
        if graph.ops[ops[end - 1]].kind in _TAILS and not sparse_violations(graph, ops[start:end]):
            return end
    return None


class SparseConvolution(XnnpackOperation):
    """A float CONV_2D with a 1x1 kernel that skips zero weights; sums in the order of the input channels."""

    def __init__(self, index: int, node: OperatorNode, given: ConstantOperand, store: Store) -> None:
        super().__init__(index, node)
        matrix = given.weights.reshape(given.weights.shape[0], -1)
        rows, columns = np.nonzero(matrix)
        self.starts = np.searchsorted(rows, np.arange(matrix.shape[0] + 1)).astype(np.int64)
        self.columns = columns.astype(np.int64)
        values = guarded((self.columns.size,), np.dtype(np.float32))
        values[...] = matrix[rows, columns]
        self.values: Array = store(values.view(np.uint8)).view(np.float32)
        self.bias = given.bias

    def prepare(self) -> None:
        self.node.set_shape((*self.node.input(0).shape[:3], self.bias.size))

    def run(self) -> None:
        ifm, output = self.node.input(0).array, self.node.output()
        by_channel = np.ascontiguousarray(ifm.reshape(-1, ifm.shape[-1]).T)
        result = np.empty((self.bias.size, by_channel.shape[1]), np.float32)
        limits = float_bounds(self.node, self.node.attributes.fused_activation_function)
        multiply_sparse(by_channel, self.starts, self.columns, self.values, self.bias, *limits, result)
        output.array[...] = result.T.reshape(output.shape)
