"""The loop over the rows of a stream, of one thread or of several."""

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.cpu import current, is_making
from npu.native.kernel import kernel
from npu.native.memory import add_atomic, yield_processor
from sim.functional.kernels import rows as r

if is_making():
    from sim.functional.kernels import portable, values
    from sim.functional.kernels.depthwise import convolve_depthwise
    from sim.functional.kernels.elementwise import combine

    if current().has_dot_product:
        from sim.functional.kernels import vnni as fastest
    else:
        fastest = portable  # type: ignore[misc]


_SPINS = 2000


@kernel(ty.void(r.ROW_TYPE, ty.int64, ty.int64[::1], ty.boolean, ty.int64, ty.int64))
def run_part(row, at, bases, with_dot_product, first, last):  # type: ignore[no-untyped-def]
    """The products or sums of a row, from `first` to `last` of its extent, or what cannot be shared."""
    kind = row.kind
    if kind == r.CONVOLUTION:
        if with_dot_product:
            fastest.convolve(at, bases, first, last)
        else:
            portable.convolve(at, bases, first, last)
    elif kind == r.DEPTHWISE:
        convolve_depthwise(at, bases, with_dot_product, first, last)
    elif kind == r.ELEMENTWISE:
        combine(at, bases, first, last)
    elif kind == r.VALUES:
        values.execute(row.values, bases)
    elif kind == r.COPY:
        r.copy_row(row, bases)


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
        if kind != r.COPY or not is_known:
            run_part(row, at, bases, with_dot_product, np.int64(0), r.extent(row))
        if row.finish == r.SUM:
            values.finish_sums(row.values, bases)
    return rows.shape[0]


@kernel(ty.void(r.ROWS, ty.int64[::1], ty.boolean, ty.int64[:, ::1]))
def run_shared(rows, bases, with_dot_product, counters):  # type: ignore[no-untyped-def]
    """Execute rows whose constants are all known, beside other threads that call this with the same arguments.

    `counters` (2 * rows, 2), zero at first: chunks taken and done, of what comes before a row's products and of these. A thread
    that comes late finds nothing left to do.
    """
    for index in range(rows.shape[0]):
        row, at = rows[index], np.int64(rows.ctypes.data) + index * r.ROW_BYTES
        if row.kind == r.NOTHING or (row.kind == r.COPY and row.is_known != 0):
            continue
        counter = np.int64(counters.ctypes.data) + 32 * index
        if row.pad_rows > 0:
            if add_atomic(counter, np.int64(1)) == 0:
                r.fill_padded(row, bases)
                add_atomic(counter + 8, np.int64(1))
            _wait(counter + 8, np.int64(1))
        total = r.extent(row)
        size = row.chunk if row.chunk > 0 else max(total, np.int64(1))
        chunks = max((total + size - 1) // size, np.int64(1))
        c = add_atomic(counter + 16, np.int64(1))
        while c < chunks:
            run_part(row, at, bases, with_dot_product, c * size, min(total, (c + 1) * size))
            if row.finish == r.SUM:
                values.finish_sums(row.values, bases)
            add_atomic(counter + 24, np.int64(1))
            c = add_atomic(counter + 16, np.int64(1))
        _wait(counter + 24, chunks)


@kernel(ty.void(ty.int64, ty.int64))
def _wait(counter, value):  # type: ignore[no-untyped-def]
    """Until the number at an address is at least `value`."""
    spins = np.int64(0)
    while add_atomic(counter, np.int64(0)) < value:
        spins += 1
        if spins > _SPINS:
            yield_processor()
