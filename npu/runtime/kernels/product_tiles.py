"""Tiles of float32 matrix products whose sums stay in registers, each product and each addition rounded by itself."""

# mypy: allow-untyped-calls

from __future__ import annotations

from llvmlite import ir

from npu.native.cpu import current
from npu.native.emit import FLOAT, FLOATS, choice, function

LANES = 16
HEIGHT, MOST_VECTORS = {32: (8, 2), 8: (6, 1), 4: (1, 1)}[current().wide_registers]
"""Rows of a tile and the vectors of its columns: sums that the registers hold beside weights, an input and a product."""


def _tile(height, vectors):  # type: ignore[no-untyped-def]
    def emit(e, args):  # type: ignore[no-untyped-def]
        rows, row_bytes, depth, weights, weight_bytes, out, out_bytes = args
        starts = [e.b.add(rows, e.b.mul(row_bytes, e.word(m))) for m in range(height)]

        def over_depth(index, carried):  # type: ignore[no-untyped-def]
            at, *totals = carried
            columns = [e.load(FLOATS, at, 4 * LANES * v) for v in range(vectors)]
            for m in range(height):
                value = e.splat(e.load(FLOAT, e.b.add(starts[m], e.b.shl(index, e.word(2)))))
                for v in range(vectors):
                    totals[m * vectors + v] = e.b.fadd(totals[m * vectors + v], e.b.fmul(value, columns[v]))
            return [e.b.add(at, weight_bytes), *totals]

        zeros = [ir.Constant(FLOATS, [0.0] * LANES)] * (height * vectors)
        totals = e.loop(depth, [weights, *zeros], over_depth)[1:]
        for m in range(height):
            for v in range(vectors):
                e.store(totals[m * vectors + v], e.offset(e.b.add(out, e.b.mul(out_bytes, e.word(m))), 4 * LANES * v))

    return function(f"product_in_order_{height}_{vectors}", 7, emit)


tile = choice({10 * height + vectors: _tile(height, vectors) for height in {1, HEIGHT} for vectors in {1, MOST_VECTORS}})
"""By ten times the rows, plus the vectors of columns."""
