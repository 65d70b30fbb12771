"""Where weights and scale records are before a stream has run: in place, or where one of its transfers takes them from.

What is found here is a forecast, by which constants are packed ahead, all together. Whether memory holds the same bytes when an
operation is executed is looked at then, so that a wrong one costs time alone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence

from npu.isa.operations import AddressRange, Convolution, DepthwiseConvolution, Dma, Operation
from npu.native.call import array_address
from sim.functional.weights import Bytes, source_ranges
from sim.memory import NpuMemory

ConstantPlace = tuple[int, int]
"""Region and address of bytes."""


def constant_origins(
    operations: Sequence[Operation], memory: NpuMemory
) -> Iterator[tuple[int, Convolution | DepthwiseConvolution, list[Bytes], list[int]]]:
    """Every convolution with its index, and the bytes that its `source_ranges` are going to have, with their addresses.

    Nobody writes these bytes.
    """
    transfers, bases = _Transfers(), memory.bases.tolist()
    for index, operation in enumerate(operations):
        if isinstance(operation, Dma):
            transfers.add(operation)
        elif isinstance(operation, Convolution | DepthwiseConvolution):
            source, addresses = list[Bytes](), list[int]()
            for part in source_ranges(operation):
                region, start = transfers.origin(part)
                data, address = memory.regions[region][start : start + part.length_bytes], bases[region] + start
                if region not in memory.constants:
                    data = data.copy()
                    address = array_address(data)
                source.append(data)
                addresses.append(address)
            yield index, operation, source, addresses


class _Transfers:
    """The last ones between regions, by their destinations in order."""

    def __init__(self) -> None:
        self._starts = defaultdict[int, list[int]](list)
        self._sources: dict[ConstantPlace, tuple[ConstantPlace, int]] = {}
        """Source and length, by the destination."""

    def add(self, transfer: Dma) -> None:
        """Add the next one, in place of those that it overwrites from their first byte on."""
        source, target, size = transfer.source, transfer.destination, transfer.length_bytes
        if transfer.rows != 1 or transfer.planes != 1 or source.region is None or target.region is None:
            return
        starts = self._starts[target.region]
        first = bisect_left(starts, target.address)
        starts[first : bisect_left(starts, target.address + size)] = [target.address]
        self._sources[target.region, target.address] = (source.region, source.address), size

    def origin(self, part: AddressRange) -> ConstantPlace:
        """Where the bytes of a range are before they are transferred there."""
        starts = self._starts[part.region]
        index = bisect_right(starts, part.address) - 1
        if index >= 0:
            (region, address), size = self._sources[part.region, starts[index]]
            offset = part.address - starts[index]
            if offset <= size - part.length_bytes:
                return region, address + offset
        return part.region, part.address
