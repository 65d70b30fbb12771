"""The loop over the rows of a stream."""

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.cpu import current, is_making
from npu.native.kernel import kernel
from sim.functional.kernels import rows as r

if is_making():
    from sim.functional.kernels import portable, values
    from sim.functional.kernels.depthwise import convolve_depthwise
    from sim.functional.kernels.elementwise import combine

    if current().has_dot_product:
        from sim.functional.kernels import vnni as fastest
    else:
        fastest = portable  # type: ignore[misc]


@kernel(ty.int64(r.ROWS, ty.int64[::1], ty.int64, ty.boolean, ty.boolean))
def run(rows, bases, first, with_dot_product, is_repeated):  # type: ignore[no-untyped-def]
    """Execute rows from `first`; the index of the first row that no fast kernel can run (now), or the number of rows.

    is_repeated: believe `is_known` of the rows.
    """
    for index in range(first, rows.shape[0]):
        row, at = rows[index], np.int64(rows.ctypes.data) + index * r.ROW_BYTES
        kind, is_known = row.kind, is_repeated and row.is_known != 0
        if kind == r.GENERAL or (kind <= r.DEPTHWISE and not is_known and not r.is_current(row, bases)):
            return index
        if row.pad_rows > 0:
            r.fill_padded(row, bases)
        if kind == r.CONVOLUTION:
            if with_dot_product:
                fastest.convolve(at, bases)
            else:
                portable.convolve(at, bases)
        elif kind == r.DEPTHWISE:
            convolve_depthwise(at, bases, with_dot_product)
        elif kind == r.ELEMENTWISE:
            combine(at, bases)
        elif kind == r.VALUES:
            values.execute(row.values, bases)
        elif kind == r.COPY and not is_known:
            r.copy_row(row, bases)
        if row.finish == r.SUM:
            values.finish_sums(row.values, bases)
    return rows.shape[0]
