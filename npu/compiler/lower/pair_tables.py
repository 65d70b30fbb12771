"""Binary operators of which one 8-bit value decides both operands: they are tables, too.

As x * logistic(x), x less its size, or PRELU with one slope.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from npu.compiler.lower.activation_tables import ELEMENTS, Quantized, result_of
from npu.compiler.lower.quantize import activation_range
from npu.errors import CompileError
from npu.graph.attributes import FusedActivation
from npu.graph.graph import Graph, Op
from npu.numerics.arrays import Ints
from npu.numerics.scaling import multiply, quantize_multiplier, rule_a

PAIRS = frozenset({"ADD", "MAXIMUM", "MINIMUM", "MUL", "PRELU", "SUB"})
_FRACTION_BITS = 20
"""What the reference kernel gives the operands of a sum of 8 bits."""
_SUM_END, _PRODUCT_END = 8.0, float(1 << 14)
"""Factors of sums and products from which on 64 bits would not hold what the multiplier makes of them."""


def activation_of(op: Op) -> FusedActivation:
    """The activation that is fused into an operator."""
    function: FusedActivation = getattr(op.attributes, "fused_activation_function", FusedActivation.NONE)
    return function


def has_small_factor(graph: Graph, op: Op) -> bool:
    """Whether 64 bits hold the arithmetic of an operator of `PAIRS`, whose tensors must have scales for that."""
    try:
        first, second, target = (Quantized.of(index, graph.tensors[index]) for index in (*op.inputs, op.outputs[0]))
    except CompileError:
        return False
    if min(first.scale, second.scale, target.scale) <= 0:
        return False
    if op.kind in ("MUL", "PRELU"):
        return float(max(first.scale * second.scale, first.scale) / target.scale) < _PRODUCT_END
    return 2.0 * float(max(first.scale, second.scale)) / (float(1 << _FRACTION_BITS) * float(target.scale)) < _SUM_END


def function_values(graph: Graph, op: Op, known: Mapping[int, Ints]) -> Ints:
    """The stored results of a function for the stored values of its operands: those of `known` tensors, or a constant."""
    if op.lookup is not None:
        return op.lookup.entries[known[op.inputs[0]] - ELEMENTS[graph.tensors[op.inputs[0]].dtype].minimum]
    quantized = [Quantized.of(index, graph.tensors[index]) for index in (*op.inputs, op.outputs[0])]
    if op.kind not in PAIRS:
        return result_of(op, known[op.inputs[0]], quantized[0], quantized[-1])
    first, second = (known[index] if index in known else _constant(graph, index) for index in op.inputs)
    return _pair(op, first, second, *quantized)


def _constant(graph: Graph, index: int) -> Ints:
    data = graph.tensors[index].data
    assert data is not None
    return data.reshape(1).astype(np.int64)


def _pair(op: Op, a: Ints, b: Ints, first: Quantized, second: Quantized, target: Quantized) -> Ints:
    """As the reference kernels compute it, and as elementwise steps do: `npu.compiler.lower.elementwise`."""
    if op.kind in ("MAXIMUM", "MINIMUM"):
        return np.maximum(a, b) if op.kind == "MAXIMUM" else np.minimum(a, b)
    a, b = a - first.zero_point, b - second.zero_point
    if op.kind == "MUL":
        made = rule_a(a * b, float(first.scale * second.scale / target.scale))
    elif op.kind == "PRELU":
        bent = rule_a(a * b, float(first.scale * second.scale / target.scale))
        made = np.where(a >= 0, rule_a(a, float(first.scale / target.scale)), bent)
    else:
        largest = 2.0 * float(max(first.scale, second.scale))
        a, b = (
            multiply(x << _FRACTION_BITS, *quantize_multiplier(float(one.scale) / largest))
            for x, one in ((a, first), (b, second))
        )
        factor = largest / (float(1 << _FRACTION_BITS) * float(target.scale))
        made = rule_a(a - b if op.kind == "SUB" else a + b, factor)
    return np.clip(
        made + target.zero_point,
        *activation_range(activation_of(op).name, target.scale, target.zero_point, target.element),
    )


def is_pair(graph: Graph, op: Op, known: Collection[int]) -> bool:
    """Whether an operator is one of `PAIRS` whose operands are 8-bit tensors of `known`, or one of them a number."""
    if op.kind not in PAIRS or len(op.inputs) != 2 or activation_of(op) is FusedActivation.TANH:
        return False
    target, operands = graph.tensors[op.outputs[0]], [graph.tensors[index] for index in op.inputs]
    if ELEMENTS.get(target.dtype) is None or target.dtype.bits != 8 or any(one.dtype is not target.dtype for one in operands):
        return False
    decided = [index in known and one.shape == target.shape for index, one in zip(op.inputs, operands, strict=True)]
    numbers = [one.is_constant and one.elements == 1 for one in operands]
    is_known = decided[0] and numbers[1] if op.kind == "PRELU" else any(decided)
    if not is_known or not all(a or b for a, b in zip(decided, numbers, strict=True)):
        return False
    is_single = all(one.quantization is not None and one.quantization.scales.size == 1 for one in (target, *operands))
    return is_single and has_small_factor(graph, op)
