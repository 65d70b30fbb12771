"""Depthwise convolutions through an indirection table, 16 channels at a time.

Taps are summed in the order of the filter; of nine, the table has the columns of a filter of 3 by 3 one after another, so that
pixels can share columns. 8-bit taps are taken four at a time: their bytes are put side by side in a lane. Of
filters of 3 by 3 with a stride of 1, the four are the columns of a row for two neighbouring pixels, each with one weight of 0.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import itertools

import numpy as np
from llvmlite import ir

from npu.native import types as ty
from npu.native.cpu import current
from npu.native.emit import BYTES, FLOAT, FLOATS, LANES, WORD, choice
from npu.native.kernel import kernel
from npu.runtime.xnnpack.kernels import row as r
from npu.runtime.xnnpack.kernels.job_code import TapEmitter, job_function

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


def _emit_float_columns(stride):  # type: ignore[no-untyped-def]
    """Nine taps, whose pixels share columns: some pixels at a time, at least as many, of which the last may come again.

    Channels are cut into vectors of the CPU, so that its registers hold the weights and the sums.
    """
    lanes = current().lanes
    columns = stride * (_COLUMNS - 1) + _SIDE
    kind = ir.VectorType(FLOAT, lanes)

    def emit(e, args):  # type: ignore[no-untyped-def]
        row, table, channel, weights, stage, out, pixels, tail = args
        step, out_step, *limits = e.of_row(row, "pixel_step", "out_step", "low", "high")
        limits = [e.splat_float(value, lanes) for value in limits]

        def sums(pointers, place, known, bias):  # type: ignore[no-untyped-def]
            totals = [bias] * _COLUMNS
            for y, column in itertools.product(range(_SIDE), range(columns)):
                inputs = e.load(kind, e.b.add(e.load(WORD, pointers, 8 * (_SIDE * column + y)), place))
                for x in range(_SIDE):
                    pixel, between = divmod(column - x, stride)
                    if 0 <= pixel < _COLUMNS and not between:
                        totals[pixel] = e.multiply_add(inputs, known[_SIDE * y + x], totals[pixel])
            return totals

        def over_tiles(index, carried):  # type: ignore[no-untyped-def]
            pixel, end = e.b.mul(index, e.word(_COLUMNS)), e.offset(pixels, -_COLUMNS)
            pixel = e.b.select(e.b.icmp_signed("<", pixel, end), pixel, end)
            pointers = e.b.add(table, e.b.mul(step, pixel))
            targets = [e.b.add(out, e.b.mul(out_step, e.offset(pixel, k))) for k in range(_COLUMNS)]
            for first in range(0, 16, lanes):
                with e.b.if_then(e.b.icmp_signed(">", tail, e.word(first))):
                    known = [e.load(kind, weights, 64 * k + 4 * first) for k in range(_SIDE * _SIDE)]
                    totals = sums(pointers, e.offset(channel, 4 * first), known, e.load(kind, stage, 4 * first))
                    for total, target in zip(totals, targets, strict=True):
                        e.store_first(e.clamp_float(total, *limits), e.offset(target, 4 * first), e.offset(tail, -first))
            return carried

        e.loop(e.b.lshr(e.offset(pixels, _COLUMNS - 1), e.word(2)), [], over_tiles)

    return emit


def _emit_byte(taps, mode):  # type: ignore[no-untyped-def]
    """`taps` None: a number known only when it runs, which the packing has rounded up to a multiple of four.

    `_CENTRED`: `sign` holds four times the zero point of the weights, and inputs are unsigned as they are. `_SIGNED`: so are
    inputs, and not made unsigned by `sign`; biases are those of unsigned ones.
    """
    groups, centred = -(-(taps or 0) // 4), mode == _CENTRED

    def emit(e, args):  # type: ignore[no-untyped-def]
        row, table, channel, weights, stage, out, pixels, tail = args
        count, step, out_step, sign = e.of_row(row, "segments", "pixel_step", "out_step", "sign")
        (bias,), sign = e.channels(stage, "bias"), e.splat_word(sign)
        flip = e.constant(0) if centred else sign
        known = [e.weights(e.load(LANES, weights, 64 * k)) for k in range(groups)]

        def summed(totals, values, factors):  # type: ignore[no-untyped-def]
            sums = e.add_products(totals[:parts], values, factors)
            return [*sums, *e.add_products(totals[parts:], values, e.weights(sign))] if centred else sums

        def over_groups(totals, inputs_of):  # type: ignore[no-untyped-def]
            """Add the products of all groups of four taps."""
            for g, factors in enumerate(known):
                totals = summed(totals, inputs_of(e.word(g), min(4, taps - 4 * g)), factors)

            def body(g, values):  # type: ignore[no-untyped-def]
                factors = e.weights(e.load(LANES, e.b.add(weights, e.b.shl(g, e.word(6)))))
                return summed(values, inputs_of(g, 4), factors)

            return totals if known else e.loop(e.b.lshr(count, e.word(2)), totals, body)

        begin = e.parted(bias)
        parts = len(begin)
        if centred:
            begin += e.parted(e.constant(0))
        zero = ir.Constant(BYTES, None)
        if mode == _SIGNED:  # biases are those of inputs that are 128 more
            begin = over_groups(begin, lambda g, several: e.inputs([zero] * several, flip, is_signed=False))

        def total_of(pointers):  # type: ignore[no-untyped-def]
            def inputs_of(g, several):  # type: ignore[no-untyped-def]
                at = pointers if known else e.b.add(pointers, e.b.shl(g, e.word(5)))
                places = [_place(4 * g.constant + k) if known else 8 * k for k in range(several)]
                columns = [e.load(BYTES, e.b.add(e.load(WORD, at, place), channel)) for place in places]
                return e.inputs(columns, flip, is_signed=mode == _SIGNED)

            totals = over_groups(begin, inputs_of)
            whole = e.joined(totals[:parts])
            return e.b.sub(whole, e.joined(totals[parts:])) if centred else whole

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


_FLOAT, _BYTE, _CENTRED, _SIGNED, _PAIRS = range(5)
_HAS_DOT_PRODUCT = current().has_dot_product
_SHARED_COLUMNS, _STRIDES = 10, (1, 2)
"""Kernels of floats whose pixels share columns, by their stride."""
_BODIES = {
    2 * mode + (taps is not None): _emit_float(taps) if mode == _FLOAT else _emit_byte(taps, mode)
    for mode in (_FLOAT, _BYTE, _CENTRED, *(() if _HAS_DOT_PRODUCT else (_SIGNED,)))
    for taps in (None, 9)
}
if _HAS_DOT_PRODUCT:
    _BODIES[2 * _PAIRS] = _emit_row_pairs
_BODIES |= {_SHARED_COLUMNS + stride: _emit_float_columns(stride) for stride in _STRIDES}
"""By number; the odd ones are for nine taps."""


_convolve = choice({key: job_function(f"depthwise_{key}", _ARGUMENTS, body, TapEmitter) for key, body in _BODIES.items()})


@kernel(ty.void(ty.int64, ty.int64, ty.int64))
def depthwise(at, first, last):  # type: ignore[no-untyped-def]
    """The output rows, or `by_blocks` the blocks of channels, `first` to `last` (exclusive) of the job at an address."""
    row = r.jobs_at(at)[0]
    top, bottom, left, right = first, last, np.int64(0), row.groups
    if row.by_blocks:
        top, bottom, left, right = np.int64(0), row.rows, first, last
    width, is_byte = row.width, row.kind == r.DEPTHWISE_BYTE
    mode = _FLOAT if not is_byte else _CENTRED if row.centred != 0 else _BYTE
    if not _HAS_DOT_PRODUCT and mode == _BYTE and row.sign != 0:
        mode = _SIGNED
    number = np.int64(2 * mode + (row.length == 9))
    if row.is_by_rows != 0:
        number = np.int64(2 * _PAIRS if width >= _COLUMNS else 2 * _BYTE)
    if mode == _FLOAT and row.length == 9 and width >= _COLUMNS and row.pixel_step <= 8 * _SIDE * _STRIDES[-1]:
        number = _SHARED_COLUMNS + row.pixel_step // (8 * _SIDE)
    stage_bytes = np.int64(r.CHANNELS_BYTES if is_byte else r.FLOAT_STAGE_BYTES)
    block_bytes = np.int64(16 if is_byte else 64)
    for y in range(top, bottom):
        t, o = row.table + y * row.line_step, row.out + y * width * row.out_step
        for g in range(left, right):
            tail = row.tail if g + 1 == row.groups else np.int64(16)
            w, s, channel = row.weights + g * row.weight_step, row.stage + g * stage_bytes, g * block_bytes
            _convolve(number, at, t, channel, w, s, o + channel, width, tail)
