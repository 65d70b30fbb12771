"""Logistic and tanh of 16-bit fixed-point numbers as gemmlowp computes them, over whole arrays.

Values are int64 arrays that hold int16 numbers with a given number of integer bits; results have none (Q0.15).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_EXPONENTS = (
    (-2, 1672461947), (-1, 1302514674), (0, 790015084), (1, 290630308), (2, 39332535), (3, 720401), (4, 242),
)  # fmt: skip
"""exp(-2**e) in Q0.31."""


def multiply(a: Array, b: Array | int) -> Array:
    """Rounding doubling high product of int16 numbers, ties away from zero."""
    product: Array = np.asarray(a * b, np.int64)
    result: Array = np.where(product >= 0, (product + (1 << 14)) >> 15, -((-product - 1 + (1 << 14)) >> 15))
    return np.minimum(result, 32767)


def halve(x: Array, bits: int) -> Array:
    """x / 2**bits, ties away from zero."""
    mask = (1 << bits) - 1
    result: Array = (x >> bits) + ((x & mask) > (mask >> 1) + (x < 0))
    return result


def _saturate(x: Array) -> Array:
    return np.clip(x, -32768, 32767)


def _constant(q31: int) -> int:
    return (q31 + (1 << 15)) >> 16


def _exp_below_zero(a: Array, integer_bits: int) -> Array:
    """exp of numbers that are not positive."""
    fraction = 15 - integer_bits
    quarter = 1 << (fraction - 2)
    rest = (a & (quarter - 1)) - quarter
    x = (rest << integer_bits) + 4096
    x2 = multiply(x, x)
    x3, x4 = multiply(x2, x), multiply(x2, x2)
    series = halve(multiply(halve(x4, 2) + x3, _constant(715827883)) + x2, 1)
    start = _constant(1895147668)
    result = _saturate(start + multiply(x + series, start))
    remainder = rest - a
    for exponent, factor in _EXPONENTS:
        if integer_bits > exponent:
            is_set = remainder & (1 << (fraction + exponent)) != 0
            result = np.where(is_set, multiply(result, _constant(factor)), result)
    return np.where(a == 0, 32767, result)


def _reciprocal(a: Array) -> tuple[Array, int]:
    """2 / (1 + a) with two integer bits, and one in that format; three Newton steps."""
    half = (a + 32767 + 1) // 2
    x = _constant(1515870810) + multiply(half, _constant(-1010580540))
    one = 1 << 13
    for _ in range(3):
        error = one - multiply(half, x)
        x = x + _saturate(multiply(x, error) << 2)
    return x, one


@lru_cache(maxsize=1)
def logistic_table() -> Array:
    """Logistic of every int16 number with three integer bits, ascending."""
    values = np.arange(-32768, 32768, dtype=np.int64)
    x, _ = _reciprocal(_exp_below_zero(-np.abs(values), 3))
    positive = _saturate(x << 1)
    return np.where(values == 0, 1 << 14, np.where(values > 0, positive, 32767 - positive))


@lru_cache(maxsize=16)
def tanh_table(integer_bits: int) -> Array:
    """tanh of every int16 number with so many integer bits, ascending."""
    values = np.arange(-32768, 32768, dtype=np.int64)
    x, one = _reciprocal(_exp_below_zero(-np.abs(values), integer_bits + 1))
    positive = _saturate((x - one) << 2)
    return np.where(values == 0, 0, np.where(values > 0, positive, -positive))


def rounded_shift(x: Array, bits: int) -> Array:
    """x / 2**bits, ties away from zero, saturated to int16."""
    return _saturate(halve(x, bits))
