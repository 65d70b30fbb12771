"""Fast kernels for any CPU, as LLVM vector code without instructions of one machine: the same rows, the same bytes.

Inputs and weights become pairs of 16-bit numbers (`npu/numerics/pair_code.py`).
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.cpu import current
from npu.native.emit import WORD, choice
from npu.native.kernel import keep, kernel
from npu.numerics import pair_code
from npu.numerics.pair_tiles import HEIGHT, PANEL_BYTES
from sim.functional.kernels import rows as r
from sim.functional.kernels.stage import stage_function


def _emit_collect(e, args):  # type: ignore[no-untyped-def]
    row, pixels, base, count, target = args
    segments, segment_count, dwords = e.of_row(row, "segment_table", "segments", "dwords")

    def pixel_of(index):  # type: ignore[no-untyped-def]
        return e.b.add(base, e.load(WORD, e.b.add(pixels, e.b.shl(index, e.word(3)))))

    def address_of(pixel, segment):  # type: ignore[no-untyped-def]
        return e.b.add(pixel, e.load(WORD, e.b.add(segments, e.b.shl(segment, e.word(3)))))

    is_signed = current().has_signed_dot_product  # which the inputs are made for
    flips = lambda kind: e.input_flips(row, kind)  # noqa: E731
    pair_code.collect(e, target, count, segment_count, dwords, pixel_of, address_of, flips, is_signed=is_signed)


collect = stage_function("portable_collect", 5, _emit_collect)
"""The inputs of pixels one after the other, as pairs of 16-bit numbers."""
widen = stage_function("portable_widen", 3, pair_code.widen)
"""The weights of 16 channels in the same form."""


def _tile(height, width, wide_channels=0):  # type: ignore[no-untyped-def]
    """Kernel of `width` groups of 16 channels, `height` collected pixels at a time; wide_channels as `pair_code.multiply` has
    them."""

    def emit(e, args):  # type: ignore[no-untyped-def]
        row, panel, weights, stage, outs, out_base, tail, count = args
        segments, segment_dwords, brick = e.of_row(row, "segments", "dwords", "out_brick")
        stages = [e.offset(stage, r.CHANNELS_BYTES * n) for n in range(width)]
        biases = [e.channels(of_group, "bias")[0] for of_group in stages] * height

        def finish(pixel, totals):  # type: ignore[no-untyped-def]
            table, groups = e.b.add(outs, e.b.shl(pixel, e.word(3))), []
            targets = [e.b.add(out_base, e.load(WORD, e.offset(table, 8 * k))) for k in range(height)]
            for n in range(width):
                addresses = [e.b.add(to, e.b.mul(brick, e.word(n))) for to in targets]
                groups.append((stages[n], tail if n == width - 1 else None, totals[n::width], addresses))
            e.finish(row, groups)

        dwords, start = e.b.mul(segments, segment_dwords), lambda pixel: biases
        pair_code.multiply(e, height, width, panel, weights, dwords, count, start, finish, wide_channels=wide_channels)

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
