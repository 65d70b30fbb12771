"""Depthwise convolutions of both fast tiers: a line of output pixels of 16 channels at a time, of any window and stride.

A part of a window is up to 4 columns. A lane holds 4 input columns of a channel, which are multiplied at once; with a stride
of 1 parts have 3 columns, so that the same 4 serve two neighbouring pixels, with weights that are a byte apart.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import numpy as np
from llvmlite import ir

from npu.native import types as ty
from npu.native.cpu import current
from npu.native.emit import BYTES, LANES, MANY_BYTES, WORD, Emitter, choice
from npu.native.kernel import kernel
from npu.native.memory import load_i64
from sim.functional.kernels import portable
from sim.functional.kernels import rows as r
from sim.functional.kernels.stage import stage_function

COLUMNS = 8
"""Pixels of a line whose sums are in registers at a time."""
_SHORTS = ir.VectorType(ir.IntType(16), 16)


class _Columns:
    """Emits lanes of 4 input columns: from 16 bytes each, wherever they are."""

    def __init__(self, e, row):  # type: ignore[no-untyped-def]
        self.e = e
        self.padding, self.pixel, self.in_width, table = e.of_row(row, "padding_pixel", "in_pixel", "in_width", "limits")
        self.flip = e.load(BYTES, table)

    def locate(self, column, steps):  # type: ignore[no-untyped-def]
        """What all rows share, for lanes that begin `steps` columns after `column`."""
        places = [self.e.b.add(column, step) for step in steps]
        offsets = sorted({(k, j) for k in range(len(steps)) for j in range(4)})
        columns = {(k, j): self.e.offset(places[k], j) for k, j in offsets}
        return {key: (at, self.e.b.icmp_unsigned("<", at, self.in_width)) for key, at in columns.items()}

    def line(self, base, rows, k):  # type: ignore[no-untyped-def]
        """Row k of the inputs: where it starts, bytes from column to column."""
        offset = self.e.load(WORD, self.e.b.add(rows, self.e.b.shl(k, self.e.word(3))))
        is_padding = self.e.b.icmp_signed("<", offset, self.e.word(0))
        start = self.e.b.select(is_padding, self.padding, self.e.b.add(base, offset))
        return start, self.e.b.select(is_padding, self.e.word(0), self.pixel)

    def fetch(self, located, line, k):  # type: ignore[no-untyped-def]
        """Lanes k of a line."""
        columns = [value for j in range(4) for value in located[k, j]]
        return self.e.inlined("fetch_columns", LANES, _fetch_columns, self.padding, self.flip, *line, *columns)


class _DenseColumns(_Columns):
    """From 64 bytes: columns lie side by side."""

    def __init__(self, e, row):  # type: ignore[no-untyped-def]
        super().__init__(e, row)
        self.flips = e.limit(row, "flip_inputs")
        self.outside = e.b.xor(e.load(LANES, self.padding), self.flips)

        self.pixel = e.word(-1)

    def locate(self, column, steps):  # type: ignore[no-untyped-def]
        e, lanes = self.e, ir.Constant(LANES, [k // 4 for k in range(16)])
        width, located = e.splat_word(self.in_width), []
        for step in steps:
            at = e.b.add(column, step)
            inside = e.b.icmp_unsigned("<", e.b.add(e.splat_word(at), lanes), width)
            located.append((e.b.shl(at, e.word(4)), inside))
        return located

    def fetch(self, located, line, k):  # type: ignore[no-untyped-def]
        return self.e.inlined("fetch_dense", LANES, _fetch_dense, self.outside, self.flips, *line, *located[k])


def _fetch_columns(e, padding, flip, start, step, *columns):  # type: ignore[no-untyped-def]
    """A lane of 4 columns: (number, whether it is in the input) of each."""
    parts = []
    for column, is_inside in zip(columns[::2], columns[1::2], strict=True):
        address = e.b.select(is_inside, e.b.add(start, e.b.mul(column, step)), padding)
        parts.append(e.b.xor(e.load(BYTES, address), flip))
    order = ir.Constant(ir.VectorType(ir.IntType(32), 32), [side * 16 + k for k in range(16) for side in (0, 1)])
    halves = [e.b.bitcast(e.b.shuffle_vector(parts[j], parts[j + 1], order), _SHORTS) for j in (0, 2)]
    return e.b.bitcast(e.b.shuffle_vector(*halves, order), LANES)


def _fetch_dense(e, outside, flips, start, mask, distance, inside):  # type: ignore[no-untyped-def]
    loaded = e.load_masked(LANES, e.b.add(start, e.b.and_(distance, mask)), inside)
    value = e.b.select(inside, e.b.xor(loaded, flips), outside)
    gathered = e.b.shuffle_vector(value, value, ir.Constant(LANES, [4 * (k % 4) + k // 4 for k in range(16)]))
    as_bytes = e.b.bitcast(gathered, MANY_BYTES)
    order = [16 * lane + 4 * (k % 4) + k // 4 for lane in range(4) for k in range(16)]
    turned = e.b.shuffle_vector(as_bytes, as_bytes, ir.Constant(ir.VectorType(ir.IntType(32), 64), order))
    return e.b.bitcast(turned, LANES)


def _line(name, columns, prepare, dot, *, is_shared, height=None):  # type: ignore[no-untyped-def]
    """Kernel of a line of output pixels.

    `dot(emitter, total, inputs, prepared)` adds the products of the 4 unsigned bytes of each lane with the 4 signed ones of
    weights, `prepared` being `prepare(emitter, weights)`. is_shared: for a stride of 1. height: rows of a window of one part,
    whose weights stay in registers.
    """

    def emit(e, args):  # type: ignore[no-untyped-def]
        row, base, rows, weights, stage, out, tail = args
        source = columns(e, row)
        parts, part_table, rows_of_part = e.of_row(row, "segments", "segment_table", "dwords")
        width, stride, out_pixel = e.of_row(row, "width", "stride", "out_pixel")
        (bias,) = e.channels(stage, "bias")
        steps = [e.word(2 * k) for k in range(COLUMNS // 2)] if is_shared else []
        steps = steps or [e.b.mul(stride, e.word(k)) for k in range(COLUMNS)]
        taps = COLUMNS // len(steps)

        def weights_at(at):  # type: ignore[no-untyped-def]
            whole = e.load(LANES, at)
            return [prepare(e, e.b.shl(whole, e.constant(8)) if tap else whole) for tap in range(taps)]

        def over_row(totals, located, line, numbers):  # type: ignore[no-untyped-def]
            for n in range(len(steps)):
                inputs = source.fetch(located, line, n)
                for pixel in range(taps * n, taps * n + taps):
                    totals[pixel] = dot(e, totals[pixel], inputs, numbers[pixel % taps])
            return totals

        def over_parts(x, first):  # type: ignore[no-untyped-def]
            def over_part(part, carried):  # type: ignore[no-untyped-def]
                located = source.locate(e.b.add(x, e.load(WORD, e.b.add(part_table, e.b.shl(part, e.word(3))))), steps)

                def over_rows(k, carried):  # type: ignore[no-untyped-def]
                    at, *totals = carried
                    return [e.offset(at, 64), *over_row(totals, located, source.line(base, rows, k), weights_at(at))]

                return e.loop(rows_of_part, carried, over_rows)

            return e.loop(parts, [weights, *first], over_part)[1:]

        fixed = [(source.line(base, rows, e.word(k)), weights_at(e.offset(weights, 64 * k))) for k in range(height or 0)]
        only_part = e.load(WORD, part_table)

        def over_only_part(x, totals):  # type: ignore[no-untyped-def]
            located = source.locate(e.b.add(x, only_part), steps)
            for line, numbers in fixed:
                totals = over_row(totals, located, line, numbers)
            return totals

        wanted = [None if k == 0 else e.b.icmp_signed("<", e.word(k), width) for k in range(COLUMNS)]
        last = e.b.sub(width, e.word(COLUMNS))
        last = e.b.select(e.b.icmp_signed("<", last, e.word(0)), e.word(0), last)

        def over_tiles(index, carried):  # type: ignore[no-untyped-def]
            x = e.b.mul(index, e.word(COLUMNS))
            x = e.b.select(e.b.icmp_signed("<", x, last), x, last)
            totals = (over_only_part if fixed else over_parts)(e.b.mul(x, stride), [bias] * COLUMNS)
            first = e.b.add(out, e.b.mul(x, out_pixel))
            addresses = [e.b.add(first, e.b.mul(out_pixel, e.word(k))) for k in range(COLUMNS)]
            e.finish(row, [(stage, tail, totals, addresses)], wanted)
            return carried

        e.loop(e.b.lshr(e.b.add(width, e.word(COLUMNS - 1)), e.word(3)), [], over_tiles)

    return stage_function(name, 7, emit)


def _lines(name, columns, prepare, dot, height=None):  # type: ignore[no-untyped-def]
    """Kernels for a stride of more than 1, and of 1."""
    return [_line(f"{name}_{shared}", columns, prepare, dot, is_shared=shared, height=height) for shared in (False, True)]


_ways = [*_lines("portable_depthwise", _Columns, portable.prepare, portable.dot)]
if current().has_dot_product:
    for way, columns in (("vnni_depthwise", _Columns), ("vnni_depthwise_dense", _DenseColumns)):
        _ways += _lines(way, columns, lambda _e, weights: weights, Emitter.dot)
    _ways += _lines("vnni_depthwise_dense_3", _DenseColumns, lambda _e, weights: weights, Emitter.dot, height=3)
convolve_line = choice(dict(enumerate(_ways)))
"""Of the portable ones or, from 2 on, of those with 8-bit dot products, of these from 4 on for columns side by side, from 6 on
with windows of one part of 3 rows."""


@kernel(ty.void(ty.int64, ty.int64[::1], ty.boolean, ty.int64, ty.int64))
def convolve(at, bases, with_dot_product, first, last):  # type: ignore[no-untyped-def]
    """A depthwise convolution, the row at an address: the lines or groups of channels `first` to `last`."""
    row = r.row_at(at)[0]
    block, end, line, last_line = first, last, np.int64(0), row.pixels
    if row.is_by_block == 0:
        block, end, line, last_line = np.int64(0), row.blocks, first, last
    base, out_base = r.base_of(bases, row.in_region, np.int64(0)), r.base_of(bases, row.out_region, row.sums)
    way = np.int64(1 if row.stride == 1 else 0)
    if with_dot_product:
        way += 2 if row.in_pixel != 16 else (6 if row.segments == 1 and row.dwords == 3 else 4)
    for y in range(line, last_line):
        out, rows = out_base + load_i64(row.out_table + 8 * y), row.in_table + 8 * y * row.dwords
        for b in range(block, end):
            weights = row.weights + b * row.segments * row.dwords * r.WEIGHTS_BYTES
            stage, tail = row.stage + b * r.CHANNELS_BYTES, row.tail if b + 1 == row.blocks else np.int64(16)
            convolve_line(way, at, base + b * row.in_brick, rows, weights, stage, out + b * row.out_brick, tail)
