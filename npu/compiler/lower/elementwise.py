"""ADD, SUB, MUL, MINIMUM, MAXIMUM: binary operators with broadcasting."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from npu.compiler.ir import ElementwiseStep, View
from npu.compiler.lower.builder import IDENTITY, Builder, Finish
from npu.compiler.lower.geometry import images
from npu.compiler.lower.pooling import broadcast
from npu.compiler.lower.quantise import register_scale
from npu.graph.graph import Op
from npu.isa.operations import ElementwiseMode, OperandScaling, Rounding, Scale

_ADD_SHIFT = 20
"""Fraction bits that the reference kernel gives int8 operands of ADD and SUB."""

_NO_SCALE = Scale(0, 0)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Operation, scales and rounding of a binary step; operands named in the graph's order."""

    mode: ElementwiseMode
    scale: Scale
    rounding: Rounding = Rounding.DOUBLE
    operand_scaling: OperandScaling = OperandScaling.BOTH_16
    opa_scale: Scale = _NO_SCALE
    opb_scale: int = 0
    uses_zero_points: bool = True


def lower_add(builder: Builder, op: Op) -> None:
    """ADD."""
    _lower(builder, op, sum_arithmetic(ElementwiseMode.ADD, *_scales(builder, op)))


def lower_sub(builder: Builder, op: Op) -> None:
    """SUB."""
    _lower(builder, op, sum_arithmetic(ElementwiseMode.SUB, *_scales(builder, op)))


def lower_mul(builder: Builder, op: Op) -> None:
    """MUL: the three scales are combined in float32, as TFLite does."""
    first, second, output = _scales(builder, op)
    _lower(builder, op, Arithmetic(ElementwiseMode.MUL, register_scale(float(first * second / output))))


def lower_minimum(builder: Builder, op: Op) -> None:
    """MINIMUM of raw values."""
    _lower(builder, op, Arithmetic(ElementwiseMode.MIN, IDENTITY, uses_zero_points=False))


def lower_maximum(builder: Builder, op: Op) -> None:
    """MAXIMUM of raw values."""
    _lower(builder, op, Arithmetic(ElementwiseMode.MAX, IDENTITY, uses_zero_points=False))


def _scales(builder: Builder, op: Op) -> tuple[np.float32, np.float32, np.float32]:
    return builder.scale(op.inputs[0]), builder.scale(op.inputs[1]), builder.scale(op.outputs[0])


def sum_arithmetic(mode: ElementwiseMode, first: np.float32, second: np.float32, output: np.float32) -> Arithmetic:
    """Scales of an int8 sum: both operands brought to 2 * max scale * 2**-20, the smaller one by a 32-bit scale.

    Where both scales are equal the cheap form with two 16-bit scales is taken if it gives the same value for every sum.
    """
    largest = 2.0 * float(max(first, second))
    result = register_scale(largest / (float(1 << _ADD_SHIFT) * float(output)))
    if first == second:
        cheap = _simple_sum(mode, result)
        if cheap is not None:
            return cheap
    scales_first = first <= second
    smaller = float(first if scales_first else second)
    scaling = OperandScaling.A_32 if scales_first else OperandScaling.B_32
    operand = register_scale(smaller / largest)
    # The reference shifts the operand left by 20 before it multiplies; the hardware scale holds both.
    operand = Scale(operand.scale, operand.shift - _ADD_SHIFT) if operand.shift >= _ADD_SHIFT else operand
    return Arithmetic(mode, result, operand_scaling=scaling, opa_scale=operand)


@functools.lru_cache(maxsize=256)
def _simple_sum(mode: ElementwiseMode, result: Scale) -> Arithmetic | None:
    """The form with 16-bit operand scales, if equal to the 20-bit one for every sum of two int8 values."""
    sums = range(-510, 511)
    for bits in (15, 14, 13):
        shift = result.shift - (_ADD_SHIFT - 1 - bits)
        if shift < 0:
            continue
        simple = Scale(result.scale, shift)
        exact = (_double_round((s << _ADD_SHIFT - 1) * result.scale, result.shift) for s in sums)
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
class _Operand:
    """One input: the map, its N-dimensional shape aligned to the output's, and its value if it is a constant scalar."""

    view: View
    shape: tuple[int, ...]
    scalar: int | None


def _operand(builder: Builder, index: int, rank: int, *, uses_zero_point: bool) -> _Operand:
    tensor = builder.tensor(index)
    shape = (1,) * (rank - len(tensor.shape)) + tensor.shape
    scalar = int(tensor.data.reshape(-1)[0]) if tensor.data is not None and tensor.elements == 1 else None
    return _Operand(builder.input(index, builder.zero_point(index) if uses_zero_point else 0), shape, scalar)


def _lower(builder: Builder, op: Op, arithmetic: Arithmetic) -> None:
    finish = builder.finish(op)
    shape = builder.tensor(op.outputs[0]).shape
    rank = max(3, len(shape))
    shape = (1,) * (rank - len(shape)) + shape
    uses = arithmetic.uses_zero_points
    a, b = (_operand(builder, i, rank, uses_zero_point=uses) for i in op.inputs)
    ofm = builder.output(finish.tensor, finish.zero_point if uses else 0)
    for view, first, second in _maps(ofm, shape, a, b):
        _emit(builder, arithmetic, finish, view, replace(a, view=first), replace(b, view=second))


def _maps(ofm: View, shape: tuple[int, ...], a: _Operand, b: _Operand) -> Iterator[tuple[View, View, View]]:
    """The folded maps to combine: everything at once where that is possible, else one per index of the outer dimensions."""
    if all(o.shape[:-2] == shape[:-2] or math.prod(o.shape[:-2]) == 1 for o in (a, b)):
        yield ofm, a.view, b.view
        return
    outer = shape[:-3]
    for view, index in zip(images(ofm, math.prod(outer)), np.ndindex(*outer), strict=True):
        yield view, _part(a, index), _part(b, index)


def _part(operand: _Operand, index: tuple[int, ...]) -> View:
    """The map of an operand that belongs to an index of the output's outer dimensions."""
    position = 0
    for i, extent in zip(index, operand.shape[:-3], strict=True):
        position = position * extent + (i if extent > 1 else 0)
    return images(operand.view, math.prod(operand.shape[:-3]))[position]


def _emit(builder: Builder, arithmetic: Arithmetic, finish: Finish, ofm: View, a: _Operand, b: _Operand) -> None:
    """One step; the operand that has the output's extent becomes the IFM."""
    is_reversed = a.view.shape != ofm.shape or (a.scalar is not None and b.view.shape == ofm.shape)
    ifm, other = (b, a) if is_reversed else (a, b)
    if ifm.view.shape != ofm.shape:
        ifm = replace(ifm, view=broadcast(builder, ifm.view, ofm.shape))
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
