"""Fast kernels for CPUs with 8-bit dot-product instructions (AVX-512 VNNI, NEON sdot), written as LLVM vector code.

Each kernel gives the bytes of the portable one. Sums are 32-bit modulo 2**32; the plan has proven that the true sums fit.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import numpy as np
from llvmlite import ir

from npu.native import types as ty
from npu.native.cpu import current
from npu.native.emit import INT, LANES, PAIRS, WORD, choice
from npu.native.kernel import kernel
from sim.functional.kernels import rows as r
from sim.functional.kernels.stage import stage_function


def _tile(height, width):  # type: ignore[no-untyped-def]
    """Kernel of `width` groups of 16 channels, `height` pixels at a time; at the end some are computed twice."""

    def emit(e, args):  # type: ignore[no-untyped-def]
        row, base, weights, stage, out_base, tail, first_pixel, last_pixel = args
        table, segments, dwords, brick = e.of_row(row, "input_table", "segments", "dwords", "out_brick")
        flip, inputs = e.input_flips(row, LANES), e.b.mul(segments, dwords)
        weight_step = e.b.shl(inputs, e.word(6))
        stages = [e.offset(stage, r.CHANNELS_BYTES * n) for n in range(width)]
        biases = [e.channels(of_group, "bias")[0] for of_group in stages]
        steps = [e.b.mul(weight_step, e.word(n)) for n in range(width)]

        def places(name, start, pixel):  # type: ignore[no-untyped-def]
            """Machine addresses of the tile's pixels."""
            table = e.b.add(e.of_row(row, name), e.b.shl(pixel, e.word(3)))
            return [e.b.add(start, e.load(WORD, e.offset(table, 8 * k))) for k in range(height)]

        def over_tiles(index, carried):  # type: ignore[no-untyped-def]
            pixel, end = e.b.add(first_pixel, e.b.mul(index, e.word(height))), e.offset(last_pixel, -height)
            pixel = e.b.select(e.b.icmp_signed("<", pixel, end), pixel, end)
            pixels = places("in_table", base, pixel)

            def over_inputs(index, values):  # type: ignore[no-untyped-def]
                at = e.load(WORD, e.b.add(table, e.b.shl(index, e.word(3))))
                vectors = [e.load(LANES, e.b.add(values[0], step)) for step in steps]
                totals = values[1:]
                for k in range(height):
                    value = e.b.xor(e.splat(e.load(INT, e.b.add(pixels[k], at))), flip)
                    for n in range(width):
                        totals[k * width + n] = e.dot_inputs(totals[k * width + n], value, vectors[n])
                return [e.offset(values[0], 64), *totals]

            totals = e.loop(inputs, [weights] + biases * height, over_inputs)[1:]
            groups, targets = [], places("out_table", out_base, pixel)
            for n in range(width):
                addresses = [e.b.add(to, e.b.mul(brick, e.word(n))) for to in targets]
                groups.append((stages[n], tail if n == width - 1 else None, totals[n::width], addresses))
            e.finish(row, groups)
            return carried

        count = e.b.sub(last_pixel, first_pixel)
        e.loop(e.b.sdiv(e.offset(count, height - 1), e.word(height)), [], over_tiles)

    return stage_function(f"dot_tile_{height}_{width}", 8, emit)


_SINGLE, _PAIRS = 10, 20
_HAS_WIDE_VECTORS = current().has_byte_masks
_HEIGHTS = {1: 12, 2: 8, 3: 8, 4: 6} if _HAS_WIDE_VECTORS else {1: 6}
"""Pixels of a tile by groups of channels: sums that 32 registers hold beside weights and an input."""
_WIDEST, _TALLEST = max(_HEIGHTS), max(_HEIGHTS.values())
_HEIGHT_OF_4, _MAX_SINGLES, _SINGLE_COST = _HEIGHTS.get(4, 1), 2, 2
"""Pixels that are left over of tiles of four groups: up to so many are computed in less time alone than with others twice, each
in that of two pixels of a tile."""
_HEIGHT_OF_2 = _HEIGHTS.get(2, 1)


