"""Fast kernels for any CPU, as LLVM vector code without instructions of one machine: the same rows, the same bytes.

Inputs and weights become pairs of 16-bit numbers, because nearly every CPU multiplies those and adds up neighbours in one
instruction (pmaddwd), which LLVM finds. Of 4 consecutive inputs or weights the first pair is 0 and 2, the second 1 and 3: that
takes a mask and a shift, where neighbours would take a permutation.

Products of bytes (pmaddubsw) would not pay: their 16-bit sums are widened by a multiplication too, so that sums of two pairs
have to be added first. These must not leave 16 bits, but do for 8 to 35 % of the weights of MobileNetV2 in all but its first
layers.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import numpy as np
from llvmlite import ir

from npu.native import types as ty
from npu.native.cpu import current
from npu.native.emit import BYTE, INT, LANES, SHORTS, WORD, choice
from npu.native.kernel import keep, kernel
from sim.functional.kernels import rows as r
from sim.functional.kernels.stage import stage_function

SHORT = ir.IntType(16)
HEIGHT = 4
"""Pixels of a tile: with its sums for 16 channels, weights and an input, what 16 registers of 8 lanes hold."""
PANEL_BYTES = 1 << 17
"""Inputs that are made ready at a time, for all channels: what stays in the second-level cache beside the weights."""


def prepare(e, weights):  # type: ignore[no-untyped-def]
    """The two pairs of each lane of 4 signed bytes."""
    eight = ir.Constant(SHORTS, [8] * 32)
    pairs = e.b.bitcast(weights, SHORTS)
    return e.b.ashr(e.b.shl(pairs, eight), eight), e.b.ashr(pairs, eight)


def _emit_collect(e, args):  # type: ignore[no-untyped-def]
    row, pixels, base, count, target = args
    segments, segment_count, dwords = e.of_row(row, "segment_table", "segments", "dwords")
    one = e.word(1)

    def some_dwords(size):  # type: ignore[no-untyped-def]
        """What makes `size` words ready."""
        narrow = ir.VectorType(BYTE, 4 * size)
        flip = e.input_flips(row, narrow)
        order = [k + n for k in range(0, 4 * size, 4) for n in (0, 2, 1, 3)]
        turn = ir.Constant(ir.VectorType(INT, 4 * size), order)
        with_zeros = ir.Constant(ir.VectorType(INT, 8 * size), [place for n in order for place in (n, 4 * size)])

        def ready(_index, carried):  # type: ignore[no-untyped-def]
            source, to = carried
            inputs = e.b.xor(e.load(narrow, source), flip)
            if current().has_signed_dot_product:  # which the inputs are made for
                e.store(e.widened_inputs(e.b.shuffle_vector(inputs, inputs, turn)), to)
            else:  # one shuffle, where widening would be a second
                e.store(e.b.shuffle_vector(inputs, ir.Constant(narrow, None), with_zeros), to)
            return [e.offset(source, 4 * size), e.offset(to, 8 * size)]

        return ready

    steps = [(e.b.lshr(dwords, e.word(2)), some_dwords(4))]
    steps += [(e.b.and_(e.b.lshr(dwords, e.word(k)), one), some_dwords(1 << k)) for k in (1, 0)]

    def over_pixels(pixel_index, targets):  # type: ignore[no-untyped-def]
        pixel = e.b.add(base, e.load(WORD, e.b.add(pixels, e.b.shl(pixel_index, e.word(3)))))

        def over_segments(segment, carried):  # type: ignore[no-untyped-def]
            values = [e.b.add(pixel, e.load(WORD, e.b.add(segments, e.b.shl(segment, e.word(3))))), *carried]
            for times, ready in steps:
                values = e.loop(times, values, ready)
            return values[1:]

        return e.loop(segment_count, targets, over_segments)

    e.loop(count, [target], over_pixels)


collect = stage_function("portable_collect", 5, _emit_collect)
"""The inputs of pixels one after the other, as pairs of 16-bit numbers."""


def _emit_widen(e, args):  # type: ignore[no-untyped-def]
    weights, dwords, target = args

    def over_dwords(_index, carried):  # type: ignore[no-untyped-def]
        source, to = carried
        for half, vector in enumerate(prepare(e, e.load(LANES, source))):
            e.store(vector, e.offset(to, 64 * half))
        return [e.offset(source, 64), e.offset(to, 128)]

    e.loop(dwords, [weights, target], over_dwords)


widen = stage_function("portable_widen", 3, _emit_widen)
"""The weights of 16 channels as `prepare` gives them."""


def _first_channels(e, at, count):  # type: ignore[no-untyped-def]
    """Pairs of weights of so many of 16 channels, zeros for the others."""
    some = ir.VectorType(SHORT, 2 * count)
    order = ir.Constant(ir.VectorType(INT, 32), [min(k, 2 * count) for k in range(32)])
    return e.b.shuffle_vector(e.load(some, at), ir.Constant(some, None), order)


def _tile(height, width, wide_channels=0):  # type: ignore[no-untyped-def]
    """Kernel of `width` groups of 16 channels, `height` collected pixels at a time; at the end some are computed twice.

    wide_channels: how many of one group have sums, if the weights are those of `widen`.
    """

    def emit(e, args):  # type: ignore[no-untyped-def]
        row, panel, weights, stage, outs, out_base, tail, count = args
        segments, segment_dwords, brick = e.of_row(row, "segments", "dwords", "out_brick")
        dwords = e.b.mul(segments, segment_dwords)
        pitch, weight_step = e.b.shl(dwords, e.word(3)), e.b.shl(dwords, e.word(6))
        stages = [e.offset(stage, r.CHANNELS_BYTES * n) for n in range(width)]
        biases = [e.channels(of_group, "bias")[0] for of_group in stages]
        steps = [e.b.mul(weight_step, e.word(n)) for n in range(width)]

        def halves(at):  # type: ignore[no-untyped-def]
            """Of the weights of four inputs, for each group."""
            if wide_channels:
                return [[_first_channels(e, e.offset(at, 64 * half), wide_channels) for half in range(2)]]
            return [prepare(e, e.load(LANES, e.b.add(at, step))) for step in steps]

        def over_tiles(index, carried):  # type: ignore[no-untyped-def]
            pixel, end = e.b.mul(index, e.word(height)), e.offset(count, -height)
            pixel = e.b.select(e.b.icmp_signed("<", pixel, end), pixel, end)
            first = e.b.add(panel, e.b.mul(pixel, pitch))
            rows = [e.b.add(first, e.b.mul(pitch, e.word(k))) for k in range(height)]

            def over_dwords(index, values):  # type: ignore[no-untyped-def]
                at, vectors, totals = e.b.shl(index, e.word(3)), halves(values[0]), values[1:]
                for half in range(2):
                    for k in range(height):
                        pair = e.load(INT, e.offset(e.b.add(rows[k], at), 4 * half))
                        value = e.b.bitcast(e.splat(pair), SHORTS)
                        for n in range(width):
                            totals[k * width + n] = e.add_pairs(totals[k * width + n], value, vectors[n][half])
                return [e.offset(values[0], 128 if wide_channels else 64), *totals]

            totals = e.loop(dwords, [weights, *biases * height], over_dwords)[1:]
            table = e.b.add(outs, e.b.shl(pixel, e.word(3)))
            targets = [e.b.add(out_base, e.load(WORD, e.offset(table, 8 * k))) for k in range(height)]
            groups = []
            for n in range(width):
                addresses = [e.b.add(to, e.b.mul(brick, e.word(n))) for to in targets]
                groups.append((stages[n], tail if n == width - 1 else None, totals[n::width], addresses))
            e.finish(row, groups)
            return carried

        e.loop(e.b.sdiv(e.offset(count, height - 1), e.word(height)), [], over_tiles)

    return stage_function(f"portable_tile_{height}_{width}_{wide_channels}", 8, emit)


tile = choice({0: _tile(HEIGHT, 1, 16), 1: _tile(1, 1), 4: _tile(1, 4), 8: _tile(HEIGHT, 1, 8)})
"""1 and 4 by groups of channels, for one pixel at a time; 0 and 8 for more, of 16 and 8 channels."""


@kernel(ty.void(ty.int64, ty.int64, ty.int64, ty.int64, ty.int64, ty.int64, ty.int64, ty.int64))
def _convolve_panel(at, out_base, panel, wide, first, pixels, block, end):  # type: ignore[no-untyped-def]
    """All channels of collected pixels: many pixels by 16 channels, or fewer one by one, by 64 channels as far as there are."""
    row = r.row_at(at)[0]
    inputs, outs, done = row.segments * row.dwords, row.out_table + 8 * first, block
    while done < end:
        weights, stage = row.weights + done * inputs * r.WEIGHTS_BYTES, row.stage + done * r.CHANNELS_BYTES
        width = np.int64(4) if pixels < HEIGHT and end - done >= 4 else np.int64(1)
        tail, shape = row.tail if done + width == row.blocks else np.int64(16), width
        to = out_base + done * row.out_brick
        together = pixels
        if pixels >= HEIGHT:
            shape = np.int64(8 if tail <= 8 else 0)
            widen(weights, inputs, wide)
            if pixels % HEIGHT == 1:  # the last one alone takes less than another tile
                together = pixels - 1
                tile(np.int64(1), at, panel + together * inputs * 8, weights, stage, outs + 8 * together, to, tail, np.int64(1))
            weights = wide
        tile(shape, at, panel, weights, stage, outs, to, tail, together)
        done += width


@kernel(ty.void(ty.int64, ty.int64[::1], ty.int64, ty.int64))
def convolve(at, bases, first, last):  # type: ignore[no-untyped-def]
    """A convolution as a matrix product, with the inputs of some pixels made ready at a time: pixels or groups of channels."""
    row = r.row_at(at)[0]
    block, end, first_pixel, last_pixel = first, last, np.int64(0), row.pixels
    if row.is_by_block == 0:
        block, end, first_pixel, last_pixel = np.int64(0), row.blocks, first, last
    base, out_base = r.input_base(row, bases), r.output_base(row, bases)
    pitch = row.segments * row.dwords * 8
    count = min(last_pixel - first_pixel, max(np.int64(1), PANEL_BYTES // (HEIGHT * pitch)) * HEIGHT)
    buffer = np.empty((count + 16) * pitch, np.uint8)
    panel = np.int64(buffer.ctypes.data)
    for pixel in range(first_pixel, last_pixel, count):
        pixels = min(count, last_pixel - pixel)
        collect(at, row.in_table + 8 * pixel, base, pixels, panel)
        _convolve_panel(at, out_base, panel, panel + count * pitch, np.int64(pixel), pixels, block, end)
    keep(buffer)
