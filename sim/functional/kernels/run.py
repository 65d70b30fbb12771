"""The loop over the rows of a stream."""

from __future__ import annotations

from npu.native import types as ty
from npu.native.cpu import current, is_making
from npu.native.kernel import kernel
from sim.functional.kernels import rows as r

if is_making():
    from sim.functional.kernels import portable, values, vectors

    if current().has_dot_product:
        from sim.functional.kernels import vnni as fastest
    else:
        fastest = portable  # type: ignore[misc]


@kernel(ty.int64(r.ROWS, ty.int64[::1], ty.int64, ty.boolean))
def run(rows, bases, first, with_dot_product):  # type: ignore[no-untyped-def]
    """Execute rows from `first`; the index of the first row that no fast kernel can run (now), or the number of rows."""
    for index in range(first, rows.shape[0]):
        row = rows[index]
        kind = row.kind
        if kind == r.GENERAL or (kind <= r.DEPTHWISE and not r.is_current(row, bases)):
            return index
        if row.pad_rows > 0:
            r.fill_padded(row, bases)
        if kind == r.CONVOLUTION:
            if with_dot_product:
                fastest.convolve(row, bases)
            else:
                portable.convolve(row, bases)
        elif kind == r.DEPTHWISE:
            if with_dot_product:
                fastest.convolve_depthwise(row, bases)
            else:
                portable.convolve_depthwise(row, bases)
        elif kind == r.ELEMENTWISE:
            vectors.combine(row, bases)
        elif kind == r.VALUES:
            values.execute(row.values, bases)
        elif kind == r.COPY:
            r.copy_row(row, bases)
        if row.finish == r.SUM:
            values.finish_sums(row.values, bases)
    return rows.shape[0]
