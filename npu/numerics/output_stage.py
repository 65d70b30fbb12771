"""The output stage of 8-bit kernels, sums of 16 channels to bytes: what code reads of it, declared here and nowhere else.

The CPU delegate's kernels and the simulator's have it in common; `output_code` writes the code.
"""

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.kernel import Inlined

REQUANTIZE, FLOOR, SUM = range(3)
"""Output stages. FLOOR, one addition and two shifts: exact where negative results are clamped away, as after a RELU; SUM: the
sums themselves, 16 int32."""
CHANNELS = np.dtype(
    [
        *((name, np.int32, (16,)) for name in ("bias", "left_shift", "multiplier", "sign_mask", "right_shift")),
        # What is added to the products of even and odd channels, and how far FLOOR shifts the high halves.
        *((name, np.int64, (8,)) for name in ("even_addend", "odd_addend")),
        ("high_shift", np.int32, (16,)),
    ]
)
"""Bias and output stage of a block of 16 channels; the left shift is by one more than needed."""
CHANNELS_BYTES = CHANNELS.itemsize
LIMITS = np.dtype(
    [
        ("flip_inputs", np.uint32, (16,)),  # what bytes of inputs are exclusive-ored with to be unsigned: 128 or 0
        ("zero_point", np.int32, (16,)),
        *((name, np.int8, (64,)) for name in ("low", "high")),
        ("flip_outputs", np.uint8, (64,)),  # 128 for unsigned outputs, of which zero point, low and high are 128 less
        ("even_lanes", np.uint16),  # EVEN_LANES
    ]
)
"""What all channels share, as often as vectors need it."""
EVEN_LANES = 0x5555
STAGE = ty.record(CHANNELS)[::1]
STAGE_ARGUMENTS = ty.boolean(*[ty.int64[::1]] * 4, ty.int64, ty.int64, ty.boolean, STAGE)


@Inlined
def fill_channels(biases, scales, shifts, bounds, zero_point, limit, is_floor, stage):  # type: ignore[no-untyped-def]
    """Fill the zeroed `stage`. False if a sum, at most `bounds`, may leave what the kernels can do.

    The multiplication takes the sum times 2**(left + 1) and keeps the high half of the product, so a shift below 31
    becomes a left shift of the sum and one above 31 a second, rounded division.
    """
    one = np.int64(1)
    for c in range(shifts.shape[0]):
        shift, block, lane = shifts[c], c // 16, c % 16
        left, right = max(np.int64(0), 31 - shift), max(np.int64(0), shift - 31)
        if shift > 61 or left > 30 or scales[c] >= one << 31 or bounds[c] >= limit >> left:
            return False
        term = one << (right - 1) if right > 0 else np.int64(0)
        of_block = stage[block]
        of_block.bias[lane] = np.int32(biases[c])
        of_block.left_shift[lane] = np.int32(left + 1)
        of_block.multiplier[lane] = np.int32(scales[c])
        of_block.sign_mask[lane] = np.int32(-1 if right > 0 else 0)
        of_block.right_shift[lane] = np.int32(right)
        addends = of_block.even_addend if lane % 2 == 0 else of_block.odd_addend
        if is_floor:
            addends[lane // 2] = (one << 30) + (term << 31) + (zero_point << shift)
            of_block.high_shift[lane] = np.int32(shift - 32)
        else:
            addends[lane // 2] = (one << 31) + (term << 32)
    return True
