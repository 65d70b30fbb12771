"""Inverse square roots in fixed point, and the layer normalisation of int16 rows in the reference kernels of the LSTM."""

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.kernel import kernel
from npu.numerics.rounding import (
    multiply_by_quantized_multiplier,
    rounding_divide_by_power_of_two,
    saturating_rounding_doubling_high_mul,
)

_ROWS, _VECTOR = ty.int64[:, ::1], ty.int64[::1]


@kernel(ty.int64(ty.int64, ty.int64))
def _saturated_shift(x, bits):  # type: ignore[no-untyped-def]
    """x * 2**bits within int32."""
    return min(max(x << bits, np.int64(-(1 << 31))), np.int64((1 << 31) - 1))


@kernel(ty.several(ty.int64, 2)(ty.int64))
def inverse_square_root(value):  # type: ignore[no-untyped-def]
    """Multiplier and exponent of 1 / sqrt(value) for value in [0, 2**31): five Newton steps in fixed point (Q3.28).

    The TFLite reference kernels' GetInvSqrtQuantizedMultiplierExp: 0 and 1 give the largest multiplier.
    """
    if value <= 1:
        return np.int64((1 << 31) - 1), np.int64(0)
    shift = np.int64(11)
    while value >= (1 << 29):
        value //= np.int64(4)
        shift += np.int64(1)
    pairs = np.int64(0)
    while value << (np.int64(2) * (pairs + np.int64(1))) < (1 << 29):
        pairs += np.int64(1)
    shift -= pairs
    value <<= np.int64(2) * pairs
    half = rounding_divide_by_power_of_two(value >> np.int64(1), np.int64(1))
    three_halves = np.int64((1 << 28) + (1 << 27))
    x = np.int64(1 << 28)
    for _ in range(5):
        square = saturating_rounding_doubling_high_mul(x, x)
        cube = _saturated_shift(saturating_rounding_doubling_high_mul(square, x), np.int64(6))
        left = saturating_rounding_doubling_high_mul(three_halves, x)
        right = saturating_rounding_doubling_high_mul(half, cube)
        x = _saturated_shift(left - right, np.int64(3))
    x = saturating_rounding_doubling_high_mul(x, np.int64(1518500250))
    if shift < 0:
        x <<= -shift
        shift = np.int64(0)
    return x, -shift


@kernel(ty.void(_VECTOR, _VECTOR, _VECTOR))
def inverse_square_roots(values, multipliers, exponents):  # type: ignore[no-untyped-def]
    """The same for every value."""
    for i in range(values.size):
        multipliers[i], exponents[i] = inverse_square_root(values[i])


@kernel(ty.int64(ty.int64, ty.int64))
def _truncated(a, b):  # type: ignore[no-untyped-def]
    """a / b towards zero, b above 0."""
    return a // b if a >= 0 else -((-a) // b)


@kernel(ty.void(_ROWS, _VECTOR, _VECTOR, _VECTOR, _VECTOR, ty.int64, _ROWS))
def normalize_rows(rows, weights, bias, multiplier, exponent, guard, out):  # type: ignore[no-untyped-def]
    """Rows (batch, units) of int16 values to normalised * weights + bias in Q3.12, within int16.

    Mean and deviation carry ten more bits; the variance is truncated, and is `guard` where it is below 1.
    """
    count = np.int64(rows.shape[1])
    for b in range(rows.shape[0]):
        total, squares = np.int64(0), np.int64(0)
        for i in range(count):
            total += rows[b, i]
            squares += rows[b, i] * rows[b, i]
        mean = _truncated(total * np.int64(1024), count)
        variance = _truncated(squares * (np.int64(1 << 20) // count) - mean * mean, np.int64(1 << 20))
        scale, shift = inverse_square_root(variance if variance >= 1 else np.int64(guard))
        for i in range(count):
            normal = multiply_by_quantized_multiplier(np.int64(1024) * rows[b, i] - mean, scale, shift)
            value = normal * weights[i] + bias[i]
            rounded = _truncated(value + np.int64(512) if value > 0 else value - np.int64(512), np.int64(1024))
            scaled = multiply_by_quantized_multiplier(rounded, multiplier[0], exponent[0] + np.int64(12))
            out[b, i] = min(max(scaled, np.int64(-32768)), np.int64(32767))
