"""Sums and maxima of windows over dense, padded, zero-point-corrected inputs: the general kernels, 64-bit accumulators.

These serve any width, kernel and stride; the fast kernels must equal them.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from npu.numerics.kernel import kernel

CUBE = nb.int64[:, :, ::1]


@kernel(nb.void(CUBE, nb.int16[:, :, :, ::1], nb.int64[::1], nb.int64[::1], CUBE))
def convolve(ifm, weights, biases, geometry, out):  # type: ignore[no-untyped-def]
    """out[y, x, o] = bias[o] + sum of ifm * weights; geometry: stride y, x, dilation y, x."""
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
                    iy = y * geometry[0] + ky * geometry[2]
                    for kx in range(weights.shape[2]):
                        ix = x * geometry[1] + kx * geometry[3]
                        for i in range(weights.shape[3]):
                            total += np.int64(rows[iy, ix, i] * np.int32(weights[o, ky, kx, i]))
                out[y, x, o] = total


@kernel(nb.void(CUBE, nb.int16[:, :, :, ::1], nb.int64[::1], nb.int64[::1], CUBE))
def convolve_depthwise(ifm, weights, biases, geometry, out):  # type: ignore[no-untyped-def]
    """out[y, x, c] = bias[c] + sum of ifm[..., c] * weights[c, ky, kx, 0]; geometry as `convolve`."""
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
                iy = y * geometry[0] + ky * geometry[2]
                for kx in range(weights.shape[2]):
                    ix = x * geometry[1] + kx * geometry[3]
                    for c in range(out.shape[2]):
                        out[y, x, c] += ifm[iy, ix, c] * taps[ky, kx, c]


@kernel(nb.void(CUBE, nb.int64[::1], CUBE, nb.int64[:, ::1]))
def pool_maximum(ifm, geometry, out, unused):  # type: ignore[no-untyped-def]
    """Maximum over the valid positions of each window.

    geometry: stride y, x, kernel height, width, pad top, left, valid rows, columns. Without a valid position: 0.
    """
    for y in range(out.shape[0]):
        top = max(y * geometry[0], geometry[4])
        bottom = min(y * geometry[0] + geometry[2], geometry[4] + geometry[6])
        for x in range(out.shape[1]):
            left = max(x * geometry[1], geometry[5])
            right = min(x * geometry[1] + geometry[3], geometry[5] + geometry[7])
            for c in range(out.shape[2]):
                out[y, x, c] = np.int64(0) if top >= bottom or left >= right else ifm[top, left, c]
            for iy in range(top, bottom):
                for ix in range(left, right):
                    for c in range(out.shape[2]):
                        out[y, x, c] = max(out[y, x, c], ifm[iy, ix, c])


@kernel(nb.void(CUBE, nb.int64[::1], CUBE, nb.int64[:, ::1]))
def pool_sum(ifm, geometry, out, counts):  # type: ignore[no-untyped-def]
    """Sum over each window (padding holds 0), and the number of valid positions; geometry as `pool_maximum`."""
    for y in range(out.shape[0]):
        top = max(y * geometry[0], geometry[4])
        bottom = min(y * geometry[0] + geometry[2], geometry[4] + geometry[6])
        for x in range(out.shape[1]):
            left = max(x * geometry[1], geometry[5])
            right = min(x * geometry[1] + geometry[3], geometry[5] + geometry[7])
            counts[y, x] = max(np.int64(0), bottom - top) * max(np.int64(0), right - left)
            for c in range(out.shape[2]):
                out[y, x, c] = 0
            for iy in range(top, bottom):
                for ix in range(left, right):
                    for c in range(out.shape[2]):
                        out[y, x, c] += ifm[iy, ix, c]


@kernel(nb.void(CUBE, CUBE))
def reduce_depth(values, out):  # type: ignore[no-untyped-def]
    """out[y, x, c] = sum over the depth of values, for every c."""
    for y in range(out.shape[0]):
        for x in range(out.shape[1]):
            total = np.int64(0)
            for c in range(values.shape[2]):
                total += values[y, x, c]
            for c in range(out.shape[2]):
                out[y, x, c] = total
