"""Window means and maxima over NHWC maps. Elements outside the map do not count."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Pair = tuple[int, int]


@nb.njit(cache=True)  # one version per type of elements, when it is used
def _add_windows(ifm, kernel_h, kernel_w, stride_h, stride_w, top, left, total, count):  # type: ignore[no-untyped-def]
    """Adds every window to `total`, in row order, and counts the elements inside the map."""
    for b in range(total.shape[0]):
        for oy in range(total.shape[1]):
            y0 = oy * stride_h - top
            for ox in range(total.shape[2]):
                x0 = ox * stride_w - left
                inside = 0
                for y in range(max(y0, 0), min(y0 + kernel_h, ifm.shape[1])):
                    for x in range(max(x0, 0), min(x0 + kernel_w, ifm.shape[2])):
                        inside += 1
                        for c in range(total.shape[3]):
                            total[b, oy, ox, c] += ifm[b, y, x, c]
                count[oy, ox] = inside


@nb.njit(cache=True)  # one version per type of elements, when it is used
def _take_maxima(ifm, kernel_h, kernel_w, stride_h, stride_w, top, left, out):  # type: ignore[no-untyped-def]
    """The maximum of `out` and every window."""
    for b in range(out.shape[0]):
        for oy in range(out.shape[1]):
            y0 = oy * stride_h - top
            for ox in range(out.shape[2]):
                x0 = ox * stride_w - left
                for y in range(max(y0, 0), min(y0 + kernel_h, ifm.shape[1])):
                    for x in range(max(x0, 0), min(x0 + kernel_w, ifm.shape[2])):
                        for c in range(out.shape[3]):
                            if out[b, oy, ox, c] < ifm[b, y, x, c]:
                                out[b, oy, ox, c] = ifm[b, y, x, c]


@nb.njit(cache=True)  # one version per type of elements, when it is used
def average_integer(ifm, kernel, stride, before, limits, total, out):  # type: ignore[no-untyped-def]
    """Means, rounded, ties away from zero, clamped to limits; `total`: int64 work space, one per channel."""
    for b in range(out.shape[0]):
        for oy in range(out.shape[1]):
            y0 = oy * stride[0] - before[0]
            for ox in range(out.shape[2]):
                x0 = ox * stride[1] - before[1]
                n = 0
                for c in range(out.shape[3]):
                    total[c] = 0
                for y in range(max(y0, 0), min(y0 + kernel[0], ifm.shape[1])):
                    for x in range(max(x0, 0), min(x0 + kernel[1], ifm.shape[2])):
                        n += 1
                        for c in range(out.shape[3]):
                            total[c] += ifm[b, y, x, c]
                n = max(n, 1)
                for c in range(out.shape[3]):
                    value = total[c]
                    mean = (value + n // 2) // n if value >= 0 else -((-value + n // 2) // n)
                    out[b, oy, ox, c] = min(max(mean, limits[0]), limits[1])


def _sums(ifm: Array, kernel: Pair, stride: Pair, before: Pair, out: Pair, dtype: type[np.generic]) -> tuple[Array, Array]:
    total = np.zeros((ifm.shape[0], *out, ifm.shape[3]), dtype)
    count = np.zeros(out, np.int64)
    _add_windows(np.ascontiguousarray(ifm), *kernel, *stride, *before, total, count)
    return total, np.maximum(count, 1)[:, :, None]


def average_float(ifm: Array, kernel: Pair, stride: Pair, before: Pair, out: Pair) -> Array:
    """Mean in float32, summed in row order."""
    total, count = _sums(ifm, kernel, stride, before, out, np.float32)
    return (total / count.astype(np.float32)).astype(np.float32)


def maximum(ifm: Array, kernel: Pair, stride: Pair, before: Pair, out: Pair) -> Array:
    """Window maximum in the map's type."""
    lowest = np.finfo(ifm.dtype).min if ifm.dtype.kind == "f" else np.iinfo(ifm.dtype).min
    result = np.full((ifm.shape[0], *out, ifm.shape[3]), lowest, ifm.dtype)
    _take_maxima(np.ascontiguousarray(ifm), *kernel, *stride, *before, result)
    return result
