"""Logistic function and tanh of int16 numbers in gemmlowp's 16-bit fixed point, step by step: the gates of integer LSTMs.

exp() of what is not positive is a series within a quarter, times a factor for every bit above the quarter; the reciprocal that
follows takes three Newton steps. Where the hardware's tables of int16 values would draw straight lines, these steps give every
number of the reference. Source: gemmlowp's fixedpoint.h. `Qn` has n integer bits.

Steps are few because zero points add constants: every product with a number added is one step. 1 has no int16 number in Q0, -1
has: factors are negative, and exp() changes its sign with each. All steps are element by element, since these and poolings wait
for each other's end: what only rescales is an ABS. They overwrite what nothing reads any more. Within a quarter, exp() of
12 bits has 1024 numbers, which are a table where the hardware keeps a place for one. Where memory counts more than steps, what
follows from x is made late, or again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from npu.compiler.ir import View
from npu.compiler.lower.activation import table_of_lines
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.geometry import crop
from npu.isa.operations import IDENTITY, INT16, ElementwiseMode, Rounding, Scale
from npu.layouts import BRICK_DEPTH
from npu.machine.rules import ceil_div, round_up
from npu.records import dataclass, replace

_ONE_Q2 = 1 << 13
_PRODUCT, _HALF = Scale(1, 15), Scale(1, 1)
_PRODUCT_AWAY = Scale((1 << 30) + 1, 45)
"""A little more than a product of two Q0 numbers, so that a negative one between two numbers goes away from zero."""
_FOURTH_POWER = Scale(1 << 16, 33)
"""A product of two Q0 numbers and a quarter of it: rounded twice, at 31 bits and behind."""
_EXP_FACTORS = (25520, 19875, 12055, 4435, 600, 11)
"""exp(-1/4), exp(-1/2), exp(-1) ... in Q0."""
_EXP_EIGHTH = 28918
"""exp(-1/8) in Q0."""
_MOST_EXP = 32760
"""The most that exp() of a Q3 number may give: that of 0, from which the reciprocal is 1 and the results 1/2 and 0.

