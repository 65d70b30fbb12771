"""Depthwise convolutions through an indirection table, 16 channels at a time.

Taps are summed in the order of the filter. 8-bit taps are taken four at a time: their bytes are put side by side in a lane.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.emit import BYTES, FLOATS, LANES, WORD, choice, function
from npu.native.kernel import kernel
from npu.runtime.xnnpack.kernels import row as r

_ARGUMENTS = 13


def _emit_float(taps):  # type: ignore[no-untyped-def]
    """`taps` None: a number known only when it runs."""

    def emit(e, args):  # type: ignore[no-untyped-def]
        table, count, channel, weights, stage, out, out_step, pixels, tail, _, _, low, high = args
        bias = e.load(FLOATS, stage)
        low, high = e.splat_float(low), e.splat_float(high)
        known = [e.load(FLOATS, weights, 64 * k) for k in range(taps or 0)]
        step = e.b.mul(count, e.word(8))

        def tap(pointers, k, vector, total):  # type: ignore[no-untyped-def]
            pixel = e.load(FLOATS, e.b.add(e.load(WORD, e.b.add(pointers, k)), channel))
            return e.multiply_add(pixel, vector, total)

        def over_pixels(index, carried):  # type: ignore[no-untyped-def]
            pointers, target = carried
            total = bias
            if taps is not None:
                for k in range(taps):
                    total = tap(pointers, e.word(8 * k), known[k], total)
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
        table, count, channel, weights, stage, out, out_step, pixels, tail, sign, zero_point, low, high = args
        bias, *factors = (e.load(LANES, stage, 64 * j) for j in range(4))
        sign, zero_point, low, high = (e.splat_word(value) for value in (sign, zero_point, low, high))
        flip = e.constant(0) if centred else sign
        begin = [bias, e.constant(0)] if centred else [bias]
        groups = -(-(taps or 0) // 4)
        known = [e.load(LANES, weights, 64 * k) for k in range(groups)]
        step = e.b.mul(count, e.word(8))

        def four(pointers, at, many):  # type: ignore[no-untyped-def]
            addresses = [e.b.add(e.load(WORD, e.b.add(pointers, at), 8 * k), channel) for k in range(many)]
            if many == 1:
                return e.b.xor(e.b.zext(e.load(BYTES, addresses[0]), LANES), flip)
            return e.b.xor(e.interleave([e.load(BYTES, address) for address in addresses]), flip)

        def summed(totals, value, vector):  # type: ignore[no-untyped-def]
            sums = [e.dot(totals[0], value, vector)]
            return [*sums, e.dot(totals[1], value, sign)] if centred else sums

        def over_pixels(index, carried):  # type: ignore[no-untyped-def]
            pointers, target = carried
            totals = begin
            if taps is not None:
                for g in range(groups):
                    totals = summed(totals, four(pointers, e.word(32 * g), min(4, taps - 4 * g)), known[g])
            else:

                def over_groups(g, values):  # type: ignore[no-untyped-def]
                    vector = e.load(LANES, e.b.add(weights, e.b.mul(g, e.word(64))))
                    return summed(values, four(pointers, e.b.mul(g, e.word(32)), 4), vector)

                totals = e.loop(e.b.lshr(count, e.word(2)), begin, over_groups)
            total = e.b.sub(*totals) if centred else totals[0]
            value = e.clamp(e.b.add(e.rescale(total, factors), zero_point), low, high)
            e.store_first(e.b.trunc(value, BYTES), target, tail)
            return [e.b.add(pointers, step), e.b.add(target, out_step)]

        e.loop(pixels, [table, out], over_pixels)

    return emit


_FLOAT, _BYTE, _CENTRED = range(3)
_BODIES = {
    2 * mode + (taps is not None): _emit_float(taps) if mode == _FLOAT else _emit_byte(taps, centred=mode == _CENTRED)
    for mode in (_FLOAT, _BYTE, _CENTRED)
    for taps in (None, 9)
}
"""By number; the odd ones are for nine taps."""


_convolve = choice({key: function(f"depthwise_{key}", _ARGUMENTS, body) for key, body in _BODIES.items()})


@kernel(ty.void(r.JOB_ROW, ty.int64, ty.int64))
def depthwise(row, first, last):  # type: ignore[no-untyped-def]
    """The output rows `first` to `last` (exclusive) of a job; a table row of 9 8-bit taps has 12 entries."""
    taps, width, out_step = row.segments, row.width, row.out_step
    sign, zp, low, high = row.sign, row.zero_point, row.low, row.high
    is_byte = row.kind == r.DEPTHWISE_BYTE
    mode = _FLOAT if not is_byte else _CENTRED if row.centred != 0 else _BYTE
    number = np.int64(2 * mode + (row.length == 9))
    stage_bytes = np.int64(r.BYTE_STAGE_BYTES if is_byte else r.FLOAT_STAGE_BYTES)
    block_bytes = np.int64(16 if is_byte else 64)
    for y in range(first, last):
        t, o = row.table + y * width * taps * 8, row.out + y * width * out_step
        for g in range(row.groups):
            tail = row.tail if g + 1 == row.groups else np.int64(16)
            w, s, at = row.weights + g * row.weight_step, row.stage + g * stage_bytes, g * block_bytes
            _convolve(number, t, taps, at, w, s, o + at, out_step, width, tail, sign, zp, low, high)
