"""Feature maps between memory and dense arrays: every layout, four tiles, signed strides.

A feature map is described by 16 numbers: four tile addresses (bytes from the base of its region), tile width 0, tile heights
0 and 1, stride of a row, a column and a group of 16 channels, element bytes, signedness, height, width, depth, and a zero
point to subtract.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from npu.numerics.kernel import kernel
from sim.functional.kernels.raw import (
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

DESCRIPTION_LENGTH = 16


@kernel(nb.int64(nb.int64[::1], nb.int64, nb.int64))
def pixel_address(fm, y, x):  # type: ignore[no-untyped-def]
    """Byte offset of channel 0 at row y, column x."""
    tile = np.int64(0)
    if x >= fm[4]:
        x = x - fm[4]
        tile = np.int64(1)
        if y >= fm[6]:
            y = y - fm[6]
            tile = np.int64(3)
    elif y >= fm[5]:
        y = y - fm[5]
        tile = np.int64(2)
    return fm[tile] + y * fm[7] + x * fm[8]


@kernel(nb.void(nb.int64[::1], nb.int64, nb.int64[:, :, ::1]))
def gather(fm, base, out):  # type: ignore[no-untyped-def]
    """out[y, x, c] = element - zero point; `base` is the machine address of the region, `out` int64 (height, width, depth)."""
    width, depth, values = fm[13], fm[14], np.int64(out.ctypes.data)
    is_dense = (depth <= 16 or fm[9] == 16 * fm[10]) and fm[8] == depth * fm[10]
    step = 16 * fm[10] if is_dense else fm[9]
    kind, zero_point = 2 * fm[10] + fm[11], fm[15]
    for y in range(fm[12]):
        x = np.int64(0)
        while x < width:
            columns = (min(fm[4], width) if x < fm[4] else width) - x if is_dense else np.int64(1)
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


@kernel(nb.void(nb.int64[::1], nb.int64, nb.int64[:, :, ::1]))
def scatter(fm, base, values):  # type: ignore[no-untyped-def]
    """Store the low bits of values int64 (height, width, depth)."""
    width, depth, first = fm[13], fm[14], np.int64(values.ctypes.data)
    is_dense = (depth <= 16 or fm[9] == 16 * fm[10]) and fm[8] == depth * fm[10]
    step = 16 * fm[10] if is_dense else fm[9]
    size = fm[10]
    for y in range(fm[12]):
        x = np.int64(0)
        while x < width:
            columns = (min(fm[4], width) if x < fm[4] else width) - x if is_dense else np.int64(1)
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


@kernel(nb.void(nb.int64[:, :, ::1], nb.int64[:, :, ::1], nb.int64[::1]))
def place(source, out, config):  # type: ignore[no-untyped-def]
    """Write an input into the zeroed array `out`; config: pad top, left, bottom, right, upscaling (0, 1 nearest, 2 zeros)."""
    upscale = config[4]
    factor = np.int64(1) if upscale == 0 else np.int64(2)
    for y in range(config[0], out.shape[0] - config[2]):
        source_y = y - config[0]
        for x in range(config[1], out.shape[1] - config[3]):
            source_x = x - config[1]
            if upscale == 2 and ((source_y | source_x) & 1) != 0:
                continue
            for c in range(source.shape[2]):
                out[y, x, c] = source[source_y // factor, source_x // factor, c]
