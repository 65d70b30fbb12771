"""Quotients, HARD_SWISH and SOFTMAX of quantized numbers in 32-bit and 16-bit fixed point, over whole int64 arrays."""

from __future__ import annotations

import math

import numpy as np

from npu.native import types as ty
from npu.native.kernel import kernel
from npu.numerics.arrays import Array
from npu.numerics.rounding import saturating_rounding_doubling_high_mul


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


@kernel(ty.several(ty.int64, 2)(ty.int64))
def reciprocal(x):  # type: ignore[no-untyped-def]
    """1 / x of a positive int32 number as Q0.31 and how far to shift it right; three Newton steps as gemmlowp makes them."""
    zeros = np.int64(0)
    while x < np.int64(1 << 31):
        x <<= np.int64(1)
        zeros += np.int64(1)
    half = x >> np.int64(1)
    estimate = np.int64(1515870810) + saturating_rounding_doubling_high_mul(half, np.int64(-1010580540))
    for _ in range(3):
        error = np.int64(1 << 29) - saturating_rounding_doubling_high_mul(half, estimate)
        step = saturating_rounding_doubling_high_mul(estimate, error) << np.int64(2)
        estimate += min(max(step, np.int64(-(1 << 31))), np.int64((1 << 31) - 1))
    return min(estimate << np.int64(1), np.int64((1 << 31) - 1)), np.int64(31) - zeros


@kernel(ty.void(ty.int64[::1], ty.int64[::1], ty.int64[::1]))
def _reciprocals(x, inverse, over):  # type: ignore[no-untyped-def]
    for i in range(x.size):
        inverse[i], over[i] = reciprocal(x[i])


def divide(x: Array, y: Array, multiplier: int, shift: int) -> Array:
    """x / y times multiplier * 2**(shift - 31), rounded as the reference kernel of DIV does; y is not 0."""
    x, y = np.where(y < 0, -x, x), np.abs(y)
    inverse, over = np.empty(y.shape, np.int64), np.empty(y.shape, np.int64)
    _reciprocals(y.ravel(), inverse.ravel(), over.ravel())
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

    A series within a quarter, then one factor for each bit above it up to 16; below -32 nothing is left.
    """
    one, fraction = (1 << bits) - 1, bits - integer_bits
    quarter = 1 << (fraction - 2)
    rest = (x & (quarter - 1)) - quarter
    y = (rest << integer_bits) + (1 << (bits - 3))
    y2 = high_product(y, y, bits)
    y3, y4 = high_product(y2, y, bits), high_product(y2, y2, bits)
    series = halve(high_product(halve(y4, 2) + y3, constant(715827883, bits), bits) + y2, 1)
    start = constant(1895147668, bits)
    exponential = np.minimum(start + high_product(y + series, start, bits), one)
    for exponent, factor in _EXPONENTS:
        if integer_bits > exponent:
            is_set = (rest - x) & (np.int64(1) << (fraction + exponent)) != 0
            exponential = np.where(is_set, high_product(exponential, constant(factor, bits), bits), exponential)
    exponential = np.where(x < -(32 << fraction), 0, exponential)
    return np.where(x == 0, one, exponential)


def softmax_table(multiplier: int, shift: int) -> Array:
    """exp of the distances 0 to 255 below a maximum, Q0.31; those that the TFLite reference kernel of SOFTMAX leaves out are 0.

    `multiplier`, `shift`: input scale times beta as Q5.26.
    """
    difference = -np.arange(256, dtype=np.int64)
    counts = difference >= -math.floor(31 * 2.0 ** (26 - shift))
    scaled = high_product(np.where(counts, difference, 0) << shift, multiplier)
    return np.where(counts, exp_below_zero(scaled, 5), 0)


def _halve_far(x: Array, bits: Array | int, width: int = 31) -> Array:
    """`halve` by 0 to 62 bits of numbers of width + 1 bits.

    Beyond `width` what the reference kernels do on a machine that shifts modulo 32.
    """
    far = np.asarray(bits) > width
    return np.where(far, (x >> (bits & 31)) + (x > np.where(x < 0, 0, -1)), halve(x, np.where(far, width, bits)))


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
        gated = _halve_far(gated, -exponent, 15)
    product = ((gated + (1 << 15)) >> 1) * scaled
    truncated = np.minimum(np.where(product >= 0, product >> 15, -(-product >> 15)), 32767)
    return _halve_far(truncated, -output[1], 15)
