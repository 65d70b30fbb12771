"""Feature maps between memory and dense arrays: every layout, four tiles, signed strides."""

from __future__ import annotations

import numpy as np

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

# The numbers that describe a feature map: first the addresses of its four tiles (bytes from the base of its region); strides
# are bytes from row to row, column to column and group of 16 channels to group; the zero point is subtracted.
(
    TILE_WIDTH_0,
    TILE_HEIGHT_0,
    TILE_HEIGHT_1,
    STRIDE_Y,
    STRIDE_X,
    STRIDE_C,
    BYTES,
    IS_SIGNED,
    HEIGHT,
    WIDTH,
    DEPTH,
    ZERO_POINT,
) = range(4, 16)
DESCRIPTION_LENGTH = 16
# The numbers that `place` takes.
TOP, LEFT, BOTTOM, RIGHT, UPSCALE = range(5)
PLACE_LENGTH = 5


@kernel(ty.int64(ty.int64[::1], ty.int64, ty.int64))
def pixel_address(fm, y, x):  # type: ignore[no-untyped-def]
    """Byte offset of channel 0 at row y, column x."""
    tile = np.int64(0)
    if x >= fm[TILE_WIDTH_0]:
        x = x - fm[TILE_WIDTH_0]
        tile = np.int64(1)
        if y >= fm[TILE_HEIGHT_1]:
            y = y - fm[TILE_HEIGHT_1]
            tile = np.int64(3)
    elif y >= fm[TILE_HEIGHT_0]:
        y = y - fm[TILE_HEIGHT_0]
        tile = np.int64(2)
    return fm[tile] + y * fm[STRIDE_Y] + x * fm[STRIDE_X]


@kernel(ty.void(ty.int64[::1], ty.int64, ty.int64[:, :, ::1]))
def gather(fm, base, out):  # type: ignore[no-untyped-def]
    """out[y, x, c] = element - zero point; `base` is the machine address of the region, `out` int64 (height, width, depth)."""
    width, depth, values = fm[WIDTH], fm[DEPTH], np.int64(out.ctypes.data)
    is_dense = (depth <= 16 or fm[STRIDE_C] == 16 * fm[BYTES]) and fm[STRIDE_X] == depth * fm[BYTES]
    step = 16 * fm[BYTES] if is_dense else fm[STRIDE_C]
    kind, zero_point = 2 * fm[BYTES] + fm[IS_SIGNED], fm[ZERO_POINT]
    for y in range(fm[HEIGHT]):
        x = np.int64(0)
        while x < width:
            columns = (min(fm[TILE_WIDTH_0], width) if x < fm[TILE_WIDTH_0] else width) - x if is_dense else np.int64(1)
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


@kernel(ty.void(ty.int64[::1], ty.int64, ty.int64[:, :, ::1]))
def scatter(fm, base, values):  # type: ignore[no-untyped-def]
    """Store the low bits of values int64 (height, width, depth)."""
    width, depth, first = fm[WIDTH], fm[DEPTH], np.int64(values.ctypes.data)
    is_dense = (depth <= 16 or fm[STRIDE_C] == 16 * fm[BYTES]) and fm[STRIDE_X] == depth * fm[BYTES]
    step = 16 * fm[BYTES] if is_dense else fm[STRIDE_C]
    size = fm[BYTES]
    for y in range(fm[HEIGHT]):
        x = np.int64(0)
        while x < width:
            columns = (min(fm[TILE_WIDTH_0], width) if x < fm[TILE_WIDTH_0] else width) - x if is_dense else np.int64(1)
            pixel, start, total = base + pixel_address(fm, y, x), (y * width + x) * depth, columns * depth
            for b in range((total + 15) >> 4):
                address, at, count = pixel + b * step, first + 8 * (start + 16 * b), min(np.int64(16), total - 16 * b)
                if size == 1:
                    for k in range(count):
                        store_8_at(address, k, load_i64_at(at, k))
                elif size == 2:
                    for k in range(count):
                        store_16_at(address, k, load_i64_at(at, k))
                else:
                    for k in range(count):
                        store_32_at(address, k, load_i64_at(at, k))
            x += columns


@kernel(ty.void(ty.int64[:, :, ::1], ty.int64[:, :, ::1], ty.int64[::1]))
def place(source, out, config):  # type: ignore[no-untyped-def]
    """Write an input into the zeroed array `out`; config: padding, upscaling (0, 1 nearest, 2 zeros)."""
    upscale = config[UPSCALE]
    factor = np.int64(1) if upscale == 0 else np.int64(2)
    for y in range(config[TOP], out.shape[0] - config[BOTTOM]):
        source_y = y - config[TOP]
        for x in range(config[LEFT], out.shape[1] - config[RIGHT]):
            source_x = x - config[LEFT]
            if upscale == 2 and ((source_y | source_x) & 1) != 0:
                continue
            for c in range(source.shape[2]):
                out[y, x, c] = source[source_y // factor, source_x // factor, c]
