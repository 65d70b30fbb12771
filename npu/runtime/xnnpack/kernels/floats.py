"""Float operators element by element and SOFTMAX, 16 elements at a time; nothing past the end of an operand is touched.

Sums, differences, products and quotients are rounded once, as in the reference kernels. TANH and the exponentials of SOFTMAX
are computed in double precision from e**r - 1 of the remainder r of a division by ln 2, and rounded once.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import math

from llvmlite import ir

from npu.native import types as ty
from npu.native.emit import DOUBLES, FLOAT, FLOATS, LANES, WORD, choice, function
from npu.native.kernel import kernel
from npu.runtime.xnnpack.kernels import row as r

_ARGUMENTS = 6
_WORDS = ir.VectorType(WORD, 16)
_TERMS = (
    0.9999999999955091, 0.4999999999995499, 0.16666666786307707, 0.04166666678635939, 0.00833328353894634,
    0.001388883909236179, 0.000199075691563797, 2.4867880026626655e-05,
)  # fmt: skip
"""(e**r - 1) / r by powers of r, interpolated where the Chebyshev polynomial of degree 8 on |r| <= ln 2 / 2 is zero; relative
error 5e-12."""
_TO_INTEGER = 1.5 * 2.0**52
"""Added to a double below 2**51, this leaves the nearest integer in its low bits."""


def _constant(value):  # type: ignore[no-untyped-def]
    return ir.Constant(DOUBLES, [value] * 16)


def _exponential(e, x):  # type: ignore[no-untyped-def]
    """2**k and e**r - 1, with x = k ln 2 + r, for double lanes of magnitude below 700; not-a-number stays."""
    shifted = e.multiply_add(x, _constant(1 / math.log(2)), _constant(_TO_INTEGER))
    k = e.b.fsub(shifted, _constant(_TO_INTEGER))
    remainder = e.multiply_add(k, _constant(-math.log(2)), x)
    square = e.b.fmul(remainder, remainder)
    *even, last_even = map(_constant, _TERMS[::2])
    *odd, last_odd = map(_constant, _TERMS[1::2])
    for one, other in zip(reversed(even), reversed(odd), strict=True):  # which do not wait for each other
        last_even, last_odd = e.multiply_add(square, last_even, one), e.multiply_add(square, last_odd, other)
    total = e.multiply_add(remainder, last_odd, last_even)
    exponent = e.b.add(e.b.bitcast(shifted, _WORDS), ir.Constant(_WORDS, [1023] * 16))
    power = e.b.bitcast(e.b.shl(exponent, ir.Constant(_WORDS, [52] * 16)), DOUBLES)
    return power, e.b.fmul(remainder, total)


def _tanh(e, x):  # type: ignore[no-untyped-def]
    """(e**2x - 1) / (e**2x + 1); the result is 1 from 10 on."""
    wide = e.b.fpext(x, DOUBLES)
    size = e.call("llvm.fabs.v16f64", wide)
    size = e.b.select(e.b.fcmp_ordered(">", size, _constant(10.0)), _constant(10.0), size)
    power, part = _exponential(e, e.b.fadd(size, size))
    above = e.multiply_add(power, part, e.b.fsub(power, _constant(1.0)))
    value = e.b.fdiv(above, e.b.fadd(above, _constant(2.0)))
    return e.b.fptrunc(e.call("llvm.copysign.v16f64", value, wide), FLOATS)


def _squared_difference(e, x, y):  # type: ignore[no-untyped-def]
    difference = e.b.fsub(x, y)
    return e.b.fmul(difference, difference)


_FORMULAS = {
    r.FLOAT_ADD: lambda e, x, y: e.b.fadd(x, y),
    r.FLOAT_SUBTRACT: lambda e, x, y: e.b.fsub(x, y),
    r.FLOAT_MULTIPLY: lambda e, x, y: e.b.fmul(x, y),
    r.FLOAT_DIVIDE: lambda e, x, y: e.b.fdiv(x, y),
    r.FLOAT_SQUARED_DIFFERENCE: _squared_difference,
    r.FLOAT_CLAMP: lambda e, x, y: x,
    r.FLOAT_TANH: lambda e, x, y: _tanh(e, x),
}
_UNARY = (r.FLOAT_CLAMP, r.FLOAT_TANH)


def _emit_pairs(kind, single):  # type: ignore[no-untyped-def]
    """`single`: the operands that are one element for all."""

    def emit(e, args):  # type: ignore[no-untyped-def]
        *sources, out, count, low, high = args
        limits = e.splat_float(low), e.splat_float(high)
        fixed = [e.splat(e.load(FLOAT, source)) if k in single else None for k, source in enumerate(sources)]
        needed = 1 if kind in _UNARY else 2

        def block(at, load, size):  # type: ignore[no-untyped-def]
            x, y = ((fixed[k] or load(e.b.add(source, at))) if k < needed else None for k, source in enumerate(sources))
            e.store_first(e.clamp_float(_FORMULAS[kind](e, x, y), *limits), e.b.add(out, at), size)

        def over_blocks(index, carried):  # type: ignore[no-untyped-def]
            block(e.b.mul(index, e.word(64)), lambda address: e.load(FLOATS, address), e.word(16))
            return []

        whole, rest = e.b.ashr(count, e.word(4)), e.b.and_(count, e.word(15))
        e.loop(whole, [], over_blocks)
        with e.b.if_then(e.b.icmp_signed(">", rest, e.word(0))):
            block(e.b.mul(whole, e.word(64)), lambda address: e.load_first(FLOATS, address, rest), rest)

    return emit


_VARIANTS = {0: (), 1: (0,), 2: (1,)}
"""Operands that are one element, by the field `single` of a row."""


_pairs = choice(
    {
        3 * kind + single: function(f"float_pairs_{kind}_{single}", _ARGUMENTS, _emit_pairs(kind, fixed))
        for kind in _FORMULAS
        for single, fixed in _VARIANTS.items()
        if kind not in _UNARY or not fixed
    }
)
"""By number: three times the kind, plus `single`."""


@kernel(ty.void(r.JOB_ROW, ty.int64, ty.int64))
def float_pairs(row, first, last):  # type: ignore[no-untyped-def]
    """The rows `first` to `last` of `width` elements; `input_step` and `input2_step` are 0 where an operand is repeated."""
    kind, single, count, low, high = row.kind, row.single, row.width, row.low, row.high
    for y in range(first, last):
        a, b = row.input + y * row.input_step, row.input2 + y * row.input2_step
        _pairs(3 * kind + single, a, b, row.out + y * row.out_step, count, low, high)


def _emit_softmax(e, args):  # type: ignore[no-untyped-def]
    """One row: e**(beta * (x - largest)), divided by their sum."""
    source, out, count, beta = args
    whole, rest = e.b.ashr(count, e.word(4)), e.b.and_(count, e.word(15))
    beta, end = e.splat_float(beta), e.b.mul(whole, e.word(64))
    within = e.b.icmp_signed("<", ir.Constant(LANES, list(range(16))), e.splat_word(rest))
    lowest, zero = ir.Constant(FLOATS, [-math.inf] * 16), _constant(0.0)

    def larger(one, other):  # type: ignore[no-untyped-def]
        return e.b.select(e.b.fcmp_ordered(">", one, other), one, other)

    def over_maximum(index, carried):  # type: ignore[no-untyped-def]
        return [larger(e.load(FLOATS, e.b.add(source, e.b.mul(index, e.word(64)))), carried[0])]

    result = e.loop(whole, [lowest], over_maximum)[0]
    result = larger(e.b.select(within, e.load_first(FLOATS, e.b.add(source, end), rest), lowest), result)
    reduce = e.function("llvm.vector.reduce.fmax.v16f32", ir.FunctionType(FLOAT, [FLOATS]))
    largest = e.splat(e.b.call(reduce, [result]))

    def exponential(x):  # type: ignore[no-untyped-def]
        wide = e.b.fpext(e.b.fmul(e.b.fsub(x, largest), beta), DOUBLES)
        wide = e.b.select(e.b.fcmp_ordered("<", wide, _constant(-200.0)), _constant(-200.0), wide)
        wide = e.b.select(e.b.fcmp_ordered(">", wide, _constant(200.0)), _constant(200.0), wide)
        power, part = _exponential(e, wide)
        return e.b.fptrunc(e.multiply_add(power, part, power), FLOATS)

    def over_exponentials(index, carried):  # type: ignore[no-untyped-def]
        at = e.b.mul(index, e.word(64))
        value = exponential(e.load(FLOATS, e.b.add(source, at)))
        e.store_first(value, e.b.add(out, at), e.word(16))
        return [e.b.fadd(carried[0], e.b.fpext(value, DOUBLES))]

    sums = e.loop(whole, [zero], over_exponentials)[0]
    value = exponential(e.load_first(FLOATS, e.b.add(source, end), rest))
    e.store_first(value, e.b.add(out, end), rest)
    sums = e.b.fadd(sums, e.b.select(within, e.b.fpext(value, DOUBLES), zero))
    add = e.function("llvm.vector.reduce.fadd.v16f64", ir.FunctionType(ir.DoubleType(), [ir.DoubleType(), DOUBLES]))
    whole_sum = e.b.call(add, [ir.Constant(ir.DoubleType(), 0.0), sums], fastmath=("reassoc",))
    total = e.b.fptrunc(whole_sum, FLOAT)

    def over_quotients(index, carried):  # type: ignore[no-untyped-def]
        at = e.b.add(out, e.b.mul(index, e.word(64)))
        e.store_first(e.b.fdiv(e.load(FLOATS, at), e.splat(total)), at, e.word(16))
        return []

    e.loop(whole, [], over_quotients)
    at = e.b.add(out, end)
    e.store_first(e.b.fdiv(e.load_first(FLOATS, at, rest), e.splat(total)), at, rest)


_softmax = function("softmax_row", 4, _emit_softmax)


@kernel(ty.void(r.JOB_ROW, ty.int64, ty.int64))
def softmax_rows(row, first, last):  # type: ignore[no-untyped-def]
    """The rows `first` to `last` of `width` elements; `low` holds beta."""
    for y in range(first, last):
        _softmax(row.input + y * row.input_step, row.out + y * row.out_step, row.width, row.low)
