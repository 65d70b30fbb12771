"""Depthwise convolutions through an indirection table, 16 channels at a time.

Taps are summed in the order of the filter; of nine, the table has the columns of a filter of 3 by 3 one after another, so that
pixels can share columns. 8-bit taps are taken four at a time: their bytes are put side by side in a lane. Of
filters of 3 by 3 with a stride of 1, the four are the columns of a row for two neighbouring pixels, each with one weight of 0.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.emit import BYTES, FLOATS, LANES, WORD, choice
from npu.native.kernel import kernel
from npu.runtime.xnnpack.kernels import row as r
from npu.runtime.xnnpack.kernels.job_code import job_function

_ARGUMENTS = 8
_COLUMNS = 4
"""Pixels whose bytes are packed together."""
_SIDE = 3


def _place(tap):  # type: ignore[no-untyped-def]
    """Where the table has a tap of nine, in bytes."""
    return 8 * r.COLUMN_BY_COLUMN[tap]


def _emit_float(taps):  # type: ignore[no-untyped-def]
    """`taps` None: a number known only when it runs."""

    def emit(e, args):  # type: ignore[no-untyped-def]
        row, table, channel, weights, stage, out, pixels, tail = args
        count, step, out_step, low, high = e.of_row(row, "segments", "pixel_step", "out_step", "low", "high")
        bias, low, high = e.load(FLOATS, stage), e.splat_float(low), e.splat_float(high)
        known = [e.load(FLOATS, weights, 64 * k) for k in range(taps or 0)]

        def tap(pointers, k, vector, total):  # type: ignore[no-untyped-def]
            pixel = e.load(FLOATS, e.b.add(e.load(WORD, e.b.add(pointers, k)), channel))
            return e.multiply_add(pixel, vector, total)

        def over_pixels(index, carried):  # type: ignore[no-untyped-def]
            pointers, target = carried
            total = bias
            if taps is not None:
                for k in range(taps):
                    total = tap(pointers, e.word(_place(k)), known[k], total)
            else:

                def over_taps(k, values):  # type: ignore[no-untyped-def]
                    vector = e.load(FLOATS, e.b.add(weights, e.b.mul(k, e.word(64))))
                    return [tap(pointers, e.b.mul(k, e.word(8)), vector, values[0])]

                total = e.loop(count, [bias], over_taps)[0]
            e.store_first(e.clamp_float(total, low, high), target, tail)
            return [e.b.add(pointers, step), e.b.add(target, out_step)]

        e.loop(pixels, [table, out], over_pixels)

    return emit


def _emit_byte(taps, *, centred):  # type: ignore[no-untyped-def]
    """`taps` None: a number known only when it runs, which the packing has rounded up to a multiple of four.

    `centred`: `sign` holds four times the zero point of the weights, and inputs are unsigned as they are.
    """

    def emit(e, args):  # type: ignore[no-untyped-def]
        row, table, channel, weights, stage, out, pixels, tail = args
        count, step, out_step, sign = e.of_row(row, "segments", "pixel_step", "out_step", "sign")
        (bias,), sign = e.channels(stage, "bias"), e.splat_word(sign)
        flip = e.constant(0) if centred else sign
        begin = [bias, e.constant(0)] if centred else [bias]
        groups = -(-(taps or 0) // 4)
        known = [e.load(LANES, weights, 64 * k) for k in range(groups)]

        def four(pointers, places):  # type: ignore[no-untyped-def]
            addresses = [e.b.add(e.load(WORD, pointers, place), channel) for place in places]
            if len(places) == 1:
                return e.b.xor(e.b.zext(e.load(BYTES, addresses[0]), LANES), flip)
            return e.b.xor(e.interleave([e.load(BYTES, address) for address in addresses]), flip)

        def summed(totals, value, vector):  # type: ignore[no-untyped-def]
            sums = [e.dot(totals[0], value, vector)]
            return [*sums, e.dot(totals[1], value, sign)] if centred else sums

        def total_of(pointers):  # type: ignore[no-untyped-def]
            totals = begin
            if taps is not None:
                for g in range(groups):
                    places = [_place(tap) for tap in range(4 * g, min(4 * g + 4, taps))]
                    totals = summed(totals, four(pointers, places), known[g])
            else:

                def over_groups(g, values):  # type: ignore[no-untyped-def]
                    vector = e.load(LANES, e.b.add(weights, e.b.mul(g, e.word(64))))
                    return summed(values, four(e.b.add(pointers, e.b.mul(g, e.word(32))), range(0, 32, 8)), vector)

                totals = e.loop(e.b.lshr(count, e.word(2)), begin, over_groups)
            return e.b.sub(*totals) if centred else totals[0]

        def over_tiles(many):  # type: ignore[no-untyped-def]
            def body(index, carried):  # type: ignore[no-untyped-def]
                pointers, target = carried
                totals = [total_of(e.b.add(pointers, e.b.mul(step, e.word(k)))) for k in range(many)]
                e.finish(row, [(stage, tail, totals, [e.b.add(target, e.b.mul(out_step, e.word(k))) for k in range(many)])])
                return [e.b.add(pointers, e.b.mul(step, e.word(many))), e.b.add(target, e.b.mul(out_step, e.word(many)))]

            return body

        after = e.loop(e.b.lshr(pixels, e.word(2)), [table, out], over_tiles(_COLUMNS)) if taps is not None else [table, out]
        rest = e.b.and_(pixels, e.word(_COLUMNS - 1)) if taps is not None else pixels
        e.loop(rest, after, over_tiles(1))

    return emit


def _emit_row_pairs(e, args):  # type: ignore[no-untyped-def]
    """A filter of 3 by 3 with a stride of 1: four pixels at a time, of which the last four may come again; at least four.

    The table has one column more than the filters of a row of pixels.
    """
    row, table, channel, weights, stage, out, pixels, tail = args
    step, out_step, sign = e.of_row(row, "pixel_step", "out_step", "sign")
    (bias,), sign = e.channels(stage, "bias"), e.splat_word(sign)
    first = [e.load(LANES, weights, 64 * k) for k in range(3)]
    second = [e.b.shl(vector, e.constant(8)) for vector in first]

    def over_tiles(index, carried):  # type: ignore[no-untyped-def]
        pixel, end = e.b.mul(index, e.word(_COLUMNS)), e.offset(pixels, -_COLUMNS)
        pixel, totals = e.b.select(e.b.icmp_signed("<", pixel, end), pixel, end), []
        for pair in range(0, _COLUMNS, 2):
            pointers = e.b.add(table, e.b.mul(step, e.offset(pixel, pair)))
            left = right = bias
            for k in range(_SIDE):
                places = [e.b.add(e.load(WORD, pointers, 8 * (_SIDE * column + k)), channel) for column in range(4)]
                value = e.b.xor(e.interleave([e.load(BYTES, place) for place in places]), sign)
                left, right = e.dot(left, value, first[k]), e.dot(right, value, second[k])
            totals += [left, right]
        targets = [e.b.add(out, e.b.mul(out_step, e.offset(pixel, k))) for k in range(_COLUMNS)]
        e.finish(row, [(stage, tail, totals, targets)])
        return carried

    e.loop(e.b.lshr(e.offset(pixels, _COLUMNS - 1), e.word(2)), [], over_tiles)


_FLOAT, _BYTE, _CENTRED, _PAIRS = range(4)
_BODIES = {
    2 * mode + (taps is not None): _emit_float(taps) if mode == _FLOAT else _emit_byte(taps, centred=mode == _CENTRED)
    for mode in (_FLOAT, _BYTE, _CENTRED)
    for taps in (None, 9)
} | {2 * _PAIRS: _emit_row_pairs}
"""By number; the odd ones are for nine taps."""


_convolve = choice({key: job_function(f"depthwise_{key}", _ARGUMENTS, body) for key, body in _BODIES.items()})


@kernel(ty.void(ty.int64, ty.int64, ty.int64))
def depthwise(at, first, last):  # type: ignore[no-untyped-def]
    """The output rows, or `by_blocks` the blocks of channels, `first` to `last` (exclusive) of the job at an address."""
    row = r.jobs_at(at)[0]
    top, bottom, left, right = first, last, np.int64(0), row.groups
    if row.by_blocks:
        top, bottom, left, right = np.int64(0), row.rows, first, last
    width, is_byte = row.width, row.kind == r.DEPTHWISE_BYTE
    mode = _FLOAT if not is_byte else _CENTRED if row.centred != 0 else _BYTE
    number = np.int64(2 * mode + (row.length == 9))
    if row.is_by_rows != 0:
        number = np.int64(2 * _PAIRS if width >= _COLUMNS else 2 * _BYTE)
    stage_bytes = np.int64(r.CHANNELS_BYTES if is_byte else r.FLOAT_STAGE_BYTES)
    block_bytes = np.int64(16 if is_byte else 64)
    for y in range(top, bottom):
        t, o = row.table + y * row.line_step, row.out + y * width * row.out_step
        for g in range(left, right):
            tail = row.tail if g + 1 == row.groups else np.int64(16)
            w, s, channel = row.weights + g * row.weight_step, row.stage + g * stage_bytes, g * block_bytes
            _convolve(number, at, t, channel, w, s, o + channel, width, tail)
