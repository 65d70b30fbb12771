"""Matrix products of indirect rows with packed weights: convolutions and fully connected layers.

A tile holds `height` pixels by `width` blocks of 16 channels in registers. Each output is the sum over stretches, then
elements, in that order whatever the tile, so neither tiling nor threads change a float result.
"""

# mypy: allow-untyped-calls
# ruff: noqa: E741 - the intrinsics' arguments have no meaning by name

from __future__ import annotations

import numba as nb
import numpy as np
from numba.extending import intrinsic

from npu.runtime.xnnpack.kernels import row as r
from npu.runtime.xnnpack.kernels.emit import BYTES, FLOAT, FLOATS, INT, LANES, WORD, has_dot_product, internal

_DOT = has_dot_product()
_ARGUMENTS = 15
"""The last two: address of an int32 that is added to all sums of a pixel, and bytes from it to that of the next pixel."""


def _emit_tile(height, width, mode):  # type: ignore[no-untyped-def]
    """Modes: "float"; "byte", scaled to 8 bits; "unsigned", the same for inputs whose `sign` is 0; "sum", 32-bit sums of 8-bit
    products."""
    floating, scaled = mode == "float", mode in ("byte", "unsigned")
    lanes, stage_bytes = (LANES, r.BYTE_STAGE_BYTES) if scaled else (FLOATS if floating else LANES, 64)

    def emit(e, args):  # type: ignore[no-untyped-def]
        table, segments, length, weights, step, stage, out, out_step, tail, sign, zero_point, low, high, extra, gap = args
        start = [e.load(lanes, stage, stage_bytes * n) for n in range(width)] * height
        if not floating:
            added = [e.splat(e.load(INT, e.b.add(extra, e.b.mul(gap, e.word(k))))) for k in range(height)]
            start = [e.b.add(start[n], each) for each in added for n in range(width)]
        stride = e.b.mul(segments, e.word(8))
        rows = [e.b.add(table, e.b.mul(stride, e.word(k))) for k in range(height)]
        steps = [e.b.mul(step, e.word(n)) for n in range(width)]
        sign = e.splat_word(sign)

        def over_segments(segment, carried):  # type: ignore[no-untyped-def]
            at = e.b.mul(segment, e.word(8))
            pixels = [e.load(WORD, e.b.add(row, at)) for row in rows]

            def over_elements(index, values):  # type: ignore[no-untyped-def]
                totals = list(values[1:])
                offset = e.b.mul(index, e.word(4))
                vectors = [e.load(lanes, e.b.add(values[0], step)) for step in steps]
                for k in range(height):
                    address = e.b.add(pixels[k], offset)
                    value = e.splat(e.load(FLOAT if floating else INT, address))
                    value = value if mode in ("float", "unsigned") else e.b.xor(value, sign)
                    for n in range(width):
                        total = totals[k * width + n]
                        totals[k * width + n] = (
                            e.multiply_add(value, vectors[n], total) if floating else e.dot(total, value, vectors[n])
                        )
                return [e.b.add(values[0], e.word(64)), *totals]

            return e.loop(length, carried, over_elements)

        totals = e.loop(segments, [weights, *start], over_segments)[1:]
        size = 1 if scaled else 4
        for n in range(width):
            finish = _finish(e, mode, e.b.add(stage, e.word(stage_bytes * n)), zero_point, low, high)
            for k in range(height):
                target = e.b.add(e.b.add(out, e.b.mul(out_step, e.word(k))), e.word(16 * size * n))
                e.store(finish(totals[k * width + n]), target, tail if n == width - 1 else e.word(16))

    return emit


def _finish(e, mode, stage, zero_point, low, high):  # type: ignore[no-untyped-def]
    """What turns a total into the lanes to store."""
    if mode == "sum":
        return lambda total: total
    if mode == "float":
        limits = e.splat_float(low), e.splat_float(high)
        return lambda total: e.clamp_float(total, *limits)
    factors = [e.load(LANES, stage, 64 * j) for j in range(1, 4)]
    offset, limits = e.splat_word(zero_point), (e.splat_word(low), e.splat_word(high))
    return lambda total: e.b.trunc(e.clamp(e.b.add(e.rescale(total, factors), offset), *limits), BYTES)


