"""ADD, SUB, MUL, MINIMUM, MAXIMUM, LOGICAL_AND, LOGICAL_OR: binary operators with broadcasting; and LOGICAL_NOT."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import numpy as np

from npu.compiler.ir import NO_SCALE, ElementwiseStep, StepWeights, View
from npu.compiler.lower.activation import lower_function
from npu.compiler.lower.activation_tables import Quantized
from npu.compiler.lower.builder import Builder, Finish
from npu.compiler.lower.geometry import fold_shape, images
from npu.compiler.lower.memory import broadcast
from npu.compiler.lower.parts import part_of, parts_with_room
from npu.compiler.lower.quantize import FactorError, register_scale
from npu.graph.attributes import AddOptions, SubOptions
from npu.graph.dtype import DType
from npu.graph.graph import Op
from npu.isa.operations import IDENTITY, INT16, ElementwiseMode, OperandScaling, Rounding, Scale
from npu.records import dataclass, replace

_SUM_BITS = {8: 20, 16: 15}
"""Fraction bits that the reference kernel gives operands of ADD and SUB of 8 and 16 bits."""

_BYTES_BETWEEN = 8
"""Of every value of SQUARED_DIFFERENCE at a time: operand, result, and in 16 bits both operands and their difference."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Operation, scales and rounding of a binary step; operands named in the graph's order."""

    mode: ElementwiseMode
    scale: Scale
    rounding: Rounding = Rounding.DOUBLE
    operand_scaling: OperandScaling = OperandScaling.BOTH_16
    opa_scale: Scale = NO_SCALE
    opb_scale: int = 0
    uses_zero_points: bool = True


def lower_add(builder: Builder, op: Op) -> None:
    """ADD."""
    _lower_sum(builder, op, ElementwiseMode.ADD)


def lower_sub(builder: Builder, op: Op) -> None:
    """SUB."""
    _lower_sum(builder, op, ElementwiseMode.SUB)


def _lower_sum(builder: Builder, op: Op, mode: ElementwiseMode) -> None:
    if _is_plain(builder, op):
        _lower(builder, op, plain(mode))
        return
    first, second, output = (builder.quantized(tensor) for tensor in (*op.inputs, op.outputs[0]))
    shifts = _powers_of_two(op, first, second, output)
    if shifts is None:
        bits = _SUM_BITS[output.element.bits]
        _lower(builder, op, sum_arithmetic(mode, first.scale, second.scale, output.scale, bits))
    else:
        _lower(builder, op, plain(mode), operand_shifts=shifts)


def _is_plain(builder: Builder, op: Op) -> bool:
    """Whether the operands are numbers of 32 bits, which nothing scales."""
    return builder.tensor(op.outputs[0]).dtype is DType.INT32


def plain(mode: ElementwiseMode) -> Arithmetic:
    """Results as they are; where operands have scales, these are 1."""
    if mode.scales_operands:
        return Arithmetic(mode, IDENTITY, Rounding.NATURAL, opa_scale=IDENTITY, opb_scale=1)
    return Arithmetic(mode, IDENTITY, Rounding.NATURAL)


def _powers_of_two(op: Op, first: Quantized, second: Quantized, output: Quantized) -> tuple[int, int] | None:
    """How far TFLite's older kernel of int16 shifts each operand right; None where its newer one runs."""
    options = op.attributes
    operands = (first, second, output)
    is_old = isinstance(options, AddOptions | SubOptions) and options.pot_scale_int16 and output.element is INT16
    if not is_old or any(operand.zero_point or math.frexp(operand.scale)[0] != 0.5 for operand in operands):
        return None
    exponents = [math.frexp(operand.scale)[1] for operand in operands]
    shifts = exponents[2] - exponents[0], exponents[2] - exponents[1]
    if min(shifts) < 0 or 0 not in shifts:
        raise FactorError(f"one operand must have the output's power-of-two scale and none a larger one, got {exponents}")
    return shifts


def lower_mul(builder: Builder, op: Op) -> None:
    """MUL: the three scales are combined in float32, as TFLite does."""
    if _is_plain(builder, op):
        _lower(builder, op, plain(ElementwiseMode.MUL))
        return
    first, second, output = (builder.scale(tensor) for tensor in (*op.inputs, op.outputs[0]))
    scale = register_scale(float(first * second / output))
    ways = [functools.partial(_lower, builder, op, Arithmetic(ElementwiseMode.MUL, scale))]
    if not builder.family.repeats_both_operands and (column := _multiplied_column(builder, op)) is not None:
        ways.append(functools.partial(_multiply_column, builder, op, column, scale))
    builder.make_cheapest(ways)


