"""How much of the arena a command stream needs at each of its operations, from what later operations still read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from npu.errors import SimulationError
from npu.graph.ethos_u import Region
from npu.isa.operations import Dma, DmaSide, FeatureMap, KernelOperation, Layout, Operation, WeightedOperation
from sim.memory import feature_map_ranges

GRANULE_BYTES = 16
"""Resolution of the count; feature maps are aligned to it."""

MAX_ARENA_BYTES = 1 << 28
"""Largest arena that is followed."""

ByteRange = tuple[int, int]


def arena_use(operations: Sequence[Operation], region: int = Region.ARENA) -> NDArray[np.int64]:
    """Bytes of the arena (or of another `region`) in use during each operation, shape (operations,).

    A byte is in use from the operation that writes it to the last one that reads it; what the stream leaves behind counts
    as read at the end if nothing in the stream reads it. Maps count as ranges of addresses. Raises SimulationError for an
    arena above MAX_ARENA_BYTES.
    """
    reads = [reads_of(operation, region) for operation in operations]
    writes = [writes_of(operation, region) for operation in operations]
    size = max((end for ranges in (*reads, *writes) for _, end in ranges), default=0)
    if size > MAX_ARENA_BYTES:
        raise SimulationError(f"timeline: the arena must be at most {MAX_ARENA_BYTES} bytes, got {size}")
    live = _left_behind(reads, writes, size)
    used = np.zeros(len(operations), np.int64)
    count = int(live.sum())
    for index in range(len(operations) - 1, -1, -1):
        count += _mark(live, (*reads[index], *writes[index]), is_used=True)
        used[index] = count * GRANULE_BYTES
        count += _mark(live, writes[index], is_used=False)
        count += _mark(live, reads[index], is_used=True)
    return used


def _mark(live: NDArray[np.bool_], ranges: Sequence[ByteRange], *, is_used: bool) -> int:
    """Say of the granules of `ranges` whether they are in use; how many more are than before."""
    more = 0
    for start, end in ranges:
        part = live[start // GRANULE_BYTES : -(-end // GRANULE_BYTES)]
        more -= int(np.count_nonzero(part))
        part[:] = is_used
        more += part.size if is_used else 0
    return more


def _left_behind(reads: list[list[ByteRange]], writes: list[list[ByteRange]], size: int) -> NDArray[np.bool_]:
    """Granules that are written and not read afterwards: the outputs of the stream."""
    left = np.zeros(-(-size // GRANULE_BYTES), np.bool_)
    for read, written in zip(reads, writes, strict=True):
        _mark(left, read, is_used=False)
        _mark(left, written, is_used=True)
    return left


def reads_of(operation: Operation, region: int) -> list[ByteRange]:
    """The address ranges of a region that an operation reads."""
    if isinstance(operation, Dma):
        ranges = _side_ranges(operation, operation.source, region)
        if operation.indices is not None and operation.indices.region == region:
            ranges.append(operation.index_span)
        return ranges
    if not isinstance(operation, KernelOperation):
        return []
    ranges = [span for fm in operation.ifms_in_memory for span in _ranges(fm, region)]
    if isinstance(operation, WeightedOperation):
        parts = (*operation.weights, *operation.scales)
        ranges += [(part.address, part.address + part.length_bytes) for part in parts if part.region == region]
    return [span for span in ranges if span[1] > span[0]]


def writes_of(operation: Operation, region: int) -> list[ByteRange]:
    """The address ranges of a region that an operation writes."""
    if isinstance(operation, Dma):
        return _side_ranges(operation, operation.destination, region)
    ofm = operation.stored_ofm if isinstance(operation, KernelOperation) else None
    return [] if ofm is None else _ranges(ofm, region)


def _side_ranges(operation: Dma, side: DmaSide, region: int) -> list[ByteRange]:
    """What a transfer touches on one side: its bytes one after the other, or all between the first and the last."""
    if side.region != region:
        return []
    if side.steps is not None:
        return [operation.span(side)]
    return [(side.address, side.address + operation.length_bytes * operation.rows * operation.planes)]


def _ranges(fm: FeatureMap, region: int) -> list[ByteRange]:
    """Address ranges of the tiles of a map that is in `region`."""
    if fm.region != region:
        return []
    ranges = feature_map_ranges(fm, whole_bricks=fm.layout is Layout.NHCWB16)
    return [(max(0, start), max(0, end)) for start, end in ranges]
