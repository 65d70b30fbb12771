"""Fast kernels for CPUs with 8-bit dot-product instructions (AVX-512 VNNI), written as LLVM vector code.

Each kernel gives the bytes of the portable one. Sums are 32-bit modulo 2**32; the plan has proven that the true sums fit.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.emit import INT, LANES, WORD, Emitter
from npu.native.kernel import keep, kernel
from sim.functional.kernels import rows as r
from sim.functional.kernels.vectors import DEPTHWISE_WORDS, depthwise_row, set_line, set_part, stage_function


def _tile(height, width):  # type: ignore[no-untyped-def]
    """Kernel of `height` pixels by `width` groups of 16 channels."""

    def emit(e, args):  # type: ignore[no-untyped-def]
        ins, base, segments, count, dwords, weights, weight_step, stage = args[:8]
        outs, out_base, brick, tail, xor, zp, low, high, finish = args[8:]
        pixels = [e.b.add(base, e.load(WORD, e.offset(ins, 8 * k))) for k in range(height)]
        biases = [e.field(e.offset(stage, r.CHANNELS_BYTES * n), r.CHANNELS, "bias") for n in range(width)]
        xor = e.splat_word(xor)
        steps = [e.b.mul(weight_step, e.word(n)) for n in range(width)]

        def over_segments(segment, carried):  # type: ignore[no-untyped-def]
            start = e.load(WORD, e.b.add(segments, e.b.shl(segment, e.word(3))))
            rows = [e.b.add(pixel, start) for pixel in pixels]

            def over_dwords(index, values):  # type: ignore[no-untyped-def]
                at = e.b.shl(index, e.word(2))
                vectors = [e.load(LANES, e.b.add(values[0], step)) for step in steps]
                totals = values[1:]
                for k in range(height):
                    value = e.b.xor(e.splat(e.load(INT, e.b.add(rows[k], at))), xor)
                    for n in range(width):
                        totals[k * width + n] = e.dot(totals[k * width + n], value, vectors[n])
                return [e.offset(values[0], 64), *totals]

            return e.loop(dwords, carried, over_dwords)

        totals = e.loop(count, [weights] + biases * height, over_segments)[1:]
        limits = [e.splat_word(value) for value in (zp, low, high)]
        targets = [e.b.add(out_base, e.load(WORD, e.offset(outs, 8 * k))) for k in range(height)]

        def target(k, n):  # type: ignore[no-untyped-def]
            return e.b.add(targets[k], e.b.mul(brick, e.word(n)))

        e.finish([totals[k * width : (k + 1) * width] for k in range(height)], stage, finish, limits, target, tail)

    return stage_function(f"vnni_tile_{height}_{width}", 17, emit)


tile_16_1, tile_12_2, tile_8_3, tile_6_4 = _tile(16, 1), _tile(12, 2), _tile(8, 3), _tile(6, 4)
tile_1_1, tile_1_4 = _tile(1, 1), _tile(1, 4)


depthwise_1, depthwise_2 = (depthwise_row(stride, "vnni", lambda _e, weights: weights, Emitter.dot) for stride in (1, 2))


@kernel(ty.void(r.ROW_TYPE, ty.int64[::1]))
def convolve(row, bases):  # type: ignore[no-untyped-def]
    """A convolution as a matrix product: pixels by groups of channels, weights of up to four groups at a time."""
    base = r.base_of(bases, row.in_region, np.int64(0))
    out_base = r.base_of(bases, row.out_region, row.sums)
    ins, segments, count, dwords = row.in_table, row.segment_table, row.segments, row.dwords
    outs, brick, xor = row.out_table, row.out_brick, row.xor
    zp, low, high, pixels, fl = row.zero_point, row.low, row.high, row.pixels, row.finish
    step = count * dwords * 64
    done = np.int64(0)
    while done < row.blocks:
        left = row.blocks - done
        width = np.int64(4)
        if left <= 4:
            width = left
        elif (left % 4 != 0 and left % 3 == 0) or left == 5:
            width = np.int64(3)
        height = np.int64(16) if width == 1 else (np.int64(12) if width == 2 else (np.int64(8) if width == 3 else np.int64(6)))
        if pixels < height:
            height, width = np.int64(1), np.int64(4) if left >= 4 else np.int64(1)
        tail = row.tail if done + width == row.blocks else np.int64(16)
        w = row.weights + done * step
        s = row.stage + done * r.CHANNELS_BYTES
        ob = out_base + done * brick
        m = np.int64(0)
        while m < pixels:
            if m + height > pixels:
                m = pixels - height
            i, o = ins + 8 * m, outs + 8 * m
            if height == 1:
                if width == 1:
                    tile_1_1(i, base, segments, count, dwords, w, step, s, o, ob, brick, tail, xor, zp, low, high, fl)
                else:
                    tile_1_4(i, base, segments, count, dwords, w, step, s, o, ob, brick, tail, xor, zp, low, high, fl)
            elif width == 1:
                tile_16_1(i, base, segments, count, dwords, w, step, s, o, ob, brick, tail, xor, zp, low, high, fl)
            elif width == 2:
                tile_12_2(i, base, segments, count, dwords, w, step, s, o, ob, brick, tail, xor, zp, low, high, fl)
            elif width == 3:
                tile_8_3(i, base, segments, count, dwords, w, step, s, o, ob, brick, tail, xor, zp, low, high, fl)
            else:
                tile_6_4(i, base, segments, count, dwords, w, step, s, o, ob, brick, tail, xor, zp, low, high, fl)
            m += height
        done += width


@kernel(ty.void(r.ROW_TYPE, ty.int64[::1]))
def convolve_depthwise(row, bases):  # type: ignore[no-untyped-def]
    """A depthwise convolution, a row of 16 channels at a time; parts of a large window one after the other.

    With strides above 2 a row is a column: the window is taken in anew for each.
    """
    buffer, line = np.empty(DEPTHWISE_WORDS, np.int64), np.empty(16 * row.width, np.int32)
    arguments, sums = np.int64(buffer.ctypes.data), np.int64(line.ctypes.data)
    width = row.width if row.stride <= 2 else np.int64(1)
    for y in range(row.pixels):
        for b in range(row.blocks):
            set_line(row, y, b, width, arguments)
            for x in range(0, row.width, width):
                for part in range(row.segments):
                    set_part(row, bases, y, x, b, part, sums, arguments)
                    if row.stride == 2:
                        depthwise_2(arguments)
                    else:
                        depthwise_1(arguments)
    keep(buffer, line)
