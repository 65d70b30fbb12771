"""Sums of float32 rows in the order of their elements."""

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.kernel import kernel

_TOGETHER = 8
"""Rows whose sums are computed side by side: one sum waits for each of its additions."""


@kernel(ty.void(ty.constant(ty.float32, 2), ty.float32[::1]))
def sum_rows(rows, out):  # type: ignore[no-untyped-def]
    """out (n) = sums of rows (n, k)."""
    count, width = rows.shape
    whole = count - count % _TOGETHER
    for first in range(0, whole, _TOGETHER):
        a = b = c = d = e = f = g = h = np.float32(0)
        for k in range(width):
            a += rows[first, k]
            b += rows[first + 1, k]
            c += rows[first + 2, k]
            d += rows[first + 3, k]
            e += rows[first + 4, k]
            f += rows[first + 5, k]
            g += rows[first + 6, k]
            h += rows[first + 7, k]
        out[first], out[first + 1], out[first + 2], out[first + 3] = a, b, c, d
        out[first + 4], out[first + 5], out[first + 6], out[first + 7] = e, f, g, h
    for row in range(whole, count):
        total = np.float32(0)
        for k in range(width):
            total += rows[row, k]
        out[row] = total
