"""EQUAL, LESS and the like.

Of 8-bit values it is the sign of a difference that saturates, through a table of 256 entries; Ethos-U85 compares wider ones.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu.compiler.lower.activation_tables import Quantized, as_bytes
from npu.compiler.lower.builder import Builder, Finish
from npu.compiler.lower.elementwise import ElementwiseOperand, aligned, combine, plain
from npu.compiler.lower.geometry import fold_shape
from npu.graph.graph import Op
from npu.isa.operations import ElementType, ElementwiseMode
from npu.numerics.arrays import Ints
from npu.numerics.comparison import MOST_SYMBOLS, RELATIONS, on_one_scale
from npu.numerics.comparison import symbols as symbols_of
from npu.records import replace

_MODES = {
    "EQUAL": (ElementwiseMode.CMP_EQ, False),
    "GREATER": (ElementwiseMode.CMP_GT, False),
    "GREATER_EQUAL": (ElementwiseMode.CMP_GE, False),
    "LESS": (ElementwiseMode.CMP_GT, True),
    "LESS_EQUAL": (ElementwiseMode.CMP_GE, True),
    "NOT_EQUAL": (ElementwiseMode.CMP_NE, False),
}
"""How each is said, and whether its operands change places."""


def lower_comparison(builder: Builder, op: Op) -> None:
    """With a constant of one element one look-up, else a difference of stored values, or of what stands for them."""
    if builder.tensor(op.inputs[0]).dtype.bits > 8:
        _compare_words(builder, op)
        return
    constants = [position for position, index in enumerate(op.inputs) if _is_number(builder, index)]
    if constants:
        _compare_with_number(builder, op, constants[-1])
        return
    sides = [builder.quantized(index) for index in op.inputs]
    symbols = symbols_of(op.kind, *(_real(side, side.values) for side in sides))
    if symbols.count > MOST_SYMBOLS:
        raise builder.error(op, f"values must need at most {MOST_SYMBOLS} symbols to be compared, got {symbols.count}")
    shape, *operands = aligned(builder, op, uses_zero_points=False)
    a, b = (_as_symbols(builder, one, own) for one, own in zip(operands, (symbols.left, symbols.right), strict=True))
    element, half = sides[0].element, MOST_SYMBOLS // 2
    truth = symbols.relation(np.arange(MOST_SYMBOLS) - half, np.zeros(MOST_SYMBOLS, np.int64))
    finish = _finish(op, element, truth, element.minimum + half)
    difference = replace(plain(ElementwiseMode.SUB), uses_zero_points=False)
    combine(builder, difference, finish, builder.result(finish, is_raw=True), shape, (a, b))


def _compare_words(builder: Builder, op: Op) -> None:
    """Wider numbers as they are, by the hardware, where what is true is -1."""
    mode, is_swapped = _MODES[op.kind]
    shape, *operands = aligned(builder, op, uses_zero_points=False)
    a, b = reversed(operands) if is_swapped else operands
    y = builder.output(op.outputs[0])
    minus = builder.temporary("minus one", y.shape, y.element)
    combine(builder, plain(mode), builder.finish(op), minus, shape, (a, b))
    builder.elementwise(ElementwiseMode.SUB, minus, y, 0, is_reversed=True)


def _is_number(builder: Builder, index: int) -> bool:
    tensor = builder.tensor(index)
    return tensor.data is not None and tensor.elements == 1


def _real(side: Quantized, values: Ints) -> Ints:
    return on_one_scale(values, float(side.scale), side.zero_point)


def _compare_with_number(builder: Builder, op: Op, position: int) -> None:
    index, number = op.inputs[1 - position], op.inputs[position]
    side, constant = builder.quantized(index), builder.constant_data(number).reshape(1)
    values, limit = _real(side, side.values), _real(builder.quantized(number), constant.astype(np.int64))
    truth = RELATIONS[op.kind](*((limit, values) if position == 0 else (values, limit)))
    finish = _finish(op, side.element, truth)
    x = builder.reshaped(builder.input(index), fold_shape(builder.tensor(op.outputs[0]).shape))
    builder.point(x, builder.result(finish, is_raw=True), lut=finish.lut)


def _finish(op: Op, element: ElementType, truth: npt.NDArray[np.bool_], offset: int = 0) -> Finish:
    """The truth of every value of a type, which is looked up."""
    return Finish(op.outputs[0], 0, offset, element.minimum, element.maximum, as_bytes(truth.astype(np.int64)), element)


def _as_symbols(builder: Builder, operand: ElementwiseOperand, own: Ints) -> ElementwiseOperand:
    """An operand with the symbols of its values in their stead, the first symbol the smallest value."""
    if np.array_equal(own, np.arange(MOST_SYMBOLS)):
        return operand
    source = operand.view
    target = builder.temporary("symbols", source.shape, source.element)
    builder.point(source, target, lut=as_bytes(own + source.element.minimum))
    return replace(operand, view=target, scalar=None)