def _multiplied_column(builder: Builder, op: Op) -> int | None:
    """The tensor of one channel that is multiplied by a constant of one place, if both are 8 bits wide; else None."""
    height, width, depth = fold_shape(builder.tensor(op.outputs[0]).shape)
    if depth == 1 or height * width == 1 or builder.quantized(op.outputs[0]).element.bits != 8:
        return None
    for column, row in (op.inputs, op.inputs[::-1]):
        is_column = builder.input(column).shape == (height, width, 1) and not builder.tensor(column).is_constant
        is_row = builder.input(row).shape == (1, 1, depth) and builder.tensor(row).is_constant
        if is_column and is_row:
            return column
    return None


def _multiply_column(builder: Builder, op: Op, column: int, scale: Scale) -> None:
    """A convolution of the one channel, whose weights are the constant: the NPU repeats one operand of a product only."""
    (row,) = (tensor for tensor in op.inputs if tensor != column)
    values = builder.constant_data(row).astype(np.int16).reshape(-1, 1, 1, 1) - np.int16(builder.zero_point(row))
    finish = builder.finish(op)
    weights = StepWeights.unbiased(values, scale)
    builder.convolve(builder.input(column, builder.zero_point(column)), builder.result(finish), weights, finish=finish)


def lower_negative(builder: Builder, op: Op) -> None:
    """NEG: of numbers of 32 bits 0 less each, of 8 bits a table.

    Of 16 bits the smallest is its own negative, where the output unit saturates: 65,535 are taken away there alone.
    """
    if _is_plain(builder, op):
        x, y = builder.input(op.inputs[0]), builder.output(op.outputs[0])
        builder.elementwise(ElementwiseMode.SUB, x, y, 0, is_reversed=True)
    elif builder.tensor(op.outputs[0]).dtype is DType.INT16:
        x, finish = builder.input(op.inputs[0]), builder.finish(op)
        saturated, least = (builder.temporary(name, x.shape, INT16) for name in ("saturated", "is least"))
        builder.elementwise(ElementwiseMode.SUB, x, saturated, 0, is_reversed=True)
        builder.point(x, replace(least, zero_point=INT16.maximum), -1, 0)
        builder.elementwise(
            ElementwiseMode.ADD,
            saturated,
            builder.result(finish),
            least,
            minimum=finish.minimum,
            maximum=finish.maximum,
            lut=finish.lut,
            factors=(1, (1 << 16) - 1),
        )
    else:
        lower_function(builder, op)


def lower_squared_difference(builder: Builder, op: Op) -> None:
    """SQUARED_DIFFERENCE of int8: both operands in 16 bits with 7 fraction bits, as is their difference, which is squared."""
    first, second, output = (builder.scale(tensor) for tensor in (*op.inputs, op.outputs[0]))
    twice = 2.0 * float(max(first, second))
    shape, a, b = aligned(builder, op)
    scale, finish = register_scale(twice * twice / (float(1 << 14) * float(output))), builder.finish(op)
    for ofm, *operands in _parts(builder, builder.result(finish), shape, a, b):
        one, other = (
            _with_fraction(builder, view, float(factor) / twice) for view, factor in zip(operands, (first, second), strict=True)
        )
        ifm, ifm2 = (one, other) if one.shape == ofm.shape else (other, one)
        ifm = _as_ifm(builder, ifm, ofm)
        difference = builder.temporary("difference", ofm.shape, INT16)  # of two numbers of at most 255 * 64
        builder.elementwise(ElementwiseMode.SUB, ifm, difference, ifm2)
        builder.elementwise(
            ElementwiseMode.MUL,
            difference,
            ofm,
            difference,
            scale=scale,
            minimum=finish.minimum,
            maximum=finish.maximum,
            lut=finish.lut,
        )


def _with_fraction(builder: Builder, x: View, factor: float) -> View:
    """x * 2**7, then the factor, in 16 bits; at once where the factor is 1/2."""
    wide = builder.temporary("with fraction", x.shape, INT16)
    builder.requantize(x, wide, Scale(64 if factor == 0.5 else 128, 0))
    if factor == 0.5:
        return wide
    scaled = builder.temporary("scaled", x.shape, INT16)
    builder.requantize(wide, scaled, register_scale(factor))
    return scaled


def lower_not(builder: Builder, op: Op) -> None:
    """LOGICAL_NOT."""
    invert(builder, builder.input(op.inputs[0]), builder.output(op.outputs[0]))


def invert(builder: Builder, x: View, y: View) -> None:
    """1 less every truth value."""
    builder.elementwise(ElementwiseMode.SUB, x, y, 1, is_reversed=True)


