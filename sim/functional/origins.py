"""Where weights and scale records are before a stream has run: in place, or where one of its transfers takes them from.

What is found here is a forecast, by which constants are packed ahead, all together. Whether memory holds the same bytes when an
operation is executed is looked at then, so that a wrong one costs time alone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator

from npu.isa.decoded import PLACES_OF, Alike
from npu.isa.operations import Convolution, DepthwiseConvolution, Dma
from npu.native.call import array_address
from sim.functional.weights import Bytes, ConstantBytes, ConstantRange, source_columns
from sim.memory import NpuMemory

ConstantPlace = tuple[int, int]
"""Region and address of bytes."""


def constant_origins(alike: Alike, memory: NpuMemory) -> Iterator[tuple[int, ConstantBytes]]:
    """The index of every convolution, and the bytes that its `source_ranges` are going to have."""
    transfers, bases, regions = _Transfers(), memory.bases.tolist(), dict(memory.regions)
    kinds = [alike.decoded[first].operation for first in alike.firsts]
    columns = [source_columns(one) if isinstance(one, Convolution | DepthwiseConvolution) else [] for one in kinds]
    is_transfer = [isinstance(one, Dma) for one in kinds]
    for index, (kind, places) in enumerate(zip(alike.of.tolist(), alike.places.tolist(), strict=True)):
        if is_transfer[kind]:
            transfers.add(kinds[kind], *places[PLACES_OF["dma"]])
        if not columns[kind]:
            continue
        ranges, source, addresses = list[ConstantRange](), list[Bytes](), list[int]()
        for region, column in columns[kind]:
            start, size = places[column], places[column + 1]
            ranges.append((region, start, size))
            origin, at = transfers.origin(region, start, size)
            data, address = regions[origin][at : at + size], bases[origin] + at
            if origin not in memory.constants:
                data = data.copy()
                address = array_address(data)
            source.append(data)
            addresses.append(address)
        yield index, ConstantBytes(kinds[kind], ranges, source, addresses)


class _Transfers:
    """The last ones between regions, by their destinations in order."""

    def __init__(self) -> None:
        self._starts = defaultdict[int, list[int]](list)
        self._sources: dict[ConstantPlace, tuple[ConstantPlace, int]] = {}
        """Source and length, by the destination."""

    def add(self, transfer: Dma, source: int, target: int, size: int) -> None:
        """Add the next one, in place of those that it overwrites from their first byte on."""
        from_region, to_region = transfer.source.region, transfer.destination.region
        if transfer.rows != 1 or transfer.planes != 1 or from_region is None or to_region is None:
            return
        starts = self._starts[to_region]
        first = bisect_left(starts, target)
        starts[first : bisect_left(starts, target + size)] = [target]
        self._sources[to_region, target] = (from_region, source), size

    def origin(self, region: int, address: int, size: int) -> ConstantPlace:
        """Where the bytes of a range are before they are transferred there."""
        starts = self._starts[region]
        index = bisect_right(starts, address) - 1
        if index >= 0:
            (from_region, source), length = self._sources[region, starts[index]]
            offset = address - starts[index]
            if offset <= length - size:
                return from_region, source + offset
        return region, address
