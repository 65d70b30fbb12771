"""Which transfer brings the bytes that an operation reads."""

from __future__ import annotations

import numpy as np

from npu.machine.kernels.rows import integers
from npu.native import types as ty
from npu.native.kernel import kernel

TRANSFER = np.dtype(integers("index", "region", "address", "bytes", "from_region", "from_address"))
"""Bytes that operation `index` copies to a place, in one piece."""
RANGE = np.dtype(integers("index", "region", "address", "bytes"))
"""Bytes that operation `index` reads; they are made into those that are copied to there."""
_MOST = 1 << 12
"""Transfers that are looked at for a range."""


@kernel(ty.void(ty.record(TRANSFER)[::1], ty.record(RANGE)[::1]))
def find_origins(transfers, ranges):  # type: ignore[no-untyped-def]
    """Make ranges, which are in the order of operations, those that the last transfer before them brings, if it brings all."""
    before = np.int64(0)
    for k in range(ranges.shape[0]):
        one = ranges[k]
        while before < transfers.shape[0] and transfers[before].index < one.index:
            before += 1
        for j in range(before - 1, max(before - 1 - _MOST, np.int64(-1)), -1):
            last = transfers[j]
            offset = one.address - last.address
            if last.region == one.region and offset < last.bytes and -offset < one.bytes:
                if offset >= 0 and offset + one.bytes <= last.bytes:
                    one.region, one.address = last.from_region, last.from_address + offset
                break
