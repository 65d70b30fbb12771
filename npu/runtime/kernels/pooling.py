"""Window means and maxima over NHWC maps. Elements outside the map do not count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npu.layouts import HeightWidth
from npu.native import types as ty
from npu.native.kernel import Kernel, kernel
from npu.numerics.arrays import Array

_I = ty.int64
_INTEGERS = (ty.int8, ty.uint8, ty.int16)


def _map(element: ty.ScalarType) -> ty.ArrayType:
    return element[:, :, :, ::1]


def _read_only(element: ty.ScalarType) -> ty.ArrayType:
    """A map that is only read, such as a constant of a file."""
    return ty.constant(element, 4)


def _versions(
    function: Callable[..., None], elements: tuple[ty.ScalarType, ...], *between: ty.ScalarType | ty.ArrayType
) -> dict[Any, Kernel]:
    """A kernel for each type of elements: a map in, other arguments, a map out."""
    return {element.dtype: kernel(ty.void(_read_only(element), *between, _map(element)))(function) for element in elements}


@kernel(ty.void(_read_only(ty.float32), *(_I,) * 6, _map(ty.float32), ty.int64[:, ::1]))
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


def _take_means(ifm, kernel_h, kernel_w, stride_h, stride_w, top, left, low, high, total, out):  # type: ignore[no-untyped-def]
    """Means of every window, rounded, ties away from zero, within limits; `total`: work space, one per channel."""
    for b in range(out.shape[0]):
        for oy in range(out.shape[1]):
            y0 = oy * stride_h - top
            for ox in range(out.shape[2]):
                x0 = ox * stride_w - left
                n = 0
                for c in range(out.shape[3]):
                    total[c] = 0
                for y in range(max(y0, 0), min(y0 + kernel_h, ifm.shape[1])):
                    for x in range(max(x0, 0), min(x0 + kernel_w, ifm.shape[2])):
                        n += 1
                        for c in range(out.shape[3]):
                            total[c] += ifm[b, y, x, c]
                n = max(n, 1)
                for c in range(out.shape[3]):
                    value = total[c]
                    mean = (value + n // 2) // n if value >= 0 else -((-value + n // 2) // n)
                    out[b, oy, ox, c] = min(max(mean, low), high)


_MAXIMA = _versions(_take_maxima, (*_INTEGERS, ty.float32), *(_I,) * 6)
MEANS = _versions(_take_means, _INTEGERS, *(_I,) * 8, ty.int64[::1])
"""Rounded means, ties away from zero, clamped, by type."""


def _sums(
    ifm: Array, kernel: HeightWidth, stride: HeightWidth, before: HeightWidth, out: HeightWidth, dtype: type[np.generic]
) -> tuple[Array, Array]:
    total = np.zeros((ifm.shape[0], *out, ifm.shape[3]), dtype)
    count = np.zeros(out, np.int64)
    _add_windows(np.ascontiguousarray(ifm), *kernel, *stride, *before, total, count)
    return total, np.maximum(count, 1)[:, :, None]


def average_float(ifm: Array, kernel: HeightWidth, stride: HeightWidth, before: HeightWidth, out: HeightWidth) -> Array:
    """Mean in float32, summed in row order."""
    total, count = _sums(ifm, kernel, stride, before, out, np.float32)
    return (total / count.astype(np.float32)).astype(np.float32)


def maximum(ifm: Array, kernel: HeightWidth, stride: HeightWidth, before: HeightWidth, out: HeightWidth) -> Array:
    """Window maximum in the map's type."""
    lowest = np.finfo(ifm.dtype).min if ifm.dtype.kind == "f" else np.iinfo(ifm.dtype).min
    result = np.full((ifm.shape[0], *out, ifm.shape[3]), lowest, ifm.dtype)
    _MAXIMA[ifm.dtype](np.ascontiguousarray(ifm), *kernel, *stride, *before, result)
    return result
