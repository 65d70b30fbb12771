"""Fast kernels as plain compiled loops, for any CPU: the same rows as the vector kernels, the same bytes."""

from __future__ import annotations

import numba as nb
import numpy as np

from npu.numerics.kernel import kernel
from sim.functional.kernels import rows as r
from sim.functional.kernels.raw import load_i8, load_i8_at, load_i32, load_i64, load_u8, load_u8_at, store_8, store_32


@kernel(nb.int64(nb.int64, nb.int64, nb.int64, nb.int64))
def divide_away(t, term, mask, shift):  # type: ignore[no-untyped-def]
    """t / 2**shift, ties away from zero."""
    return (t + term + ((t >> np.int64(31)) & mask)) >> shift


@kernel(nb.int64(nb.int64, nb.int64))
def requantise(total, stage):  # type: ignore[no-untyped-def]
    """A sum scaled with the constants of one channel at `stage`."""
    product = (total << load_i32(stage + 64)) * load_i32(stage + 128) + (np.int64(1) << np.int64(31))
    return divide_away(product >> np.int64(32), load_i32(stage + 192), load_i32(stage + 256), load_i32(stage + 320))


@kernel(nb.void(nb.int64[::1], nb.int64[::1], nb.int32[::1], nb.int64, nb.int64, nb.int64))
def _finish(row, bases, totals, stage, out, count):  # type: ignore[no-untyped-def]
    for c in range(count):
        value = requantise(np.int64(totals[c]), stage + 4 * c) + row[r.ZERO_POINT]
        store_8(out + c, min(max(value, row[r.LOW]), row[r.HIGH]))


@kernel(nb.int64(nb.int64, nb.int64, nb.int64))
def _dot(inputs, weights, count):  # type: ignore[no-untyped-def]
    """Sum of uint8 times int8; only reads, so that the compiler vectorises it."""
    total = np.int32(0)
    for k in range(count):
        total = np.int32(total + np.int32(load_u8_at(inputs, k)) * np.int32(load_i8_at(weights, k)))
    return np.int64(total)


@kernel(nb.void(nb.int64[::1], nb.int64, nb.int64))
def _collect(row, pixel, buffer):  # type: ignore[no-untyped-def]
    """The inputs of a pixel one after the other in `buffer`, as unsigned numbers."""
    size = 4 * row[r.DWORDS]
    for s in range(row[r.SEGMENTS]):
        at = pixel + load_i64(row[r.SEGMENT_TABLE] + 8 * s)
        for k in range(0, size, 4):
            store_32(buffer + s * size + k, load_i32(at + k) ^ row[r.XOR])


@kernel(nb.void(nb.int64[::1], nb.int64[::1]))
def convolve(row, bases):  # type: ignore[no-untyped-def]
    """A convolution as one dot product per output; weights [channel][SEGMENTS * DWORDS * 4]."""
    base = r.base_of(bases, row[r.IN_REGION], np.int64(0))
    length = row[r.SEGMENTS] * row[r.DWORDS] * 4
    buffer = np.empty(length + 64, np.uint8)
    inputs = np.int64(buffer.ctypes.data)
    totals = np.empty(16, np.int32)
    for m in range(row[r.PIXELS]):
        _collect(row, base + load_i64(row[r.IN_TABLE] + 8 * m), inputs)
        out = bases[row[r.OUT_REGION]] + load_i64(row[r.OUT_TABLE] + 8 * m)
        for b in range(row[r.BLOCKS]):
            stage = row[r.STAGE] + b * r.STAGE_BYTES
            tail = row[r.TAIL] if b + 1 == row[r.BLOCKS] else np.int64(16)
            for c in range(tail):
                weights = row[r.WEIGHTS] + (16 * b + c) * length
                totals[c] = np.int32(load_i32(stage + 4 * c) + _dot(inputs, weights, length))
            _finish(row, bases, totals, stage, out + b * row[r.OUT_BRICK], tail)


@kernel(nb.void(nb.int64, nb.int64, nb.int64, nb.int64[::1], nb.int64))
def _add_tap(pixel, weights, flip, totals, count):  # type: ignore[no-untyped-def]
    for c in range(count):
        totals[c] += (load_u8_at(pixel, c) ^ flip) * load_i8_at(weights, c)


