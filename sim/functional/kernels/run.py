"""The loop over the rows of a stream, of one thread or of several."""

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.cpu import current, is_making
from npu.native.kernel import RowsAt, kernel
from npu.native.memory import copy_bytes
from npu.native.steps import FIRST_OWN, SHARED_WORK, STEP_TYPE, help_with_steps, run_steps
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


@kernel(ty.void(ty.int64, ty.int64[::1], ty.boolean))
def run_whole(at, bases, with_dot_product):  # type: ignore[no-untyped-def]
    """All of a row."""
    row = r.row_at(at)[0]
    if row.pad_rows > 0:
        r.fill_padded(row, bases, np.int64(0), row.pad_rows)
    run_part(row, at, bases, with_dot_product, np.int64(0), r.extent(row))
    if row.finish == r.SUM:
        values.finish_sums(row.values, bases)


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
        if kind != r.COPY or not is_known:
            run_whole(at, bases, with_dot_product)
    return rows.shape[0]


@kernel(ty.int64(r.ROWS, ty.int64[::1], ty.boolean, ty.int64[:, ::1], ty.int64[:, ::1], ty.int64[:, ::1], ty.int64[:, ::1]))
def run_many(rows, bases, with_dot_product, inputs, outputs, inputs_at, outputs_at):  # type: ignore[no-untyped-def]
    """Repeated runs, one for each row of `inputs_at` and `outputs_at`, which are addresses of tensors; how many were whole.

    inputs, outputs: (address, bytes) of each tensor in memory.
    """
    for k in range(inputs_at.shape[0]):
        for i in range(inputs.shape[0]):
            copy_bytes(inputs[i, 0], inputs_at[k, i], inputs[i, 1])
        if run(rows, bases, np.int64(0), with_dot_product, True) < rows.shape[0]:
            return k
        for i in range(outputs.shape[0]):
            copy_bytes(outputs_at[k, i], outputs[i, 0], outputs[i, 1])
    return inputs_at.shape[0]


PADDING, CHUNKS, PADDED_CHUNKS = 0, -1, -2
"""What a step does of its row, in place of the number of rows that it does all of: the padding, chunks, or each chunk after the
padded rows that it reads, so that no thread needs what another one has copied."""
_bases_at = RowsAt(ty.int64, has_length=True)


@kernel(ty.void(SHARED_WORK, STEP_TYPE, ty.int64))
def _do_chunk(work, step, chunk):  # type: ignore[no-untyped-def]
    """A chunk of a part of the row whose address a step has.

    The work's own words: the address of the bases of regions, their number, and whether there are dot products.
    """
    row, bases = r.row_at(step.job)[0], _bases_at(work[FIRST_OWN], work[FIRST_OWN + 1])
    with_dot_product = work[FIRST_OWN + 2] != 0
    if step.part == PADDING:
        r.fill_padded(row, bases, np.int64(0), row.pad_rows)
    elif step.part > 0:
        for k in range(step.part):
            run_whole(step.job + k * r.ROW_BYTES, bases, with_dot_product)
    else:
        first = chunk * row.chunk
        last = r.extent(row) if chunk + 1 == step.chunks else first + row.chunk
        if step.part == PADDED_CHUNKS:
            r.fill_window(row, bases, first, last)
        run_part(row, step.job, bases, with_dot_product, first, last)


@kernel(ty.void(SHARED_WORK))
def run_shared(work):  # type: ignore[no-untyped-def]
    """Execute rows whose constants are all known, beside threads in `help_shared`."""
    run_steps(work, _do_chunk)


@kernel(ty.void(SHARED_WORK))
def help_shared(work):  # type: ignore[no-untyped-def]
    """Take part in every `run_shared` of the same work, until there is none for a while."""
    help_with_steps(work, _do_chunk)