def lower_minimum(builder: Builder, op: Op) -> None:
    """MINIMUM of raw values, LOGICAL_AND of truth values."""
    _lower(builder, op, Arithmetic(ElementwiseMode.MIN, IDENTITY, uses_zero_points=False))


def lower_maximum(builder: Builder, op: Op) -> None:
    """MAXIMUM of raw values, LOGICAL_OR of truth values."""
    _lower(builder, op, Arithmetic(ElementwiseMode.MAX, IDENTITY, uses_zero_points=False))


def sum_arithmetic(
    mode: ElementwiseMode, first: np.float32, second: np.float32, output: np.float32, bits: int = 20
) -> Arithmetic:
    """Scales of a sum: both operands brought to 2 * max scale * 2**-bits, the smaller one by a 32-bit scale.

    Where both scales are equal the cheap form with two 16-bit scales is taken if it gives the same value for every sum.
    """
    largest = 2.0 * float(max(first, second))
    output_scale = register_scale(largest / (float(1 << bits) * float(output)))
    if first == second:
        cheap = _short_operands(mode, output_scale) if bits <= 16 else _simple_sum(mode, output_scale)
        if cheap is not None:
            return cheap
    scales_first = first <= second
    smaller = float(first if scales_first else second)
    scaling = OperandScaling.A_32 if scales_first else OperandScaling.B_32
    operand = register_scale(smaller / largest)
    # The reference shifts the operand left by `bits` before it multiplies; the hardware scale holds both.
    operand = Scale(operand.scale, operand.shift - bits) if operand.shift >= bits else operand
    return Arithmetic(mode, output_scale, operand_scaling=scaling, opa_scale=operand)


def _short_operands(mode: ElementwiseMode, scale: Scale) -> Arithmetic:
    """Two operands of 16 bits and of one scale: half of 15 fraction bits is a factor that a 16-bit scale holds."""
    return Arithmetic(mode, scale, opa_scale=Scale(1 << 14, 0), opb_scale=1 << 14)


@functools.lru_cache(maxsize=256)
def _simple_sum(mode: ElementwiseMode, scale: Scale) -> Arithmetic | None:
    """The form with 16-bit operand scales, if equal to the 20-bit one for every sum of two int8 values."""
    sums = range(-510, 511)
    wide = _SUM_BITS[8] - 1
    for bits in (15, 14, 13):
        shift = scale.shift - (wide - bits)
        if shift < 0:
            continue
        simple = Scale(scale.scale, shift)
        exact = (_double_round((s << wide) * scale.scale, scale.shift) for s in sums)
        if all(value == _double_round((s << bits) * simple.scale, shift) for s, value in zip(sums, exact, strict=True)):
            return Arithmetic(mode, simple, opa_scale=Scale(1 << bits, 0), opb_scale=1 << bits)
    return None


def _double_round(product: int, shift: int) -> int:
    """The output unit's DOUBLE rounding shift."""
    if shift <= 31:
        return (product + (1 << shift >> 1)) >> shift
    first = (product + (1 << 30)) >> 31
    rest = shift - 31
    mask = (1 << rest) - 1
    return (first >> rest) + ((first & mask) > (mask >> 1) + (first < 0))


@dataclass(frozen=True, slots=True)
class ElementwiseOperand:
    """One input: the map, its N-dimensional shape aligned to the output's, and its value if it is a constant scalar."""

    view: View
    shape: tuple[int, ...]
    scalar: int | None


def operand_of(builder: Builder, index: int, rank: int, *, uses_zero_point: bool = False) -> ElementwiseOperand:
    """Tensor `index` as an operand of a result of this rank."""
    tensor = builder.tensor(index)
    shape = (1,) * (rank - len(tensor.shape)) + tensor.shape
    value = int(tensor.data.reshape(-1)[0]) if tensor.data is not None and tensor.elements == 1 else None
    scalar = value if value is not None and -(1 << 15) <= value < 1 << 15 else None  # the register has 16 bits
    return ElementwiseOperand(builder.input(index, builder.zero_point(index) if uses_zero_point else 0), shape, scalar)


def _lower(builder: Builder, op: Op, arithmetic: Arithmetic, operand_shifts: tuple[int, int] = (0, 0)) -> None:
    finish, uses = builder.finish(op), arithmetic.uses_zero_points
    shape, *operands = aligned(builder, op, uses_zero_points=uses)
    a, b = (_shifted(builder, operand, shift) for operand, shift in zip(operands, operand_shifts, strict=True))
    combine(builder, arithmetic, finish, builder.result(finish, is_raw=not uses), shape, (a, b))


