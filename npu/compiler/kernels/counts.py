"""How often each value occurs in weights: numpy would make 64-bit numbers of all of them first."""

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.kernel import kernel

VALUES = 512
"""Weights are 8-bit values less a zero point: from -255 to 255."""
ROWS = 4
"""Equal values follow one another, and a counter waits for itself."""


@kernel(ty.void(ty.constant(ty.int16, 1), ty.int64[:, ::1]))
def count_values(values, counts):  # type: ignore[no-untyped-def]
    """Add to counts[:, value + VALUES / 2], in ROWS rows, how many there are of each value."""
    count = values.shape[0]
    for start in range(0, count - count % ROWS, ROWS):
        for row in range(ROWS):
            counts[np.uint64(row), np.uint64((values[np.uint64(start + row)] + VALUES // 2) % VALUES)] += 1
    for k in range(count - count % ROWS, count):
        counts[0, (values[k] + VALUES // 2) % VALUES] += 1
