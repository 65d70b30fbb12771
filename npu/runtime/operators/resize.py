"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR. Coordinates are float32 (Q22.10 for 8-bit bilinear), as in the reference
kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from npu.graph.dtype import DType
from npu.numerics.arrays import Array
from npu.numerics.resize_axis import nearest_elements
from npu.runtime.implementation import Implementation
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.types import for_codes

_F32 = np.float32
_PART = 1 << 18
"""Elements of an output that are computed at a time: their sums take eight bytes each, several times."""


def build_nearest(node: OperatorNode) -> Run:
    ifm, output, a = node.input(0), node.output(), node.attributes

    def run() -> None:
        rows, columns = (
            nearest_elements(s, o, align_corners=a.align_corners, half_pixel_centers=a.half_pixel_centers)
            for s, o in zip(ifm.shape[1:3], output.shape[1:3], strict=True)
        )
        output.array[...] = ifm.array[:, rows[:, None], columns[None, :]]

    return run


def _linear(size: int, out: int, *, corners: bool, half: bool) -> tuple[Array, Array, Array]:
    """Float positions: fraction of the upper neighbour, and both neighbours."""
    scale = _F32(size - 1) / _F32(out - 1) if corners and out > 1 else _F32(size) / _F32(out)
    steps = np.arange(out, dtype=_F32)
    position = (steps + _F32(0.5)) * scale - _F32(0.5) if half else steps * scale
    floor = np.floor(position).astype(np.int64)
    low, high = np.maximum(floor, 0), np.minimum(np.ceil(position).astype(np.int64), size - 1)
    if not half:
        low, high = floor, np.minimum(floor + 1, size - 1)
    else:
        high = np.minimum(floor + 1, size - 1)
    return (position - low.astype(_F32)).astype(_F32), np.minimum(low, size - 1), high


def _fixed(size: int, out: int, *, corners: bool, half: bool) -> tuple[Array, Array, Array]:
    """The same with positions in Q22.10."""
    scale = ((1 << 10) * size + out // 2) // out
    if corners and out > 1:
        scale = ((1 << 10) * (size - 1) + (out - 1) // 2) // (out - 1)
    steps = np.arange(out, dtype=np.int64)
    position = steps * scale + scale // 2 - (1 << 9) if half else steps * scale
    low = (
        np.maximum(position >> 10, 0)
        if not half
        else np.maximum(np.where(position >= 0, position // 1024, -(-position // 1024)), 0)
    )
    low = np.minimum(low, size - 1)  # the scale is rounded up, which may lead behind the last element
    high = np.minimum((position + (1 << 10) - 1) >> 10, size - 1)
    return position - (low << 10), low, high


def build_bilinear(node: OperatorNode) -> Run:
    ifm, output, a = node.input(0), node.output(), node.attributes
    is_fixed = ifm.dtype in (DType.INT8, DType.INT16)
    positions = _fixed if is_fixed else _linear

    def run() -> None:
        (fy, y0, y1), (fx, x0, x1) = (
            positions(s, o, corners=a.align_corners, half=a.half_pixel_centers)
            for s, o in zip(ifm.shape[1:3], output.shape[1:3], strict=True)
        )
        one: Any = 1 << 10 if is_fixed else _F32(1)
        kind = np.dtype(np.int64 if is_fixed else _F32)
        fx = fx[None, :, None]
        for images, rows in _parts(output.shape):
            x, fraction = ifm.array[images], fy[rows, None, None]
            above, below = x[:, y0[rows]].astype(kind), x[:, y1[rows]].astype(kind)
            total = (
                above[:, :, x0] * (one - fraction) * (one - fx)
                + below[:, :, x0] * fraction * (one - fx)
                + above[:, :, x1] * (one - fraction) * fx
                + below[:, :, x1] * fraction * fx
            )
            output.array[images, rows] = _rounded(total) if is_fixed else _stored(total, output.dtype)

    return run


def _parts(shape: tuple[int, ...]) -> Iterator[tuple[slice, slice]]:
    """Images and rows of an output, so many at a time that what is in between stays small."""
    count, height = shape[:2]
    row = max(shape[2] * shape[3], 1)
    images = max(_PART // max(height * row, 1), 1)
    rows = max(_PART // row, 1)
    for image in range(0, count, images):
        for start in range(0, height, rows):
            yield slice(image, image + images), slice(start, start + rows)


def _rounded(total: Array) -> Array:
    """Q.20 to integers, ties away from zero."""
    half = np.where(total >= 0, 1 << 19, -(1 << 19))
    result: Array = np.sign(total + half) * (np.abs(total + half) >> 20)
    return result


def _stored(total: Array, dtype: DType) -> Array:
    return total if dtype is DType.FLOAT32 else np.floor(total + _F32(0.5))


OPERATORS = (
    Implementation("RESIZE_NEAREST_NEIGHBOR", build_nearest, for_codes("T i32 -> T", "f32 f16 i8 u8 i16 u16 i32 u32 bool")),
    Implementation("RESIZE_BILINEAR", build_bilinear, for_codes("T i32 -> T", "f32 i8 u8 i16")),
)
