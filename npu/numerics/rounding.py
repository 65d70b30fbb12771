"""Fixed-point scaling of accumulators, exactly as the reference kernels and the output unit do it.

Everything is compiled, takes and returns int64, and follows the reference kernels: rule A (double rounding, ties away from zero
in the second step), one rounding with ties up, and the hardware's rounding shift.
"""

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.kernel import kernel


@kernel(ty.int64(ty.int64, ty.int64))
def saturating_rounding_doubling_high_mul(a, b):  # type: ignore[no-untyped-def]
    """round(a * b / 2**31) for int32 a, b, ties away from zero; gemmlowp's SaturatingRoundingDoublingHighMul."""
    if a == -(1 << 31) and b == -(1 << 31):
        return np.int64((1 << 31) - 1)
    product = a * b
    if product >= 0:
        return (product + np.int64(1 << 30)) >> np.int64(31)
    return -((-(product + np.int64(1) - np.int64(1 << 30))) >> np.int64(31))


@kernel(ty.int64(ty.int64, ty.int64))
def rounding_divide_by_power_of_two(x, exponent):  # type: ignore[no-untyped-def]
    """round(x / 2**exponent), ties away from zero; gemmlowp's RoundingDivideByPOT."""
    mask = (np.int64(1) << exponent) - np.int64(1)
    threshold = (mask >> np.int64(1)) + (np.int64(1) if x < 0 else np.int64(0))
    return (x >> exponent) + (np.int64(1) if (x & mask) > threshold else np.int64(0))


@kernel(ty.int64(ty.int64, ty.int64, ty.int64))
def multiply_by_quantized_multiplier(x, multiplier, exponent):  # type: ignore[no-untyped-def]
    """x * multiplier / 2**31 * 2**exponent, rounded twice: TFLite's MultiplyByQuantizedMultiplier (rule A).

    A left shift (`exponent` above 0) keeps the low 32 bits, as the reference kernels do.
    """
    left = exponent if exponent > 0 else np.int64(0)
    right = -exponent if exponent < 0 else np.int64(0)
    shifted = np.int64(np.int32(x << left))
    return rounding_divide_by_power_of_two(saturating_rounding_doubling_high_mul(shifted, multiplier), right)
