"""Window means and maxima over NHWC maps. Elements outside the map do not count."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Pair = tuple[int, int]


def _map(kind: Any) -> Any:
    return nb.types.Array(kind, 4, "C", readonly=True)


_SIZES = (nb.int64,) * 6
_SUMS = nb.types.Array(nb.int64, 4, "C")
_COUNTS = nb.types.Array(nb.int64, 2, "C")


@nb.njit(
    [
        *(nb.void(_map(kind), *_SIZES, _SUMS, _COUNTS) for kind in (nb.int8, nb.uint8, nb.int16)),
        nb.void(_map(nb.float32), *_SIZES, nb.types.Array(nb.float32, 4, "C"), _COUNTS),
    ],
    cache=True,
)
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


@nb.njit(
    [
        nb.void(_map(kind), *_SIZES, nb.types.Array(kind, 4, "C"))
        for kind in (nb.int8, nb.uint8, nb.int16, nb.float32)
    ],
    cache=True,
)
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
                            if not out[b, oy, ox, c] >= ifm[b, y, x, c]:
                                out[b, oy, ox, c] = ifm[b, y, x, c]


@nb.njit(nb.void(_SUMS, nb.types.Array(nb.int64, 2, "A")), cache=True)
def _divide(total, count):  # type: ignore[no-untyped-def]
    """Means in place of sums, rounded, ties away from zero."""
    for b in range(total.shape[0]):
        for y in range(total.shape[1]):
            for x in range(total.shape[2]):
                n = count[y, x]
                for c in range(total.shape[3]):
                    value = total[b, y, x, c]
                    total[b, y, x, c] = (value + n // 2) // n if value >= 0 else -((-value + n // 2) // n)


def _sums(ifm: Array, kernel: Pair, stride: Pair, before: Pair, out: Pair, dtype: type[np.generic]) -> tuple[Array, Array]:
    total = np.zeros((ifm.shape[0], *out, ifm.shape[3]), dtype)
    count = np.zeros(out, np.int64)
    _add_windows(np.ascontiguousarray(ifm), *kernel, *stride, *before, total, count)
    return total, np.maximum(count, 1)[:, :, None]


def average_integer(ifm: Array, kernel: Pair, stride: Pair, before: Pair, out: Pair) -> Array:
    """Rounded mean, ties away from zero, int64."""
    total, count = _sums(ifm, kernel, stride, before, out, np.int64)
    _divide(total, count[:, :, 0])
    return total


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
