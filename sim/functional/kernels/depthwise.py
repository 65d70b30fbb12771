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
_SHARED = {1: (2, 4, (0, 1)), 2: (4, 5, (0, 2, -2))}
"""By stride: columns from lane to lane, lanes, and where pixels begin in one that they use; in others each has its own."""
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


def _line(name, columns, prepare, dot, *, shared=None, height=None, lines=1):  # type: ignore[no-untyped-def]
    """Kernel of a line of output pixels.

    `dot(emitter, total, inputs, prepared)` adds the products of the 4 unsigned bytes of each lane with the 4 signed ones of
    weights, `prepared` being `prepare(emitter, weights)`. shared: the stride, if it is one of _SHARED. height: rows of a window
    of one part, whose weights stay in registers. lines: with `height`, lines computed at a time, each one input row further.
    """

    def emit(e, args):  # type: ignore[no-untyped-def]
        row, base, rows, weights, stage, *outs, tail = args
        source = columns(e, row)
        parts, part_table, rows_of_part = e.of_row(row, "segments", "segment_table", "dwords")
        width, stride, out_pixel = e.of_row(row, "width", "stride", "out_pixel")
        (bias,) = e.channels(stage, "bias")
        distance, lanes, starts = _SHARED[shared] if shared else (0, COLUMNS, (0,))
        steps = [e.word(distance * k) if shared else e.b.mul(stride, e.word(k)) for k in range(lanes)]
        pixels = [
            [(p, d) for p in range(COLUMNS) for d in starts if (shared * p - distance * n if shared else p - n) == d]
            for n in range(lanes)
        ]

        def weights_at(at):  # type: ignore[no-untyped-def]
            """Of pixels that begin at a byte of a lane, for each of `starts`."""
            whole = e.load(LANES, at)
            moved = [e.b.shl(whole, e.constant(8 * d)) if d > 0 else e.b.lshr(whole, e.constant(-8 * d)) for d in starts]
            return {d: prepare(e, moved[k] if d else whole) for k, d in enumerate(starts)}

        def over_row(totals, located, line, used):  # type: ignore[no-untyped-def]
            """Add the products of an input row, with (line, weights) of each output line that it belongs to."""
            for n in range(len(steps)):
                inputs = source.fetch(located, line, n)
                for output, numbers in used:
                    for pixel, start in pixels[n]:
                        at = COLUMNS * output + pixel
                        totals[at] = dot(e, totals[at], inputs, numbers[start])
            return totals

        def over_parts(x, first):  # type: ignore[no-untyped-def]
            def over_part(part, carried):  # type: ignore[no-untyped-def]
                located = source.locate(e.b.add(x, e.load(WORD, e.b.add(part_table, e.b.shl(part, e.word(3))))), steps)

                def over_rows(k, carried):  # type: ignore[no-untyped-def]
                    at, *totals = carried
                    return [e.offset(at, 64), *over_row(totals, located, source.line(base, rows, k), [(0, weights_at(at))])]

                return e.loop(rows_of_part, carried, over_rows)

            return e.loop(parts, [weights, *first], over_part)[1:]

        fixed = [weights_at(e.offset(weights, 64 * k)) for k in range(height or 0)]
        last_rows = [height * line + height - 1 for line in range(1, lines)]
        inputs = [source.line(base, rows, e.word(k)) for k in (*range(height or 0), *last_rows)]
        only_part = e.load(WORD, part_table)

        def over_only_part(x, totals):  # type: ignore[no-untyped-def]
            located = source.locate(e.b.add(x, only_part), steps)
            for k, line in enumerate(inputs):
                totals = over_row(totals, located, line, [(n, fixed[k - n]) for n in range(lines) if 0 <= k - n < height])
            return totals

        wanted = [None if k == 0 else e.b.icmp_signed("<", e.word(k), width) for k in range(COLUMNS)]
        last = e.b.sub(width, e.word(COLUMNS))
        last = e.b.select(e.b.icmp_signed("<", last, e.word(0)), e.word(0), last)

        def over_tiles(index, carried):  # type: ignore[no-untyped-def]
            x = e.b.mul(index, e.word(COLUMNS))
            x = e.b.select(e.b.icmp_signed("<", x, last), x, last)
            totals = (over_only_part if fixed else over_parts)(e.b.mul(x, stride), [bias] * (COLUMNS * lines))
            groups = []
            for line in range(lines):
                first = e.b.add(outs[line], e.b.mul(x, out_pixel))
                addresses = [e.b.add(first, e.b.mul(out_pixel, e.word(k))) for k in range(COLUMNS)]
                groups.append((stage, tail, totals[COLUMNS * line : COLUMNS * (line + 1)], addresses))
            e.finish(row, groups, wanted)
            return carried

        e.loop(e.b.lshr(e.b.add(width, e.word(COLUMNS - 1)), e.word(3)), [], over_tiles)

    return stage_function(name, 8, emit)


