"""Which operations of a stream share a plan: those that are alike, if nothing that a plan is made of depends on their places.

The only place that knows how it may depend on them: whether all bytes are in memory, whether groups of 16 channels that are
read whole are, and whether an operation overwrites what it reads. One with which something may be wrong shares no plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from npu.isa.decoded import MAPS, PLACES_OF, RANGES, Alike
from npu.isa.families import family_of
from npu.isa.operations import Dma, FeatureMap, KernelOperation, WeightedOperation
from npu.numerics.arrays import Ints
from sim.functional.kernels import rows as r
from sim.functional.origins import plain_sides
from sim.memory import MAX_REGIONS, NpuMemory, feature_map_ranges, tile_rectangles

_NOWHERE = MAX_REGIONS
"""In place of the region of what an operation does not have."""
_MAPS = slice(PLACES_OF[MAPS[0]].start, PLACES_OF[MAPS[-1]].stop)
_RANGES = slice(PLACES_OF[RANGES[0]].start, PLACES_OF[RANGES[-1]].stop)
_CORES = 2


def shared_plans(alike: Alike, memory: NpuMemory) -> tuple[Ints, Ints]:
    """The first operation of each plan, in order, and the plan of every operation, by its number among these."""
    count = alike.of.size
    is_safe, facts = np.ones(count, np.bool_), np.zeros(count, np.int64)
    repeated = np.flatnonzero(np.bincount(alike.of) > 1).tolist()
    kinds = {kind: alike.records[kind] for kind in repeated}
    sizes = np.array([memory.regions[k].size if k in memory.regions else -1 for k in range(MAX_REGIONS)] + [1 << 62])
    transfers = {kind: plain_sides(one) for kind, one in kinds.items() if isinstance(one, Dma)}
    if transfers:
        own, regions = _rows_of(transfers, alike.of)
        is_safe[own] = _are_transfers_inside(regions, alike.places[own, PLACES_OF["dma"]], sizes)
    kernels = {kind: one for kind, one in kinds.items() if isinstance(one, KernelOperation)}
    if kernels:
        own, extents = _rows_of({kind: _extents(one) for kind, one in kernels.items()}, alike.of)
        is_safe[own], facts[own] = _facts(extents, alike.places[own, _MAPS], sizes, memory.bases)
        record_bytes = family_of(memory.variant.accelerator.product).scales.record_bytes
        own, least = _rows_of({kind: list(_least(one, record_bytes)) for kind, one in kernels.items()}, alike.of)
        is_safe[own] &= _are_constants_inside(least, alike.places[own, _RANGES], sizes)
    keys = np.where(is_safe, alike.of * (facts.max(initial=0) + 1) + facts, -1 - np.arange(count))
    _, firsts, plans = np.unique(keys, return_index=True, return_inverse=True)
    order, numbers = np.argsort(firsts), np.empty_like(firsts)
    numbers[order] = np.arange(order.size)
    return firsts[order], numbers[plans]


def _rows_of(rows: Mapping[int, Sequence[int]], of: Ints) -> tuple[Ints, Ints]:
    """The operations of some kinds, and of each the row of its kind."""
    row_of = np.full(of.max(initial=0) + 1, -1)
    row_of[list(rows)] = np.arange(len(rows))
    own = np.flatnonzero(row_of[of] >= 0)
    return own, np.array(list(rows.values()), np.int64)[row_of[of[own]]]


def _are_transfers_inside(regions: Ints, places: Ints, sizes: Ints) -> npt.NDArray[np.bool_]:
    starts, lengths = places[:, :2], places[:, 2:]
    is_inside = (regions >= 0) & (starts >= 0) & (lengths > 0) & (starts + lengths <= sizes[regions])
    is_safe: npt.NDArray[np.bool_] = np.logical_and.reduce(is_inside, axis=1)
    return is_safe


def _extents(operation: KernelOperation) -> list[int]:
    """Of each map the region; first and last of its bytes, and the same with whole groups of channels, from its address on."""
    maps: list[FeatureMap | None] = [getattr(operation, name, None) for name in MAPS]
    if any(fm is not None and len(tile_rectangles(fm)) > 1 for fm in maps):
        return [-1] * 5 * len(MAPS)
    return [number for fm in maps for number in _extent(fm)]


def _extent(fm: FeatureMap | None) -> list[int]:
    if fm is None:
        return [_NOWHERE, 0, 0, 0, 0]
    (own,), (whole,) = feature_map_ranges(fm), feature_map_ranges(fm, whole_bricks=True)
    return [fm.region, *(place - fm.addresses[0] for place in (*own, *whole))]


def _facts(extents: Ints, places: Ints, sizes: Ints, bases: Ints) -> tuple[npt.NDArray[np.bool_], Ints]:
    """Whether maps of one tile are within memory, and what else of their places a plan depends on, as bits of a number."""
    extents, tiles = extents.reshape(-1, len(MAPS), 5), places.reshape(-1, len(MAPS), 4)
    regions, (low, high, whole_low, whole_high) = extents[:, :, 0], np.moveaxis(extents[:, :, 1:] + tiles[:, :, :1], 2, 0)
    size, base = sizes[regions], bases[regions]
    is_inside = (regions >= 0) & (low >= 0) & (high <= size)
    inputs, ofm = [0, 2], [1]
    start, end = base + low, base + high
    facts = [
        (whole_low >= 0) & (whole_high <= size),
        low + (high - low + 15) // 16 * 16 <= size,
        (start[:, inputs] < end[:, ofm]) & (start[:, ofm] < end[:, inputs]),
        (tiles[:, inputs] == tiles[:, ofm]).all(2),
    ]
    bits = np.concatenate(facts, axis=1)
    return np.logical_and.reduce(is_inside, axis=1), bits @ (1 << np.arange(bits.shape[1]))


def _least(operation: KernelOperation, record_bytes: int) -> Iterator[int]:
    """Region and least length of the weights and the scale records of each core."""
    for name, size in zip(RANGES, (0, record_bytes), strict=True):
        ranges = getattr(operation, name) if isinstance(operation, WeightedOperation) else ()
        for core in range(_CORES):
            is_used = core < len(ranges)
            yield ranges[core].region if is_used else _NOWHERE
            yield size * len(range(core, operation.ofm.depth, len(ranges))) if is_used else 0


def _are_constants_inside(least: Ints, places: Ints, sizes: Ints) -> npt.NDArray[np.bool_]:
    regions, lengths = least[:, ::2], places[:, 1::2]
    is_inside = (places[:, ::2] >= 0) & (lengths >= least[:, 1::2]) & (places[:, ::2] + lengths <= sizes[regions])
    is_safe: npt.NDArray[np.bool_] = np.logical_and.reduce(is_inside, axis=1)
    return is_safe


def move_rows(table: npt.NDArray[np.void], places: Ints, plans: Ints) -> None:
    """Bring rows, each with the numbers of its plan, to the places of their operations."""
    ifm, ofm, ifm2 = (places[:, PLACES_OF[name].start] for name in MAPS)
    is_reversed = table["is_reversed"] != 0
    table["in_start"], table["in2_start"] = np.where(is_reversed, ifm2, ifm), np.where(is_reversed, ifm, ifm2)
    table["out_start"] = ofm
    for name in MAPS:
        table["values"][name]["tiles"] = places[:, PLACES_OF[name]]
    transfers = places[:, PLACES_OF["dma"]]
    is_copy, (source, destination, length) = table["kind"] == r.COPY, (transfers - transfers[plans]).T
    table["in_table"] += source * is_copy
    table["out_table"] += destination * is_copy
    table["pixels"] += length * is_copy
