"""Maxima of windows, 16 channels at a time, through an indirection table. Not-a-number loses against numbers."""

# mypy: allow-untyped-calls

from __future__ import annotations

import numpy as np
from llvmlite import ir

from npu.native import types as ty
from npu.native.emit import BYTE, BYTES, FLOATS, WORD, choice
from npu.native.kernel import kernel
from npu.runtime.xnnpack.kernels import row as r
from npu.runtime.xnnpack.kernels.job_code import job_function

_LOWEST = float(np.finfo(np.float32).min)


def _emit(kind):  # type: ignore[no-untyped-def]
    is_float = kind == r.MAX_FLOAT
    lanes, size, lowest = (FLOATS, 4, _LOWEST) if is_float else (BYTES, 1, -128 if kind == r.MAX_SIGNED else 0)

    def emit(e, args):  # type: ignore[no-untyped-def]
        row, first, last = args
        table, segments, out, out_step, channels, *limits = e.of_row(
            row, "table", "segments", "out", "out_step", "width", "low", "high"
        )
        low, high = (e.splat_float(limit) if is_float else e.splat(e.b.trunc(limit, BYTE)) for limit in limits)

        def is_less(a, b):  # type: ignore[no-untyped-def]
            if is_float:
                return e.b.fcmp_ordered("<", a, b)
            return e.b.icmp_signed("<", a, b) if kind == r.MAX_SIGNED else e.b.icmp_unsigned("<", a, b)

        def block(taps, target, at, load, count):  # type: ignore[no-untyped-def]
            def over_taps(index, carried):  # type: ignore[no-untyped-def]
                value = load(e.b.add(e.load(WORD, e.b.add(taps, e.b.shl(index, e.word(3)))), at))
                return [e.b.select(is_less(carried[0], value), value, carried[0])]

            total = e.loop(segments, [ir.Constant(lanes, [lowest] * 16)], over_taps)[0]
            total = e.b.select(is_less(total, low), low, total)
            e.store_first(e.b.select(is_less(high, total), high, total), e.b.add(target, at), count)

        def over_pixels(index, carried):  # type: ignore[no-untyped-def]
            pixel = e.b.add(first, index)
            taps = e.b.add(table, e.b.mul(e.b.mul(pixel, segments), e.word(8)))
            target = e.b.add(out, e.b.mul(pixel, out_step))
            whole, rest = e.b.ashr(channels, e.word(4)), e.b.and_(channels, e.word(15))

            def over_blocks(k, carried):  # type: ignore[no-untyped-def]
                block(taps, target, e.b.mul(k, e.word(16 * size)), lambda address: e.load(lanes, address), e.word(16))
                return []

            e.loop(whole, [], over_blocks)
            with e.b.if_then(e.b.icmp_signed(">", rest, e.word(0))):
                at = e.b.mul(whole, e.word(16 * size))
                block(taps, target, at, lambda address: e.load_first(lanes, address, rest), rest)
            return []

        e.loop(e.b.sub(last, first), [], over_pixels)

    return emit


_KINDS = (r.MAX_FLOAT, r.MAX_SIGNED, r.MAX_UNSIGNED)
_maxima = choice({kind: job_function(f"maxima_{kind}", 3, _emit(kind)) for kind in _KINDS})


@kernel(ty.void(ty.int64, ty.int64, ty.int64))
def maxima(at, first, last):  # type: ignore[no-untyped-def]
    """The output pixels `first` to `last` of the job at an address; `segments` is the number of taps, `width` of channels."""
    _maxima(r.jobs_at(at)[0].kind, at, first, last)
