"""Work of neighbouring operators at the same time: how long each takes by itself, and behind which one it hides."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from npu.numerics.arrays import distinct
from npu.records import dataclass
from sim.trace import Trace, TraceColumn

KERNELS = ("conv", "depthwise", "pool", "elementwise")
"""Kinds of a trace that compute."""
HIDDEN_SHARE = 0.9
"""An operator is hidden when at least this part of its span counts for others."""


@dataclass(frozen=True, slots=True)
class OperatorSpan:
    """`cycles` from the first fetch to the last write of an operator's operations, gaps left out.

    `behind` is the operator that most of the span counts for, where nearly all of it counts for others.
    """

    cycles: int
    behind: int | None = None


def find_spans(trace: Trace, owners: NDArray[np.int64]) -> dict[int, OperatorSpan]:
    """The span of every operator that has kernel operations, or transfers only; `owners` (n,) as in `owners_of`."""
    ends = trace.column(TraceColumn.END)
    counted = np.maximum.accumulate(ends) if len(ends) else ends
    counted_from = np.concatenate([np.zeros(1, np.int64), counted])[: len(ends)]
    kinds = np.array(trace.kinds)
    computes, transfers = np.isin(kinds, KERNELS), kinds == "dma"
    starts = trace.column(TraceColumn.START)
    spans: dict[int, OperatorSpan] = {}
    for operator in distinct(owners[computes | transfers]).tolist():
        mine = owners == operator
        rows = np.flatnonzero(mine & computes)
        rows = rows if len(rows) else np.flatnonzero(mine & transfers)
        cycles = _union(starts[rows], ends[rows])
        own = int((counted - counted_from)[mine].sum())
        behind = None
        if cycles - own >= HIDDEN_SHARE * cycles > 0:
            first, last = starts[rows].min(), ends[rows].max()
            overlap = np.minimum(counted, last) - np.maximum(counted_from, first)
            shared = np.bincount(owners, np.where(mine, 0, np.maximum(overlap, 0)))
            behind = int(shared.argmax()) if shared.max() > 0 else None
        spans[operator] = OperatorSpan(cycles, behind)
    return spans


def _union(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> int:
    """Length of the union of intervals."""
    order = np.argsort(starts, kind="stable")
    first, last = starts[order], np.maximum.accumulate(ends[order])
    covered = np.concatenate([first[:1], last[:-1]])
    return int(np.maximum(last - np.maximum(first, covered), 0).sum())
