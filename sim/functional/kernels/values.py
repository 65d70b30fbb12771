"""Poolings and elementwise operations of every type and mode: all inputs to 64-bit values, the operation, all values to memory.

`execute` takes everything from one vector of numbers, so that the loop of the fast kernels can call it as well.
"""

from __future__ import annotations

import functools

import numba as nb
import numpy as np

from npu.numerics.kernel import kernel
from sim.functional.kernels.compute import POOL_LENGTH, pool
from sim.functional.kernels.feature_map import DEPTH, DESCRIPTION_LENGTH, HEIGHT, WIDTH, gather, place, scatter
from sim.functional.kernels.output import COMBINE_LENGTH, STAGE_LENGTH, combine, finish, rounding_shift
from sim.functional.kernels.raw import address_of, call_3, load_i32_at, load_i64_at

IFM = 0
"""Description of the input, as `feature_map` says."""
OFM = IFM + DESCRIPTION_LENGTH
IFM2 = OFM + DESCRIPTION_LENGTH
"""The second input; for a scalar of no region and extent 1."""
STAGE = IFM2 + DESCRIPTION_LENGTH
"""As `output.finish` takes it."""
COMBINE = STAGE + STAGE_LENGTH
"""As `output.combine` takes it."""
POOL = COMBINE + COMBINE_LENGTH
"""As `compute.pool` takes it."""
SUMS, SUMS_PITCH, SUMS_SCALES, SUMS_SHIFTS, SUMS_ROUNDING = range(POOL, POOL + 5)
"""For `finish_sums`: address of the sums, bytes from pixel to pixel, addresses of the int64 scales and shifts, rounding."""
PLACE = POOL + POOL_LENGTH
"""As `feature_map.place` takes it."""
PADDED = PLACE + 5
"""Height and width of the input with its padding."""
SCALAR = PADDED + 2
IFM_REGION = SCALAR + 1
IFM2_REGION = IFM_REGION + 1
"""-1 if the second operand is `SCALAR`."""
OFM_REGION = IFM2_REGION + 1
GATHER = OFM_REGION + 1
"""Machine addresses of the kernels from here."""
PLACER = GATHER + 1
"""0 without padding and upscaling."""
COMBINER = PLACER + 1
"""0 for poolings."""
POOLER = COMBINER + 1
"""0 for elementwise operations, and for poolings that only scale."""
FINISH = POOLER + 1
SCATTER = FINISH + 1
LENGTH = SCATTER + 1
_VECTOR, _CUBE = nb.int64[::1], nb.int64[:, :, ::1]
_KERNELS = {
    GATHER: (gather, _VECTOR, nb.int64, _CUBE),
    PLACER: (place, _CUBE, _CUBE, _VECTOR),
    COMBINER: (combine, _CUBE, _CUBE, _VECTOR),
    POOLER: (pool, _CUBE, _CUBE, _VECTOR),
    FINISH: (finish, _CUBE, _VECTOR, nb.int64),
    SCATTER: (scatter, _VECTOR, nb.int64, _CUBE),
}


@functools.cache
def kernel_address(index: int) -> int:
    """What `execute` expects at GATHER to SCATTER; each kernel is compiled when an operation first needs it."""
    function, *arguments = _KERNELS[index]
    return address_of(function, *arguments)


@kernel(nb.void(nb.int64[::1], nb.int64[::1]))
def execute(n, bases):  # type: ignore[no-untyped-def]
    """A pooling or an elementwise operation: LENGTH numbers, and the machine addresses that a memory has."""
    values = np.empty((n[IFM + HEIGHT], n[IFM + WIDTH], n[IFM + DEPTH]), np.int64)
    call_3(n[GATHER], n[IFM:OFM], bases[n[IFM_REGION]], values)
    if n[PLACER] != 0:
        source = values
        values = np.zeros((n[PADDED], n[PADDED + 1], n[IFM + DEPTH]), np.int64)
        call_3(n[PLACER], source, values, n[PLACE:PADDED])
    if n[COMBINER] != 0:
        second = np.empty((n[IFM2 + HEIGHT], n[IFM2 + WIDTH], n[IFM2 + DEPTH]), np.int64)
        if n[IFM2_REGION] >= 0:
            call_3(n[GATHER], n[IFM2:STAGE], bases[n[IFM2_REGION]], second)
        else:
            second[0, 0, 0] = n[SCALAR]
        call_3(n[COMBINER], values, second, n[COMBINE:POOL])
    elif n[POOLER] != 0:
        source = values
        values = np.empty((n[OFM + HEIGHT], n[OFM + WIDTH], n[OFM + DEPTH]), np.int64)
        call_3(n[POOLER], source, values, n[POOL:PLACE])
    call_3(n[FINISH], values, n[STAGE:COMBINE], bases[-1])
    call_3(n[SCATTER], n[OFM:IFM2], bases[n[OFM_REGION]], values)


@kernel(nb.void(nb.int64[::1], nb.int64[::1]))
def finish_sums(n, bases):  # type: ignore[no-untyped-def]
    """The output stage of the 32-bit sums of a convolution, and the output; `n` as for `execute`."""
    values = np.empty((n[OFM + HEIGHT], n[OFM + WIDTH], n[OFM + DEPTH]), np.int64)
    scales, shifts, rounding = n[SUMS_SCALES], n[SUMS_SHIFTS], n[SUMS_ROUNDING]
    for y in range(values.shape[0]):
        for x in range(values.shape[1]):
            pixel = n[SUMS] + (y * values.shape[1] + x) * n[SUMS_PITCH]
            for c in range(values.shape[2]):
                product = load_i32_at(pixel, c) * load_i64_at(scales, c)
                values[y, x, c] = rounding_shift(product, load_i64_at(shifts, c), rounding, 31)
    call_3(n[FINISH], values, n[STAGE:COMBINE], bases[-1])
    call_3(n[SCATTER], n[OFM:IFM2], bases[n[OFM_REGION]], values)
