"""Sums and maxima of windows over dense, padded, zero-point-corrected inputs: the general kernels, 64-bit accumulators.

These serve any width, kernel and stride; the fast kernels must equal them.
"""

from __future__ import annotations

import numpy as np

from npu.machine.kernels.rows import integers
from npu.native import types as ty
from npu.native.kernel import kernel
from sim.functional.kernels.output import rescale

CUBE = ty.int64[:, :, ::1]
WINDOW = np.dtype(integers("stride_y", "stride_x", "dilation_y", "dilation_x"))
"""How the kernel of a convolution moves."""
POOL = np.dtype(
    integers(
        *("stride_y", "stride_x", "height", "width"),
        *("top", "left", "rows", "columns"),  # of the map within its padding
        "mode",
        "is_divided",  # a sum, by the number of positions, with a reciprocal that rounds exact ties away from zero
        "rounding",
    )
)
"""What `pool` takes."""
MAX, AVERAGE, REDUCE_SUM = range(3)


@kernel(ty.void(CUBE, ty.int16[:, :, :, ::1], ty.int64[::1], ty.record(WINDOW), CUBE))
def convolve(ifm, weights, biases, window, out):  # type: ignore[no-untyped-def]
    """out[y, x, o] = bias[o] + sum of ifm * weights."""
    rows = np.empty((ifm.shape[0], ifm.shape[1], ifm.shape[2]), np.int32)
    for y in range(ifm.shape[0]):
        for x in range(ifm.shape[1]):
            for c in range(ifm.shape[2]):
                rows[y, x, c] = np.int32(ifm[y, x, c])
    for y in range(out.shape[0]):
        for x in range(out.shape[1]):
            for o in range(out.shape[2]):
                total = biases[o]
                for ky in range(weights.shape[1]):
                    iy = y * window.stride_y + ky * window.dilation_y
                    for kx in range(weights.shape[2]):
                        ix = x * window.stride_x + kx * window.dilation_x
                        for i in range(weights.shape[3]):
                            total += np.int64(rows[iy, ix, i] * np.int32(weights[o, ky, kx, i]))
                out[y, x, o] = total


@kernel(ty.void(CUBE, ty.int16[:, :, :, ::1], ty.int64[::1], ty.record(WINDOW), CUBE))
def convolve_depthwise(ifm, weights, biases, window, out):  # type: ignore[no-untyped-def]
    """out[y, x, c] = bias[c] + sum of ifm[..., c] * weights[c, ky, kx, 0]."""
    taps = np.empty((weights.shape[1], weights.shape[2], weights.shape[0]), np.int64)
    for c in range(weights.shape[0]):
        for ky in range(weights.shape[1]):
            for kx in range(weights.shape[2]):
                taps[ky, kx, c] = weights[c, ky, kx, 0]
    for y in range(out.shape[0]):
        for x in range(out.shape[1]):
            for c in range(out.shape[2]):
                out[y, x, c] = biases[c]
            for ky in range(weights.shape[1]):
                iy = y * window.stride_y + ky * window.dilation_y
                for kx in range(weights.shape[2]):
                    ix = x * window.stride_x + kx * window.dilation_x
                    for c in range(out.shape[2]):
                        out[y, x, c] += ifm[iy, ix, c] * taps[ky, kx, c]


@kernel(ty.several(ty.int64, 2)(ty.int64, ty.int64, ty.int64, ty.int64))
def window_along(start, size, first, extent):  # type: ignore[no-untyped-def]
    """Start and size of the part of a window that is within a map, which begins at `first`."""
    begin = max(start, first)
    return begin, max(begin, min(start + size, first + extent)) - begin


@kernel(ty.void(ty.int64[::1], ty.int64, ty.record(POOL)))
def divide_pixel(sums, count, window):  # type: ignore[no-untyped-def]
    """The sums of a pixel by the number of positions, if they are to be."""
    if window.is_divided != 0:
        k = np.int64(0)
        while ((max(count, np.int64(1)) - 1) >> k) > 0:
            k += 1
        scale = ((np.int64(1) << (31 + k)) + (np.int64(1) << k)) // max(count, np.int64(1))
        rescale(sums, scale, 31 + k, window.rounding, np.int64(31))


@kernel(ty.void(CUBE, CUBE, ty.record(POOL)))
def pool(ifm, out, window):  # type: ignore[no-untyped-def]
    """Maximum, sum, or sum over the depth as well (for every channel) of the valid positions of each window; 0 without any."""
    mode = window.mode
    for y in range(out.shape[0]):
        top, rows = window_along(y * window.stride_y, window.height, window.top, window.rows)
        for x in range(out.shape[1]):
            left, columns = window_along(x * window.stride_x, window.width, window.left, window.columns)
            count = rows * columns
            for c in range(out.shape[2]):
                out[y, x, c] = ifm[top, left, c] if mode == MAX and count > 0 else np.int64(0)
            total = np.int64(0)
            for iy in range(top, top + rows):
                for ix in range(left, left + columns):
                    if mode == MAX:
                        for c in range(out.shape[2]):
                            out[y, x, c] = max(out[y, x, c], ifm[iy, ix, c])
                    elif mode == AVERAGE:
                        for c in range(out.shape[2]):
                            out[y, x, c] += ifm[iy, ix, c]
                    else:
                        for c in range(ifm.shape[2]):
                            total += ifm[iy, ix, c]
            if mode == REDUCE_SUM:
                for c in range(out.shape[2]):
                    out[y, x, c] = total
            divide_pixel(out[y, x], count, window)
