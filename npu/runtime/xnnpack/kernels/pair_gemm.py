"""Matrix products of bytes as pairs of 16-bit numbers, for CPUs without instructions for four products of bytes."""

# mypy: allow-untyped-calls

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.emit import BYTE, WORD, choice
from npu.native.kernel import keep, kernel
from npu.numerics import pair_code
from npu.numerics.pair_tiles import HEIGHT, PANEL_BYTES
from npu.runtime.xnnpack.kernels import row as r
from npu.runtime.xnnpack.kernels.job_code import job_function

_HALF = 8


def _emit_collect(e, args):  # type: ignore[no-untyped-def]
    row, first, count, target = args
    table, segments, length, sign = e.of_row(row, "table", "segments", "length", "sign")
    pitch = e.b.shl(segments, e.word(3))

    def pixel_of(index):  # type: ignore[no-untyped-def]
        return e.b.add(table, e.b.mul(pitch, e.b.add(first, index)))

    def address_of(pixel, segment):  # type: ignore[no-untyped-def]
        return e.load(WORD, e.b.add(pixel, e.b.shl(segment, e.word(3))))

    flips = lambda kind: e.splat(e.b.trunc(sign, BYTE), kind.count)  # noqa: E731
    pair_code.collect(e, target, count, segments, length, pixel_of, address_of, flips, is_signed=False)


_collect = job_function("pair_collect", 4, _emit_collect)
_widen = job_function("pair_widen", 3, pair_code.widen)


def _tile(height, channels):  # type: ignore[no-untyped-def]
    """Kernel of a block of 16 channels, of which so many have sums, `height` collected pixels at a time."""

    def emit(e, args):  # type: ignore[no-untyped-def]
        row, panel, weights, stage, out, tail, first, count = args
        segments, length, out_step = e.of_row(row, "segments", "length", "out_step")
        (bias,) = e.channels(stage, "bias")

        def finish(pixel, totals):  # type: ignore[no-untyped-def]
            targets = [e.b.add(out, e.b.mul(out_step, e.b.add(first, e.offset(pixel, k)))) for k in range(height)]
            e.finish(row, [(stage, tail, totals, targets)])

        dwords, start = (
            e.b.mul(segments, length),
            lambda pixel: e.moved_biases(row, [bias] * height, e.b.add(first, pixel), height),
        )
        pair_code.multiply(e, height, 1, panel, weights, dwords, count, start, finish, wide_channels=channels)

    return job_function(f"pair_tile_{height}_{channels}", 8, emit)


_multiply = choice({10 * height + channels // _HALF: _tile(height, channels) for height in (1, HEIGHT) for channels in (8, 16)})
"""By ten times the pixels of a tile, plus one or two halves of a block."""


@kernel(ty.void(ty.int64, ty.int64, ty.int64, ty.int64, ty.int64))
def pair_gemm(at, first, last, done, end):  # type: ignore[no-untyped-def]
    """The blocks of channels `done` to `end` of the output pixels `first` to `last`, at least `HEIGHT`, of the job at an
    address."""
    row = r.jobs_at(at)[0]
    dwords = row.segments * row.length
    pitch = 8 * dwords
    most = min(last - first, max(np.int64(1), PANEL_BYTES // (HEIGHT * pitch)) * HEIGHT)
    buffer = np.empty((most + 16) * pitch, np.uint8)
    panel = np.int64(buffer.ctypes.data)
    wide = panel + most * pitch
    for start in range(first, last, most):
        pixels = min(most, last - start)
        _collect(at, np.int64(start), pixels, panel)
        height = np.int64(HEIGHT if pixels >= HEIGHT else 1)
        for block in range(done, end):
            tail = row.tail if block + 1 == row.groups else np.int64(16)
            stage, out = row.stage + block * r.CHANNELS_BYTES, row.out + 16 * block
            _widen(row.weights + block * row.weight_step, dwords, wide)
            number = 10 * height + (1 if tail <= _HALF else 2)
            _multiply(number, at, panel, wide, stage, out, tail, np.int64(start), pixels)
    keep(buffer)
