"""What bounds an operation: the largest of what its units did and what they waited for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sim.timing.kernels import expand as k
from sim.trace import Bound, Column

_CANDIDATES = (
    (Bound.MAC, Column.MAC_ACTIVE),
    (Bound.OUTPUT, Column.OUTPUT_ACTIVE),
    (Bound.WEIGHT_READ, Column.MAC_STALLED_BY_WEIGHTS),
    (Bound.IFM_READ, Column.MAC_STALLED_BY_IFM),
    (Bound.OFM_WRITE, Column.OUTPUT_STALLED_BY_MEMORY),
)


def find_bounds(operations: NDArray[np.int64], table: NDArray[np.int64]) -> tuple[Bound, ...]:
    """One bound per operation of the plan's table (n, OPERATION_COLUMNS), from the trace's table (n, len(Column))."""
    return tuple(_bound(kind, row) for kind, row in zip(operations[:, k.KIND].tolist(), table.tolist(), strict=True))


def _bound(kind: int, row: list[int]) -> Bound:
    if kind == k.DMA:
        return Bound.DMA
    if kind in (k.DMA_WAIT, k.KERNEL_WAIT):
        return Bound.WAIT
    if kind > k.ELEMENTWISE:
        return Bound.NONE
    best, value = Bound.ISSUE, 0
    for bound, column in _CANDIDATES:
        if row[column] > value:
            best, value = bound, row[column]
    if kind == k.ELEMENTWISE and row[Column.IFM_FETCH_ACTIVE] > value:
        return Bound.IFM_READ
    if value * 2 < row[Column.END] - row[Column.START] and best in (Bound.MAC, Bound.OUTPUT):
        return Bound.ISSUE
    if best is Bound.WEIGHT_READ and row[Column.DECODER_ACTIVE] > row[Column.DECODER_STALLED_BY_MEMORY]:
        return Bound.WEIGHT_DECODE
    return best
