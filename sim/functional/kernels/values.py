"""Poolings and elementwise operations of every type and mode: all inputs to 64-bit values, the operation, all values to memory.

`execute` takes everything from one row of numbers, so that the loop of the fast kernels can call it as well.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu.machine.kernels.rows import integers
from npu.native import types as ty
from npu.native.cpu import is_making
from npu.native.kernel import kernel
from npu.native.memory import load_i32_at, load_i64_at, small_buffer
from sim.functional.kernels.compute import POOL, REDUCE_SUM, pool
from sim.functional.kernels.feature_map import FEATURE_MAP, PLACE, gather, gather_one, place, scatter, scatter_one
from sim.functional.kernels.output import COMBINATION, STAGE, combine, combine_one, cube, finish, finish_one, rounding_shift

if is_making():
    from sim.functional.kernels.pooling import pool_bytes

NUMBERS = np.dtype(
    [
        *((name, FEATURE_MAP) for name in ("ifm", "ofm", "ifm2")),  # the second input is of extent 1 for a scalar
        *(("stage", STAGE), ("combination", COMBINATION), ("pool", POOL), ("place", PLACE)),
        *integers(
            # For `finish_sums`: address of the sums, bytes from pixel to pixel, addresses of the int64 scales and shifts.
            *("sums", "sums_pitch", "sums_scales", "sums_shifts", "sums_rounding"),
            *("padded_height", "padded_width"),  # of the input with its padding
            "scalar",
            *("ifm_region", "ifm2_region", "ofm_region"),  # of the second input -1 if it is `scalar`
            "is_placed",  # whether a pooling's input has padding or upscaling
            "is_pooled",  # not for poolings that only scale
            "is_combined",  # whether there are two inputs, as elementwise operations have
        ),
    ]
)
"""An operation as `execute` and `finish_sums` take it."""
NUMBERS_TYPE = ty.record(NUMBERS)


def zeroed(dtype: np.dtype[np.void], count: int = 1) -> npt.NDArray[np.void]:
    """Structures of zeros; with many fields `np.zeros` takes ten times as long to make one."""
    return np.frombuffer(bytearray(count * dtype.itemsize), dtype)


@kernel(ty.void(NUMBERS_TYPE, ty.int64[::1]))
def _execute_one(n, bases):  # type: ignore[no-untyped-def]
    """An elementwise operation on one element, of which a SOFTMAX has dozens: without arrays, in a fifth of the time."""
    second = n.scalar
    if n.ifm2_region >= 0:
        second = gather_one(n.ifm2, bases[n.ifm2_region])
    value = combine_one(gather_one(n.ifm, bases[n.ifm_region]), second, n.combination)
    scatter_one(n.ofm, bases[n.ofm_region], finish_one(value, n.stage, bases[-1]))


@kernel(ty.boolean(NUMBERS_TYPE))
def _takes_bytes(n):  # type: ignore[no-untyped-def]
    """Whether `pool_bytes` takes a pooling; its sums have 32 bits."""
    fm, window = n.ifm, n.pool
    is_plain = fm.element_bytes == 1 and fm.depth & 15 == 0 and fm.width <= fm.tile_width_0 and fm.height <= fm.tile_height_0
    is_upscaled, is_large = n.place.upscale != 0, window.height * window.width >= 1 << 22
    return is_plain and not is_upscaled and not is_large and window.mode != REDUCE_SUM


@kernel(ty.void(NUMBERS_TYPE, ty.int64[::1]))
def execute(n, bases):  # type: ignore[no-untyped-def]
    """A pooling or an elementwise operation: its numbers, and the machine addresses that a memory has."""
    if n.is_combined != 0 and n.ofm.height * n.ofm.width * n.ofm.depth == 1:
        _execute_one(n, bases)
        return
    if n.is_pooled != 0 and _takes_bytes(n):
        values = cube(small_buffer(), n.ofm.height, n.ofm.width, n.ofm.depth)
        pool_bytes(n.ifm, bases[n.ifm_region], values, n.pool)
        finish(values, n.stage, bases[-1])
        scatter(n.ofm, bases[n.ofm_region], values)
        return
    values = cube(small_buffer(), n.ifm.height, n.ifm.width, n.ifm.depth)
    gather(n.ifm, bases[n.ifm_region], values)
    if n.is_placed != 0:
        source = values
        values = np.zeros((n.padded_height, n.padded_width, n.ifm.depth), np.int64)
        place(source, values, n.place)
    if n.is_combined != 0:
        second = cube(small_buffer(), n.ifm2.height, n.ifm2.width, n.ifm2.depth)
        if n.ifm2_region >= 0:
            gather(n.ifm2, bases[n.ifm2_region], second)
        else:
            second[0, 0, 0] = n.scalar
        combine(values, second, n.combination)
    elif n.is_pooled != 0:
        source = values
        values = cube(small_buffer(), n.ofm.height, n.ofm.width, n.ofm.depth)
        pool(source, values, n.pool)
    finish(values, n.stage, bases[-1])
    scatter(n.ofm, bases[n.ofm_region], values)


@kernel(ty.void(NUMBERS_TYPE, ty.int64[::1]))
def finish_sums(n, bases):  # type: ignore[no-untyped-def]
    """The output stage of the 32-bit sums of a convolution, and the output; `n` as for `execute`."""
    values = cube(small_buffer(), n.ofm.height, n.ofm.width, n.ofm.depth)
    scales, shifts, rounding = n.sums_scales, n.sums_shifts, n.sums_rounding
    for y in range(values.shape[0]):
        for x in range(values.shape[1]):
            pixel = n.sums + (y * values.shape[1] + x) * n.sums_pitch
            for c in range(values.shape[2]):
                product = load_i32_at(pixel, c) * load_i64_at(scales, c)
                values[y, x, c] = rounding_shift(product, load_i64_at(shifts, c), rounding, 31)
    finish(values, n.stage, bases[-1])
    scatter(n.ofm, bases[n.ofm_region], values)