def _tile(height, width, mode):  # type: ignore[no-untyped-def]
    codegen = internal(f"gemm_{mode}_{height}_{width}", _ARGUMENTS, _emit_tile(height, width, mode), dot=_DOT)

    @intrinsic
    def tile(typingctx, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o):  # type: ignore[no-untyped-def]
        return nb.void(*[nb.int64] * _ARGUMENTS), codegen

    return tile


f_14_1, f_12_2, f_8_3, f_6_4 = (_tile(h, w, "float") for h, w in ((14, 1), (12, 2), (8, 3), (6, 4)))
f_1_1, f_1_2, f_1_3, f_1_4 = (_tile(1, w, "float") for w in (1, 2, 3, 4))
b_14_1, b_12_2, b_8_3, b_6_4 = (_tile(h, w, "byte") for h, w in ((14, 1), (12, 2), (8, 3), (6, 4)))
u_14_1, u_12_2 = _tile(14, 1, "unsigned"), _tile(12, 2, "unsigned")
b_1_1, b_1_2, b_1_3, b_1_4 = (_tile(1, w, "byte") for w in (1, 2, 3, 4))
s_1_1, s_1_2, s_1_3, s_1_4 = (_tile(1, w, "sum") for w in (1, 2, 3, 4))


@nb.njit(nb.int64(nb.int64), inline="always")
def _tile_width(left):  # type: ignore[no-untyped-def]
    """How many blocks of channels to take at once, so that the last tile is not narrow."""
    if left <= 4:
        return left
    if (left % 4 != 0 and left % 3 == 0) or left == 5:
        return np.int64(3)
    return np.int64(4)


@nb.njit(nb.int64(nb.int64), inline="always")
def _tile_height(width):  # type: ignore[no-untyped-def]
    if width == 1:
        return np.int64(14)
    if width == 2:
        return np.int64(12)
    return np.int64(8) if width == 3 else np.int64(6)


@nb.njit(nb.void(nb.int64[::1], nb.int64, nb.int64), cache=True, nogil=True)
def gemm_float(row, first, last):  # type: ignore[no-untyped-def]
    """The output pixels `first` to `last` (exclusive) of a job."""
    segments, length, step, zp = row[r.SEGMENTS], row[r.LENGTH], row[r.WEIGHT_STEP], row[r.ZERO_POINT]
    out_step, sign, low, high = row[r.OUT_STEP], row[r.SIGN], row[r.LOW], row[r.HIGH]
    done = np.int64(0)
    while done < row[r.GROUPS]:
        width = _tile_width(row[r.GROUPS] - done)
        height = _tile_height(width)
        tail = row[r.TAIL] if done + width == row[r.GROUPS] else np.int64(16)
        w = row[r.WEIGHTS] + done * step
        s = row[r.STAGE] + done * r.FLOAT_STAGE_BYTES
        if last - first < height:
            height = np.int64(1)
        m = first
        while m < last:
            if m + height > last:
                m = last - height
            t = row[r.TABLE] + m * segments * 8
            o = row[r.OUT] + m * out_step + done * 64
            if height == 1:
                if width == 1:
                    f_1_1(t, segments, length, w, step, s, o, out_step, tail, sign, zp, low, high, zp, zp)
                elif width == 2:
                    f_1_2(t, segments, length, w, step, s, o, out_step, tail, sign, zp, low, high, zp, zp)
                elif width == 3:
                    f_1_3(t, segments, length, w, step, s, o, out_step, tail, sign, zp, low, high, zp, zp)
                else:
                    f_1_4(t, segments, length, w, step, s, o, out_step, tail, sign, zp, low, high, zp, zp)
            elif width == 1:
                f_14_1(t, segments, length, w, step, s, o, out_step, tail, sign, zp, low, high, zp, zp)
            elif width == 2:
                f_12_2(t, segments, length, w, step, s, o, out_step, tail, sign, zp, low, high, zp, zp)
            elif width == 3:
                f_8_3(t, segments, length, w, step, s, o, out_step, tail, sign, zp, low, high, zp, zp)
            else:
                f_6_4(t, segments, length, w, step, s, o, out_step, tail, sign, zp, low, high, zp, zp)
            m += height
        done += width


