"""Sums of float32 rows in the order of their elements."""

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.kernel import kernel
from npu.native.memory import load_float

_TOGETHER = 8
"""Rows whose sums are computed side by side: one sum waits for each of its additions."""


@kernel(ty.void(ty.constant(ty.float32, 2), ty.float32, ty.float32[::1]))
def sum_rows(rows, divisor, out):  # type: ignore[no-untyped-def]
    """out (n) = sums of rows (n, k), divided."""
    count, width = rows.shape
    start, pitch = np.int64(rows.ctypes.data), 4 * width
    whole = count - count % _TOGETHER
    for first in range(0, whole, _TOGETHER):
        a = b = c = d = e = f = g = h = np.float32(0)
        for k in range(width):
            at = start + first * pitch + 4 * k
            a += load_float(at)
            b += load_float(at + pitch)
            c += load_float(at + 2 * pitch)
            d += load_float(at + 3 * pitch)
            e += load_float(at + 4 * pitch)
            f += load_float(at + 5 * pitch)
            g += load_float(at + 6 * pitch)
            h += load_float(at + 7 * pitch)
        out[first], out[first + 1], out[first + 2], out[first + 3] = a / divisor, b / divisor, c / divisor, d / divisor
        out[first + 4], out[first + 5], out[first + 6], out[first + 7] = e / divisor, f / divisor, g / divisor, h / divisor
    for row in range(whole, count):
        total = np.float32(0)
        for k in range(width):
            total += rows[row, k]
        out[row] = total / divisor
