"""Multiply-accumulates of an operator, from shapes alone; 0 where they do not belong together.

Convolutions count every kernel position of every output element, padding included, as is usual in the field. Recurrent cells
count every weight of their matrices once per time step. Which operator has which rule is in `npu.graph.ops`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from npu.graph.graph import ABSENT, Graph, Op

MacRule = Callable[[Graph, Op], int]


def output_elements(graph: Graph, op: Op) -> int:
    """Elements that the operator writes, all outputs together."""
    return sum(graph.tensors[index].elements for index in op.outputs if index != ABSENT)


def input_shape(graph: Graph, op: Op, position: int) -> tuple[int, ...]:
    """Shape of the input at a position, empty if it is not given."""
    index = op.inputs[position] if position < len(op.inputs) else ABSENT
    return graph.tensors[index].shape if index != ABSENT else ()


def convolution(graph: Graph, op: Op) -> int:
    weights = input_shape(graph, op, 1)
    return output_elements(graph, op) * weights[1] * weights[2] * weights[3] if len(weights) == 4 else 0


def depthwise(graph: Graph, op: Op) -> int:
    weights = input_shape(graph, op, 1)
    return output_elements(graph, op) * weights[1] * weights[2] if len(weights) == 4 else 0


def transposed(graph: Graph, op: Op) -> int:
    weights, ifm = input_shape(graph, op, 1), input_shape(graph, op, 2)
    if len(weights) != 4 or len(ifm) != 4:
        return 0
    return ifm[0] * ifm[1] * ifm[2] * weights[0] * weights[1] * weights[2] * weights[3]


def convolution_3d(graph: Graph, op: Op) -> int:
    weights = input_shape(graph, op, 1)
    return output_elements(graph, op) * math.prod(weights[:4]) if len(weights) == 5 else 0


def fully_connected(graph: Graph, op: Op) -> int:
    weights = input_shape(graph, op, 1)
    return output_elements(graph, op) * weights[-1] if weights else 0


def matmul(graph: Graph, op: Op) -> int:
    left = input_shape(graph, op, 0)
    return output_elements(graph, op) * left[-1] if left else 0


def recurrent(*matrices: int) -> Callable[[Graph, Op], int]:
    """Of a cell whose weight matrices are these inputs: each element is used once per batch and time step."""

    def count(graph: Graph, op: Op) -> int:
        steps = math.prod(input_shape(graph, op, 0)[:-1])
        shapes = (input_shape(graph, op, position) for position in matrices)
        return steps * sum(math.prod(shape) for shape in shapes if len(shape) == 2)

    return count


def lstm(graph: Graph, op: Op) -> int:
    """The basic cell has one matrix for all gates, the full one four of the input, four of the state and a projection."""
    return (recurrent(2) if len(op.inputs) == BASIC_LSTM_INPUTS else full_lstm)(graph, op)


BASIC_LSTM_INPUTS = 5
full_lstm = recurrent(*range(1, 9), 16)
