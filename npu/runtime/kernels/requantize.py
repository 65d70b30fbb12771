"""Accumulators to quantized values; the loops that apply the roundings of `npu.numerics` to arrays."""

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.kernel import kernel
from npu.numerics.rounding import multiply_by_quantized_multiplier


@kernel(ty.void(ty.int64[:, ::1], ty.int64[::1], ty.int64[::1], ty.int64, ty.int64, ty.int64, ty.int64[:, ::1]))
def rescale(acc, multipliers, exponents, zero_point, low, high, ofm):  # type: ignore[no-untyped-def]
    """ofm[i, c] = clamp(acc[i, c] * multiplier[c] * 2**(exponent[c] - 31), rounded twice, + zero_point)."""
    for i in range(acc.shape[0]):
        for c in range(acc.shape[1]):
            value = multiply_by_quantized_multiplier(acc[i, c], multipliers[c], exponents[c]) + zero_point
            ofm[i, c] = min(max(value, low), high)


@kernel(ty.void(ty.int64[:, ::1], ty.int64[::1], ty.int64[::1], ty.int64, ty.int64, ty.int64, ty.int64[:, ::1]))
def rescale_wide(acc, multipliers, exponents, zero_point, low, high, ofm):  # type: ignore[no-untyped-def]
    """The same for 64-bit accumulators: the multiplier is reduced to 16 bits, one rounding with ties up, the
    low 32 bits (TFLite's int64 overload)."""
    for i in range(acc.shape[0]):
        for c in range(acc.shape[1]):
            q = multipliers[c]
            reduced = (q + (1 << 15)) >> 16 if q < 0x7FFF0000 else np.int64(0x7FFF)
            shift = 15 - exponents[c]
            value = acc[i, c] * reduced
            if shift > 0:
                value = np.int64(np.int32((value + (np.int64(1) << (shift - 1))) >> shift))
            else:  # left open by the reference kernel, whose shift would be negative
                value = min(max(value, -(1 << 31)), 1 << 31) << min(-shift, 31)
            ofm[i, c] = min(max(value + zero_point, low), high)
