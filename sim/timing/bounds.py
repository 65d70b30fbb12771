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


_ORDER = (*(bound for bound, _ in _CANDIDATES), Bound.WEIGHT_DECODE, Bound.DMA, Bound.WAIT, Bound.ISSUE, Bound.NONE)
_MAC, _OUTPUT, _WEIGHT_READ, _IFM_READ, _OFM_WRITE, _WEIGHT_DECODE, _DMA, _WAIT, _ISSUE, _NONE = range(len(_ORDER))
"""Positions in `_ORDER`."""


def find_bounds(operations: NDArray[np.int64], table: NDArray[np.int64]) -> tuple[Bound, ...]:
    """One bound per operation of the plan's table (n, OPERATION_COLUMNS), from the trace's table (n, len(Column))."""
    kind = operations[:, k.KIND]
    values = table[:, [column for _, column in _CANDIDATES]]
    value = values.max(axis=1, initial=0)
    found = np.where(value > 0, values.argmax(axis=1), _ISSUE)
    is_reading = (found == _WEIGHT_READ) & (table[:, Column.DECODER_ACTIVE] > table[:, Column.DECODER_STALLED_BY_MEMORY])
    found[is_reading] = _WEIGHT_DECODE
    is_short = value * 2 < table[:, Column.END] - table[:, Column.START]
    found[is_short & ((found == _MAC) | (found == _OUTPUT))] = _ISSUE
    found[(kind == k.ELEMENTWISE) & (table[:, Column.IFM_FETCH_ACTIVE] > value)] = _IFM_READ
    found[kind > k.ELEMENTWISE] = _NONE
    found[kind == k.DMA] = _DMA
    found[(kind == k.DMA_WAIT) | (kind == k.KERNEL_WAIT)] = _WAIT
    return tuple(_ORDER[number] for number in found.tolist())