The reference sets these itself; the next number's is less.
"""
_THIRD = 10923
_48_OVER_17_Q2, _32_OVER_17_Q2 = 23130, 15420
_MIDDLE = 1 << 15
"""Magnitudes are stored less this: the largest 16-bit one fits."""
_MAGNITUDE_BITS = 12
"""Bits below the point of magnitudes: those of Q3 numbers fit, doubled ones too, and exp() of what is larger is 0."""
_UP_TO_1 = Scale((1 << 30) + 16386, 30)
"""A little more than 1: of 32766 it makes 32767, of 32764 still 32764."""
_HALF_Q0 = (1 << 14) - 1


@cache
def exp_table() -> npt.NDArray[np.uint8]:
    """exp in Q0 of the 1024 numbers in [-1/4, 0) that have 12 bits: each line of 128 has two, at 63 and at 127."""
    y = 8 * np.arange(-(1 << 10), 0, dtype=np.int64) + (1 << 12)
    square = _rounded(y * y, 15)
    quarter, cube = _rounded(_rounded(square * square, 15), 2), _rounded(square * y, 15)
    tail = _rounded(_rounded((quarter + cube) * _THIRD, 15) + square, 1)
    values = np.minimum(_EXP_EIGHTH + _rounded((y + tail) * _EXP_EIGHTH, 15), _MOST_EXP)
    rise = values[1::2] - values[::2]
    return table_of_lines(values[::2] - rise, 2 * rise)


def _rounded(values: npt.NDArray[np.int64], bits: int) -> npt.NDArray[np.int64]:
    return values + (1 << bits - 1) >> bits


def _below(bits: int) -> Scale:
    """A little less than 1 / 2**bits, so that a half goes towards zero."""
    return Scale((1 << 30) - 1, 30 + bits)


@dataclass(frozen=True, slots=True)
class Curve:
    """The function of so many channels: logistic or tanh, of numbers with so many integer bits."""

    channels: int
    is_tanh: bool
    integer_bits: int

    @property
    def below_point(self) -> int:
        """Bits below the point of the number whose exp() is needed, which for tanh is the doubled one."""
        return 15 - self.integer_bits - self.is_tanh

    @property
    def bits(self) -> int:
        """Those of the whole quarters of that number."""
        return self.integer_bits + self.is_tanh + 2

    @property
    def is_fine(self) -> bool:
        """Whether the steps need more bits below the point than the logistic function of Q3 numbers can spare."""
        return self.below_point > _MAGNITUDE_BITS


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """Makes the steps: with `saves_memory` more of them, and no more than four maps at a time."""

    builder: Builder
    saves_memory: bool = False

    def functions(self, x: View, ofm: View, curves: Sequence[Curve]) -> None:
        """Q0 of numbers, channels after channels as the curves say."""
        pieces = [[curve] for curve in curves] if any(curve.is_fine for curve in curves) else [curves]
        start = 0
        for piece in pieces:
            count = sum(curve.channels for curve in piece)
            self._together(_channels(x, start, count), _channels(ofm, start, count), piece)
            start += count

    def _together(self, x: View, ofm: View, curves: Sequence[Curve]) -> None:
        """The functions by the same steps, whose magnitudes have the same bits below the point."""
        point = max(_MAGNITUDE_BITS, *(curve.below_point for curve in curves))
        at_zero, maximum = (0, INT16.maximum) if point > _MAGNITUDE_BITS else (1, _MOST_EXP)
        sign = None if self.saves_memory else self._sign(x, at_zero)
        bits = min(max(curve.bits for curve in curves), len(_EXP_FACTORS))
        magnitude, quarters = self._magnitude(x, curves, point)
        if point == _MAGNITUDE_BITS and self.builder.variant.shram.reserved_lut_banks > 0:
            exponential = self._exp_of_rest(magnitude, quarters, point)
        elif sign is not None:
            exponential = self._rest(magnitude, quarters, point)
            self._series(exponential, maximum)
        else:
            exponential = self._rest(magnitude, quarters, point)
            self._series_in_halves(exponential, maximum)
            quarters = self._magnitude(x, curves, point)[1]
        distance = self._reciprocal(self._exp(exponential, quarters, bits))
        self._finish(sign or self._sign(x, at_zero), distance, ofm, curves)

    def _magnitude(self, x: View, curves: Sequence[Curve], point: int) -> tuple[View, View]:
        """Magnitudes with so many bits below the point, and the whole quarters in them."""
        magnitude, quarters, start = replace(self._new(x), zero_point=-_MIDDLE), self._new(x), 0
        for curve in curves:
            number, left = (_channels(view, start, curve.channels) for view in (x, magnitude))
            self._emit(ElementwiseMode.ABS, number, left, None, scale=Scale(1 << point - curve.below_point, 0))
            start += curve.channels
        self._split_quarters(magnitude, quarters, point)
        return magnitude, quarters

    def _finish(self, sign: View, distance: View, ofm: View, curves: Sequence[Curve]) -> None:
        start = 0
        for curve in curves:
            finish = self._finish_tanh if curve.is_tanh else self._finish_logistic
            finish(*(_channels(view, start, curve.channels) for view in (sign, distance, ofm)))
            start += curve.channels

    def _sign(self, x: View, zero: int) -> View:
        """1 or -1, or of zero what is given."""
        sign = self._new(x)
        self._emit(ElementwiseMode.MUL, x, replace(sign, zero_point=zero), 2, minimum=-1, maximum=1)
        return sign

    def _finish_logistic(self, sign: View, distance: View, ofm: View) -> None:
        """Half of the reciprocal, or 1 less it for what is below zero: from twice its distance from the middle."""
        self._emit(ElementwiseMode.MUL, distance, replace(ofm, zero_point=_HALF_Q0), sign, scale=_HALF)

    def _finish_tanh(self, sign: View, distance: View, ofm: View) -> None:
        """The reciprocal less 1, with the sign of x."""
        self._emit(ElementwiseMode.MUL, replace(distance, zero_point=1), ofm, sign, scale=_UP_TO_1)

    def _split_quarters(self, magnitude: View, quarters: View, point: int) -> None:
        """Whole quarters that a magnitude leaves behind it; none of zero."""
        lowered = replace(magnitude, zero_point=magnitude.zero_point + (1 << point - 3))
        self._emit(ElementwiseMode.ABS, lowered, quarters, None, scale=_below(point - 2))

    def _rest(self, magnitude: View, quarters: View, point: int) -> View:
        """What is left of the negative number above the quarter that it lies in, less 1/8 and in Q0."""
        rest = self._new(quarters)
        target = replace(rest, zero_point=1 << 12)
        self._emit(ElementwiseMode.SUB, quarters, target, magnitude, factors=(1 << 13, 1 << 15 - point))
        return rest

    def _exp_of_rest(self, magnitude: View, quarters: View, point: int) -> View:
        """exp in Q0 of what `_rest` gives, by the table, which has a number for each of 1024 of them."""
        exponential = self._new(quarters)
        target, more = replace(exponential, zero_point=INT16.maximum), replace(magnitude, zero_point=magnitude.zero_point + 1)
        factors = (1 << 13, 1 << 15 - point)
        self._emit(ElementwiseMode.SUB, quarters, target, more, scale=Scale(8, 0), factors=factors, lut=exp_table())
        return exponential

    def _exp(self, exponential: View, quarters: View, bits: int) -> View:
        """exp in Q0, or less than 0 by as much, from that of the rest and so many bits of the whole quarters."""
        rest, is_negative = quarters, False
        for number, factor in enumerate(_EXP_FACTORS[:bits], 1):
            upper = self._halved(rest) if number < bits else None
            self._choose((1 << 15) - factor, rest, upper)
            scale = _PRODUCT if is_negative else _PRODUCT_AWAY
            self._emit(ElementwiseMode.MUL, exponential, exponential, rest, scale=scale)
            is_negative, rest = not is_negative, upper or rest
        return exponential

    def _halved(self, whole: View) -> View:
        """Half of whole numbers, rounded down."""
        half = self._new(whole)
        self._emit(ElementwiseMode.ABS, whole, half, None, scale=_below(1))
        return half

    def _choose(self, less: int, rest: View, upper: View | None) -> None:
        """-1, or `less` more where the lowest bit of `rest` is set; `upper` are the bits above it, if there are any."""
        target = replace(rest, zero_point=INT16.minimum)
        if upper is not None:
            self._emit(ElementwiseMode.SUB, rest, target, upper, factors=(less, 2 * less))
        else:
            self._emit(ElementwiseMode.ABS, rest, target, None, scale=Scale(less, 0))

    def _series_in_halves(self, y: View, maximum: int) -> None:
        """The same as `_series` with half of the memory beside `y`."""
        depth = y.shape[2]
        half = round_up(ceil_div(depth, 2), BRICK_DEPTH)
        for start in range(0, depth, half):
            self._series(_channels(y, start, min(half, depth - start)), maximum)

    def _series(self, y: View, maximum: int) -> None:
        """exp(y - 1/8) in Q0 for y in [-1/8, 1/8], at most `maximum`."""
        square, cube, tail = (self._new(y) for _ in range(3))
        self._emit(ElementwiseMode.MUL, y, square, y, scale=_PRODUCT)
        self._emit(ElementwiseMode.MUL, square, cube, y, scale=_PRODUCT)
        self.builder.elementwise(ElementwiseMode.MUL, square, tail, square, scale=_FOURTH_POWER, rounding=Rounding.DOUBLE)
        self._emit(ElementwiseMode.ADD, tail, tail, cube, scale=Scale(_THIRD, 15))
        self._emit(ElementwiseMode.ADD, tail, tail, square, scale=_HALF)
        target, scale = replace(y, zero_point=_EXP_EIGHTH), Scale(_EXP_EIGHTH, 15)
        self._emit(ElementwiseMode.ADD, y, target, tail, scale=scale, maximum=maximum)

    def _reciprocal(self, x: View) -> View:
        """4 / (1 + x) - 3 in Q0 of the magnitude of a Q0 number, and one of the least more; it saturates."""
        half, guess, error = x, self._new(x), self._new(x)
        self._emit(ElementwiseMode.ABS, x, replace(half, zero_point=1 << 14), None, scale=_below(1))
        self._emit(ElementwiseMode.MUL, half, replace(guess, zero_point=_48_OVER_17_Q2), -_32_OVER_17_Q2, scale=_PRODUCT)
        for is_last in (False, False, True):
            better, scale = (replace(guess, zero_point=INT16.minimum + 1), Scale(4, 0)) if is_last else (guess, IDENTITY)
            self._emit(ElementwiseMode.MUL, half, replace(error, zero_point=-_ONE_Q2), guess, scale=_PRODUCT)
            self._emit(ElementwiseMode.MUL, error, error, guess, scale=_below(15))
            self._emit(ElementwiseMode.SUB, guess, better, error, scale=scale, factors=(1, 4))
        return guess

    def _emit(
        self,
        mode: ElementwiseMode,
        x: View,
        ofm: View,
        y: View | int | None,
        *,
        scale: Scale = IDENTITY,
        factors: tuple[int, int] = (1, 1),
        minimum: int | None = None,
        maximum: int | None = None,
        lut: npt.NDArray[np.uint8] | None = None,
    ) -> None:
        self.builder.elementwise(
            mode, x, ofm, y, scale=scale, rounding=Rounding.NATURAL, minimum=minimum, maximum=maximum, lut=lut, factors=factors
        )

    def _new(self, like: View) -> View:
        return self.builder.temporary("fixed point", like.shape, INT16)


def _channels(view: View, start: int, count: int) -> View:
    height, width, _ = view.shape
    return crop(view, (0, 0, start), (height, width, count))
