"""The memories that a command stream sees: regions as flat byte arrays, and SHRAM; the only place that checks accesses.

An address is a byte offset into a region. Nothing is read or written before `check` has accepted the whole range, so the
compiled kernels behind this module may use raw addresses.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from npu.errors import SimulationError
from npu.hardware.variant import Variant
from npu.isa.families import family_of
from npu.isa.operations import FeatureMap, Layout
from npu.records import dataclass

MAX_REGIONS = 8


@dataclass(frozen=True, slots=True, eq=False)
class InsideMemory:
    """What the accelerator holds from one operation to the next: SHRAM, maps in chaining buffers, and sums. None is changed in
    place but SHRAM."""

    shram: npt.NDArray[np.uint8]
    chained: Mapping[int, npt.NDArray[np.int64]]
    accumulators: npt.NDArray[np.int64] | None


class NpuMemory:
    """Regions 0..7 and the SHRAM of one variant.

    `regions`: region number -> one-dimensional contiguous uint8 array, which is used in place; a read-only array makes
    its region read-only. `shram`: uint8 (cores, bytes), cleared. Raises SimulationError if an array is of another kind.
    `results` and `inputs`: (region, start, end) of what is read after a run by others than a next run of the same stream, None
    for everything, and of what is written before every run.
    """

    def __init__(
        self,
        regions: Mapping[int, npt.NDArray[np.uint8]],
        variant: Variant,
        results: Sequence[tuple[int, int, int]] | None = None,
        inputs: Sequence[tuple[int, int, int]] = (),
    ) -> None:
        for number, data in regions.items():
            _check_region(number, data)
        self.regions: Mapping[int, npt.NDArray[np.uint8]] = MappingProxyType(dict(regions))
        self.constants = frozenset(number for number, data in regions.items() if _is_constant(data))
        """Regions whose bytes nobody can change."""
        self.results, self.inputs = results, inputs
        self.variant = variant
        self.arithmetic = family_of(variant.accelerator.product).arithmetic
        self.chained: Mapping[int, npt.NDArray[np.int64]] = {}
        """What chaining buffers hold: (height, width, depth), as the operation before has made it."""
        self.accumulators: npt.NDArray[np.int64] | None = None
        """Sums that an operation has kept for the next one."""
        self.shram = np.zeros((variant.accelerator.cores, variant.shram.total_bytes), np.uint8)
        self.bases = np.zeros(MAX_REGIONS + 1, np.int64)
        """Machine address of each region; the last entry is the look-up-table area of core 0."""
        for number, data in self.regions.items():
            self.bases[number] = data.ctypes.data
        self.bases[MAX_REGIONS] = self.shram.ctypes.data + variant.shram.lut_address

    def inside(self) -> InsideMemory:
        """A copy of what the accelerator holds, beside the regions."""
        return InsideMemory(self.shram.copy(), self.chained, self.accumulators)

    def put_inside(self, held: InsideMemory) -> None:
        """Give the accelerator what it held at another time."""
        self.shram[...] = held.shram
        self.chained, self.accumulators = held.chained, held.accumulators

    @functools.cached_property
    def shape(self) -> tuple[tuple[int, int, bool, int | None], ...]:
        """(region, bytes, writable, distance) of every region: two memories of one shape accept the same accesses.

        `distance` is that of its first byte from the region of the lowest number whose bytes it shares, None if it shares none.
        """
        return tuple(
            (number, data.size, data.flags.writeable, self._distance(number)) for number, data in sorted(self.regions.items())
        )

    def _distance(self, number: int) -> int | None:
        start = int(self.bases[number])
        for other, data in sorted(self.regions.items()):
            begin = int(self.bases[other])
            if other < number and start < begin + data.size and begin < start + self.regions[number].size:
                return start - begin
        return None

    @property
    def lut(self) -> npt.NDArray[np.uint8]:
        """The look-up-table area of core 0: uint8 (lut_bytes,), a view."""
        return self.shram[0, self.variant.shram.lut_address :]

    def check(self, region: int, start: int, end: int, *, writes: bool = False) -> None:
        """Raise SimulationError unless bytes [start, end) lie in `region` (and may be written)."""
        data = self.regions.get(region)
        kind = "write" if writes else "read"
        if data is None:
            present = ", ".join(str(number) for number in sorted(self.regions)) or "none"
            raise SimulationError(
                f"{kind} of region {region}: the region must be one of those present ({present}), got {region}"
            )
        if start < 0 or end > data.size or end < start:
            raise SimulationError(
                f"{kind} of region {region}: bytes must lie within its {data.size} bytes, got [{start:#x}, {end:#x})"
            )
        if writes and not data.flags.writeable:
            raise SimulationError(f"write of region {region}: the region must be writable, got a read-only one")

    def check_feature_map(self, fm: FeatureMap, *, writes: bool = False) -> None:
        """Raise SimulationError unless every element of `fm` lies in its region."""
        if min(fm.height, fm.width, fm.depth) < 1:
            shape = f"{fm.height}x{fm.width}x{fm.depth}"
            raise SimulationError(f"feature map in region {fm.region}: extent must be positive, got {shape}")
        if min(fm.tile_height_0, fm.tile_height_1, fm.tile_width_0) < 1:
            tiles = f"{fm.tile_height_0}, {fm.tile_height_1}, {fm.tile_width_0}"
            raise SimulationError(f"feature map in region {fm.region}: tile sizes must be positive, got {tiles}")
        for start, end in feature_map_ranges(fm):
            self.check(fm.region, start, end, writes=writes)

    def view(self, region: int, address: int, length_bytes: int) -> npt.NDArray[np.uint8]:
        """`length_bytes` bytes of a region as a uint8 view, checked."""
        self.check(region, address, address + length_bytes)
        return self.regions[region][address : address + length_bytes]

    def shram_view(self, core: int, address: int, length_bytes: int) -> npt.NDArray[np.uint8]:
        """`length_bytes` bytes of one core's look-up tables as a uint8 view, checked; nothing sees what else SHRAM holds."""
        first, size = self.variant.shram.lut_address, self.shram.shape[1]
        if address < first or address + length_bytes > size:
            end = address + length_bytes
            raise SimulationError(
                f"SHRAM: bytes must lie in the area of look-up tables [{first:#x}, {size:#x}) of {self.variant.name}, "
                f"got [{address:#x}, {end:#x})"
            )
        return self.shram[core, address : address + length_bytes]


