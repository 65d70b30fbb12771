"""Fast kernels for any CPU, as LLVM vector code without instructions of one machine: the same rows, the same bytes.

Inputs and weights become pairs of 16-bit numbers, because nearly every CPU multiplies those and adds up neighbours in one
instruction (pmaddwd), which LLVM finds. Of 4 consecutive inputs or weights the first pair is 0 and 2, the second 1 and 3: that
takes a mask and a shift, where neighbours would take a permutation.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import numpy as np
from llvmlite import ir

from npu.native import types as ty
from npu.native.emit import BYTES, INT, LANES, SHORTS, WORD, choice
from npu.native.kernel import keep, kernel
from sim.functional.kernels import rows as r
from sim.functional.kernels.stage import stage_function

SHORT = ir.IntType(16)
HEIGHT = 6
"""Pixels of a tile: with its sums for 16 channels, weights and an input, what 16 registers of 8 lanes hold."""
PANEL_BYTES = 1 << 17
"""Inputs that are made ready at a time, for all channels: what stays in the second-level cache beside the weights."""


def prepare(e, weights):  # type: ignore[no-untyped-def]
    """The two pairs of each lane of 4 signed bytes."""
    eight = ir.Constant(SHORTS, [8] * 32)
    pairs = e.b.bitcast(weights, SHORTS)
    return e.b.ashr(e.b.shl(pairs, eight), eight), e.b.ashr(pairs, eight)


def dot(e, total, inputs, prepared):  # type: ignore[no-untyped-def]
    mask, eight = e.constant(0x00FF00FF), e.constant(8)
    for pair, weights in zip((inputs, e.b.lshr(inputs, eight)), prepared, strict=True):
        total = e.add_pairs(total, e.b.bitcast(e.b.and_(pair, mask), SHORTS), weights)
    return total


def _emit_collect(e, args):  # type: ignore[no-untyped-def]
    row, pixels, base, count, target = args
    segments, segment_count, dwords, limits = e.of_row(row, "segment_table", "segments", "dwords", "limits")
    flip, flip_one, many = e.load(BYTES, limits), e.load(INT, limits), e.b.lshr(dwords, e.word(2))
    half, eight = ir.VectorType(SHORT, 8), ir.Constant(ir.VectorType(SHORT, 8), [8] * 8)
    four = ir.VectorType(INT, 4)
    order = ir.Constant(ir.VectorType(INT, 8), [0, 4, 1, 5, 2, 6, 3, 7])

    def over_pixels(pixel_index, targets):  # type: ignore[no-untyped-def]
        pixel = e.b.add(base, e.load(WORD, e.b.add(pixels, e.b.shl(pixel_index, e.word(3)))))

        def over_segments(segment, carried):  # type: ignore[no-untyped-def]
            start = e.b.add(pixel, e.load(WORD, e.b.add(segments, e.b.shl(segment, e.word(3)))))
            whole = e.loop(many, [start, *carried], four_dwords)
            return [e.loop(e.b.and_(dwords, e.word(3)), whole, one_dword)[1]]

        return e.loop(segment_count, targets, over_segments)

    def four_dwords(_index, carried):  # type: ignore[no-untyped-def]
        source, to = carried
        inputs = e.b.bitcast(e.b.xor(e.load(BYTES, source), flip), half)
        even = e.b.bitcast(e.b.and_(inputs, ir.Constant(half, [0xFF] * 8)), four)
        odd = e.b.bitcast(e.b.lshr(inputs, eight), four)
        e.store(e.b.shuffle_vector(even, odd, order), to)
        return [e.offset(source, 16), e.offset(to, 32)]

    def one_dword(_index, carried):  # type: ignore[no-untyped-def]
        source, to = carried
        inputs = e.b.xor(e.load(INT, source), flip_one)
        for pair, at in ((inputs, to), (e.b.lshr(inputs, ir.Constant(INT, 8)), e.offset(to, 4))):
            e.store(e.b.and_(pair, ir.Constant(INT, 0x00FF00FF)), at)
        return [e.offset(source, 4), e.offset(to, 8)]

    e.loop(count, [target], over_pixels)


collect = stage_function("portable_collect", 5, _emit_collect)
"""The inputs of pixels one after the other, as pairs of 16-bit numbers."""


def _tile(height, width):  # type: ignore[no-untyped-def]
    """Kernel of `height` collected pixels by `width` groups of 16 channels."""

    def emit(e, args):  # type: ignore[no-untyped-def]
        row, panel, weights, stage, outs, out_base, tail = args
        segments, segment_dwords, brick = e.of_row(row, "segments", "dwords", "out_brick")
        dwords = e.b.mul(segments, segment_dwords)
        pitch, weight_step = e.b.shl(dwords, e.word(3)), e.b.shl(dwords, e.word(6))
        rows = [e.b.add(panel, e.b.mul(pitch, e.word(k))) for k in range(height)]
        stages = [e.offset(stage, r.CHANNELS_BYTES * n) for n in range(width)]
        biases = [e.channels(of_group, "bias")[0] for of_group in stages]
        steps = [e.b.mul(weight_step, e.word(n)) for n in range(width)]

        def over_dwords(index, values):  # type: ignore[no-untyped-def]
            at = e.b.shl(index, e.word(3))
            vectors = [prepare(e, e.load(LANES, e.b.add(values[0], step))) for step in steps]
            totals = values[1:]
            for half in range(2):
                for k in range(height):
                    pair = e.load(INT, e.offset(e.b.add(rows[k], at), 4 * half))
                    value = e.b.bitcast(e.splat(pair), SHORTS)
                    for n in range(width):
                        totals[k * width + n] = e.add_pairs(totals[k * width + n], value, vectors[n][half])
            return [e.offset(values[0], 64), *totals]

        totals = e.loop(dwords, [weights, *biases * height], over_dwords)[1:]
        targets = [e.b.add(out_base, e.load(WORD, e.offset(outs, 8 * k))) for k in range(height)]
        groups = []
        for n in range(width):
            addresses = [e.b.add(to, e.b.mul(brick, e.word(n))) for to in targets]
            groups.append((stages[n], tail if n == width - 1 else None, totals[n::width], addresses))
        e.finish(row, groups)

    return stage_function(f"portable_tile_{height}_{width}", 7, emit)


tile = choice({1: _tile(HEIGHT, 1), 10: _tile(1, 1), 40: _tile(1, 4)})
"""By groups of channels, ten times those for a tile of one pixel."""


@kernel(ty.void(ty.int64, ty.int64, ty.int64, ty.int64, ty.int64, ty.int64, ty.int64, ty.int64))
def _convolve_panel(at, out_base, panel, pitch, first, pixels, block, end):  # type: ignore[no-untyped-def]
    """All channels of collected pixels: many pixels by 16 channels, or fewer one by one, by 64 channels as far as there are."""
    row = r.row_at(at)[0]
    step = row.segments * row.dwords * r.WEIGHTS_BYTES
    height = np.int64(HEIGHT) if pixels >= HEIGHT else np.int64(1)
    done = block
    while done < end:
        width = np.int64(4) if height == 1 and end - done >= 4 else np.int64(1)
        shape = width if height > 1 else 10 * width
        tail = row.tail if done + width == row.blocks else np.int64(16)
        weights, stage = row.weights + done * step, row.stage + done * r.CHANNELS_BYTES
        m = np.int64(0)
        while m < pixels:
            m = min(m, pixels - height)
            outs = row.out_table + 8 * (first + m)
            tile(shape, at, panel + m * pitch, weights, stage, outs, out_base + done * row.out_brick, tail)
            m += height
        done += width


@kernel(ty.void(ty.int64, ty.int64[::1], ty.int64, ty.int64))
def convolve(at, bases, first, last):  # type: ignore[no-untyped-def]
    """A convolution as a matrix product, with the inputs of some pixels made ready at a time: pixels or groups of channels."""
    row = r.row_at(at)[0]
    block, end, first_pixel, last_pixel = first, last, np.int64(0), row.pixels
    if row.is_by_block == 0:
        block, end, first_pixel, last_pixel = np.int64(0), row.blocks, first, last
    base, out_base = r.base_of(bases, row.in_region, np.int64(0)), r.base_of(bases, row.out_region, row.sums)
    pitch = row.segments * row.dwords * 8
    count = min(last_pixel - first_pixel, max(np.int64(1), PANEL_BYTES // (HEIGHT * pitch)) * HEIGHT)
    buffer = np.empty(count * pitch, np.uint8)
    panel = np.int64(buffer.ctypes.data)
    for pixel in range(first_pixel, last_pixel, count):
        pixels = min(count, last_pixel - pixel)
        collect(at, row.in_table + 8 * pixel, base, pixels, panel)
        _convolve_panel(at, out_base, panel, pitch, np.int64(pixel), pixels, block, end)
    keep(buffer)
