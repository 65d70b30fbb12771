"""Logistic function and tanh of int16 numbers in gemmlowp's 16-bit fixed point, step by step: the gates of integer LSTMs.

exp() of what is not positive is a series within a quarter, times a factor for every bit above the quarter; the reciprocal that
follows takes three Newton steps. Where the hardware's tables of int16 values would draw straight lines, these steps give every
number of the reference. Source: gemmlowp's fixedpoint.h. `Qn` has n integer bits.

Steps are few because zero points add constants: every product with a number added is one step. 1 has no int16 number in Q0, -1
has: factors are negative, and exp() changes its sign with each.
"""

from __future__ import annotations

from dataclasses import replace

from npu.compiler.ir import View
from npu.compiler.lower.builder import IDENTITY, Builder
from npu.compiler.lower.geometry import crop
from npu.isa.operations import INT16, ElementwiseMode, Rounding, Scale
from npu.records import dataclass

_ONE_Q2 = 1 << 13
_PRODUCT, _HALF = Scale(1, 15), Scale(1, 1)
_PRODUCT_AWAY = Scale((1 << 30) + 1, 45)
"""A little more than a product of two Q0 numbers, so that a negative one between two numbers goes away from zero."""
_FOURTH_POWER = Scale(1 << 16, 33)
"""A product of two Q0 numbers and a quarter of it: rounded twice, at 31 bits and behind."""
_EXP_FACTORS = (25520, 19875, 12055, 4435, 600, 11, 0)
"""exp(-1/4), exp(-1/2), exp(-1) ... in Q0."""
_MOST_EXP_BITS = 5
"""Integer bits that have a factor: exp(-32) is 0, and so is that of all below."""
_EXP_EIGHTH = 28918
"""exp(-1/8) in Q0."""
_MOST_EXP = 32760
"""The most that exp() of a Q3 number may give: that of 0, from which the reciprocal is 1 and the results 1/2 and 0.

The reference sets these itself; the next number's is less.
"""
_THIRD = 10923
_48_OVER_17_Q2, _32_OVER_17_Q2 = 23130, 15420
_MIDDLE = 1 << 14
"""Magnitudes are stored less this: that of the smallest number fits into 16 bits."""
LOGISTIC_BITS = 3
"""Integer bits of the operand of the logistic function."""


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """Makes the steps."""

    builder: Builder

    def gates(self, x: View, ofm: View, split: int) -> None:
        """Q0 of Q3 numbers: the logistic function of channels up to `split`, tanh of those from there on."""
        bits = LOGISTIC_BITS + 1
        magnitude, sign, y, quarters = self._magnitude(x), self._sign(x, 1), self._new(x), self._new(x)
        parts = (bits - 1, 0, split), (bits, split, x.shape[2])
        for integer_bits, *ends in parts:
            self._split_quarters(_channels(magnitude, *ends), _channels(quarters, *ends), integer_bits)
        for integer_bits, *ends in parts:
            left, whole, rest = (_channels(view, *ends) for view in (magnitude, quarters, y))
            self._split_rest(left, whole, rest, integer_bits)
        reciprocal = self._reciprocal(*self._exp(self._series(y, _MOST_EXP), quarters, bits))
        first, last = (0, split), (split, x.shape[2])
        self._finish_logistic(*(_channels(view, *first) for view in (sign, reciprocal, ofm)))
        self._finish_tanh(*(_channels(view, *last) for view in (sign, reciprocal, ofm)))

    def tanh(self, x: View, ofm: View, integer_bits: int) -> None:
        """Q0 of a number with so many integer bits."""
        bits = integer_bits + 1
        magnitude, sign, y, quarters = self._magnitude(x), self._sign(x, 0), self._new(x), self._new(x)
        if bits > _MOST_EXP_BITS:
            most = (1 << 15 + _MOST_EXP_BITS - bits) - _MIDDLE
            magnitude = replace(self._made(ElementwiseMode.MIN, replace(magnitude, zero_point=0), most), zero_point=-_MIDDLE)
        self._split_quarters(magnitude, quarters, bits)
        self._split_rest(magnitude, quarters, y, bits)
        self._finish_tanh(sign, self._reciprocal(*self._exp(self._series(y), quarters, bits)), ofm)

    def _magnitude(self, x: View) -> View:
        magnitude = replace(self._new(x), zero_point=-_MIDDLE)
        self._emit(ElementwiseMode.ABS, x, magnitude, None)
        return magnitude

    def _sign(self, x: View, zero: int) -> View:
        """1 or -1, or of zero what is given."""
        sign = self._new(x)
        self.builder.requantize(x, replace(sign, zero_point=zero), Scale(2, 0), -1, 1)
        return sign

    def _finish_logistic(self, sign: View, reciprocal: View, ofm: View) -> None:
        """Half of the reciprocal, or 1 less it for what is below zero: from twice its distance from the middle."""
        distance = self._new(sign)
        self.builder.requantize(reciprocal, replace(distance, zero_point=INT16.minimum + 1), Scale(4, 0))
        self._emit(ElementwiseMode.MUL, distance, replace(ofm, zero_point=_MIDDLE - 1), sign, scale=_HALF)

    def _finish_tanh(self, sign: View, reciprocal: View, ofm: View) -> None:
        """The reciprocal less 1, with the sign of x."""
        positive = self._new(sign)
        self.builder.requantize(reciprocal, replace(positive, zero_point=INT16.minimum), Scale(4, 0))
        self._emit(ElementwiseMode.MUL, positive, ofm, sign)

    def _split_quarters(self, magnitude: View, quarters: View, integer_bits: int) -> None:
        """Whole quarters that a magnitude leaves behind it; none of zero."""
        bits = 13 - integer_bits
        lowered = replace(magnitude, zero_point=magnitude.zero_point + 1 + (1 << bits - 1))
        self.builder.requantize(lowered, quarters, Scale(1, bits), 0)

    def _split_rest(self, magnitude: View, quarters: View, y: View, integer_bits: int) -> None:
        """What is left of the negative number above the quarter that it lies in, less 1/8 and in Q0."""
        shifted = replace(y, zero_point=1 << 12)
        self._emit(ElementwiseMode.SUB, quarters, shifted, magnitude, factors=(1 << 13, 1 << integer_bits))

    def _exp(self, exponential: View, quarters: View, integer_bits: int) -> tuple[View, bool]:
        """exp in Q0 from that of the rest and the whole quarters, and whether its sign was changed."""
        bits, rest, is_negative = min(integer_bits + 2, len(_EXP_FACTORS)), quarters, False
        for number, factor in enumerate(_EXP_FACTORS[:bits], 1):
            upper = self._halved(rest) if number < bits else None
            chosen = self._factor((1 << 15) - factor, rest, upper)
            exponential = self._product(exponential, chosen, _PRODUCT if is_negative else _PRODUCT_AWAY)
            is_negative, rest = not is_negative, upper or rest
        return exponential, is_negative

    def _halved(self, whole: View) -> View:
        """Half of whole numbers, rounded down."""
        half = self._new(whole)
        self.builder.requantize(replace(whole, zero_point=1), half, _HALF)
        return half

    def _factor(self, less: int, rest: View, upper: View | None) -> View:
        """-1, or `less` more where the lowest bit of `rest` is set; `upper` are the bits above it, if there are any."""
        factor = self._new(rest)
        target = replace(factor, zero_point=INT16.minimum)
        if upper is not None:
            self._emit(ElementwiseMode.SUB, rest, target, upper, factors=(less, 2 * less))
        else:
            self.builder.requantize(rest, target, Scale(less, 0))
        return factor

    def _series(self, y: View, maximum: int = INT16.maximum) -> View:
        """exp(y - 1/8) in Q0 for y in [-1/8, 1/8], at most `maximum`."""
        square = self._product(y, y)
        cube, quarter, series = self._product(square, y), self._new(y), self._new(y)
        self.builder.elementwise(ElementwiseMode.MUL, square, quarter, square, scale=_FOURTH_POWER, rounding=Rounding.DOUBLE)
        third = self._made(ElementwiseMode.ADD, quarter, cube, scale=Scale(_THIRD, 15))
        tail = self._made(ElementwiseMode.ADD, third, square, scale=_HALF)
        target = replace(series, zero_point=_EXP_EIGHTH)
        scale = Scale(_EXP_EIGHTH, 15)
        self.builder.elementwise(ElementwiseMode.ADD, y, target, tail, scale=scale, rounding=Rounding.NATURAL, maximum=maximum)
        return series

    def _reciprocal(self, x: View, is_negative: bool) -> View:
        """2 / (1 + x) in Q2 of a Q0 number that is not negative, or whose sign was changed; `half` is -(1 + x) / 2."""
        half, guess = self._new(x), self._new(x)
        mode = ElementwiseMode.ADD if is_negative else ElementwiseMode.SUB
        self._emit(mode, x, half, INT16.minimum, scale=_HALF, is_reversed=not is_negative)
        self._emit(ElementwiseMode.MUL, half, replace(guess, zero_point=_48_OVER_17_Q2), _32_OVER_17_Q2, scale=_PRODUCT)
        for _ in range(3):
            error = self._new(x)
            self._emit(ElementwiseMode.MUL, half, replace(error, zero_point=_ONE_Q2), guess, scale=_PRODUCT_AWAY)
            guess = self._made(ElementwiseMode.ADD, guess, self._product(guess, error), factors=(1, 4))
        return guess

    def _product(self, x: View, y: View, scale: Scale = _PRODUCT) -> View:
        return self._made(ElementwiseMode.MUL, x, y, scale=scale)

    def _made(
        self,
        mode: ElementwiseMode,
        x: View,
        y: View | int,
        *,
        scale: Scale = IDENTITY,
        factors: tuple[int, int] = (1, 1),
    ) -> View:
        target = self._new(x)
        self._emit(mode, x, target, y, scale=scale, factors=factors)
        return target

    def _emit(
        self,
        mode: ElementwiseMode,
        x: View,
        ofm: View,
        y: View | int | None,
        *,
        scale: Scale = IDENTITY,
        is_reversed: bool = False,
        factors: tuple[int, int] = (1, 1),
    ) -> None:
        rounding = Rounding.NATURAL
        self.builder.elementwise(mode, x, ofm, y, scale=scale, rounding=rounding, is_reversed=is_reversed, factors=factors)

    def _new(self, like: View) -> View:
        return self.builder.temporary("fixed point", like.shape, INT16)


def _channels(view: View, start: int, end: int) -> View:
    height, width, _ = view.shape
    return crop(view, (0, 0, start), (height, width, end - start))