def _check_region(number: int, data: npt.NDArray[np.uint8]) -> None:
    if not 0 <= number < MAX_REGIONS:
        raise SimulationError(f"memory: region number must be in [0, {MAX_REGIONS - 1}], got {number}")
    if data.dtype != np.uint8 or data.ndim != 1 or not data.flags.c_contiguous:
        raise SimulationError(f"memory: region {number} must be a contiguous uint8 vector, got {data.dtype} {data.shape}")


def _is_constant(data: npt.NDArray[np.uint8]) -> bool:
    """Whether an array is a view of `bytes`."""
    base: object = data
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, bytes)


def pixel_stride(fm: FeatureMap) -> int:
    """Bytes from one column to the next."""
    return fm.steps[1]


def brick_stride(fm: FeatureMap) -> int:
    """Bytes from one group of 16 channels to the next."""
    return fm.steps[2]


def tile_rectangles(fm: FeatureMap) -> list[tuple[int, int, int, int, int]]:
    """(tile, first row, rows, first column, columns) of every tile that holds elements."""
    if fm.is_one_tile:
        return [(0, 0, fm.height, 0, fm.width)]
    split = min(fm.tile_width_0, fm.width)
    rectangles = []
    for tile, limit, column, columns in ((0, fm.tile_height_0, 0, split), (1, fm.tile_height_1, split, fm.width - split)):
        top = min(limit, fm.height)
        rectangles.append((tile, 0, top, column, columns))
        rectangles.append((tile + 2, top, fm.height - top, column, columns))
    return [rectangle for rectangle in rectangles if rectangle[2] > 0 and rectangle[4] > 0]


def feature_map_ranges(fm: FeatureMap, *, whole_bricks: bool = False) -> list[tuple[int, int]]:
    """Byte range [start, end) of each used tile; `whole_bricks` rounds the depth up to 16."""
    size, depth, (row, pixel, brick) = fm.element.bytes, fm.depth, fm.steps
    last = 15 if whole_bricks or depth >= 16 else depth - 1
    if fm.layout is Layout.NHWC:
        last = depth - 1 if not whole_bricks else (depth + 15) // 16 * 16 - 1
    bricks, ranges = 0 if fm.layout is Layout.NHWC else (depth - 1) // 16 * brick, []
    if fm.is_one_tile and row >= 0 and pixel >= 0 and brick >= 0:  # as nearly all are
        start, span = fm.addresses[0], (fm.height - 1) * row + (fm.width - 1) * pixel + bricks
        return [(start, start + span + last * size + size)]
    for tile, _, rows, _, columns in tile_rectangles(fm):
        address, y, x = fm.addresses[tile], (rows - 1) * row, (columns - 1) * pixel
        low = (y if y < 0 else 0) + (x if x < 0 else 0) + (bricks if bricks < 0 else 0)
        high = (y if y > 0 else 0) + (x if x > 0 else 0) + (bricks if bricks > 0 else 0)
        ranges.append((address + low, address + high + last * size + size))
    return ranges
