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
    load_u8_at,
    load_u16_at,
    store_8_at,
    store_16_at,
    store_32_at,
)


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
    kind, depth, zero_point = 2 * fm[10] + fm[11], fm[14], fm[15]
    for y in range(fm[12]):
        for x in range(fm[13]):
            pixel = base + pixel_address(fm, y, x)
            for b in range((depth + 15) >> 4):
                address, first = pixel + b * fm[9], 16 * b
                count = min(np.int64(16), depth - first)
                if kind == 3:
                    for k in range(count):
                        out[y, x, first + k] = load_i8_at(address, k) - zero_point
                elif kind == 2:
                    for k in range(count):
                        out[y, x, first + k] = load_u8_at(address, k) - zero_point
                elif kind == 5:
                    for k in range(count):
                        out[y, x, first + k] = load_i16_at(address, k) - zero_point
                elif kind == 4:
                    for k in range(count):
                        out[y, x, first + k] = load_u16_at(address, k) - zero_point
                elif kind == 9:
                    for k in range(count):
                        out[y, x, first + k] = load_i32_at(address, k) - zero_point
                else:
                    for k in range(count):
                        out[y, x, first + k] = (load_i32_at(address, k) & np.int64(0xFFFFFFFF)) - zero_point


@kernel(nb.void(nb.int64[::1], nb.int64, nb.int64[:, :, ::1]))
def scatter(fm, base, values):  # type: ignore[no-untyped-def]
    """Store the low bits of values int64 (height, width, depth)."""
    size, depth = fm[10], fm[14]
    for y in range(fm[12]):
        for x in range(fm[13]):
            pixel = base + pixel_address(fm, y, x)
            for b in range((depth + 15) >> 4):
                address, first = pixel + b * fm[9], 16 * b
                count = min(np.int64(16), depth - first)
                if size == 1:
                    for k in range(count):
                        store_8_at(address, k, values[y, x, first + k])
                elif size == 2:
                    for k in range(count):
                        store_16_at(address, k, values[y, x, first + k])
                else:
                    for k in range(count):
                        store_32_at(address, k, values[y, x, first + k])


@kernel(nb.void(nb.int64[:, :, ::1], nb.int64[:, :, ::1], nb.int64[::1], nb.int64))
def place(source, out, padding, upscale):  # type: ignore[no-untyped-def]
    """Write an upscaled input (0 none, 1 nearest, 2 zeros) into the zeroed array `out`, inside its padding (top, left, ...)."""
    factor = np.int64(1) if upscale == 0 else np.int64(2)
    for y in range(padding[0], out.shape[0] - padding[2]):
        source_y = y - padding[0]
        for x in range(padding[1], out.shape[1] - padding[3]):
            source_x = x - padding[1]
            if upscale == 2 and ((source_y | source_x) & 1) != 0:
                continue
            for c in range(source.shape[2]):
                out[y, x, c] = source[source_y // factor, source_x // factor, c]
