"""Runs a list of job rows, of one thread or of several."""

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.cpu import is_making
from npu.native.kernel import kernel
from npu.native.memory import copy_bytes, load_float, load_i32, load_i64, load_u8, store_8, store_32, store_float
from npu.native.steps import SHARED_WORK, STEP_TYPE, help_with_steps, run_steps
from npu.runtime.xnnpack.kernels import row as r

if is_making():
    from npu.runtime.xnnpack.kernels.cascade import run_cascade
    from npu.runtime.xnnpack.kernels.depthwise import depthwise
    from npu.runtime.xnnpack.kernels.floats import float_pairs, softmax_rows
    from npu.runtime.xnnpack.kernels.gemm import gemm
    from npu.runtime.xnnpack.kernels.pooling import maxima
    from npu.runtime.xnnpack.kernels.sums import add_bytes, flip_rows, sum_bytes, sum_pixels


@kernel(ty.void(r.JOB_ROW, ty.int64, ty.int64))
def copy_rows(row, first, last):  # type: ignore[no-untyped-def]
    """Copy the rows `first` to `last` of a map into a larger one."""
    for y in range(first, last):
        copy_bytes(row.out + y * row.out_step, row.input + y * row.input_step, row.row_bytes)


@kernel(ty.void(r.JOB_ROW, ty.int64, ty.int64))
def move(row, first, last):  # type: ignore[no-untyped-def]
    """The rows `first` to `last` of a transposed map: `width` elements of 1 or 4 bytes, `length` bytes apart in the input."""
    size, count, step = row.row_bytes, row.width, row.length
    for y in range(first, last):
        source = row.input + y // row.segments * row.input_step + y % row.segments * row.input2_step
        out = row.out + y * row.out_step
        if step == size:
            copy_bytes(out, source, count * size)
        elif size == 4:
            for k in range(count):
                store_32(out + 4 * k, load_i32(source + k * step))
        else:
            for k in range(count):
                store_8(out + k, load_u8(source + k * step))


@kernel(ty.void(r.JOB_ROW, ty.int64, ty.int64))
def look_up_pairs(row, first, last):  # type: ignore[no-untyped-def]
    """out = table[256 * a + b] for the elements `first` to `last`."""
    a, b, out, table = row.input, row.input2, row.out, row.weights
    for k in range(first, last):
        store_8(out + k, load_u8(table + 256 * load_u8(a + k) + load_u8(b + k)))


@kernel(ty.void(r.JOB_ROW, ty.int64, ty.int64))
def look_up(row, first, last):  # type: ignore[no-untyped-def]
    """out = table[a] for the elements `first` to `last`."""
    for k in range(first, last):
        store_8(row.out + k, load_u8(row.weights + load_u8(row.input + k)))


@kernel(ty.void(r.JOB_ROW, ty.int64, ty.int64))
def resize_bilinear(row, first, last):  # type: ignore[no-untyped-def]
    """The output pixels `first` to `last`: corners (top, left), (bottom, left), (top, right), (bottom, right)."""
    one = np.float32(1)
    for m in range(first, last):
        t = row.table + 32 * m
        a, b, c, d = load_i64(t), load_i64(t + 8), load_i64(t + 16), load_i64(t + 24)
        fy, fx = load_float(row.input + 4 * m), load_float(row.input2 + 4 * m)
        out = row.out + m * row.out_step
        for k in range(row.length):
            at = 4 * k
            total = load_float(a + at) * (one - fy) * (one - fx)
            total += load_float(b + at) * fy * (one - fx)
            total += load_float(c + at) * (one - fy) * fx
            total += load_float(d + at) * fy * fx
            store_float(out + at, total)


@kernel(ty.void(ty.int64, ty.int64, ty.int64))
def run_part(at, first, last):  # type: ignore[no-untyped-def]
    """The rows `first` to `last` of the job at an address; parts of a job write different bytes, or the same ones."""
    row = r.jobs_at(at)[0]
    kind = row.kind
    if kind <= r.GEMM_REAL:
        gemm(at, first, last)
    elif kind <= r.DEPTHWISE_BYTE:
        depthwise(at, first, last)
    elif kind == r.COPY_ROWS:
        copy_rows(row, first, last)
    elif kind == r.LOOK_UP_PAIRS:
        look_up_pairs(row, first, last)
    elif kind == r.RESIZE:
        resize_bilinear(row, first, last)
    elif kind == r.ADD_BYTES or kind == r.SUBTRACT_BYTES:
        sum_bytes(at, first, last)
    elif kind == r.FIXED_POINT_SUM:
        add_bytes(at, first, last)
    elif kind == r.SUM_PIXELS:
        sum_pixels(row, first, last)
    elif r.FLOAT_ADD <= kind <= r.FLOAT_TANH:
        float_pairs(row, first, last)
    elif kind == r.SOFTMAX_ROWS:
        softmax_rows(row, first, last)
    elif kind == r.MOVE:
        move(row, first, last)
    elif kind == r.FLIP_ROWS:
        flip_rows(row, first, last)
    elif r.MAX_FLOAT <= kind <= r.MAX_UNSIGNED:
        maxima(at, first, last)
    elif kind == r.LOOK_UP:
        look_up(row, first, last)
    elif kind == r.CASCADE:
        run_cascade(row, first, last)


@kernel(ty.void(ty.int64[::1]))
def run_alone(words):  # type: ignore[no-untyped-def]
    """Every job in order."""
    start = np.int64(words.ctypes.data)
    for at in range(start, start + 8 * words.size, r.JOB_BYTES):
        run_part(at, np.int64(0), r.jobs_at(at)[0].rows)


@kernel(ty.void(SHARED_WORK, STEP_TYPE, ty.int64))
def _do_chunk(work, step, chunk):  # type: ignore[no-untyped-def]
    """A chunk of the job whose address a step has, or as many whole ones as it says."""
    for k in range(step.part):
        at = step.job + k * r.JOB_BYTES
        run_part(at, np.int64(0), r.jobs_at(at)[0].rows)
    if step.part > 0:
        return
    row = r.jobs_at(step.job)[0]
    first, total = chunk * row.chunk, row.groups if row.by_blocks else row.rows
    run_part(step.job, first, total if chunk + 1 == step.chunks else first + row.chunk)


@kernel(ty.void(SHARED_WORK))
def run_shared(work):  # type: ignore[no-untyped-def]
    """Every job in order, beside threads in `help_shared`."""
    run_steps(work, _do_chunk)


@kernel(ty.void(SHARED_WORK))
def help_shared(work):  # type: ignore[no-untyped-def]
    """Take part in every `run_shared` of the same work, until there is none for a while."""
    help_with_steps(work, _do_chunk)