def _lines(name, columns, prepare, dot):  # type: ignore[no-untyped-def]
    """Kernels for any stride, and for a stride of 1."""
    return [_line(f"{name}_strided", columns, prepare, dot), _line(name, columns, prepare, dot, shared=1)]


_ways = [*_lines("portable_depthwise", _Columns, portable.prepare, portable.dot)]
if current().has_dot_product:
    for way, columns in (("vnni_depthwise", _Columns), ("vnni_depthwise_dense", _DenseColumns)):
        _ways += _lines(way, columns, lambda _e, weights: weights, Emitter.dot)
    for shared, lines in ((2, 1), (1, 2)):
        way = f"vnni_depthwise_dense_3_{shared}"
        _ways.append(_line(way, _DenseColumns, lambda _e, weights: weights, Emitter.dot, shared=shared, height=3, lines=lines))
convolve_line = choice(dict(enumerate(_ways)))
"""Of the portable ones or, from 2 on, of those with 8-bit dot products, of these from 4 on for columns side by side, from 6 on
with windows of one part of 3 rows: 6 with a stride of 2, 7 computes two lines."""


@kernel(ty.void(ty.int64, ty.int64[::1], ty.boolean, ty.int64, ty.int64))
def convolve(at, bases, with_dot_product, first, last):  # type: ignore[no-untyped-def]
    """A depthwise convolution, the row at an address: the lines or groups of channels `first` to `last`."""
    row = r.row_at(at)[0]
    block, end, line, last_line = first, last, np.int64(0), row.pixels
    if row.is_by_block == 0:
        block, end, line, last_line = np.int64(0), row.blocks, first, last
    base, out_base = r.base_of(bases, row.in_region, np.int64(0)), r.base_of(bases, row.out_region, row.sums)
    best = np.int64(1 if row.stride == 1 else 0)
    if with_dot_product:
        best += 2 if row.in_pixel != 16 else (6 if row.segments == 1 and row.dwords == 3 and row.stride <= 2 else 4)
    y = line
    while y < last_line:
        out, rows, way, step = out_base + load_i64(row.out_table + 8 * y), row.in_table + 8 * y * row.dwords, best, np.int64(1)
        second = out
        if way == 7:
            way = np.int64(5)
            if y + 1 < last_line and load_i64(rows + 8) == load_i64(rows + 24) and load_i64(rows + 16) == load_i64(rows + 32):
                way, step, second = best, np.int64(2), out_base + load_i64(row.out_table + 8 * y + 8)
        for b in range(block, end):
            weights = row.weights + b * row.segments * row.dwords * r.WEIGHTS_BYTES
            stage, tail = row.stage + b * r.CHANNELS_BYTES, row.tail if b + 1 == row.blocks else np.int64(16)
            brick = b * row.out_brick
            convolve_line(way, at, base + b * row.in_brick, rows, weights, stage, out + brick, second + brick, tail)
        y += step
