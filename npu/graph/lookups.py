"""Functions of one 8-bit value that a model computes in floats: the only place that finds them.

A DEQUANTIZE or CAST, arithmetic with numbers, a QUANTIZE: whatever floats are between, 256 values become 256 values. So the
QUANTIZE can look them up, and what is in front of it need not run unless others read it.
"""

from __future__ import annotations

from collections.abc import Sequence

from npu.graph.dtype import DType
from npu.graph.graph import ABSENT, Graph, Op, Tensor
from npu.records import dataclass

_BEGINNINGS = ("CAST", "DEQUANTIZE")
_FUNCTIONS = frozenset({
    "ABS", "ADD", "CEIL", "DIV", "FLOOR", "HARD_SWISH", "LEAKY_RELU", "MAXIMUM", "MINIMUM", "MUL", "NEG", "PRELU", "RELU",
    "RELU6", "RELU_0_TO_1", "RELU_N1_TO_1", "ROUND", "SQRT", "SQUARE", "SQUARED_DIFFERENCE", "SUB",
})  # fmt: skip
"""Operators whose results IEEE 754 fixes: each operation is rounded once, on every machine."""
_EIGHT_BITS = (DType.INT8, DType.UINT8)
_LONGEST = 16
"""Operators between."""


@dataclass(frozen=True, slots=True)
class Island:
    """Operator `end`, a QUANTIZE, whose result is a function of `source`, and the operators `before` it, in order."""

    source: int
    before: tuple[int, ...]
    end: int


def islands(graph: Graph) -> list[Island]:
    """Those of a graph, in order. None holds an operator that needs not run."""
    ends = [
        index
        for index, op in enumerate(graph.ops)
        if op.kind == "QUANTIZE" and index not in graph.unneeded and _is_between(graph.tensors, op, DType.FLOAT32, _EIGHT_BITS)
    ]
    if not ends:
        return []
    makers = {tensor: index for index, op in enumerate(graph.ops) for tensor in op.outputs}
    candidates = (_island(graph, makers, end) for end in ends)
    return [island for island in candidates if island is not None]


def _is_between(tensors: Sequence[Tensor], op: Op, read: DType, written: Sequence[DType]) -> bool:
    """Whether an operator of one input makes a map of these types of one of that."""
    if len(op.inputs) != 1 or len(op.outputs) != 1 or op.inputs[0] == ABSENT:
        return False
    source, target = tensors[op.inputs[0]], tensors[op.outputs[0]]
    return source.dtype is read and target.dtype in written and source.shape == target.shape and not source.is_constant


def _island(graph: Graph, makers: dict[int, int], end: int) -> Island | None:
    tensors, shape = graph.tensors, graph.tensors[graph.ops[end].outputs[0]].shape
    sources, before, waiting = set[int](), set[int](), [graph.ops[end].inputs[0]]
    while waiting:
        index = makers.get(waiting.pop())
        if index is None or len(before) > _LONGEST or index in graph.unneeded:
            return None
        op = graph.ops[index]
        if index in before:
            continue
        before.add(index)
        if any(_is_between(tensors, op, dtype, (DType.FLOAT32,)) for dtype in _EIGHT_BITS) and op.kind in _BEGINNINGS:
            sources.add(op.inputs[0])
        elif op.kind in _FUNCTIONS and len(op.outputs) == 1 and tensors[op.outputs[0]].shape == shape:
            operands = [index for index in op.inputs if not _is_number(tensors, index)]
            if not operands or any(index == ABSENT or tensors[index].dtype is not DType.FLOAT32 for index in operands):
                return None
            waiting += operands
        else:
            return None
    return Island(sources.pop(), tuple(sorted(before)), end) if len(sources) == 1 else None


def _is_number(tensors: Sequence[Tensor], index: int) -> bool:
    if index == ABSENT:
        return False
    tensor = tensors[index]
    return tensor.is_constant and not tensor.is_variable and tensor.elements == 1
