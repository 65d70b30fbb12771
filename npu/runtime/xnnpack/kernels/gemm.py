"""Matrix products of indirect rows with packed weights: convolutions and fully connected layers.

A tile holds `height` pixels by `width` blocks of 16 channels in registers. Each output is the sum over stretches, then
elements, in that order whatever the tile, so neither tiling nor threads change a float result.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.emit import BYTES, FLOAT, FLOATS, INT, LANES, WORD, choice, function
from npu.native.kernel import kernel
from npu.runtime.xnnpack.kernels import row as r

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
            start = [e.b.add(start[n], addend) for addend in added for n in range(width)]
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
                e.store_first(finish(totals[k * width + n]), target, tail if n == width - 1 else e.word(16))

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


_FLOAT, _BYTE, _UNSIGNED, _SUM = range(4)
_MODES = {_FLOAT: "float", _BYTE: "byte", _UNSIGNED: "unsigned", _SUM: "sum"}
_HEIGHTS = (14, 12, 8, 6)
"""Pixels of a tile of one to four blocks; the others have one pixel."""


def _tiles():  # type: ignore[no-untyped-def]
    """By number: eight per mode, those of one pixel first."""
    made = {}
    for mode, name in _MODES.items():
        for width, height in enumerate(_HEIGHTS, 1):
            for is_tall in (False, True):
                if is_tall if mode == _SUM else mode == _UNSIGNED and (width > 2 or not is_tall):
                    continue
                emit = _emit_tile(height if is_tall else 1, width, name)
                number = 8 * mode + 4 * is_tall + width - 1
                made[number] = function(f"gemm_{number}", _ARGUMENTS, emit)
    return made


_multiply = choice(_tiles())


@kernel(ty.int64(ty.int64))
def _tile_width(left):  # type: ignore[no-untyped-def]
    """How many blocks of channels to take at once, so that the last tile is not narrow."""
    if left <= 4:
        return left
    if (left % 4 != 0 and left % 3 == 0) or left == 5:
        return np.int64(3)
    return np.int64(4)


@kernel(ty.void(r.JOB_ROW, ty.int64, ty.int64))
def gemm(row, first, last):  # type: ignore[no-untyped-def]
    """The output pixels `first` to `last` (exclusive) of a job: float, scaled 8-bit, or sums without scaling (biases only)."""
    segments, length, step, zp = row.segments, row.length, row.weight_step, row.zero_point
    out_step, sign, low, high = row.out_step, row.sign, row.low, row.high
    is_byte, is_sum = row.kind == r.GEMM_BYTE, row.kind == r.GEMM_SUM
    stage_bytes = np.int64(r.BYTE_STAGE_BYTES if is_byte else r.FLOAT_STAGE_BYTES)
    out_bytes, gap, done = np.int64(16 if is_byte else 64), row.input_step, np.int64(0)
    while done < row.groups:
        width = _tile_width(row.groups - done)
        height = np.int64(_HEIGHTS[width - 1])
        mode = _SUM if is_sum else _BYTE if is_byte else _FLOAT
        number = np.int64(8 * mode + width - 1)
        if is_sum or last - first < height:
            height = np.int64(1)
        elif is_byte and sign == 0 and width <= 2:
            number = np.int64(8 * _UNSIGNED + 4 + width - 1)
        else:
            number += np.int64(4)
        tail = row.tail if done + width == row.groups else np.int64(16)
        w, s = row.weights + done * step, row.stage + done * stage_bytes
        m = first
        while m < last:
            if m + height > last:
                m = last - height
            t, o = row.table + m * segments * 8, row.out + m * out_step + done * out_bytes
            x = row.input + m * gap
            _multiply(number, t, segments, length, w, step, s, o, out_step, tail, sign, zp, low, high, x, gap)
            m += height
        done += width
