"""How much arithmetic an operator is: multiply-accumulates and elements, from shapes alone."""

from __future__ import annotations

import math
from collections.abc import Callable

from npu.graph.graph import ABSENT, Graph, Op


def macs(graph: Graph, op: Op) -> int:
    """Multiply-accumulates of one operator; 0 for operators that are not products with weights.

    Convolutions count every kernel position of every output element, padding included, as is usual in the field. Recurrent
    cells count every weight of their matrices once per time step.
    """
    count = _MACS.get(op.kind)
    return count(graph, op) if count and op.outputs and op.inputs else 0


def output_elements(graph: Graph, op: Op) -> int:
    """Elements that the operator writes, all outputs together."""
    return sum(graph.tensors[index].elements for index in op.outputs if index != ABSENT)


def input_shape(graph: Graph, op: Op, position: int) -> tuple[int, ...]:
    """Shape of the input at a position, empty if it is not given."""
    index = op.inputs[position] if position < len(op.inputs) else ABSENT
    return graph.tensors[index].shape if index != ABSENT else ()


def _convolution(graph: Graph, op: Op) -> int:
    weights = input_shape(graph, op, 1)
    return output_elements(graph, op) * weights[1] * weights[2] * weights[3] if len(weights) == 4 else 0


def _depthwise(graph: Graph, op: Op) -> int:
    weights = input_shape(graph, op, 1)
    return output_elements(graph, op) * weights[1] * weights[2] if len(weights) == 4 else 0


def _transposed(graph: Graph, op: Op) -> int:
    weights, ifm = input_shape(graph, op, 1), input_shape(graph, op, 2)
    if len(weights) != 4 or len(ifm) != 4:
        return 0
    return ifm[0] * ifm[1] * ifm[2] * weights[0] * weights[1] * weights[2] * weights[3]


def _convolution_3d(graph: Graph, op: Op) -> int:
    weights = input_shape(graph, op, 1)
    return output_elements(graph, op) * math.prod(weights[:4]) if len(weights) == 5 else 0


def _fully_connected(graph: Graph, op: Op) -> int:
    weights = input_shape(graph, op, 1)
    return output_elements(graph, op) * weights[-1] if weights else 0


def _matmul(graph: Graph, op: Op) -> int:
    left = input_shape(graph, op, 0)
    return output_elements(graph, op) * left[-1] if left else 0


def _recurrent(*matrices: int) -> Callable[[Graph, Op], int]:
    """Of a cell whose weight matrices are these inputs: each element is used once per batch and time step."""

    def count(graph: Graph, op: Op) -> int:
        steps = math.prod(input_shape(graph, op, 0)[:-1])
        shapes = (input_shape(graph, op, position) for position in matrices)
        return steps * sum(math.prod(shape) for shape in shapes if len(shape) == 2)

    return count


def _lstm(graph: Graph, op: Op) -> int:
    """The basic cell has one matrix for all gates, the full one four of the input, four of the state and a projection."""
    return (_recurrent(2) if len(op.inputs) == _BASIC_LSTM_INPUTS else _full_lstm)(graph, op)


_BASIC_LSTM_INPUTS = 5
_full_lstm = _recurrent(*range(1, 9), 16)

_MACS: dict[str, Callable[[Graph, Op], int]] = {
    "CONV_2D": _convolution,
    "CONV_3D": _convolution_3d,
    "DEPTHWISE_CONV_2D": _depthwise,
    "TRANSPOSE_CONV": _transposed,
    "FULLY_CONNECTED": _fully_connected,
    "BATCH_MATMUL": _matmul,
    "LSTM": _lstm,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _full_lstm,
    "BIDIRECTIONAL_SEQUENCE_LSTM": _recurrent(*range(1, 9), 16, *range(18, 26), 33, *range(40, 48)),
    "RNN": _recurrent(1, 2),
    "UNIDIRECTIONAL_SEQUENCE_RNN": _recurrent(1, 2),
    "BIDIRECTIONAL_SEQUENCE_RNN": _recurrent(1, 2, 5, 6, 10, 11),
    "SVDF": _recurrent(1, 2),
}
