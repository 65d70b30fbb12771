"""Quotients, HARD_SWISH and SOFTMAX of quantised numbers in 32-bit and 16-bit fixed point, over whole int64 arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_ONE_Q31 = (1 << 31) - 1
_ONE_Q29 = 1 << 29


def high_product(a: Array, b: Array | int, bits: int = 31) -> Array:
    """Rounding doubling high product of numbers of bits + 1 bits, ties away from zero, saturated."""
    product = np.asarray(a * b, np.int64)
    half = np.int64(1 << (bits - 1))
    result: Array = np.where(product >= 0, (product + half) >> bits, -((-(product + 1 - half)) >> bits))
    return np.minimum(result, (1 << bits) - 1)


def halve(x: Array, bits: Array | int) -> Array:
    """x / 2**bits, ties away from zero."""
    mask = (np.int64(1) << bits) - 1
    result: Array = (x >> bits) + ((x & mask) > (mask >> 1) + (x < 0))
    return result


def _bits_used(x: Array) -> Array:
    return np.frexp(x.astype(np.float64))[1].astype(np.int64)


def _reciprocal(x: Array) -> tuple[Array, Array]:
    """1 / x of positive int32 numbers as Q0.31 and how far to shift it right; three Newton steps as gemmlowp makes them."""
    zeros = 32 - _bits_used(x)
    fraction = (x << zeros) - (np.int64(1) << 31)
    half = (fraction + _ONE_Q31 + 1) // 2
    estimate = 1515870810 + high_product(half, -1010580540)
    for _ in range(3):
        error = _ONE_Q29 - high_product(half, estimate)
        estimate = estimate + np.clip(high_product(estimate, error) << 2, -(1 << 31), _ONE_Q31)
    return np.clip(estimate << 1, -(1 << 31), _ONE_Q31), 31 - zeros


def divide(x: Array, y: Array, multiplier: int, shift: int) -> Array:
    """x / y times multiplier * 2**(shift - 31), rounded as the reference kernel of DIV does; y is not 0."""
    x, y = np.where(y < 0, -x, x), np.abs(y)
    inverse, over = _reciprocal(y)
    headroom = np.where(x < 0, 32 - _bits_used(-2 * x - 1), 31 - _bits_used(x))
    quotient = high_product(x << headroom, inverse)
    return _halve_far(high_product(quotient, multiplier), over + headroom - shift)


_EXPONENTS = (
    (-2, 1672461947), (-1, 1302514674), (0, 790015084), (1, 290630308), (2, 39332535), (3, 720401), (4, 242),
)  # fmt: skip
"""exp(-2**e) in Q0.31."""


def constant(q31: int, bits: int) -> int:
    """A Q0.31 constant as a number of bits + 1 bits."""
    return q31 if bits == 31 else (q31 + (1 << (30 - bits))) >> (31 - bits)


def exp_below_zero(x: Array, integer_bits: int, bits: int = 31) -> Array:
    """exp of numbers of bits + 1 bits that are not positive, as fractions: gemmlowp's exp_on_negative_values.

    A series within a quarter, then one factor for each bit above it.
    """
    one, fraction = (1 << bits) - 1, bits - integer_bits
    quarter = 1 << (fraction - 2)
    rest = (x & (quarter - 1)) - quarter
    y = (rest << integer_bits) + (1 << (bits - 3))
    y2 = high_product(y, y, bits)
    y3, y4 = high_product(y2, y, bits), high_product(y2, y2, bits)
    series = halve(high_product(halve(y4, 2) + y3, constant(715827883, bits), bits) + y2, 1)
    start = constant(1895147668, bits)
    result = np.minimum(start + high_product(y + series, start, bits), one)
    for exponent, factor in _EXPONENTS:
        if integer_bits > exponent:
            is_set = (rest - x) & (np.int64(1) << (fraction + exponent)) != 0
            result = np.where(is_set, high_product(result, constant(factor, bits), bits), result)
    return np.where(x == 0, one, result)


def softmax_to_16bit(rows: Array, multiplier: int, shift: int) -> Array:
    """Softmax of int64 rows of 8-bit values as int16 with scale 2**-16 and zero point -32768.

    `multiplier`, `shift`: input scale times beta as Q5.26; TFLite's reference kernel of SOFTMAX for an int16 result.
    """
    difference = rows - rows.max(axis=1, keepdims=True)
    lowest = -math.floor(31 * 2.0 ** (26 - shift))
    counts = difference >= lowest
    scaled = high_product(np.where(counts, difference, 0) << shift, multiplier)
    exponentials = np.where(counts, exp_below_zero(scaled, 5), 0)
    inverse, over = _reciprocal(np.where(counts, halve(exponentials, 12), 0).sum(axis=1, keepdims=True))
    result = halve(high_product(exponentials, inverse), over - 31 + 12 + 15) - 32768
    return np.where(counts, np.clip(result, -32768, 32767), -32768)


def _halve_far(x: Array, bits: Array) -> Array:
    """`halve` by 0 to 62 bits of int32 numbers; beyond 31 what the reference kernel does on a machine that shifts modulo 32."""
    far = bits > 31
    return np.where(far, (x >> (bits & 31)) + (x > np.where(x < 0, 0, -1)), halve(x, np.where(far, 31, bits)))


def to_16bit(multiplier: int) -> int:
    """A Q0.31 multiplier as Q0.15."""
    return 0x7FFF if multiplier >= 0x7FFF8000 else (multiplier + (1 << 15)) >> 16


def hard_swish(values: Array, output: tuple[int, int], gate: tuple[int, int]) -> Array:
    """x * relu6(x + 3) / 6 of values without zero point. `output` and `gate` are Q0.15 multipliers with exponents: of x to the
    output's scale and of x to Q0.15 over [-3, 3]."""
    fine = values << 7
    scaled = high_product(fine, output[0], 15)
    multiplier, exponent = gate
    gated = fine
    if exponent > 0:
        gated = np.clip(gated << (exponent - 1), -32768, 32767)
    gated = high_product(gated, multiplier, 15)
    if exponent > 0:
        gated = np.clip(gated << 1, -32768, 32767)
    elif exponent < 0:
        gated = halve(gated, -exponent)
    product = ((gated + (1 << 15)) >> 1) * scaled
    truncated = np.minimum(np.where(product >= 0, product >> 15, -(-product >> 15)), 32767)
    return halve(truncated, -output[1])


