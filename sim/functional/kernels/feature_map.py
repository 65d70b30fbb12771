"""Feature maps between memory and dense arrays: every layout, four tiles, signed strides.

A feature map is described by 16 numbers: four tile addresses (machine addresses), tile width 0, tile heights 0 and 1, stride of a
row, a column and a group of 16 channels, element bytes, signedness, height, width, depth, and a zero point to subtract.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from sim.functional.kernels.raw import load_i8, load_i16, load_i32, load_u8, load_u16, store_8, store_16, store_32

DESCRIPTION_LENGTH = 16


@nb.njit(nb.int64(nb.int64[::1], nb.int64, nb.int64), cache=True)
def pixel_address(fm, y, x):  # type: ignore[no-untyped-def]
    """Machine address of channel 0 at row y, column x."""
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


@nb.njit(nb.int64(nb.int64, nb.int64, nb.int64), cache=True)
def load_element(address, size, is_signed):  # type: ignore[no-untyped-def]
    """The integer of `size` bytes at `address`."""
    if size == 1:
        return load_i8(address) if is_signed != 0 else load_u8(address)
    if size == 2:
        return load_i16(address) if is_signed != 0 else load_u16(address)
    return load_i32(address) if is_signed != 0 else load_i32(address) & np.int64(0xFFFFFFFF)


@nb.njit(nb.void(nb.int64[::1], nb.int64[:, :, ::1]), cache=True)
def gather(fm, out):  # type: ignore[no-untyped-def]
    """out[y, x, c] = element - zero point; `out` is int64 (height, width, depth)."""
    size, is_signed, zero_point = fm[10], fm[11], fm[15]
    for y in range(fm[12]):
        for x in range(fm[13]):
            pixel = pixel_address(fm, y, x)
            for c in range(fm[14]):
                address = pixel + (c >> 4) * fm[9] + (c & 15) * size
                out[y, x, c] = load_element(address, size, is_signed) - zero_point


@nb.njit(nb.void(nb.int64[::1], nb.int64[:, :, ::1]), cache=True)
def scatter(fm, values):  # type: ignore[no-untyped-def]
    """Store the low bits of values int64 (height, width, depth)."""
    size = fm[10]
    for y in range(fm[12]):
        for x in range(fm[13]):
            pixel = pixel_address(fm, y, x)
            for c in range(fm[14]):
                address = pixel + (c >> 4) * fm[9] + (c & 15) * size
                if size == 1:
                    store_8(address, values[y, x, c])
                elif size == 2:
                    store_16(address, values[y, x, c])
                else:
                    store_32(address, values[y, x, c])


@nb.njit(nb.void(nb.int64[:, :, ::1], nb.int64[:, :, ::1], nb.int64[::1], nb.int64), cache=True)
def place(source, out, padding, upscale):  # type: ignore[no-untyped-def]
    """Write an upscaled input (0 none, 1 nearest, 2 zeros) into the zeroed array `out` inside its top, left, bottom, right padding."""
    factor = np.int64(1) if upscale == 0 else np.int64(2)
    for y in range(padding[0], out.shape[0] - padding[2]):
        source_y = y - padding[0]
        for x in range(padding[1], out.shape[1] - padding[3]):
            source_x = x - padding[1]
            if upscale == 2 and ((source_y | source_x) & 1) != 0:
                continue
            for c in range(source.shape[2]):
                out[y, x, c] = source[source_y // factor, source_x // factor, c]
