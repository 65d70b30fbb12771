"""Feature maps between memory and dense arrays: every layout, four tiles, signed strides."""

from __future__ import annotations

import numpy as np

from npu.machine.kernels.rows import integers, vector
from npu.native import types as ty
from npu.native.kernel import kernel
from npu.native.memory import (
    load_i8_at,
    load_i16_at,
    load_i32_at,
    load_i64_at,
    load_u8_at,
    load_u16_at,
    store_8_at,
    store_16_at,
    store_32_at,
    store_64_at,
)

FEATURE_MAP = np.dtype(
    [
        vector("tiles", 4),  # address of each, in bytes from the base of the map's region
        *integers(
            *("tile_width_0", "tile_height_0", "tile_height_1"),
            *("stride_y", "stride_x", "stride_c"),  # bytes from row to row, column to column, group of 16 channels to group
            *("element_bytes", "is_signed"),
            *("height", "width", "depth"),
            "zero_point",  # what is subtracted when the map is read
        ),
    ]
)
"""A feature map in memory."""
FEATURE_MAP_ROW = ty.record(FEATURE_MAP)
PLACE = np.dtype(integers("top", "left", "bottom", "right", "upscale"))
"""The padding around an input and how it is upscaled (0: not, 1: nearest, 2: with zeros)."""


@kernel(ty.int64(FEATURE_MAP_ROW, ty.int64, ty.int64))
def pixel_address(fm, y, x):  # type: ignore[no-untyped-def]
    """Byte offset of channel 0 at row y, column x."""
    tile = np.int64(0)
    if x >= fm.tile_width_0:
        x = x - fm.tile_width_0
        tile = np.int64(1)
        if y >= fm.tile_height_1:
            y = y - fm.tile_height_1
            tile = np.int64(3)
    elif y >= fm.tile_height_0:
        y = y - fm.tile_height_0
        tile = np.int64(2)
    return fm.tiles[tile] + y * fm.stride_y + x * fm.stride_x


@kernel(ty.int64(FEATURE_MAP_ROW, ty.int64))
def gather_one(fm, base):  # type: ignore[no-untyped-def]
    """`gather` of a map of one element."""
    kind, address = 2 * fm.element_bytes + fm.is_signed, base + fm.tiles[0]
    if kind == 3:
        return load_i8_at(address, 0) - fm.zero_point
    if kind == 2:
        return load_u8_at(address, 0) - fm.zero_point
    if kind == 5:
        return load_i16_at(address, 0) - fm.zero_point
    if kind == 4:
        return load_u16_at(address, 0) - fm.zero_point
    value = load_i32_at(address, 0)
    return (value if kind == 9 else value & np.int64(0xFFFFFFFF)) - fm.zero_point


@kernel(ty.void(FEATURE_MAP_ROW, ty.int64, ty.int64))
def scatter_one(fm, base, value):  # type: ignore[no-untyped-def]
    """`scatter` to a map of one element."""
    address = base + fm.tiles[0]
    if fm.element_bytes == 1:
        store_8_at(address, 0, value)
    elif fm.element_bytes == 2:
        store_16_at(address, 0, value)
    else:
        store_32_at(address, 0, value)


@kernel(ty.void(FEATURE_MAP_ROW, ty.int64, ty.int64[:, :, ::1]))
def gather(fm, base, out):  # type: ignore[no-untyped-def]
    """out[y, x, c] = element - zero point; `base` is the machine address of the region, `out` int64 (height, width, depth)."""
    width, depth, values = fm.width, fm.depth, np.int64(out.ctypes.data)
    is_dense = (depth <= 16 or fm.stride_c == 16 * fm.element_bytes) and fm.stride_x == depth * fm.element_bytes
    step = 16 * fm.element_bytes if is_dense else fm.stride_c
    kind, zero_point = 2 * fm.element_bytes + fm.is_signed, fm.zero_point
    for y in range(fm.height):
        x = np.int64(0)
        while x < width:
            columns = (min(fm.tile_width_0, width) if x < fm.tile_width_0 else width) - x if is_dense else np.int64(1)
            pixel, start, total = base + pixel_address(fm, y, x), (y * width + x) * depth, columns * depth
            for b in range((total + 15) >> 4):
                address, to, count = pixel + b * step, values + 8 * (start + 16 * b), min(np.int64(16), total - 16 * b)
                if kind == 3:
                    for k in range(count):
                        store_64_at(to, k, load_i8_at(address, k) - zero_point)
                elif kind == 2:
                    for k in range(count):
                        store_64_at(to, k, load_u8_at(address, k) - zero_point)
                elif kind == 5:
                    for k in range(count):
                        store_64_at(to, k, load_i16_at(address, k) - zero_point)
                elif kind == 4:
                    for k in range(count):
                        store_64_at(to, k, load_u16_at(address, k) - zero_point)
                elif kind == 9:
                    for k in range(count):
                        store_64_at(to, k, load_i32_at(address, k) - zero_point)
                else:
                    for k in range(count):
                        store_64_at(to, k, (load_i32_at(address, k) & np.int64(0xFFFFFFFF)) - zero_point)
            x += columns


@kernel(ty.void(FEATURE_MAP_ROW, ty.int64, ty.int64[:, :, ::1]))
def scatter(fm, base, values):  # type: ignore[no-untyped-def]
    """Store the low bits of values int64 (height, width, depth)."""
    width, depth, first = fm.width, fm.depth, np.int64(values.ctypes.data)
    is_dense = (depth <= 16 or fm.stride_c == 16 * fm.element_bytes) and fm.stride_x == depth * fm.element_bytes
    step = 16 * fm.element_bytes if is_dense else fm.stride_c
    size = fm.element_bytes
    for y in range(fm.height):
        x = np.int64(0)
        while x < width:
            columns = (min(fm.tile_width_0, width) if x < fm.tile_width_0 else width) - x if is_dense else np.int64(1)
            pixel, start, total = base + pixel_address(fm, y, x), (y * width + x) * depth, columns * depth
            for b in range((total + 15) >> 4):
                address, at, count = pixel + b * step, first + 8 * (start + 16 * b), min(np.int64(16), total - 16 * b)
                if size == 1:
                    for k in range(count):
                        store_8_at(address, k, load_i64_at(at, k))
                elif size == 2:
                    for k in range(count):
                        store_16_at(address, k, load_i64_at(at, k))
                elif size == 4:
                    for k in range(count):
                        store_32_at(address, k, load_i64_at(at, k))
                else:
                    for k in range(count):
                        store_64_at(address, k, load_i64_at(at, k))
            x += columns


@kernel(ty.void(ty.int64[:, :, ::1], ty.int64[:, :, ::1], ty.record(PLACE)))
def place(source, out, around):  # type: ignore[no-untyped-def]
    """Write an input into the zeroed array `out`, with padding and upscaling around it."""
    upscale = around.upscale
    factor = np.int64(1) if upscale == 0 else np.int64(2)
    for y in range(around.top, out.shape[0] - around.bottom):
        source_y = y - around.top
        for x in range(around.left, out.shape[1] - around.right):
            source_x = x - around.left
            if upscale == 2 and ((source_y | source_x) & 1) != 0:
                continue
            for c in range(source.shape[2]):
                out[y, x, c] = source[source_y // factor, source_x // factor, c]