def _pair_tile(height):  # type: ignore[no-untyped-def]
    """Kernel of one group of channels as `_tile`, by pairs of 4 inputs: half as many loads for as many products.

    A lane of 8 bytes has the sum of the first 4 inputs of a channel beside that of the second 4. Two vectors hold 16 channels,
    in the order in which a shuffle brings together neighbours of two vectors of weights; another one parts them again.
    """
    together = [[4 * (k // 4) + k % 4 // 2 + 2 * half + 16 * (k % 2) for k in range(16)] for half in range(2)]
    apart = [[4 * (k // 4) + 2 * (k % 2) + 16 * (k % 4 // 2) + odd for k in range(16)] for odd in range(2)]

    def emit(e, args):  # type: ignore[no-untyped-def]
        row, base, weights, stage, out_base, tail, first_pixel, last_pixel = args
        table, segments, dwords = e.of_row(row, "input_table", "segments", "dwords")
        flip, pairs = e.input_flips(row, PAIRS), e.b.lshr(e.b.mul(segments, dwords), e.word(1))
        (bias,) = e.channels(stage, "bias")
        none = e.constant(0)

        def shuffled(a, b, orders):  # type: ignore[no-untyped-def]
            return [e.b.shuffle_vector(a, b, ir.Constant(LANES, order)) for order in orders]

        first = shuffled(bias, none, together)

        def places(name, start, pixel):  # type: ignore[no-untyped-def]
            """Machine addresses of the tile's pixels."""
            table = e.b.add(e.of_row(row, name), e.b.shl(pixel, e.word(3)))
            return [e.b.add(start, e.load(WORD, e.offset(table, 8 * k))) for k in range(height)]

        def over_tiles(index, carried):  # type: ignore[no-untyped-def]
            pixel, end = e.b.add(first_pixel, e.b.mul(index, e.word(height))), e.offset(last_pixel, -height)
            pixel = e.b.select(e.b.icmp_signed("<", pixel, end), pixel, end)
            pixels = places("in_table", base, pixel)

            def over_pairs(index, values):  # type: ignore[no-untyped-def]
                at = e.load(WORD, e.b.add(table, e.b.shl(index, e.word(4))))
                vectors = shuffled(e.load(LANES, values[0]), e.load(LANES, e.offset(values[0], 64)), together)
                totals = values[1:]
                for k in range(height):
                    value = e.b.bitcast(e.b.xor(e.splat(e.load(WORD, e.b.add(pixels[k], at)), 8), flip), LANES)
                    for half in range(2):
                        totals[2 * k + half] = e.dot_inputs(totals[2 * k + half], value, vectors[half])
                return [e.offset(values[0], 128), *totals]

            totals = e.loop(pairs, [weights] + first * height, over_pairs)[1:]
            whole = [e.b.add(*shuffled(totals[2 * k], totals[2 * k + 1], apart)) for k in range(height)]
            e.finish(row, [(stage, tail, whole, places("out_table", out_base, pixel))])
            return carried

        count = e.b.sub(last_pixel, first_pixel)
        e.loop(e.b.sdiv(e.offset(count, height - 1), e.word(height)), [], over_tiles)

    return stage_function(f"dot_pair_tile_{height}", 8, emit)


tile = choice(
    {width: _tile(height, width) for width, height in _HEIGHTS.items()}
    | {_SINGLE + width: _tile(1, width) for width in (1, 4)}
    | ({_PAIRS: _pair_tile(8)} if _HAS_WIDE_VECTORS else {})
)
"""By groups of channels, and `_SINGLE` more for tiles of one pixel; `_PAIRS` for one group and an even number of words."""


@kernel(ty.boolean(ty.int64))
def _are_pairs_faster(pixels):  # type: ignore[no-untyped-def]
    """Whether two tiles of two groups, for so many pixels, take less time than one of four: they leave fewer pixels over."""
    over = pixels % _HEIGHT_OF_4
    of_four = pixels - over + min(over * _SINGLE_COST, np.int64(_HEIGHT_OF_4))
    of_two = (pixels + _HEIGHT_OF_2 - 1) // _HEIGHT_OF_2 * _HEIGHT_OF_2
    return of_two * 51 < of_four * 50


@kernel(ty.void(ty.int64, ty.int64[::1], ty.int64, ty.int64))
def convolve(at, bases, first, last):  # type: ignore[no-untyped-def]
    """A convolution as a matrix product: pixels by groups of channels, weights of up to four groups at a time.

    The pixels or groups `first` to `last`; at the end of some pixels others before them are computed as well.
    """
    row = r.row_at(at)[0]
    block, end, first_pixel, last_pixel = first, last, np.int64(0), row.pixels
    if row.is_by_block == 0:
        block, end, first_pixel, last_pixel = np.int64(0), row.blocks, first, last
    base, out_base = r.input_base(row, bases), r.output_base(row, bases)
    inputs = row.segments * row.dwords
    done = block
    while done < end:
        left = end - done
        width = np.int64(_WIDEST)
        if left <= _WIDEST:
            width = left
        elif _WIDEST == 4 and ((left % 4 != 0 and left % 3 == 0) or left == 5):
            width = np.int64(3)
        if width == 4 and _are_pairs_faster(last_pixel - first_pixel):
            width = np.int64(2)
        shape = width
        if _HAS_WIDE_VECTORS and width == 1 and row.dwords % 2 == 0:
            shape = np.int64(_PAIRS)
        if row.pixels < _TALLEST:
            width = np.int64(4) if left >= 4 else np.int64(1)
            shape = _SINGLE + width
        tail = row.tail if done + width == row.blocks else np.int64(16)
        weights, stage = row.weights + done * inputs * r.WEIGHTS_BYTES, row.stage + done * r.CHANNELS_BYTES
        out, end_of_tiles = out_base + done * row.out_brick, last_pixel
        if shape == 4:
            over = (last_pixel - first_pixel) % _HEIGHT_OF_4
            end_of_tiles -= over if over <= _MAX_SINGLES else 0
        tile(shape, at, base, weights, stage, out, tail, first_pixel, end_of_tiles)
        if end_of_tiles < last_pixel:
            tile(_SINGLE + width, at, base, weights, stage, out, tail, end_of_tiles, last_pixel)
        done += width
