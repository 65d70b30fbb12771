"""Tiles of float32 matrix products whose sums stay in registers, each product and each addition rounded by itself."""

# mypy: allow-untyped-calls

from __future__ import annotations

from llvmlite import ir

from npu.native.cpu import current
from npu.native.emit import FLOAT, FLOATS, choice, function

LANES = 16
HEIGHTS = {32: (14, 8, 1), 8: (6, 1), 4: (1,)}[current().wide_registers]
"""Rows of tiles, from the highest: sums that the registers hold beside weights and a product. An input is read where it is
multiplied: a second vector of columns, for which it would be kept, takes longer with AVX-512."""


def _tile(height):  # type: ignore[no-untyped-def]
    def emit(e, args):  # type: ignore[no-untyped-def]
        rows, row_bytes, depth, weights, weight_bytes, out, out_bytes = args
        starts = [e.b.add(rows, e.b.mul(row_bytes, e.word(m))) for m in range(height)]

        def over_depth(index, carried):  # type: ignore[no-untyped-def]
            at, *totals = carried
            columns = e.load(FLOATS, at)
            for m in range(height):
                value = e.splat(e.load(FLOAT, e.b.add(starts[m], e.b.shl(index, e.word(2)))))
                totals[m] = e.b.fadd(totals[m], e.b.fmul(value, columns))
            return [e.b.add(at, weight_bytes), *totals]

        zeros = [ir.Constant(FLOATS, [0.0] * LANES)] * height
        totals = e.loop(depth, [weights, *zeros], over_depth)[1:]
        for m in range(height):
            e.store(totals[m], e.b.add(out, e.b.mul(out_bytes, e.word(m))))

    return function(f"product_in_order_{height}", 7, emit)


tile = choice({height: _tile(height) for height in HEIGHTS})
"""By the rows."""
