"""Matrix products of indirect rows with packed weights: convolutions and fully connected layers.

A tile holds `height` pixels by `width` blocks of 16 channels in registers. Each output is the sum over stretches, then
elements, in that order whatever the tile, so neither tiling nor threads change a float result.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import numpy as np
from llvmlite import ir

from npu.native import types as ty
from npu.native.cpu import current
from npu.native.emit import BYTES, DOUBLES, FLOAT, FLOATS, INT, LANES, WORD, choice
from npu.native.kernel import Inlined, kernel
from npu.numerics import pair_tiles
from npu.runtime.xnnpack.kernels import row as r
from npu.runtime.xnnpack.kernels.job_code import job_function
from npu.runtime.xnnpack.kernels.pair_gemm import pair_gemm
from npu.runtime.xnnpack.kernels.tiles import HEIGHTS, LESS_TALL, NARROW_HEIGHT, WIDEST, tile_width

_FLOAT, _BYTE, _UNSIGNED, _REAL, _NARROW = range(5)
"""Modes; `_UNSIGNED` is `_BYTE` for inputs whose `sign` is 0, `_NARROW` is `_FLOAT` of few channels."""
_HAS_DOT_PRODUCT = current().has_dot_product
_REGISTER_LANES = current().lanes
_TYPES = ((FLOATS, FLOAT), (LANES, INT), (LANES, INT), (LANES, INT), (ir.VectorType(FLOAT, _REGISTER_LANES), FLOAT))
_STAGE_BYTES = (r.FLOAT_STAGE_BYTES, r.CHANNELS_BYTES, r.CHANNELS_BYTES, r.REAL_STAGE_BYTES, r.FLOAT_STAGE_BYTES)


def _tile(height, width, mode):  # type: ignore[no-untyped-def]
    """Kernel of `width` blocks of 16 channels, `height` pixels at a time; at the end some are computed twice.

    `_NARROW`: of one block only the channels of one register.
    """
    lanes, element = _TYPES[mode]

    def emit(e, args):  # type: ignore[no-untyped-def]
        row, weights, stage, out, tail, first, last = args
        table, segments, length, step, out_step = e.of_row(row, "table", "segments", "length", "weight_step", "out_step")
        stages = [e.offset(stage, _STAGE_BYTES[mode] * n) for n in range(width)]
        biases, steps = [e.load(lanes, at) for at in stages] * height, [e.b.mul(step, e.word(n)) for n in range(width)]
        sign, pitch = e.splat_word(e.of_row(row, "sign")), e.b.shl(segments, e.word(3))

        def over_tiles(index, carried):  # type: ignore[no-untyped-def]
            pixel, end = e.b.add(first, e.b.mul(index, e.word(height))), e.offset(last, -height)
            pixel = e.b.select(e.b.icmp_signed("<", pixel, end), pixel, end)
            rows = [e.b.add(table, e.b.mul(pitch, e.offset(pixel, k))) for k in range(height)]

            def over_segments(segment, carried):  # type: ignore[no-untyped-def]
                at = e.b.shl(segment, e.word(3))
                pixels = [e.load(WORD, e.b.add(row, at)) for row in rows]

                def over_elements(index, values):  # type: ignore[no-untyped-def]
                    totals, offset = list(values[1:]), e.b.shl(index, e.word(2))
                    vectors = [e.load(lanes, e.b.add(values[0], step)) for step in steps]
                    for k in range(height):
                        value = e.splat(e.load(element, e.b.add(pixels[k], offset)), lanes.count)
                        value = value if mode in (_FLOAT, _NARROW, _UNSIGNED) else e.b.xor(value, sign)
                        for n in range(width):
                            total = totals[k * width + n]
                            if element is FLOAT:
                                totals[k * width + n] = e.multiply_add(value, vectors[n], total)
                            else:
                                totals[k * width + n] = e.dot(total, value, vectors[n])
                    return [e.offset(values[0], 64), *totals]

                return e.loop(length, carried, over_elements)

            start = biases if element is FLOAT else e.moved_biases(row, biases, pixel, height)
            totals = e.loop(segments, [weights, *start], over_segments)[1:]
            targets = [e.b.add(out, e.b.mul(out_step, e.offset(pixel, k))) for k in range(height)]
            _finish(e, row, mode, stages, tail, totals, targets)
            return carried

        count = e.b.sub(last, first)
        e.loop(e.b.sdiv(e.offset(count, height - 1), e.word(height)), [], over_tiles)

    return job_function(f"gemm_{height}_{width}_{mode}", 7, emit)


def _finish(e, row, mode, stages, tail, totals, targets):  # type: ignore[no-untyped-def]
    """Store the totals of some pixels, pixel after pixel."""
    width, size = len(stages), 4 if mode in (_FLOAT, _NARROW) else 1
    places = [[e.offset(target, 16 * size * n) for target in targets] for n in range(width)]
    if mode in (_BYTE, _UNSIGNED):
        counts = [None] * (width - 1) + [tail]
        e.finish(row, [(stages[n], counts[n], totals[n::width], places[n]) for n in range(width)])
        return
    final = _rounded(e, row) if mode == _REAL else _clamped(e, row, _TYPES[mode][0].count)
    for n in range(width):
        count = tail if n == width - 1 else e.word(16)
        for total, place in zip(totals[n::width], places[n], strict=True):
            e.store_first(final(total, stages[n]), place, count)


def _clamped(e, row, lanes):  # type: ignore[no-untyped-def]
    low, high = (e.splat_float(value, lanes) for value in e.of_row(row, "low", "high"))
    return lambda total, stage: e.clamp_float(total, low, high)


def _rounded(e, row):  # type: ignore[no-untyped-def]
    """int32 sums times a double per channel, to the nearest integer, ties away from zero, offset and clamped."""
    zero_point, low, high = (e.splat_word(value) for value in e.of_row(row, "zero_point", "low", "high"))
    most, half = (ir.Constant(DOUBLES, [number] * 16) for number in (float(1 << 24), 0.5))

    def final(total, stage):  # type: ignore[no-untyped-def]
        scale = e.load(DOUBLES, e.field_at(stage, r.REAL_STAGE, "scale"))
        value = e.b.fmul(e.b.sitofp(total, DOUBLES), scale)
        away = e.call("llvm.floor.v16f64", e.b.fadd(e.call("llvm.fabs.v16f64", value), half))
        # What is beyond 24 bits is beyond the clamp as well, and must stay within an integer.
        away = e.b.select(e.b.fcmp_ordered("<", away, most), away, most)
        whole = e.b.add(e.b.fptosi(e.call("llvm.copysign.v16f64", away, value), LANES), zero_point)
        return e.b.trunc(e.clamp(whole, low, high), BYTES)

    return final


_SINGLES = (1, 4, 8)
"""Blocks of tiles of one pixel."""
_WIDEST_SINGLE = _SINGLES[-1]
_TALL, _LOWER, _MODE = 8, 4, 16
"""What a tall tile has more in its number than one of one pixel, then one that is less tall, and one of the next mode."""


def _tiles():  # type: ignore[no-untyped-def]
    """By number: blocks less one, `_TALL`, `_MODE` times the mode."""
    single = {_MODE * mode + width - 1: _tile(1, width, mode) for mode in (_FLOAT, _BYTE, _REAL) for width in _SINGLES}
    widths = range(1, WIDEST + 1)
    modes = (_FLOAT, _BYTE, _UNSIGNED) if _HAS_DOT_PRODUCT else (_FLOAT,)
    tall = [(mode, width) for mode in modes for width in widths if mode != _UNSIGNED or width <= 2]
    tiles = {_MODE * mode + _TALL + width - 1: _tile(HEIGHTS[width - 1], width, mode) for mode, width in tall}
    lower = [(mode, width) for mode, width in tall if width >= LESS_TALL]
    less = {_MODE * mode + _TALL + _LOWER + width - 1: _tile(HEIGHTS[width - 1] - 1, width, mode) for mode, width in lower}
    return single | tiles | less | ({_MODE * _NARROW: _tile(NARROW_HEIGHT, 1, _NARROW)} if NARROW_HEIGHT else {})


_multiply = choice(_tiles())


@kernel(ty.int64(ty.int64, ty.int64))
def _computed(pixels, height):  # type: ignore[no-untyped-def]
    """How many pixels tiles of a height compute."""
    return (pixels + height - 1) // height * height


@Inlined
def _next_tile(row, mode, pixels, done, end):  # type: ignore[no-untyped-def]
    """How many blocks of channels to take from `done` on, and the number of their tile."""
    left = end - done
    width = tile_width(left)
    height, lower = np.int64(HEIGHTS[width - 1]), np.int64(HEIGHTS[width - 1] - 1)
    if mode == _REAL or pixels < height or (mode == _BYTE and not _HAS_DOT_PRODUCT):
        width = np.int64(_WIDEST_SINGLE if left >= _WIDEST_SINGLE else 4 if left >= 4 else 1)
        return width, _MODE * mode + width - 1
    is_narrow = done + width == row.groups and row.tail <= _REGISTER_LANES
    if NARROW_HEIGHT and mode == _FLOAT and is_narrow and pixels >= NARROW_HEIGHT:
        return width, np.int64(_MODE * _NARROW)
    number = _MODE * (_UNSIGNED if mode == _BYTE and row.sign == 0 and width <= 2 else mode) + _TALL + width - 1
    if width >= LESS_TALL and _computed(pixels, lower) < _computed(pixels, height):
        number += _LOWER
    return width, number


@kernel(ty.void(ty.int64, ty.int64, ty.int64, ty.int64, ty.int64))
def _blocks(at, first, last, done, end):  # type: ignore[no-untyped-def]
    """The blocks of channels `done` to `end` of the output pixels `first` to `last`."""
    row = r.jobs_at(at)[0]
    mode = np.int64(_FLOAT if row.kind == r.GEMM_FLOAT else _REAL if row.kind == r.GEMM_REAL else _BYTE)
    stage_bytes, size = np.int64(_STAGE_BYTES[mode]), np.int64(64 if mode == _FLOAT else 16)
    while done < end:
        width, number = _next_tile(row, mode, last - first, done, end)
        tail = row.tail if done + width == row.groups else np.int64(16)
        weights, stage = row.weights + done * row.weight_step, row.stage + done * stage_bytes
        _multiply(number, at, weights, stage, row.out + done * size, tail, first, last)
        done += width


@kernel(ty.void(ty.int64, ty.int64, ty.int64))
def gemm(at, first, last):  # type: ignore[no-untyped-def]
    """The output pixels, or `by_blocks` the blocks of channels, `first` to `last` (exclusive) of the job at an address."""
    row = r.jobs_at(at)[0]
    pixel, end_pixel, block, end_block = first, last, np.int64(0), row.groups
    if row.by_blocks:
        pixel, end_pixel, block, end_block = np.int64(0), row.rows, first, last
    if not _HAS_DOT_PRODUCT and row.kind == r.GEMM_BYTE and end_pixel - pixel >= pair_tiles.HEIGHT:
        pair_gemm(at, pixel, end_pixel, block, end_block)
    else:
        _blocks(at, pixel, end_pixel, block, end_block)
