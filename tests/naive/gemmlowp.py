"""Logistic and tanh of one int16 number in gemmlowp's fixed point, as the reference kernel of integer LSTMs has them.

Written a second time for the naive twin, from gemmlowp's fixedpoint.h: Python integers, and constants rounded from what they
stand for. `Qn` has n integer bits and 15 - n below them.
"""

from __future__ import annotations

import math

_ONE = (1 << 15) - 1
_LARGEST_EXPONENT = 4


def _fixed(value: float, integer_bits: int = 0) -> int:
    return round(math.ldexp(value, 15 - integer_bits))


def _product(a: int, b: int) -> int:
    """Rounding doubling high product, ties up."""
    return (a * b + (1 << 14)) >> 15


def _halved_away(value: int) -> int:
    return (abs(value) + 1 >> 1) * (-1 if value < 0 else 1)


def _saturated(value: int) -> int:
    return max(-32768, min(value, 32767))


def _exp_within_quarter(y: int) -> int:
    """exp in Q0 of a number in [-1/4, 0) in Q0: a series of four terms around -1/8."""
    x = y + _fixed(1 / 8)
    square = _product(x, x)
    cube, fourth = _product(square, x), _product(square, square)
    tail = _product((fourth + 2 >> 2) + cube, _fixed(1 / 3)) + square
    middle = _fixed(math.exp(-1 / 8))
    return middle + _product(middle, x + _halved_away(tail))


def _exp(x: int, integer_bits: int) -> int:
    """exp in Q0 of a number that is not positive; of what is below -32 it is 0."""
    if x == 0:
        return _ONE
    if x < -(32 << 15 - integer_bits):
        return 0
    quarter = 1 << 13 - integer_bits
    above = x % quarter - quarter
    result, whole = _exp_within_quarter(above << integer_bits), (above - x) // quarter
    for exponent in range(-2, min(integer_bits - 1, _LARGEST_EXPONENT) + 1):
        if whole & 1:
            result = _product(result, _fixed(math.exp(-(2.0**exponent))))
        whole >>= 1
    return result


def _twice_reciprocal(x: int) -> int:
    """2 / (1 + x) in Q2 of a number in [0, 1] in Q0: three Newton steps."""
    half = x + _ONE + 1 >> 1
    guess = _fixed(48 / 17, 2) + _product(half, _fixed(-32 / 17, 2))
    for _ in range(3):
        error = _fixed(1, 2) - _product(half, guess)
        guess += _saturated(4 * _product(guess, error))
    return guess


def logistic(x: int) -> int:
    """Q0 of a Q3 number."""
    if x == 0:
        return 1 << 14
    positive = _saturated(2 * _twice_reciprocal(_exp(-abs(x), 3)))
    return positive if x > 0 else _ONE - positive


def tanh(x: int, integer_bits: int) -> int:
    """Q0 of a number with so many integer bits."""
    if x == 0:
        return 0
    positive = _saturated(4 * (_twice_reciprocal(_exp(-abs(x), integer_bits + 1)) - _fixed(1, 2)))
    return positive if x > 0 else -positive