@kernel(nb.void(nb.int64[::1], nb.int64[::1]))
def convolve_depthwise(row, bases):  # type: ignore[no-untyped-def]
    """A depthwise convolution of at most 3 rows and 4 columns; weights [block][3 rows][4 columns][16 channels]."""
    base = bases[row[r.IN_REGION]]
    flip = row[r.XOR] & np.int64(0x80)
    wide = np.empty(16, np.int64)
    totals = np.empty(16, np.int32)
    for y in range(row[r.PIXELS]):
        for b in range(row[r.BLOCKS]):
            stage = row[r.STAGE] + b * r.STAGE_BYTES
            tail = row[r.TAIL] if b + 1 == row[r.BLOCKS] else np.int64(16)
            for x in range(row[r.WIDTH]):
                last = row[r.FIRST_COLUMN] + row[r.WARM_UP] + (x + 1) * row[r.STRIDE] - 1
                for c in range(16):
                    wide[c] = load_i32(stage + 4 * c)
                for k in range(3):
                    offset = load_i64(row[r.IN_TABLE] + 8 * (3 * y + k))
                    for tap in range(4):
                        column = last - 3 + tap
                        pixel = base + offset + b * row[r.IN_BRICK] + column * row[r.IN_PIXEL]
                        if offset < 0 or column < 0 or column >= row[r.IN_WIDTH]:
                            pixel = row[r.PADDING_PIXEL]
                        _add_tap(pixel, row[r.WEIGHTS] + b * 192 + k * 64 + 16 * tap, flip, wide, 16)
                for c in range(16):
                    totals[c] = np.int32(wide[c])
                out = bases[row[r.OUT_REGION]] + load_i64(row[r.OUT_TABLE] + 8 * y)
                _finish(row, bases, totals, stage, out + b * row[r.OUT_BRICK] + x * row[r.OUT_PIXEL], tail)


@kernel(nb.int64(nb.int64, nb.int64))
def _operand(value, numbers):  # type: ignore[no-untyped-def]
    product = value * load_i64(numbers + 8) + load_i64(numbers + 16)
    t = product >> load_i64(numbers + 24)
    return divide_away(t, load_i64(numbers + 32), load_i64(numbers + 40), load_i64(numbers + 48))


@kernel(nb.void(nb.int64[::1], nb.int64[::1]))
def combine(row, bases):  # type: ignore[no-untyped-def]
    """ADD, SUB or MUL of 8-bit maps."""
    mode = load_i64(row[r.OPERANDS] + 128)
    numbers = row[r.OPERANDS]
    for y in range(row[r.PIXELS]):
        for k in range(row[r.BLOCKS]):
            a = bases[row[r.IN_REGION]] + load_i64(row[r.IN_TABLE] + 8 * y) + k * row[r.IN_BRICK]
            b = bases[row[r.IN2_REGION]] + load_i64(row[r.IN2_TABLE] + 8 * y) + k * row[r.IN2_BRICK]
            o = bases[row[r.OUT_REGION]] + load_i64(row[r.OUT_TABLE] + 8 * y) + k * row[r.OUT_BRICK]
            tail = row[r.TAIL] if k + 1 == row[r.BLOCKS] else np.int64(16)
            for _ in range(row[r.WIDTH]):
                for c in range(tail):
                    first = load_i8(a + c) if row[r.XOR] != 0 else load_u8(a + c)
                    second = load_i8(b + c) if row[r.XOR] != 0 else load_u8(b + c)
                    first -= load_i64(numbers)
                    second -= load_i64(numbers + 64)
                    if mode == 0:
                        total = first * second
                    elif mode == 1:
                        total = _operand(first, numbers) + _operand(second, numbers + 64)
                    else:
                        total = _operand(first, numbers) - _operand(second, numbers + 64)
                    value = requantise(total, row[r.STAGE] + 4 * c) + row[r.ZERO_POINT]
                    store_8(o + c, min(max(value, row[r.LOW]), row[r.HIGH]))
                a += row[r.IN_PIXEL]
                b += row[r.IN2_PIXEL]
                o += row[r.OUT_PIXEL]


@kernel(nb.int64(nb.int64[:, ::1], nb.int64[::1], nb.int64))
def run(rows, bases, first):  # type: ignore[no-untyped-def]
    """Execute rows from `first`; the index of the first row that these kernels cannot run (now), or the number of rows."""
    for index in range(first, rows.shape[0]):
        row = rows[index]
        kind = row[r.KIND]
        if kind == r.GENERAL:
            return index
        if (kind == r.CONVOLUTION or kind == r.DEPTHWISE) and not r.is_current(row, bases):
            return index
        if kind == r.CONVOLUTION:
            if row[r.PAD_ROWS] > 0:
                r.fill_padded(row, bases)
            convolve(row, bases)
        elif kind == r.DEPTHWISE:
            convolve_depthwise(row, bases)
        elif kind == r.ELEMENTWISE:
            combine(row, bases)
        elif kind == r.COPY:
            r.copy_row(row, bases)
    return rows.shape[0]
