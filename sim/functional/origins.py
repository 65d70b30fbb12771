"""Where weights and scale records are before a stream has run: in place, or where one of its transfers takes them from.

What is known here is a forecast, by which constants are packed ahead, all together. Whether memory holds the same bytes when an
operation is executed is looked at then, so that a wrong one costs time alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from npu.isa.decoded import PLACES_OF, Alike
from npu.isa.operations import Convolution, DepthwiseConvolution, Dma, Operation
from sim.functional.kernels.origins import RANGE, TRANSFER, find_origins
from sim.functional.weights import ConstantBytes, source_columns
from sim.memory import NpuMemory


def constant_origins(alike: Alike, memory: NpuMemory) -> Iterator[tuple[int, ConstantBytes]]:
    """The index of every convolution, and the bytes that its `source_ranges` are going to have."""
    regions = dict(memory.regions)
    records = [alike.decoded[first].operation for first in alike.firsts]
    kinds = {kind: one for kind, one in enumerate(records) if isinstance(one, Convolution | DepthwiseConvolution)}
    columns = {kind: source_columns(one) for kind, one in kinds.items()}
    own = np.flatnonzero(np.isin(alike.of, list(kinds))).tolist()
    of = alike.of[own].tolist()
    ranges = [
        [(region, places[column], places[column + 1]) for region, column in columns[kind]]
        for kind, places in zip(of, alike.places[own].tolist(), strict=True)
    ]
    rows = np.array([(k, *one) for k, parts in zip(own, ranges, strict=True) for one in parts], np.int64).reshape(-1, 4)
    find_origins(_transfers(alike, records), rows.reshape(-1).view(RANGE))
    addresses, origins, at = (memory.bases[rows[:, 1]] + rows[:, 2]).tolist(), rows.tolist(), 0
    for index, kind, parts in zip(own, of, ranges, strict=True):
        first, at = at, at + len(parts)
        places = [(regions[region], start) for _, region, start, _ in origins[first:at]]
        constants = ConstantBytes(kinds[kind], parts, places, addresses[first:at])
        if not memory.constants.issuperset([region for _, region, _, _ in origins[first:at]]):
            constants = constants.copied()
        yield index, constants


def _transfers(alike: Alike, records: Sequence[Operation]) -> npt.NDArray[np.void]:
    """The `TRANSFER`s between regions that are in one piece."""
    regions = np.array([plain_sides(one) for one in records], np.int64).reshape(-1, 2)[alike.of]
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
