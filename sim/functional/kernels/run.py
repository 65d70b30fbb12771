"""The loop over the rows of a stream, of one thread or of several."""

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.cpu import current, is_making
from npu.native.gate import ARGUMENTS, close_gate, enter_gate, leave_gate, open_gate, wait_until
from npu.native.kernel import RowsAt, kernel
from npu.native.memory import add_atomic, store_64
from sim.functional.kernels import rows as r

if is_making():
    from sim.functional.kernels import depthwise, portable, values
    from sim.functional.kernels.elementwise import combine

    if current().has_dot_product:
        from sim.functional.kernels import dot as fastest
    else:
        fastest = portable  # type: ignore[misc]


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
        depthwise.convolve(at, bases, with_dot_product, first, last)
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


COUNTER_BYTES = 128
"""Of the counters of a row: chunks taken and done, of what comes before its products and, on a cache line apart, of these."""
_rows_at, _bases_at = RowsAt(r.ROW_TYPE, has_length=True), RowsAt(ty.int64, has_length=True)


@kernel(ty.void(ty.int64[::1]))
def run_shared(work):  # type: ignore[no-untyped-def]
    """Execute rows whose constants are all known, beside threads in `help_shared`.

    The arguments of `work`: addresses and lengths of the rows, of the bases of regions and of the counters, and whether there
    are dot products.
    """
    at = np.int64(work.ctypes.data)
    for k in range(work[ARGUMENTS + 5] >> 3):
        store_64(work[ARGUMENTS + 4] + 8 * k, np.int64(0))
    open_gate(at)
    _share(work)
    close_gate(at)


@kernel(ty.void(ty.int64[::1]))
def help_shared(work):  # type: ignore[no-untyped-def]
    """Take part in every `run_shared` of the same work, until there is none for a while."""
    at = np.int64(work.ctypes.data)
    opened = enter_gate(at, np.int64(0))
    while opened >= 0:
        _share(work)
        leave_gate(at)
        opened = enter_gate(at, opened)


@kernel(ty.void(ty.int64[::1]))
def _share(work):  # type: ignore[no-untyped-def]
    """All rows, of each the chunks that nobody else has taken. A thread that comes late finds nothing left to do."""
    rows = _rows_at(work[ARGUMENTS], work[ARGUMENTS + 1])
    bases = _bases_at(work[ARGUMENTS + 2], work[ARGUMENTS + 3])
    counter, with_dot_product = work[ARGUMENTS + 4], work[ARGUMENTS + 6] != 0
    for index in range(rows.shape[0]):
        row, at = rows[index], work[ARGUMENTS] + index * r.ROW_BYTES
        if row.pad_rows > 0:
            if add_atomic(counter, np.int64(1)) == 0:
                r.fill_padded(row, bases)
                add_atomic(counter + 8, np.int64(1))
            wait_until(counter + 8, np.int64(1), np.int64(2))
        total = r.extent(row)
        size = row.chunk if row.chunk > 0 else max(total, np.int64(1))
        chunks = max((total + size - 1) // size, np.int64(1))
        c = add_atomic(counter + 64, np.int64(1))
        while c < chunks:
            run_part(row, at, bases, with_dot_product, c * size, min(total, (c + 1) * size))
            if row.finish == r.SUM:
                values.finish_sums(row.values, bases)
            add_atomic(counter + 72, np.int64(1))
            c = add_atomic(counter + 64, np.int64(1))
        wait_until(counter + 72, chunks, chunks + 1)
        counter += COUNTER_BYTES