def inverse_square_root(x: Array) -> tuple[Array, Array]:
    """1 / sqrt(x) of int32 numbers as Q0.31 and how far to shift it right; five Newton steps with three integer bits."""
    x = np.asarray(x, np.int64)
    is_one = x <= 1
    value, shift = np.where(is_one, 2, x), np.full(x.shape, 11, np.int64)
    while np.any(value >= 1 << 29):
        large = value >= 1 << 29
        value, shift = np.where(large, value // 4, value), shift + large
    pairs = (31 - _bits_used(value)) // 2 - 1
    value, shift = value << (2 * pairs), shift - pairs
    half_input = halve(value >> 1, 1)
    estimate = np.full(x.shape, 1 << 28, np.int64)
    for _ in range(5):
        cube = _left(high_product(high_product(estimate, estimate), estimate), 6)
        estimate = _left(high_product(estimate, 402653184) - high_product(half_input, cube), 3)
    estimate = high_product(estimate, 1518500250)
    estimate, shift = np.where(shift < 0, estimate << np.maximum(-shift, 0), estimate), np.maximum(shift, 0)
    return np.where(is_one, _ONE_Q31, estimate), np.where(is_one, 0, shift)


def _left(x: Array, bits: int) -> Array:
    result: Array = np.clip(x << bits, -(1 << 31), _ONE_Q31)
    return result
