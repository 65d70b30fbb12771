"""Sums in half precision, rounded after every step."""

from __future__ import annotations

import numba as nb
import numpy as np

_IN2 = nb.types.Array(nb.float32, 2, "C", readonly=True)
_IN3 = nb.types.Array(nb.float32, 3, "C", readonly=True)
_IN1 = nb.types.Array(nb.float32, 1, "C", readonly=True)


@nb.njit(nb.float64(nb.float64), cache=True)
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


@nb.njit(nb.float64(nb.float64, nb.float64, nb.float64, nb.boolean), cache=True)
def step_half(a, b, total, native):  # type: ignore[no-untyped-def]
    """a * b + total for fp16 operands; their product is exact in float32, so one addition rounds if not native."""
    exact = a * b + total
    if native:
        return round_half(exact)
    return round_half(np.float64(np.float32(exact)))


@nb.njit(nb.void(_IN2, _IN2, _IN1, nb.boolean, nb.float32[:, ::1]), cache=True, nogil=True)
def product_half(rows, weights, start, native, out):  # type: ignore[no-untyped-def]
    """out[m, n] = start[n] + sum over k of rows[m, k] * weights[k, n]."""
    for m in range(rows.shape[0]):
        for n in range(weights.shape[1]):
            total = np.float64(start[n])
            for k in range(rows.shape[1]):
                total = step_half(np.float64(rows[m, k]), np.float64(weights[k, n]), total, native)
            out[m, n] = np.float32(total)


@nb.njit(nb.void(_IN3, _IN2, _IN1, nb.boolean, nb.float32[:, ::1]), cache=True, nogil=True)
def depthwise_half(rows, weights, start, native, out):  # type: ignore[no-untyped-def]
    """out[m, n] = start[n] + sum over taps of rows[m, tap, n // multiplier] * weights[tap, n]."""
    multiplier = weights.shape[1] // rows.shape[2]
    for m in range(rows.shape[0]):
        for n in range(weights.shape[1]):
            total = np.float64(start[n])
            for k in range(rows.shape[1]):
                total = step_half(np.float64(rows[m, k, n // multiplier]), np.float64(weights[k, n]), total, native)
            out[m, n] = np.float32(total)
