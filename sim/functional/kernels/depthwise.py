"""Depthwise convolutions of both fast tiers: a line of output pixels of 16 channels at a time, of any window and stride.

A part of a window is up to 4 columns, with a stride of 1 up to 3. A lane holds neighbouring input columns of a channel, which
are multiplied at once: with 8-bit dot products 4 of them, else 2 as 16-bit numbers. Pixels that overlap use the same lanes,
with weights that are so many columns apart.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

from typing import ClassVar

import numpy as np
from llvmlite import ir

from npu.native import types as ty
from npu.native.cpu import current
from npu.native.emit import BYTES, LANES, MANY_BYTES, SHORTS, WORD, choice
from npu.native.kernel import keep, kernel
from npu.native.memory import load_i64
from sim.functional.kernels import rows as r
from sim.functional.kernels.stage import stage_function

COLUMNS = 8 if current().has_byte_masks else 4
"""Pixels of a line whose sums are in registers at a time."""
_HAS_DENSE_COLUMNS = current().has_dot_product and current().has_byte_masks
_PAIR_STARTS = (0, 1, -1, -2)
"""Where parts begin for which `spread` makes weights, in columns from the first of a pair."""
_SPREAD_BYTES = 64 * len(_PAIR_STARTS)


class _Columns:
    """Emits lanes of 4 input columns: from 16 bytes each, wherever they are."""

    SIZE = 4
    SHARED: ClassVar = {1: (2, (0, 1)), 2: (4, (0, 2, -2))}
    """By the stride of pixels that share lanes: columns from lane to lane, and where those begin that use one."""
    OWN: ClassVar[tuple[int, ...]] = (0,)
    """Where a pixel with lanes of its own begins in them."""
    WEIGHTS_BYTES = r.WEIGHTS_BYTES

    def __init__(self, e, row):  # type: ignore[no-untyped-def]
        self.e = e
        self.padding, self.pixel, self.in_width = e.of_row(row, "padding_pixel", "in_pixel", "in_width")
        self.flip = e.input_flips(row, BYTES)

    def weights(self, at, starts):  # type: ignore[no-untyped-def]
        """Of a row of a part, for pixels that begin so many columns after a lane."""
        whole = self.e.load(LANES, at)
        return {start: self._moved(whole, 8 * start) if start else whole for start in starts}

    def _moved(self, whole, bits):  # type: ignore[no-untyped-def]
        return (self.e.b.shl if bits > 0 else self.e.b.lshr)(whole, self.e.constant(abs(bits)))

    def dot(self, total, inputs, weights):  # type: ignore[no-untyped-def]
        """The total and the products of a lane."""
        return self.e.dot_inputs(total, inputs, weights)

    def locate(self, column, steps):  # type: ignore[no-untyped-def]
        """What all rows share, for lanes that begin `steps` columns after `column`."""
        columns = [[self.e.offset(self.e.b.add(column, step), j) for j in range(self.SIZE)] for step in steps]
        return [[(at, self.e.b.icmp_unsigned("<", at, self.in_width)) for at in lane] for lane in columns]

    def line(self, base, rows, k):  # type: ignore[no-untyped-def]
        """Row k of the inputs: where it starts, bytes from column to column."""
        offset = self.e.load(WORD, self.e.b.add(rows, self.e.b.shl(k, self.e.word(3))))
        is_padding = self.e.b.icmp_signed("==", offset, self.e.word(r.NO_ROW))
        start = self.e.b.select(is_padding, self.padding, self.e.b.add(base, offset))
        return start, self.e.b.select(is_padding, self.e.word(0), self.pixel)

    def fetch(self, located, line, k):  # type: ignore[no-untyped-def]
        """Lanes k of a line."""
        columns = [value for column in located[k] for value in column]
        return self.e.inlined("fetch_columns", LANES, _fetch_columns, self.padding, self.flip, *line, *columns)


class _PairColumns(_Columns):
    """Emits lanes of 2 input columns as 16-bit numbers; the weights are those of `spread`."""

    SIZE = 2
    SHARED: ClassVar = {1: (2, _PAIR_STARTS), 2: (2, (0, -2))}
    OWN: ClassVar[tuple[int, ...]] = (0, -2)
    WEIGHTS_BYTES = _SPREAD_BYTES

    def weights(self, at, starts):  # type: ignore[no-untyped-def]
        return {start: self.e.load(SHORTS, self.e.offset(at, 64 * _PAIR_STARTS.index(start))) for start in starts}

    def dot(self, total, inputs, weights):  # type: ignore[no-untyped-def]
        return self.e.add_pairs(total, inputs, weights)

    def fetch(self, located, line, k):  # type: ignore[no-untyped-def]
        columns = [value for column in located[k] for value in column]
        return self.e.inlined("fetch_pair", SHORTS, _fetch_pair, self.padding, self.flip, *line, *columns)


class _DenseColumns(_Columns):
    """From 64 bytes: columns lie side by side."""

    def __init__(self, e, row):  # type: ignore[no-untyped-def]
        super().__init__(e, row)
        self.flips = e.input_flips(row, LANES)
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


def _load_columns(e, padding, flip, start, step, columns):  # type: ignore[no-untyped-def]
    """16 channels of columns: (number, whether it is in the input) of each."""
    for column, is_inside in zip(columns[::2], columns[1::2], strict=True):
        address = e.b.select(is_inside, e.b.add(start, e.b.mul(column, step)), padding)
        yield e.b.xor(e.load(BYTES, address), flip)


def _fetch_columns(e, padding, flip, start, step, *columns):  # type: ignore[no-untyped-def]
    parts = list(_load_columns(e, padding, flip, start, step, columns))
    return e.interleave(parts)


def _fetch_pair(e, padding, flip, start, step, *columns):  # type: ignore[no-untyped-def]
    return e.widened_inputs(e.in_turn(*_load_columns(e, padding, flip, start, step, columns)))


def _fetch_dense(e, outside, flips, start, mask, distance, inside):  # type: ignore[no-untyped-def]
    loaded = e.load_masked(LANES, e.b.add(start, e.b.and_(distance, mask)), inside)
    value = e.b.select(inside, e.b.xor(loaded, flips), outside)
    gathered = e.b.shuffle_vector(value, value, ir.Constant(LANES, [4 * (k % 4) + k // 4 for k in range(16)]))
    as_bytes = e.b.bitcast(gathered, MANY_BYTES)
    order = [16 * lane + 4 * (k % 4) + k // 4 for lane in range(4) for k in range(16)]
    turned = e.b.shuffle_vector(as_bytes, as_bytes, ir.Constant(ir.VectorType(ir.IntType(32), 64), order))
    return e.b.bitcast(turned, LANES)


def _emit_spread(e, args):  # type: ignore[no-untyped-def]
    weights, count, target = args

    def over_rows(_index, carried):  # type: ignore[no-untyped-def]
        source, to = carried
        whole, none = e.load(MANY_BYTES, source), ir.Constant(MANY_BYTES, None)
        for k, start in enumerate(_PAIR_STARTS):
            order = [4 * n + j - start if 0 <= j - start < 4 else 64 for n in range(16) for j in (0, 1)]
            pairs = e.b.shuffle_vector(whole, none, ir.Constant(ir.VectorType(ir.IntType(32), 32), order))
            e.store(e.b.sext(pairs, SHORTS), e.offset(to, 64 * k))
        return [e.offset(source, r.WEIGHTS_BYTES), e.offset(to, _PairColumns.WEIGHTS_BYTES)]

    e.loop(count, [weights, target], over_rows)


spread = stage_function("depthwise_spread", 3, _emit_spread)
"""The weights of 16 channels for pairs of columns that begin before, with and after a part: `_PAIR_STARTS` of each row."""


def _lanes(columns, stride):  # type: ignore[no-untyped-def]
    """Of every lane: (pixel that uses it, where that begins), and where the lane begins from the first or, without a stride
    that is known, from the pixel."""
    if stride is None:
        return [([(pixel, start)], -start) for pixel in range(COLUMNS) for start in columns.OWN]
    distance, starts = columns.SHARED[stride]
    users = [
        [(pixel, start) for pixel in range(COLUMNS) for start in starts if stride * pixel - distance * n == start]
        for n in range(stride * COLUMNS + 1)
    ]
    return [(used, distance * n) for n, used in enumerate(users) if used]


def _line(name, columns, *, shared=None, height=None, lines=1):  # type: ignore[no-untyped-def]
    """Kernel of a line of output pixels, from lanes that `columns` emits.

    shared: the stride of pixels that share lanes. height: rows of a window of one part, whose weights stay in registers.
    lines: with `height`, lines computed at a time, each one input row further.
    """
    lanes = _lanes(columns, shared)
    starts = sorted({start for used, _ in lanes for _, start in used})

    def emit(e, args):  # type: ignore[no-untyped-def]
        row, base, rows, weights, stage, *outs, tail = args
        source = columns(e, row)
        parts, part_table, rows_of_part = e.of_row(row, "segments", "segment_table", "dwords")
        width, stride, out_pixel = e.of_row(row, "width", "stride", "out_pixel")
        (bias,) = e.channels(stage, "bias")
        steps = [e.word(place) if shared else e.offset(e.b.mul(stride, e.word(used[0][0])), place) for used, place in lanes]

        def over_row(totals, located, line, outputs):  # type: ignore[no-untyped-def]
            """Add the products of an input row, with (line, weights) of each output line that it belongs to."""
            for n, (used, _) in enumerate(lanes):
                inputs = source.fetch(located, line, n)
                for output, numbers in outputs:
                    for pixel, start in used:
                        at = COLUMNS * output + pixel
                        totals[at] = source.dot(totals[at], inputs, numbers[start])
            return totals

        def over_parts(x, first):  # type: ignore[no-untyped-def]
            def over_part(part, carried):  # type: ignore[no-untyped-def]
                located = source.locate(e.b.add(x, e.load(WORD, e.b.add(part_table, e.b.shl(part, e.word(3))))), steps)

                def over_rows(k, carried):  # type: ignore[no-untyped-def]
                    at, *totals = carried
                    totals = over_row(totals, located, source.line(base, rows, k), [(0, source.weights(at, starts))])
                    return [e.offset(at, columns.WEIGHTS_BYTES), *totals]

                return e.loop(rows_of_part, carried, over_rows)

            return e.loop(parts, [weights, *first], over_part)[1:]

        fixed = [source.weights(e.offset(weights, columns.WEIGHTS_BYTES * k), starts) for k in range(height or 0)]
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

        e.loop(e.b.udiv(e.b.add(width, e.word(COLUMNS - 1)), e.word(COLUMNS)), [], over_tiles)

    return stage_function(name, 8, emit)


def _lines(name, columns):  # type: ignore[no-untyped-def]
    """Kernels for any stride, and for a stride of 1."""
    return [_line(f"{name}_strided", columns), _line(name, columns, shared=1)]


_ways = [*_lines("portable_depthwise", _PairColumns), _line("portable_depthwise_2", _PairColumns, shared=2)]
if current().has_dot_product:
    _ways += _lines("dot_depthwise", _Columns)
if _HAS_DENSE_COLUMNS:
    _ways += _lines("dot_depthwise_dense", _DenseColumns)
    for shared, lines in ((2, 1), (1, 2)):
        _ways.append(_line(f"dot_depthwise_dense_3_{shared}", _DenseColumns, shared=shared, height=3, lines=lines))
convolve_line = choice(dict(enumerate(_ways)))
"""Of the portable ones, of which 2 is for a stride of 2, or, from 3 on, of those with 8-bit dot products, of these from 5 on
for columns side by side, from 7 on with windows of one part of 3 rows: 7 with a stride of 2, 8 computes two lines."""


@kernel(ty.void(ty.int64, ty.int64[::1], ty.boolean, ty.int64, ty.int64))
def convolve(at, bases, with_dot_product, first, last):  # type: ignore[no-untyped-def]
    """A depthwise convolution, the row at an address: the lines or groups of channels `first` to `last`."""
    row = r.row_at(at)[0]
    block, end, line, last_line = first, last, np.int64(0), row.pixels
    if row.is_by_block == 0:
        block, end, line, last_line = np.int64(0), row.blocks, first, last
    base, out_base = r.input_base(row, bases), r.output_base(row, bases)
    best = np.int64(1 if row.stride == 1 else 0)
    if with_dot_product:
        best += 3
        if _HAS_DENSE_COLUMNS and row.in_pixel == 16:
            best += 4 if row.segments == 1 and row.dwords == 3 and row.stride <= 2 else 2
    elif row.stride == 2:
        best = np.int64(2)
    parts = row.segments * row.dwords
    buffer = np.empty(0 if with_dot_product else parts * _SPREAD_BYTES, np.uint8)
    for b in range(block, end):
        weights, stage = row.weights + b * parts * r.WEIGHTS_BYTES, row.stage + b * r.CHANNELS_BYTES
        tail, from_base, to_base = (
            row.tail if b + 1 == row.blocks else np.int64(16),
            base + b * row.in_brick,
            out_base + b * row.out_brick,
        )
        if best < 3:
            spread(weights, parts, np.int64(buffer.ctypes.data))
            weights = np.int64(buffer.ctypes.data)
        y = line
        while y < last_line:
            rows, way, step = row.in_table + 8 * y * row.dwords, best, np.int64(1)
            out = second = to_base + load_i64(row.out_table + 8 * y)
            if way == 8:
                way = np.int64(6)
                if (
                    y + 1 < last_line
                    and load_i64(rows + 8) == load_i64(rows + 24)
                    and load_i64(rows + 16) == load_i64(rows + 32)
                ):
                    way, step, second = best, np.int64(2), to_base + load_i64(row.out_table + 8 * y + 8)
            convolve_line(way, at, from_base, rows, weights, stage, out, second, tail)
            y += step
    keep(buffer)
