"""Where weights and scale records are before a stream has run: in place, or where one of its transfers takes them from.

What is known here is a forecast, by which constants are packed ahead, all together. Whether memory holds the same bytes when an
operation is executed is looked at then, so that a wrong one costs time alone.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu.isa.decoded import PLACES_OF, Alike
from npu.isa.operations import Convolution, DepthwiseConvolution, Dma, Operation
from npu.native.call import array_address
from npu.numerics.arrays import Ints, starts
from sim.functional.kernels.origins import RANGE, TRANSFER, find_origins
from sim.functional.weights import ConstantBytes, source_columns
from sim.memory import MAX_REGIONS, NpuMemory


def constant_origins(alike: Alike, memory: NpuMemory, operations: Ints) -> ConstantBytes:
    """The bytes that the `source_ranges` of convolutions are going to have; in an operation's place its index is given."""
    of, records = alike.of[operations], alike.records
    columns = [source_columns(one) if isinstance(one, Convolution | DepthwiseConvolution) else [] for one in records]
    sizes = np.array([len(own) for own in columns], np.int64)
    counts = sizes[of]
    index, own = np.repeat(operations, counts), np.repeat(starts(sizes)[of] - starts(counts), counts) + np.arange(counts.sum())
    region, column = np.array([part for parts in columns for part in parts], np.int64).reshape(-1, 2)[own].T
    rows = np.stack([index, region, alike.places[index, column], alike.places[index, column + 1]], axis=1)
    ranges = rows[:, 1:].copy()
    find_origins(_transfers(alike), rows.reshape(-1).view(RANGE))
    addresses, kept = memory.bases[rows[:, 1]] + rows[:, 2], [memory.regions[region] for region in memory.constants]
    is_constant = np.array([region in memory.constants for region in range(MAX_REGIONS)])
    for k in np.flatnonzero(~is_constant[rows[:, 1]]).tolist():
        _, region, start, size = rows[k].tolist()
        kept.append(memory.regions[region][start : start + size].copy())
        addresses[k] = array_address(kept[-1])
    return ConstantBytes(operations, counts, ranges, addresses, kept)


def _transfers(alike: Alike) -> npt.NDArray[np.void]:
    """The `TRANSFER`s between regions that are in one piece."""
    regions = np.array([plain_sides(one) for one in alike.records], np.int64).reshape(-1, 2)[alike.of]
    own = np.flatnonzero(regions[:, 0] >= 0)
    source, destination, size = alike.places[own, PLACES_OF["dma"]].T
    rows = np.stack([own, regions[own, 1], destination, size, regions[own, 0], source], axis=1)
    return rows.reshape(-1).view(TRANSFER)


def plain_sides(operation: Operation) -> tuple[int, int]:
    """Regions of source and destination; -1 if these are not bytes in one piece from region to region."""
    if isinstance(operation, Dma) and operation.rows == operation.planes == 1:
        source, destination = operation.source.region, operation.destination.region
        if source is not None and destination is not None:
            return source, destination
    return -1, -1
