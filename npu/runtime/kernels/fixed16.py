"""Logistic and tanh of 16-bit fixed-point numbers as gemmlowp computes them, over whole arrays.

Values are int64 arrays that hold int16 numbers with a given number of integer bits; results have none (Q0.15).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from npu.numerics.arrays import Array
from npu.runtime.kernels.integer_functions import constant, exp_below_zero, halve, high_product


def multiply(a: Array, b: Array | int) -> Array:
    """Rounding doubling high product of int16 numbers, ties away from zero."""
    return high_product(a, b, 15)


def _saturate(x: Array) -> Array:
    return np.clip(x, -32768, 32767)


def _reciprocal(a: Array) -> tuple[Array, int]:
    """2 / (1 + a) with two integer bits, and one in that format; three Newton steps."""
    half = (a + 32767 + 1) // 2
    x = constant(1515870810, 15) + multiply(half, constant(-1010580540, 15))
    one = 1 << 13
    for _ in range(3):
        error = one - multiply(half, x)
        x = x + _saturate(multiply(x, error) << 2)
    return x, one


@lru_cache(maxsize=1)
def logistic_table() -> Array:
    """Logistic of every int16 number with three integer bits, ascending."""
    values = np.arange(-32768, 32768, dtype=np.int64)
    x, _ = _reciprocal(exp_below_zero(-np.abs(values), 3, 15))
    positive = _saturate(x << 1)
    return np.where(values == 0, 1 << 14, np.where(values > 0, positive, 32767 - positive))


@lru_cache(maxsize=16)
def tanh_table(integer_bits: int) -> Array:
    """tanh of every int16 number with so many integer bits, ascending."""
    values = np.arange(-32768, 32768, dtype=np.int64)
    x, one = _reciprocal(exp_below_zero(-np.abs(values), integer_bits + 1, 15))
    positive = _saturate((x - one) << 2)
    return np.where(values == 0, 0, np.where(values > 0, positive, -positive))


def rounded_shift(x: Array, bits: int) -> Array:
    """x / 2**bits, ties away from zero, saturated to int16."""
    return _saturate(halve(x, bits))
