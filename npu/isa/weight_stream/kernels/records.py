"""Scale records as they lie in memory."""

from __future__ import annotations

import numpy as np

from npu.machine.kernels.rows import integers
from npu.machine.rules import SCALE_RECORD_BYTES
from npu.native import types as ty
from npu.native.kernel import kernel
from npu.native.memory import load_i32, load_i64, load_u8

BIAS_BYTES = 5
SHIFT_BYTE = 9
RECORDS = np.dtype(integers("address", "count", "first", "step"))
"""Records one behind the other, and whose they are: every `step`-th channel from the first."""


@kernel(ty.void(ty.record(RECORDS)[::1], *[ty.int64[::1]] * 3))
def decode_records(parts, biases, scales, shifts):  # type: ignore[no-untyped-def]
    """Biases, scales and shifts of all channels."""
    for k in range(parts.shape[0]):
        part = parts[k]
        for j in range(part.count):
            at, channel = part.address + j * SCALE_RECORD_BYTES, part.first + j * part.step
            biases[channel] = (load_i64(at) << (64 - 8 * BIAS_BYTES)) >> (64 - 8 * BIAS_BYTES)  # brings the sign along
            scales[channel] = load_i32(at + BIAS_BYTES) & np.int64(0xFFFFFFFF)
            shifts[channel] = load_u8(at + SHIFT_BYTE)
