"""A convolution, a depthwise one and a pointwise one in stripes of rows: what is between them never leaves the caches.

The first writes rows into a rolling buffer, of which the second reads windows; it writes a stripe, which the third reads.
"""

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.kernel import kernel
from npu.native.memory import store_32_at, store_64
from npu.runtime.xnnpack.kernels import row as r
from npu.runtime.xnnpack.kernels.depthwise import depthwise
from npu.runtime.xnnpack.kernels.gemm import gemm

_OUT = ty.offset_of(r.JOB, "out")


@kernel(ty.void(ty.int64, ty.int64))
def _clear(at, count):  # type: ignore[no-untyped-def]
    """Set 32-bit words to zero: what is outside a map of floats."""
    for k in range(count):
        store_32_at(at, k, np.int64(0))


@kernel(ty.void(r.CASCADE_ROW, ty.int64, ty.int64, ty.int64))
def _fill(cascade, job, first, last):  # type: ignore[no-untyped-def]
    """Rows `first` to `last` of the first map, which may be outside it, into the rolling buffer."""
    while first < last:
        slot = (first + cascade.before) % cascade.slots
        place = cascade.buffer + slot * cascade.pitch
        if first < 0 or first >= cascade.height:
            _clear(place, cascade.pitch // 4)
            first += 1
        else:
            count = min(min(last, cascade.height) - first, cascade.slots - slot)
            store_64(job + _OUT, place - first * cascade.pitch)
            gemm(job, first * cascade.width, (first + count) * cascade.width)
            first += count


@kernel(ty.void(r.JOB_ROW, ty.int64, ty.int64))
def run_cascade(row, first, last):  # type: ignore[no-untyped-def]
    """The output rows `first` to `last`, with the buffers of their chunk."""
    at = row.table + (first // max(row.chunk, np.int64(1))) * row.pixel_step
    cascade, job = r.cascades_at(at)[0], at + r.CASCADE_BYTES
    windows, pointwise = job + r.JOB_BYTES, job + 2 * r.JOB_BYTES
    lines = cascade.slots // cascade.stride
    filled = first * cascade.stride - cascade.before
    for y in range(first, last, cascade.stripe):
        end = min(y + cascade.stripe, last)
        needed = (end - 1) * cascade.stride - cascade.before + cascade.window
        _fill(cascade, job, filled, needed)
        filled = needed
        done = np.int64(y)
        while done < end:
            line = done % lines
            count = min(end - done, lines - line)
            store_64(windows + _OUT, cascade.between + (done - y - line) * cascade.between_pitch)
            depthwise(windows, line, line + count)
            done += count
        store_64(pointwise + _OUT, cascade.out + y * cascade.out_pitch)
        gemm(pointwise, np.int64(0), (end - y) * cascade.out_width)