def combine(
    builder: Builder,
    arithmetic: Arithmetic,
    finish: Finish,
    ofm: View,
    shape: tuple[int, ...],
    operands: tuple[ElementwiseOperand, ElementwiseOperand],
) -> None:
    """The steps that make `ofm`, which holds a tensor of `shape`, of two operands."""
    a, b = operands
    for view, first, second in _maps(ofm, shape, a, b):
        _emit(builder, arithmetic, finish, view, replace(a, view=first), replace(b, view=second))


def aligned(
    builder: Builder, op: Op, *, uses_zero_points: bool = True
) -> tuple[tuple[int, ...], ElementwiseOperand, ElementwiseOperand]:
    """The shape of the result, of three dimensions at least, and both operands."""
    shape = builder.tensor(op.outputs[0]).shape
    rank = max(3, len(shape))
    first, second = (operand_of(builder, index, rank, uses_zero_point=uses_zero_points) for index in op.inputs)
    return (1,) * (rank - len(shape)) + shape, first, second


def _shifted(builder: Builder, operand: ElementwiseOperand, shift: int) -> ElementwiseOperand:
    """The operand divided by 2**shift, rounded; TFLite's older int16 kernels."""
    if shift == 0:
        return operand
    target = builder.temporary("shifted", operand.view.shape, operand.view.element)
    builder.requantize(operand.view, target, Scale(1 << 30, 30 + shift))
    return replace(operand, view=target, scalar=None)


def _maps(ofm: View, shape: tuple[int, ...], a: ElementwiseOperand, b: ElementwiseOperand) -> Iterator[tuple[View, View, View]]:
    """The folded maps to combine: everything at once where that is possible, else one per index of the outer dimensions."""
    if all(o.shape[:-2] == shape[:-2] or math.prod(o.shape[:-2]) == 1 for o in (a, b)):
        yield ofm, a.view, b.view
        return
    outer = shape[:-3]
    for view, index in zip(images(ofm, math.prod(outer)), np.ndindex(*outer), strict=True):
        yield view, _part(a, index), _part(b, index)


def _parts(
    builder: Builder, ofm: View, shape: tuple[int, ...], a: ElementwiseOperand, b: ElementwiseOperand
) -> Iterator[tuple[View, View, View]]:
    """The same, in parts where maps between, of `_BYTES_BETWEEN` for a value, have no room even in stripes of a row."""
    for whole in _maps(ofm, shape, a, b):
        _, width, depth = whole[0].shape
        between = _BYTES_BETWEEN * depth
        if width * between <= builder.room:
            yield whole
            continue
        for part in parts_with_room(builder, whole[0], between):
            result, one, other = (part_of(view, part) for view in whole)
            yield result, one, other


def _part(operand: ElementwiseOperand, index: tuple[int, ...]) -> View:
    """The map of an operand that belongs to an index of the output's outer dimensions."""
    position = 0
    for i, extent in zip(index, operand.shape[:-3], strict=True):
        position = position * extent + (i if extent > 1 else 0)
    return images(operand.view, math.prod(operand.shape[:-3]))[position]


def _emit(
    builder: Builder, arithmetic: Arithmetic, finish: Finish, ofm: View, a: ElementwiseOperand, b: ElementwiseOperand
) -> None:
    """One step; the operand that has the output's extent becomes the IFM."""
    is_reversed = a.view.shape != ofm.shape or (a.scalar is not None and b.view.shape == ofm.shape)
    ifm, other = (b, a) if is_reversed else (a, b)
    ifm = replace(ifm, view=_as_ifm(builder, ifm.view, ofm))
    builder.emit(
        ElementwiseStep(
            source=builder.index,
            ifm=ifm.view,
            ofm=ofm,
            minimum=finish.minimum,
            maximum=finish.maximum,
            lut=finish.lut,
            scale=arithmetic.scale,
            rounding=arithmetic.rounding,
            mode=arithmetic.mode,
            ifm2=other.view if other.scalar is None else None,
            scalar=other.scalar,
            scalar_zero_point=other.view.zero_point if other.scalar is not None else 0,
            is_reversed=is_reversed,
            operand_scaling=arithmetic.operand_scaling,
            opa_scale=arithmetic.opa_scale,
            opb_scale=arithmetic.opb_scale,
        )
    )


def _as_ifm(builder: Builder, view: View, ofm: View) -> View:
    """An operand as an IFM, which must be of the OFM's extent where the hardware repeats the IFM2 only."""
    if view.shape == ofm.shape or builder.family.repeats_both_operands:
        return view
    return broadcast(builder, view, ofm.shape)
