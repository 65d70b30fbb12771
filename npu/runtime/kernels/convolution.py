"""Convolution sums over padded maps; no rounding happens here. Layout is NHWC, filters are (height, width, in, out).

Integer sums use double-precision matrix products, which are exact below 2**53. Float sums add in the order of the reference
kernels
(filter row, filter column, input channel), so that float results do not depend on the platform's matrix library.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_PATCH_ELEMENTS = 1 << 22
_CONSTANT = nb.types.Array(nb.float32, 2, "C", readonly=True)


@nb.njit(nb.void(_CONSTANT, _CONSTANT, nb.float32[:, ::1]), cache=True, nogil=True)
def multiply_in_order(rows, weights, out):  # type: ignore[no-untyped-def]
    """out[m, n] = sum over k ascending of rows[m, k] * weights[k, n], in float32 without contraction."""
    for m in range(rows.shape[0]):
        for n in range(out.shape[1]):
            out[m, n] = np.float32(0)
        for k in range(rows.shape[1]):
            value = rows[m, k]
            for n in range(out.shape[1]):
                out[m, n] += value * weights[k, n]


_MAP = nb.types.Array(nb.float32, 4, "C", readonly=True)


@nb.njit(nb.void(_MAP, _MAP, nb.int64, nb.int64, nb.int64, nb.int64, nb.float32[:, :, :, ::1]), cache=True, nogil=True)
def transposed_in_order(ifm, taps, stride_h, stride_w, pad_h, pad_w, out):  # type: ignore[no-untyped-def]
    """Float transposed convolution with taps (kh, kw, in, out): adds in the order input row, input column, input channel."""
    for b in range(ifm.shape[0]):
        for iy in range(ifm.shape[1]):
            for ix in range(ifm.shape[2]):
                for c in range(ifm.shape[3]):
                    value = ifm[b, iy, ix, c]
                    for y in range(taps.shape[0]):
                        oy = iy * stride_h - pad_h + y
                        if oy < 0 or oy >= out.shape[1]:
                            continue
                        for x in range(taps.shape[1]):
                            ox = ix * stride_w - pad_w + x
                            if ox < 0 or ox >= out.shape[2]:
                                continue
                            for n in range(out.shape[3]):
                                out[b, oy, ox, n] += value * taps[y, x, c, n]


def pad_map(ifm: Array, before: tuple[int, int], after: tuple[int, int]) -> Array:
    """Zero-pad height and width; negative `after` leaves the map as it is."""
    top, left = before
    bottom, right = max(after[0], 0), max(after[1], 0)
    if not (top or left or bottom or right):
        return ifm
    return np.pad(ifm, ((0, 0), (top, bottom), (left, right), (0, 0)))


def windows(
    ifm: Array, kernel: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int], out: tuple[int, int]
) -> Array:
    """A view (batch, out height, out width, kernel height, kernel width, channels) of a padded map."""
    b, _, _, c = ifm.shape
    sb, sh, sw, sc = ifm.strides
    strides = (sb, sh * stride[0], sw * stride[1], sh * dilation[0], sw * dilation[1], sc)
    return np.lib.stride_tricks.as_strided(ifm, (b, *out, *kernel, c), strides, writeable=False)


def convolve(patches: Array, weights: Array) -> Array:
    """Sums (pixels, out channels) of patches (batch, oh, ow, kh, kw, in) with weights (kh * kw * in, out).

    float32 weights: float32 sums in order. Otherwise both must hold integers as float64, and the result is int64.
    """
    b, oh, ow = patches.shape[:3]
    k, n = weights.shape
    rows_at_once = max(1, _PATCH_ELEMENTS // max(1, ow * k))
    is_float = weights.dtype == np.float32
    out = np.empty((b, oh, ow, n), np.float32 if is_float else np.int64)
    for batch in range(b):
        for y in range(0, oh, rows_at_once):
            chunk = patches[batch, y : y + rows_at_once]
            rows = np.ascontiguousarray(chunk).reshape(chunk.shape[0] * ow, k)
            target = out[batch, y : y + rows_at_once].reshape(-1, n)
            if is_float:
                multiply_in_order(rows, weights, target)
            else:
                target[...] = rows @ weights
    return out.reshape(b * oh * ow, n)


def convolve_depthwise(patches: Array, weights: Array) -> Array:
    """Sums (pixels, channels * multiplier) of patches (batch, oh, ow, kh, kw, in) with weights (kh, kw, in, multiplier).

    The result has the type of the operands (float32 or int64), summed in the order filter row, filter column.
    """
    b, oh, ow, kh, kw, c = patches.shape
    multiplier = weights.shape[3]
    acc = np.zeros((b, oh, ow, c, multiplier), weights.dtype)
    for y in range(kh):
        for x in range(kw):
            acc += patches[:, :, :, y, x, :, None] * weights[y, x]
    return acc.reshape(b * oh * ow, c * multiplier)


def scatter_transposed(columns: Array, ifm_shape: tuple[int, ...], kernel: tuple[int, int], stride: tuple[int, int],
                       pad: tuple[int, int], out_shape: tuple[int, int, int, int]) -> Array:  # fmt: skip
    """Transposed convolution: add columns (batch * ih * iw, kh, kw, out) where they fall in the output; outside is dropped."""
    b, ih, iw = ifm_shape[:3]
    kh, kw = kernel
    canvas_h = max((ih - 1) * stride[0] + kh, out_shape[1] + pad[0])
    canvas_w = max((iw - 1) * stride[1] + kw, out_shape[2] + pad[1])
    canvas = np.zeros((b, canvas_h, canvas_w, out_shape[3]), columns.dtype)
    columns = columns.reshape(b, ih, iw, kh, kw, out_shape[3])
    for y in range(kh):
        for x in range(kw):
            canvas[:, y : y + ih * stride[0] : stride[0], x : x + iw * stride[1] : stride[1]][:, :ih, :iw] += columns[
                :, :, :, y, x
            ]
    return canvas[:, pad[0] : pad[0] + out_shape[1], pad[1] : pad[1] + out_shape[2]]
