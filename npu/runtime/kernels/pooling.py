"""Window means and maxima over NHWC maps. Elements outside the map do not count."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Pair = tuple[int, int]


def _taps(ifm: Array, kernel: Pair, stride: Pair, before: Pair, out: Pair, fill: Any) -> Iterator[tuple[Array, Array]]:
    """For each window element in row order: the map shifted to it (`fill` outside), and whether it lies inside (out h, out
    w)."""
    height, width = ifm.shape[1:3]
    canvas = np.full(
        (ifm.shape[0], (out[0] - 1) * stride[0] + kernel[0], (out[1] - 1) * stride[1] + kernel[1], ifm.shape[3]),
        fill,
        ifm.dtype,
    )
    rows, cols = min(height, canvas.shape[1] - before[0]), min(width, canvas.shape[2] - before[1])
    if rows > 0 and cols > 0:
        canvas[:, before[0] : before[0] + rows, before[1] : before[1] + cols] = ifm[:, :rows, :cols]
    base_y, base_x = np.arange(out[0]) * stride[0] - before[0], np.arange(out[1]) * stride[1] - before[1]
    for y in range(kernel[0]):
        inside_y = (base_y + y >= 0) & (base_y + y < height)
        for x in range(kernel[1]):
            inside = inside_y[:, None] & ((base_x + x >= 0) & (base_x + x < width))[None, :]
            tap = canvas[:, y : y + (out[0] - 1) * stride[0] + 1 : stride[0], x : x + (out[1] - 1) * stride[1] + 1 : stride[1]]
            yield tap, inside


def _sums(ifm: Array, kernel: Pair, stride: Pair, before: Pair, out: Pair, dtype: type[np.generic]) -> tuple[Array, Array]:
    total = np.zeros((ifm.shape[0], *out, ifm.shape[3]), dtype)
    count = np.zeros((*out, 1), np.int64)
    if total.size == 0:
        return total, count + 1
    for tap, inside in _taps(ifm, kernel, stride, before, out, 0):
        total += tap
        count += inside[:, :, None]
    return total, np.maximum(count, 1)


def average_integer(ifm: Array, kernel: Pair, stride: Pair, before: Pair, out: Pair) -> Array:
    """Rounded mean, ties away from zero, int64."""
    total, count = _sums(ifm, kernel, stride, before, out, np.int64)
    result: Array = np.where(total >= 0, (total + count // 2) // count, -((-total + count // 2) // count))
    return result


def average_float(ifm: Array, kernel: Pair, stride: Pair, before: Pair, out: Pair) -> Array:
    """Mean in float32, summed in row order."""
    total, count = _sums(ifm, kernel, stride, before, out, np.float32)
    return (total / count.astype(np.float32)).astype(np.float32)


def maximum(ifm: Array, kernel: Pair, stride: Pair, before: Pair, out: Pair) -> Array:
    """Window maximum in the map's type."""
    lowest = np.finfo(ifm.dtype).min if ifm.dtype.kind == "f" else np.iinfo(ifm.dtype).min
    result = np.full((ifm.shape[0], *out, ifm.shape[3]), lowest, ifm.dtype)
    if result.size:
        for tap, _ in _taps(ifm, kernel, stride, before, out, lowest):
            np.maximum(result, tap, out=result)
    return result