@nb.njit(nb.void(nb.int64[::1], nb.int64, nb.int64), cache=True, nogil=True)
def gemm_byte(row, first, last):  # type: ignore[no-untyped-def]
    """The output pixels `first` to `last` (exclusive) of a job."""
    segments, length, step, zp = row[r.SEGMENTS], row[r.LENGTH], row[r.WEIGHT_STEP], row[r.ZERO_POINT]
    out_step, sign, low, high = row[r.OUT_STEP], row[r.SIGN], row[r.LOW], row[r.HIGH]
    gap, done = row[r.IN_STEP], np.int64(0)
    while done < row[r.GROUPS]:
        width = _tile_width(row[r.GROUPS] - done)
        height = _tile_height(width)
        tail = row[r.TAIL] if done + width == row[r.GROUPS] else np.int64(16)
        w = row[r.WEIGHTS] + done * step
        s = row[r.STAGE] + done * r.BYTE_STAGE_BYTES
        if last - first < height:
            height = np.int64(1)
        m = first
        while m < last:
            if m + height > last:
                m = last - height
            t = row[r.TABLE] + m * segments * 8
            o = row[r.OUT] + m * out_step + done * 16
            x = row[r.IN] + m * gap
            if height == 1:
                if width == 1:
                    b_1_1(t, segments, length, w, step, s, o, out_step, tail, sign, zp, low, high, x, gap)
                elif width == 2:
                    b_1_2(t, segments, length, w, step, s, o, out_step, tail, sign, zp, low, high, x, gap)
                elif width == 3:
                    b_1_3(t, segments, length, w, step, s, o, out_step, tail, sign, zp, low, high, x, gap)
                else:
                    b_1_4(t, segments, length, w, step, s, o, out_step, tail, sign, zp, low, high, x, gap)
            elif width == 1 and sign == 0:
                u_14_1(t, segments, length, w, step, s, o, out_step, tail, sign, zp, low, high, x, gap)
            elif width == 2 and sign == 0:
                u_12_2(t, segments, length, w, step, s, o, out_step, tail, sign, zp, low, high, x, gap)
            elif width == 1:
                b_14_1(t, segments, length, w, step, s, o, out_step, tail, sign, zp, low, high, x, gap)
            elif width == 2:
                b_12_2(t, segments, length, w, step, s, o, out_step, tail, sign, zp, low, high, x, gap)
            elif width == 3:
                b_8_3(t, segments, length, w, step, s, o, out_step, tail, sign, zp, low, high, x, gap)
            else:
                b_6_4(t, segments, length, w, step, s, o, out_step, tail, sign, zp, low, high, x, gap)
            m += height
        done += width


@nb.njit(nb.void(nb.int64[::1], nb.int64, nb.int64), cache=True, nogil=True)
def gemm_sum(row, first, last):  # type: ignore[no-untyped-def]
    """The same for 32-bit sums without scaling; the stage holds biases only."""
    segments, length, step = row[r.SEGMENTS], row[r.LENGTH], row[r.WEIGHT_STEP]
    out_step, sign, zero = row[r.OUT_STEP], row[r.SIGN], np.int64(0)
    gap, done = row[r.IN_STEP], np.int64(0)
    while done < row[r.GROUPS]:
        width = _tile_width(row[r.GROUPS] - done)
        tail = row[r.TAIL] if done + width == row[r.GROUPS] else np.int64(16)
        w, s = row[r.WEIGHTS] + done * step, row[r.STAGE] + done * 64
        for m in range(first, last):
            t, o = row[r.TABLE] + m * segments * 8, row[r.OUT] + m * out_step + done * 64
            x = row[r.IN] + m * gap
            if width == 1:
                s_1_1(t, segments, length, w, step, s, o, out_step, tail, sign, zero, zero, zero, x, gap)
            elif width == 2:
                s_1_2(t, segments, length, w, step, s, o, out_step, tail, sign, zero, zero, zero, x, gap)
            elif width == 3:
                s_1_3(t, segments, length, w, step, s, o, out_step, tail, sign, zero, zero, zero, x, gap)
            else:
                s_1_4(t, segments, length, w, step, s, o, out_step, tail, sign, zero, zero, zero, x, gap)
        done += width
