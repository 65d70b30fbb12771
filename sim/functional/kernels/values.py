"""Poolings and elementwise operations of every type and mode: all inputs to 64-bit values, the operation, all values to memory.

`execute` takes everything from one vector of numbers, so that the loop of the fast kernels can call it as well.
"""

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.kernel import kernel
from npu.native.memory import load_i32_at, load_i64_at
from sim.functional.kernels.compute import POOL_LENGTH, pool
from sim.functional.kernels.feature_map import DEPTH, DESCRIPTION_LENGTH, HEIGHT, WIDTH, gather, place, scatter
from sim.functional.kernels.output import COMBINE_LENGTH, STAGE_LENGTH, combine, finish, rounding_shift

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
IS_PLACED = OFM_REGION + 1
"""Whether a pooling's input has padding or upscaling."""
IS_POOLED = IS_PLACED + 1
"""Not for poolings that only scale."""
IS_COMBINED = IS_POOLED + 1
"""Whether there are two inputs, as elementwise operations have."""
LENGTH = IS_COMBINED + 1


@kernel(ty.void(ty.int64[::1], ty.int64[::1]))
def execute(n, bases):  # type: ignore[no-untyped-def]
    """A pooling or an elementwise operation: LENGTH numbers, and the machine addresses that a memory has."""
    values = np.empty((n[IFM + HEIGHT], n[IFM + WIDTH], n[IFM + DEPTH]), np.int64)
    gather(n[IFM:OFM], bases[n[IFM_REGION]], values)
    if n[IS_PLACED] != 0:
        source = values
        values = np.zeros((n[PADDED], n[PADDED + 1], n[IFM + DEPTH]), np.int64)
        place(source, values, n[PLACE:PADDED])
    if n[IS_COMBINED] != 0:
        second = np.empty((n[IFM2 + HEIGHT], n[IFM2 + WIDTH], n[IFM2 + DEPTH]), np.int64)
        if n[IFM2_REGION] >= 0:
            gather(n[IFM2:STAGE], bases[n[IFM2_REGION]], second)
        else:
            second[0, 0, 0] = n[SCALAR]
        combine(values, second, n[COMBINE:POOL])
    elif n[IS_POOLED] != 0:
        source = values
        values = np.empty((n[OFM + HEIGHT], n[OFM + WIDTH], n[OFM + DEPTH]), np.int64)
        pool(source, values, n[POOL:PLACE])
    finish(values, n[STAGE:COMBINE], bases[-1])
    scatter(n[OFM:IFM2], bases[n[OFM_REGION]], values)


@kernel(ty.void(ty.int64[::1], ty.int64[::1]))
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
    finish(values, n[STAGE:COMBINE], bases[-1])
    scatter(n[OFM:IFM2], bases[n[OFM_REGION]], values)
