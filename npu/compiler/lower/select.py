"""SELECT and SELECT_V2: products with truth values, of which one of two is 0."""

from __future__ import annotations

import math

from npu.compiler.ir import View
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.elementwise import ElementwiseOperand, combine, invert, operand_of, plain
from npu.compiler.lower.geometry import fold_shape
from npu.graph.graph import Op
from npu.isa.operations import INT16, ElementType, ElementwiseMode
from npu.records import replace


def lower_select(builder: Builder, op: Op) -> None:
    """condition * x + (1 - condition) * y; where one of 8-bit values is a number, that is the zero point of one product."""
    declared = builder.tensor(op.outputs[0]).shape
    shape = (1,) * (3 - len(declared)) + declared
    condition = _condition(builder, op, shape)
    x, y = (operand_of(builder, index, len(shape)) for index in op.inputs[1:])
    ofm = builder.output(op.outputs[0])
    element = ofm.element
    if element.bits == 8 and y.scalar is not None:
        _pick(builder, op, shape, ofm, (condition, x), y.scalar)
        return
    inverse = _inverse(builder, condition)
    if element.bits == 8 and x.scalar is not None:
        _pick(builder, op, shape, ofm, (inverse, y), x.scalar)
        return
    parts = []
    for name, is_taken, values in (("taken", condition, x), ("other", inverse, y)):
        part = builder.temporary(name, ofm.shape, element)
        factors = _as(builder, is_taken, element), values
        combine(builder, plain(ElementwiseMode.MUL), builder.finish(op), part, shape, factors)
        parts.append(ElementwiseOperand(part, shape, None))
    combine(builder, plain(ElementwiseMode.ADD), builder.finish(op), ofm, shape, (parts[0], parts[1]))


def _condition(builder: Builder, op: Op, shape: tuple[int, ...]) -> ElementwiseOperand:
    """The truth values; SELECT takes a vector of them for the first dimension, SELECT_V2 for the last."""
    own = operand_of(builder, op.inputs[0], len(shape))
    length = math.prod(own.shape)
    if op.kind == "SELECT" and len(builder.tensor(op.inputs[0]).shape) == 1 < len(builder.tensor(op.outputs[0]).shape):
        first = len(shape) - len(builder.tensor(op.outputs[0]).shape)
        by_row = tuple(length if axis == first else 1 for axis in range(len(shape)))
        return replace(own, view=builder.reshaped(own.view, fold_shape(by_row)), shape=by_row)
    return own


def _pick(
    builder: Builder,
    op: Op,
    shape: tuple[int, ...],
    ofm: View,
    factors: tuple[ElementwiseOperand, ElementwiseOperand],
    number: int,
) -> None:
    """(values - number) * truth + number."""
    truth, values = _as(builder, factors[0], ofm.element), factors[1]
    values = replace(values, view=replace(values.view, zero_point=number))
    target = replace(ofm, zero_point=number)
    combine(builder, plain(ElementwiseMode.MUL), builder.finish(op), target, shape, (truth, values))


def _inverse(builder: Builder, condition: ElementwiseOperand) -> ElementwiseOperand:
    scalar = None if condition.scalar is None else 1 - condition.scalar
    inverse = builder.temporary("inverse", condition.view.shape, condition.view.element)
    invert(builder, condition.view, inverse)
    return replace(condition, view=inverse, scalar=scalar)


def _as(builder: Builder, operand: ElementwiseOperand, element: ElementType) -> ElementwiseOperand:
    """Truth values as numbers of a type."""
    view = operand.view
    if element.bits == 8:
        return replace(operand, view=replace(view, element=element))
    wide = builder.temporary("truth", view.shape, INT16)
    builder.copy(view, wide)
    if element is not INT16:
        wider = builder.temporary("wide truth", view.shape, element)
        builder.widen(wide, wider)
        wide = wider
    return replace(operand, view=wide)
