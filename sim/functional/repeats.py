"""What a plan need not do again on a memory that it has run on: compare weights that cannot have changed, and transfer bytes
that only such weights are read from and that later transfers overwrite, or that are nobody's results.

After every whole run memory holds what it would hold otherwise, where it is read again. In between it may not, so nothing is
left out of a run that is watched or begins in the middle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from npu.isa.operations import Convolution, DepthwiseConvolution, Dma, FeatureMap, KernelOperation, Operation
from sim.functional.kernels import rows as r
from sim.functional.weights import source_ranges
from sim.memory import NpuMemory, feature_map_ranges, tile_rectangles

_MAX_BYTES = 1 << 26
"""Memory that is followed byte by byte."""
Span = tuple[int, int]
Flags = npt.NDArray[np.bool_]
"""Of all bytes that can be written, or a view of some."""


def mark_repeats(operations: Sequence[Operation], rows: npt.NDArray[np.void], places: Places) -> None:
    """Set `is_known` of the rows that a run on the same memory may skip, or whose constants it need not compare."""
    rows["is_known"] = 0
    if places.size > _MAX_BYTES:
        return
    _mark_constants(operations, rows, places)
    _mark_transfers(operations, rows, places)


class Places:
    """Bytes that can be written, of all regions, numbered without gaps; those that regions share have one number."""

    def __init__(self, memory: NpuMemory) -> None:
        self.memory, self._first, self.size, end = memory, dict[int, int](), 0, 0
        regions = {number: data for number, data in memory.regions.items() if number not in memory.constants}
        for number, data in sorted(regions.items(), key=lambda region: int(memory.bases[region[0]])):
            base = int(memory.bases[number])
            self._first[number] = self.size - max(0, end - base)
            self.size = max(self.size, self._first[number] + data.size)
            end = max(end, base + data.size)

    def span(self, region: int, start: int, end: int) -> Span | None:
        """Numbers of bytes; None for constants."""
        first = self._first.get(region)
        return None if first is None else (first + start, first + end)

    def mark(self, flags: Flags, parts: Sequence[tuple[int, int, int]], *, value: bool = True) -> None:
        """Set the flags of the bytes in (region, start, end)."""
        for part in parts:
            if (span := self.span(*part)) is not None:
                flags[span[0] : span[1]] = value

    def of_map(self, fm: FeatureMap) -> list[Span]:
        """Bytes that a map may hold: what lies behind its last channel may be loaded with it, but has no effect."""
        spans = (self.span(fm.region, start, end) for start, end in feature_map_ranges(fm))
        return [(max(0, span[0]), min(self.size, span[1])) for span in spans if span is not None]

    def written(self, operation: Operation) -> list[Span]:
        """Bytes that an operation may write."""
        if isinstance(operation, Dma):
            return self._of_side(operation, operation.destination.region, operation.destination.address)
        ofm = operation.stored_ofm if isinstance(operation, KernelOperation) else None
        return [] if ofm is None else self.of_map(ofm)

    def overwritten(self, flags: Flags, operation: Operation) -> Iterator[Flags]:
        """The flags of bytes that an operation writes for certain, of `flags` for all bytes."""
        spans = self.written(operation)
        if isinstance(operation, Dma):
            if operation.rows == operation.planes == 1 and operation.indices is None:
                yield from (flags[start:end] for start, end in spans)
        elif isinstance(operation, KernelOperation) and (ofm := operation.stored_ofm) is not None:
            if [end - start for start, end in spans] == [ofm.height * ofm.width * ofm.depth * ofm.element.bytes]:
                yield flags[slice(*spans[0])]
            elif spans and min(ofm.steps) >= 0:
                yield from self._elements(flags, ofm)

    def _elements(self, flags: Flags, fm: FeatureMap) -> Iterator[Flags]:
        """Of a map with gaps: (rows, columns, groups of 16 channels, bytes of a group), of each tile twice."""
        whole, rest = divmod(fm.depth, 16)
        for tile, _, rows, _, columns in tile_rectangles(fm):
            for first, groups, channels in ((0, whole, 16), (whole, int(rest > 0), rest)):
                address = fm.addresses[tile] + first * fm.steps[2]
                span = self.span(fm.region, address, address)
                if span is not None and groups > 0:
                    shape = rows, columns, groups, channels * fm.element.bytes
                    yield np.lib.stride_tricks.as_strided(flags[span[0] :], shape, (*fm.steps, 1))

    def read(self, operation: Operation, *, with_constants: bool) -> list[Span]:
        """Bytes that an operation may read."""
        if isinstance(operation, Dma):
            source = self._of_side(operation, operation.source.region, operation.source.address)
            if operation.indices is None:
                return source
            indices = self.span(operation.indices.region, *operation.index_span)
            return source if indices is None else [*source, indices]
        maps = operation.ifms_in_memory if isinstance(operation, KernelOperation) else ()
        return [*(span for fm in maps for span in self.of_map(fm)), *(self.constants(operation) if with_constants else ())]

    def constants(self, operation: Operation) -> list[Span]:
        """Bytes of weights and scale records that can be written."""
        if not isinstance(operation, Convolution | DepthwiseConvolution):
            return []
        parts = source_ranges(operation)
        spans = (self.span(part.region, part.address, part.address + part.length_bytes) for part in parts)
        return [span for span in spans if span is not None and span[1] > span[0]]

    def _of_side(self, operation: Dma, region: int | None, address: int) -> list[Span]:
        if region is None:
            return []
        is_plain = operation.rows == operation.planes == 1 and operation.indices is None
        size = self.memory.regions[region].size
        whole = self.span(region, *((address, address + operation.length_bytes) if is_plain else (0, size)))
        return [] if whole is None else [whole]


def _mark_constants(operations: Sequence[Operation], rows: npt.NDArray[np.void], places: Places) -> None:
    """Weights in constant memory, or transferred from there as one since it was last written."""
    writer = np.full(places.size, -1, np.int32)
    kinds = rows["kind"]
    for index, operation in enumerate(operations):
        if kinds[index] in (r.CONVOLUTION, r.DEPTHWISE):
            spans = places.constants(operation)
            rows["is_known"][index] = all(_is_copied(writer[start:end], operations, kinds, places) for start, end in spans)
        for start, end in places.written(operation):
            writer[start:end] = index


def _is_copied(
    writers: npt.NDArray[np.int32], operations: Sequence[Operation], kinds: npt.NDArray[np.int64], places: Places
) -> bool:
    """Whether one transfer of constants wrote them all."""
    last = int(writers[0])
    if last < 0 or kinds[last] != r.COPY or not bool((writers == last).all()):
        return False
    return not places.read(operations[last], with_constants=False)


def _mark_transfers(operations: Sequence[Operation], rows: npt.NDArray[np.void], places: Places) -> None:
    """Transfers of which no byte is read, or left at the end for those who read it."""
    memory = places.memory
    is_needed = np.full(places.size, memory.results is None)
    if memory.results is not None:
        places.mark(is_needed, memory.results)
        is_read = _follow(operations, rows, places, is_needed.copy())  # by a next run before it is written
        places.mark(is_read, memory.inputs, value=False)
        is_needed |= is_read
    _follow(operations, rows, places, is_needed)


def _follow(operations: Sequence[Operation], rows: npt.NDArray[np.void], places: Places, is_needed: Flags) -> Flags:
    """Mark the transfers that write nothing needed, from what is needed at the end to what is at the beginning."""
    for index, operation in _backwards(operations):
        if rows["kind"][index] == r.COPY:
            spans = places.written(operation)
            rows["is_known"][index] = bool(spans) and not any(is_needed[start:end].any() for start, end in spans)
            if rows["is_known"][index]:
                continue
        for part in places.overwritten(is_needed, operation):
            part[...] = False
        for start, end in places.read(operation, with_constants=not rows["is_known"][index]):
            is_needed[start:end] = True
    return is_needed


def _backwards(operations: Sequence[Operation]) -> Iterator[tuple[int, Operation]]:
    return ((index, operations[index]) for index in range(len(operations) - 1, -1, -1))
