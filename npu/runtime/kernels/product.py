"""Float32 matrix products that add in the order of the reference kernels, so that no matrix library decides what they give."""

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.cpu import is_making
from npu.native.kernel import kernel

if is_making():
    from npu.runtime.kernels.product_tiles import HEIGHTS, LANES, tile

_CONSTANT, _MATRIX = ty.constant(ty.float32, 2), ty.float32[:, ::1]


@kernel(ty.void(_CONSTANT, _CONSTANT, _MATRIX))
def multiply_in_order(rows, weights, out):  # type: ignore[no-untyped-def]
    """out[m, n] = sum over k ascending of rows[m, k] * weights[k, n], in float32 without contraction."""
    count, depth, columns = rows.shape[0], rows.shape[1], out.shape[1]
    if columns < LANES:
        for m in range(count):
            for n in range(columns):
                out[m, n] = np.float32(0)
            for k in range(depth):
                for n in range(columns):
                    out[m, n] += rows[m, k] * weights[k, n]
        return
    height = np.int64(1)
    for rows_of_tile in HEIGHTS:
        if height == 1 and count >= rows_of_tile:
            height = np.int64(rows_of_tile)
    a, b, c = np.int64(rows.ctypes.data), np.int64(weights.ctypes.data), np.int64(out.ctypes.data)
    # The last tiles lie over those before them, and give the same numbers.
    for start in range(0, columns, LANES):
        n = 4 * min(np.int64(start), columns - LANES)
        for first in range(0, count, height):
            m = 4 * min(np.int64(first), count - height)
            tile(height, a + m * depth, 4 * depth, depth, b + n, 4 * columns, c + m * columns + n, 4 * columns)


@kernel(ty.void(_CONSTANT, _CONSTANT, _MATRIX, ty.constant(ty.float32, 1), ty.float32, ty.float32, _MATRIX))
def dense_in_order(rows, weights, turned, bias, low, high, out):  # type: ignore[no-untyped-def]
    """out[m, n] = sum over k ascending of rows[m, k] * weights[n, k], then the bias, if there is one, within `low` and `high`.

    `turned` (depth, units) takes the weights transposed; it holds them already if there are no `weights`.
    """
    for n in range(weights.shape[0]):
        for k in range(weights.shape[1]):
            turned[k, n] = weights[n, k]
    multiply_in_order(rows, turned, out)
    count, columns = out.shape
    for m in range(count):
        if bias.size > 0:
            for n in range(columns):
                out[m, n] += bias[n]
        for n in range(columns):
            least = low if out[m, n] < low else out[m, n]
            out[m, n] = high if least > high else least
