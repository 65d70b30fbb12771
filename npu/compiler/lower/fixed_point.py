"""Logistic function and tanh of int16 numbers in gemmlowp's 16-bit fixed point, step by step: the gates of integer LSTMs.

exp() of what is not positive is a series within a quarter, times a factor for every bit above the quarter; the reciprocal that
follows takes three Newton steps. Where the hardware's tables of int16 values would draw straight lines, these steps give every
number of the reference. Source: gemmlowp's fixedpoint.h. `Qn` has n integer bits.
"""

from __future__ import annotations

from dataclasses import replace

from npu.compiler.ir import View
from npu.compiler.lower.builder import IDENTITY, Builder
from npu.compiler.lower.geometry import crop
from npu.isa.operations import INT16, INT32, ElementType, ElementwiseMode, Rounding, Scale
from npu.records import dataclass

_ONE = (1 << 15) - 1
_ONE_Q2 = 1 << 13
_PRODUCT, _HALF = Scale(1, 15), Scale(1, 1)
_EXP_FACTORS = (25520, 19875, 12055, 4435, 600, 11, 0)
"""exp(-1/4), exp(-1/2), exp(-1) ... in Q0."""
_MOST_EXP_BITS = 5
"""Integer bits that have a factor: exp(-32) is 0, and so is that of all below."""
_EXP_ZERO = 32760
"""exp(0) in Q0 so that 2 / (1 + exp(0)) is 1: there the reference sets the results themselves, to 1/2 and to 0."""
_EXP_EIGHTH = 28918
"""exp(-1/8) in Q0."""
_THIRD = 10923
_48_OVER_17_Q2, _MINUS_32_OVER_17_Q2 = 23130, -15420
LOGISTIC_BITS = 3
"""Integer bits of the operand of the logistic function."""


