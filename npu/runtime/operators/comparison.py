"""Comparisons and logic of two operands with broadcasting."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npu.graph.dtype import DType
from npu.numerics.arrays import Array
from npu.numerics.comparison import EQUALITIES, RELATIONS, Relation, on_one_scale
from npu.runtime.implementation import Implementation
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.operators.common import require_quantized
from npu.runtime.tensor import RuntimeTensor
from npu.runtime.types import for_codes


def _comparison(relation: Relation, types: tuple[DType, ...] = (DType.INT8, DType.UINT8)) -> Callable[[OperatorNode], Run]:
    def build(node: OperatorNode) -> Run:
        left, right, output = node.input(0), node.input(1), node.output()
        if left.dtype in types and left.is_quantized:
            require_quantized(node, left, right)

            def run_quantized() -> None:
                output.array[...] = relation(_common(left), _common(right))

            return run_quantized

        def run() -> None:
            output.array[...] = relation(left.array, right.array)

        return run

    return build


def _common(tensor: RuntimeTensor) -> Array:
    return on_one_scale(tensor.array, tensor.scale, tensor.zero_point)


_SCALED = (DType.INT8, DType.UINT8, DType.INT16)
"""Types whose scales EQUAL and NOT_EQUAL take into account; the orders compare int16 as it is stored."""
_TYPES = for_codes("T T -> bool", "f32 f16 i8 u8 i16 i32 i64")
_EQUALITY = for_codes("T T -> bool", "f32 f16 i8 u8 i16 i32 i64 bool str")
_LOGIC = ("bool bool -> bool",)

OPERATORS = (
    *(Implementation(kind, _comparison(RELATIONS[kind], _SCALED), _EQUALITY) for kind in EQUALITIES),
    *(Implementation(kind, _comparison(relation), _TYPES) for kind, relation in RELATIONS.items() if kind not in EQUALITIES),
    Implementation("LOGICAL_AND", _comparison(np.logical_and), _LOGIC),
    Implementation("LOGICAL_OR", _comparison(np.logical_or), _LOGIC),
)
