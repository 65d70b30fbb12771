"""Sums in half precision, rounded after every step."""

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.kernel import kernel

_IN2 = ty.constant(ty.float32, 2)
_IN3 = ty.constant(ty.float32, 3)
_IN1 = ty.constant(ty.float32, 1)


@kernel(ty.float64(ty.float64))
def round_half(value):  # type: ignore[no-untyped-def]
    """The nearest fp16 number, ties to even; infinity from 65520 on."""
    size = abs(value)
    if not size < 65520.0:
        return value if value != value else np.copysign(np.inf, value)
    # Adding and subtracting 1.5 * 2**52 steps rounds to a multiple of the step, 2**-10 of the leading power of two.
    step = 2.0**-24
    while size >= 2048.0 * step:
        step *= 2.0
    shift = 6755399441055744.0 * step
    return (value + shift) - shift


@kernel(ty.float64(ty.float64, ty.float64, ty.float64, ty.boolean))
def step_half(a, b, total, native):  # type: ignore[no-untyped-def]
    """a * b + total for fp16 operands; their product is exact in float32, so one addition rounds if not native."""
    exact = a * b + total
    if native:
        return round_half(exact)
    return round_half(np.float64(np.float32(exact)))


@kernel(ty.void(_IN2, _IN2, _IN1, ty.boolean, ty.float32[:, ::1]))
def product_half(rows, weights, start, native, out):  # type: ignore[no-untyped-def]
    """out[m, n] = start[n] + sum over k of rows[m, k] * weights[k, n]."""
    for m in range(rows.shape[0]):
        for n in range(weights.shape[1]):
            total = np.float64(start[n])
            for k in range(rows.shape[1]):
                total = step_half(np.float64(rows[m, k]), np.float64(weights[k, n]), total, native)
            out[m, n] = np.float32(total)


@kernel(ty.void(_IN3, _IN2, _IN1, ty.boolean, ty.float32[:, ::1]))
def depthwise_half(rows, weights, start, native, out):  # type: ignore[no-untyped-def]
    """out[m, n] = start[n] + sum over taps of rows[m, tap, n // multiplier] * weights[tap, n]."""
    multiplier = weights.shape[1] // rows.shape[2]
    for m in range(rows.shape[0]):
        for n in range(weights.shape[1]):
            total = np.float64(start[n])
            for k in range(rows.shape[1]):
                total = step_half(np.float64(rows[m, k, n // multiplier]), np.float64(weights[k, n]), total, native)
            out[m, n] = np.float32(total)