@dataclass(frozen=True)
class FixedPoint:
    """Makes the steps."""

    builder: Builder

    def gates(self, x: View, ofm: View, split: int) -> None:
        """Q0 of Q3 numbers: the logistic function of channels up to `split`, tanh of those from there on."""
        below, bits = self._minus_magnitude(x), LOGISTIC_BITS + 1
        y, quarters = self._new(x), self._new(x)
        for integer_bits, start, end in ((bits - 1, 0, split), (bits, split, x.shape[2])):
            part, rest, whole = (_channels(view, start, end) for view in (below, y, quarters))
            self._split(part, rest, whole, integer_bits)
        reciprocal = self._reciprocal(self._exp(below, y, quarters, bits))
        first, last = (0, split), (split, x.shape[2])
        self._finish_logistic(*(_channels(view, *first) for view in (x, reciprocal, ofm)))
        self._finish_tanh(*(_channels(view, *last) for view in (x, reciprocal, ofm)))

    def tanh(self, x: View, ofm: View, integer_bits: int) -> None:
        """Q0 of a number with so many integer bits."""
        below, bits = self._minus_magnitude(x), integer_bits + 1
        if bits > _MOST_EXP_BITS:
            below = self._made(ElementwiseMode.MAX, below, -1 << 15 + _MOST_EXP_BITS - bits)
        y, quarters = self._new(x), self._new(x)
        self._split(below, y, quarters, bits)
        self._finish_tanh(x, self._reciprocal(self._exp(below, y, quarters, bits)), ofm)

    def _finish_logistic(self, x: View, reciprocal: View, ofm: View) -> None:
        """Half of the reciprocal, or 1 less it for what is below zero."""
        positive, is_below = self._new(x), self._new(x)
        self.builder.requantize(reciprocal, positive, Scale(2, 0))
        self.builder.point(x, is_below, -1, 0)
        less = self._product(self._made(ElementwiseMode.SUB, positive, _ONE, factors=(2, 1)), is_below, IDENTITY)
        self._emit(ElementwiseMode.ADD, positive, ofm, less)

    def _finish_tanh(self, x: View, reciprocal: View, ofm: View) -> None:
        """The reciprocal less 1, with the sign of x."""
        positive, sign = self._new(x), replace(self._new(x), zero_point=1)
        self._emit(ElementwiseMode.SUB, reciprocal, positive, _ONE_Q2, scale=Scale(4, 0))
        self.builder.requantize(x, sign, Scale(2, 0), -1, 1)
        self._emit(ElementwiseMode.MUL, positive, ofm, replace(sign, zero_point=0))

    def _split(self, x: View, y: View, quarters: View, integer_bits: int) -> None:
        """x as whole quarters, rounded down, and what is left of it, less 1/8 and in Q0."""
        bits = 13 - integer_bits
        self.builder.requantize(replace(x, zero_point=1 << bits - 1), quarters, Scale(1, bits))
        shifted = replace(y, zero_point=-(1 << 12))
        self._emit(ElementwiseMode.SUB, x, shifted, quarters, factors=(1 << integer_bits, 1 << 13))

    def _exp(self, x: View, y: View, quarters: View, integer_bits: int) -> View:
        """exp in Q0 of numbers x that are not positive, given `_split`."""
        exponential = self._new(x, INT32)
        self.builder.widen(self._series(y), exponential)
        bits, count = integer_bits + 2, min(integer_bits + 2, len(_EXP_FACTORS))
        left = self._made(ElementwiseMode.SUB, quarters, -1, is_reversed=True)
        for number, factor in enumerate(_EXP_FACTORS[:count], 1):
            bit = left
            if number < bits:
                left = self._new(x)
                self.builder.requantize(replace(bit, zero_point=1), left, _HALF)
                bit = self._made(ElementwiseMode.SUB, bit, left, factors=(1, 2))
            chosen, product = self._new(x, INT32), self._new(x, INT32 if number < count else INT16)
            self._emit(ElementwiseMode.SUB, bit, chosen, 1, is_reversed=True, factors=((1 << 15) - factor, 1 << 15))
            self._emit(ElementwiseMode.MUL, exponential, product, chosen, scale=_PRODUCT)
            exponential = product
        at_zero = replace(self._new(x), zero_point=_EXP_ZERO)
        self.builder.requantize(x, at_zero, Scale(1 << 15, 0), 0)
        return self._made(ElementwiseMode.MAX, exponential, replace(at_zero, zero_point=0))

    def _series(self, y: View) -> View:
        """exp(y - 1/8) in Q0 for y in [-1/8, 1/8)."""
        square = self._product(y, y)
        cube, fourth = self._product(square, y), self._product(square, square)
        quarter = self._new(y)
        self.builder.requantize(fourth, quarter, Scale(1, 2))
        third = self._product(self._made(ElementwiseMode.ADD, quarter, cube), _THIRD)
        tail = self._made(ElementwiseMode.ADD, third, square, scale=_HALF)
        scaled = self._product(self._made(ElementwiseMode.ADD, y, tail), _EXP_EIGHTH)
        return self._made(ElementwiseMode.ADD, scaled, _EXP_EIGHTH)

    def _reciprocal(self, x: View) -> View:
        """2 / (1 + x) in Q2 of a Q0 number that is not negative."""
        half = self._made(ElementwiseMode.ADD, x, _ONE, scale=_HALF)
        guess = self._made(ElementwiseMode.ADD, self._product(half, _MINUS_32_OVER_17_Q2), _48_OVER_17_Q2)
        for _ in range(3):
            error = self._made(ElementwiseMode.SUB, self._product(half, guess), _ONE_Q2, is_reversed=True)
            guess = self._made(ElementwiseMode.ADD, guess, self._product(guess, error), factors=(1, 4))
        return guess

    def _minus_magnitude(self, x: View) -> View:
        return self._made(ElementwiseMode.MIN, x, self._made(ElementwiseMode.SUB, x, 0, is_reversed=True))

    def _product(self, x: View, y: View | int, scale: Scale = _PRODUCT) -> View:
        return self._made(ElementwiseMode.MUL, x, y, scale=scale)

    def _made(
        self,
        mode: ElementwiseMode,
        x: View,
        y: View | int,
        *,
        scale: Scale = IDENTITY,
        is_reversed: bool = False,
        factors: tuple[int, int] = (1, 1),
    ) -> View:
        target = self._new(x)
        self._emit(mode, x, target, y, scale=scale, is_reversed=is_reversed, factors=factors)
        return target

    def _emit(
        self,
        mode: ElementwiseMode,
        x: View,
        ofm: View,
        y: View | int,
        *,
        scale: Scale = IDENTITY,
        is_reversed: bool = False,
        factors: tuple[int, int] = (1, 1),
    ) -> None:
        rounding = Rounding.NATURAL
        self.builder.elementwise(mode, x, ofm, y, scale=scale, rounding=rounding, is_reversed=is_reversed, factors=factors)

    def _new(self, like: View, element: ElementType = INT16) -> View:
        return self.builder.temporary("fixed point", like.shape, element)


def _channels(view: View, start: int, end: int) -> View:
    height, width, _ = view.shape
    return crop(view, (0, 0, start), (height, width, end - start))
