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
    regions, constant = dict(memory.regions), memory.constants
    records = [alike.decoded[first].operation for first in alike.firsts]
    kinds = {kind: one for kind, one in enumerate(records) if isinstance(one, Convolution | DepthwiseConvolution)}
    columns = {kind: source_columns(one) for kind, one in kinds.items()}
    own = np.flatnonzero(np.isin(alike.of, list(kinds))).tolist()
    of = alike.of[own].tolist()
    parts = np.array([(index, *part) for index, kind in zip(own, of, strict=True) for part in columns[kind]], np.int64)
    index, region, column = parts.reshape(-1, 3).T
    rows = np.stack([index, region, alike.places[index, column], alike.places[index, column + 1]], axis=1)
    ranges = rows[:, 1:].tolist()
    find_origins(_transfers(alike, records), rows.reshape(-1).view(RANGE))
    addresses, origins, end = (memory.bases[rows[:, 1]] + rows[:, 2]).tolist(), rows[:, 1:3].tolist(), 0
    for k, kind in zip(own, of, strict=True):
        first, end = end, end + len(columns[kind])
        places = [(regions[region], start) for region, start in origins[first:end]]
        constants = ConstantBytes(kinds[kind], ranges[first:end], places, addresses[first:end])
        is_kept = all(region in constant for region, _ in origins[first:end])
        yield k, constants if is_kept else constants.copied()


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
