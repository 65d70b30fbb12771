"""Ordering of operations that run at the same time: BLOCKDEP between kernels, waits between kernels and DMA.

The machine starts operations in order, but kernels and transfers overlap: up to `max_outstanding_kernels` kernels and
`max_outstanding_dma` transfers are unfinished at a time, and blocks of a kernel overlap those of the one before. Where a
precise answer is not certain, the safe one is given.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import attrgetter

from npu.hardware.variant import Shram, Variant
from npu.isa.operations import (
    Block,
    Convolution,
    Dma,
    DmaWait,
    Elementwise,
    FeatureMap,
    IfmPadding,
    KernelOperation,
    KernelWait,
    KernelWindow,
    Layout,
    MapStorage,
    Operation,
    Resizing,
    Stop,
    Traversal,
    Upscale,
    WeightedOperation,
    WindowOperation,
)
from npu.isa.shram import LUT_SLOT_BYTES, table_bytes
from npu.layouts import BRICK_DEPTH, MapShape
from npu.machine.rules import block_place, ceil_div, deep_set_depth, input_range, widest_ifm_block
from npu.records import dataclass, replace

_REMEMBERED = 1 << 10
"""Boxes of so many geometries: stripes of a step have one in common."""

_WHERE = attrgetter("region", "layout", "element.bits", "tile_width_0", "tile_height_0", "tile_height_1", "height", "width")
"""Besides addresses and steps, what tells where the elements of a map are."""

SHRAM = None
"""The region of an access to the look-up tables inside the accelerator."""


class Access:
    """Bytes [start, end) of a region (SHRAM = None) that an operation reads or writes; may cover more than it touches.

    No record: half a dozen are made for every operation, which takes a third of the time so.
    """

    __slots__ = ("end", "is_write", "region", "start")

    def __init__(self, region: int | None, start: int, end: int, is_write: bool) -> None:
        self.region, self.start, self.end, self.is_write = region, start, end, is_write

    def conflicts(self, other: Access) -> bool:
        """Whether both touch a byte that one of them writes."""
        meets = self.start < other.end and other.start < self.end and self.region == other.region
        return meets and (self.is_write or other.is_write)


_NOTHING = Access(-1, 0, 0, False)


@dataclass(frozen=True, slots=True)
class Elements:
    """Elements [start, end) of a feature map along height, width and depth."""

    start: MapShape
    end: MapShape

    def meets(self, other: Elements) -> bool:
        """Whether the boxes share an element."""
        (y, x, z), (y_end, x_end, z_end) = self.start, self.end
        (v, u, w), (v_end, u_end, w_end) = other.start, other.end
        return y < v_end and v < y_end and x < u_end and u < x_end and z < w_end and w < z_end


@dataclass(frozen=True, slots=True, eq=False)
class KernelAccesses:
    """What a kernel operation reads and writes: each of its maps as a whole, its weights and scale records, its table."""

    operation: KernelOperation
    reads: tuple[Access, ...]
    write: Access
    constants: tuple[Access, ...]
    table: tuple[Access, ...]

    @classmethod
    def of(cls, operation: KernelOperation, shram: Shram) -> KernelAccesses:
        """Those of an operation."""
        reads = tuple([map_access(fm, is_write=False) for fm in operation.ifms])
        constants = _constant_accesses(operation) if isinstance(operation, WeightedOperation) else ()
        return cls(
            operation,
            reads,
            map_access(operation.stored_ofm or operation.ofm, is_write=True),
            constants,
            _table_accesses(operation, shram),
        )

    @property
    def all(self) -> tuple[Access, ...]:
        """All of them."""
        return (*self.reads, self.write, *self.constants, *self.table)


def insert_waits(
    operations: Sequence[Operation], source_of: Sequence[int], variant: Variant
) -> tuple[list[Operation], list[int]]:
    """The operations with BLOCKDEP set and DMA_WAIT and KERNEL_WAIT where hazards need them.

    A wait belongs to the source of the operation that it protects.
    """
    tracker = _Tracker(variant)
    ordered: list[Operation] = []
    sources: list[int] = []
    history: list[KernelAccesses] = []
    for group, own in _groups(operations, source_of):
        touched: tuple[Access, ...] = ()
        if isinstance(group[0], KernelOperation):
            members = [KernelAccesses.of(one, variant.shram) for one in group if isinstance(one, KernelOperation)]
            distance = min([blockdep(history, member, variant) for member in members])
            group = [_with_blockdep(one, distance) for one in group]
            history = [*history[-2:], members[-1]]
            touched = tuple([access for member in members for access in member.all])
        elif isinstance(group[0], Dma):
            touched = _dma_accesses(group[0])
        waits = tracker.waits_before(group[0], touched)
        ordered += [*waits, *group]
        sources += [own[0]] * len(waits) + own
        tracker.issue(group[0], touched)
    return ordered, sources


def _with_blockdep(operation: Operation, distance: int) -> Operation:
    if not isinstance(operation, KernelOperation) or operation.blockdep == distance:
        return operation
    return replace(operation, blockdep=distance)


def _groups(operations: Sequence[Operation], source_of: Sequence[int]) -> Iterator[tuple[list[Operation], list[int]]]:
    """The operations one by one, those of a chain together, with their sources: the NPU counts a chain as one kernel."""
    group: list[Operation] = []
    own: list[int] = []
    for operation, source in zip(operations, source_of, strict=True):
        group.append(operation)
        own.append(source)
        if not (isinstance(operation, KernelOperation) and operation.ofm.storage is MapStorage.CHAINED):
            yield group, own
            group, own = [], []


class _Tracker:
    """What may still be unfinished when the next operation is issued, newest last."""

    def __init__(self, variant: Variant) -> None:
        self._variant = variant
        self._kernels: list[tuple[Access, ...]] = []
        self._transfers: list[tuple[Access, ...]] = []

    def waits_before(self, operation: Operation, touched: tuple[Access, ...]) -> list[Operation]:
        """The waits that an operation needs that touches this."""
        waits: list[Operation] = []
        if isinstance(operation, (KernelOperation, Dma)):
            kept = _newer_than_conflict(touched, self._transfers)
            if kept is not None:
                waits.append(DmaWait(kept))
                self._transfers = self._transfers[len(self._transfers) - kept :]
            if isinstance(operation, Dma):
                kept = _newer_than_conflict(touched, self._kernels)
                if kept is not None:
                    waits.append(KernelWait(kept))
                    self._kernels = self._kernels[len(self._kernels) - kept :]
        return waits

    def issue(self, operation: Operation, touched: tuple[Access, ...]) -> None:
        """The operation is under way."""
        accelerator = self._variant.accelerator
        if isinstance(operation, Dma):
            self._transfers.append(touched)
            self._transfers = self._transfers[-accelerator.max_outstanding_dma :]
        elif isinstance(operation, KernelOperation):
            self._kernels.append(touched)
            self._kernels = self._kernels[-accelerator.max_outstanding_kernels :]
        elif isinstance(operation, Stop):
            self._kernels, self._transfers = [], []


def _newer_than_conflict(touched: tuple[Access, ...], outstanding: list[tuple[Access, ...]]) -> int | None:
    """How many of the outstanding operations are newer than the newest conflicting one; None if none conflicts."""
    for newer, other in enumerate(reversed(outstanding)):
        if _conflict(touched, other):
            return newer
    return None


def _conflict(first: Sequence[Access], second: Sequence[Access]) -> bool:
    for a in first:
        for b in second:
            if a.conflicts(b):
                return True
    return False


def _dma_accesses(dma: Dma) -> tuple[Access, ...]:
    """Both sides of a transfer, and its indices; a strided side covers its skipped bytes too."""
    sides = (
        Access(dma.source.region, *dma.span(dma.source), is_write=False),
        Access(dma.destination.region, *dma.span(dma.destination), is_write=True),
    )
    return sides if dma.indices is None else (*sides, Access(dma.indices.region, *dma.index_span, is_write=False))


def _table_accesses(operation: KernelOperation, shram: Shram) -> tuple[Access, ...]:
    """The tables an operation reads; where no bank is reserved for tables, other kernels overwrite all of SHRAM."""
    index = operation.activation.function.lut_index
    if index is None:
        return () if shram.reserved_lut_banks else (Access(SHRAM, 0, shram.total_bytes, True),)
    start = shram.lut_address + index * LUT_SLOT_BYTES
    return (Access(SHRAM, start, min(start + table_bytes(operation), shram.total_bytes), False),)


def map_access(fm: FeatureMap, *, is_write: bool) -> Access:
    """All of a map; nothing of one in a chaining buffer."""
    if not fm.is_in_memory:
        return _NOTHING
    row, pixel, group = fm.steps
    if row >= 0 and pixel >= 0 and group >= 0 and not _has_tiles(fm):  # as most
        is_bricked, start = fm.layout is Layout.NHCWB16, fm.addresses[0]
        last = (fm.depth - 1) // BRICK_DEPTH * group + pixel if is_bricked else fm.depth * fm.element.bytes
        end = start + (fm.height - 1) * row + (fm.width - 1) * pixel + last
    else:
        spans = _spans(fm, Elements((0, 0, 0), (fm.height, fm.width, fm.depth)))
        start, end = min(first for first, _ in spans), max(end for _, end in spans)
    return Access(fm.region, start, end, is_write)


def _spans(fm: FeatureMap, box: Elements) -> list[tuple[int, int]]:
    """First byte and end of the bytes that hold the elements of `box`, whole bricks counted, in each tile that it lies in."""
    if not _has_tiles(fm):
        return [_span_from(fm, fm.addresses[0], box)]
    return [_span_from(fm, base, part) for base, part in _by_tile(fm, box)]


def _by_tile(fm: FeatureMap, box: Elements) -> Iterator[tuple[int, Elements]]:
    """The tiles that a box lies in, by their addresses, and its part of each, counted from the beginning of the tile."""
    (y, x, low), (y_end, x_end, high) = box.start, box.end
    split = fm.tile_width_0
    sides = ((x, min(x_end, split), 0, fm.tile_height_0), (max(x, split), x_end, split, fm.tile_height_1))
    for side, (left, right, column, height) in enumerate(sides):
        for tile, top, bottom, row in ((side, y, min(y_end, height), 0), (side + 2, max(y, height), y_end, height)):
            if left < right and top < bottom:
                part = Elements((top - row, left - column, low), (bottom - row, right - column, high))
                yield fm.addresses[tile], part


def _span_from(fm: FeatureMap, base: int, box: Elements) -> tuple[int, int]:
    """The same of a tile that begins at `base`; strides may be negative."""
    unit = channel = fm.element.bytes
    is_bricked = fm.layout is Layout.NHCWB16
    row, pixel, group = fm.steps
    (y, x, low), (y_end, x_end, high) = box.start, box.end
    high -= 1
    if is_bricked:
        low, high = low // BRICK_DEPTH, high // BRICK_DEPTH
        unit, channel = pixel, group
    first = last = 0
    for near, far in ((y * row, (y_end - 1) * row), (x * pixel, (x_end - 1) * pixel), (low * channel, high * channel)):
        first, last = (first + near, last + far) if near < far else (first + far, last + near)
    return max(base + first, 0), base + last + unit


def _has_tiles(fm: FeatureMap) -> bool:
    """Whether a map has more than its first tile."""
    return fm.tile_width_0 < fm.width or fm.tile_height_0 < fm.height


def blockdep(history: Sequence[KernelAccesses], current: KernelAccesses, variant: Variant) -> int:
    """How many blocks before it may be unfinished when `current` starts a fetch: 0 to the variant's maximum.

    `history` are the kernels before it, newest last. The largest distance at which none of the first fetches of `current`
    reads what one of the last blocks of `history` writes; blocks of an operation before the previous one count when the
    previous one has fewer than the maximum.
    """
    if not history:
        return 0
    limit = variant.accelerator.max_blockdep
    operation, previous = current.operation, history[-1]
    if not variant.shram.reserved_lut_banks and _uses_table(previous.operation) and not _uses_table(operation):
        return 0
    if isinstance(operation, Resizing) and any(_conflict((earlier.write,), current.reads) for earlier in history):
        return 0  # its input boxes are no windows over its OFM
    if any(not earlier.operation.writes_in_order and _conflict((earlier.write,), current.reads) for earlier in history):
        return 0
    if isinstance(operation, Convolution) and any(_conflict((earlier.write,), current.reads[1:]) for earlier in history):
        return 0  # it reads its weights from IFM2 in an order of their own
    read = [number for number, access in enumerate(current.reads) if previous.write.conflicts(access)]
    if len(read) > 1 or any(_is_repeated(operation, number) for number in read):
        return 0
    if _conflict((previous.write,), current.constants):
        return 0
    maps = zip(operation.ifms, current.reads, strict=True)
    return min([_distance(history, operation, fm, access, limit) for fm, access in maps])


def _uses_table(operation: KernelOperation) -> bool:
    return operation.activation.function.lut_index is not None


def _constant_accesses(operation: WeightedOperation) -> tuple[Access, ...]:
    ranges = (*operation.weights, *operation.scales)
    return tuple(Access(r.region, r.address, r.address + r.length_bytes, False) for r in ranges)


def _is_repeated(operation: KernelOperation, number: int) -> bool:
    """Whether an operand of an elementwise operation is repeated along an axis."""
    return isinstance(operation, Elementwise) and _extent(operation.ifms[number]) != _extent(operation.ofm)


def _distance(history: Sequence[KernelAccesses], current: KernelOperation, fm: FeatureMap, access: Access, limit: int) -> int:
    """Largest BLOCKDEP that keeps `current` from reading too early through `fm`."""
    meets = [access.conflicts(earlier.write) for earlier in history]
    if True not in meets:
        return limit
    last: list[_Touched | None] = []
    for earlier, is_met in zip(reversed(history), reversed(meets), strict=True):
        kernel, left = earlier.operation, limit - len(last)
        if is_met:
            is_same = _is_same_map(kernel.ofm, fm)
            last += [_Touched(kernel.ofm, box, is_same) for box in _last_boxes(_extent(kernel.ofm), kernel.block, limit)[:left]]
        else:
            last += [None] * min(math.prod(_ofm_blocks(_extent(kernel.ofm), kernel.block)), left)
        if len(last) == limit:
            break
    if not any(last):
        return limit
    first = [_Touched(fm, box) for box in _first_fetches(_fetching(current, fm), limit)]
    for total in range(limit):
        for i, read in enumerate(first[: total + 1]):
            written = last[total - i] if total - i < len(last) else None
            if written is not None and written.meets(read):
                return total
    return limit


class _Touched:
    """A box of a map that a block writes or a fetch reads; `is_same`: in the map that is read, so that coordinates tell."""

    __slots__ = ("_fm", "_spans", "box", "is_same")

    def __init__(self, fm: FeatureMap, box: Elements, is_same: bool = False) -> None:
        self._fm, self.box, self.is_same = fm, box, is_same
        self._spans: list[tuple[int, int]] | None = None

    def meets(self, read: _Touched) -> bool:
        """Whether this, which is written, has an element of what is read."""
        if self.is_same:
            return self.box.meets(read.box)
        for first, end in self.spans():
            for other_first, other_end in read.spans():
                if first < other_end and other_first < end:
                    return True
        return False

    def spans(self) -> list[tuple[int, int]]:
        """First byte and end of the bytes that hold it, by tile."""
        if self._spans is None:
            self._spans = _spans(self._fm, self.box)
        return self._spans


def _is_same_map(a: FeatureMap, b: FeatureMap) -> bool:
    """Whether equal coordinates mean equal addresses in both maps (single tile, same extent)."""
    if a.addresses != b.addresses or _WHERE(a) != _WHERE(b):
        return False
    places = a.height, a.width, ceil_div(max(a.depth, b.depth), BRICK_DEPTH)
    return all(step == other or count == 1 for step, other, count in zip(a.steps, b.steps, places, strict=True))


def _extent(fm: FeatureMap) -> MapShape:
    return fm.height, fm.width, fm.depth


def _ofm_blocks(ofm: MapShape, block: Block) -> tuple[int, int, int]:
    """OFM blocks along height, width and depth."""
    return ceil_div(ofm[0], block.height), ceil_div(ofm[1], block.width), ceil_div(ofm[2], block.depth)


def _ofm_boxes(ofm: MapShape, block: Block, *, is_reversed: bool) -> Iterator[Elements]:
    """OFM blocks in the order in which they are made, or from the last one."""
    down, across, deep = _ofm_blocks(ofm, block)
    numbers = range(down * across * deep)
    for number in reversed(numbers) if is_reversed else numbers:
        y, x, z = block_place(number, across, deep)
        start = (y * block.height, x * block.width, z * block.depth)
        last = (start[0] + block.height, start[1] + block.width, start[2] + block.depth)
        yield Elements(start, (min(last[0], ofm[0]), min(last[1], ofm[1]), min(last[2], ofm[2])))


@functools.lru_cache(_REMEMBERED)
def _last_boxes(ofm: MapShape, block: Block, count: int) -> tuple[Elements, ...]:
    """The last OFM blocks, the last one first."""
    return tuple(islice(_ofm_boxes(ofm, block, is_reversed=True), count))


@dataclass(frozen=True, slots=True)
class _Fetching:
    """What the boxes that an operation fetches of a map depend on: stripes have it in common. `kernel` None: no window."""

    ofm: MapShape
    block: Block
    extent: MapShape
    step: int
    combines_channels: bool
    kernel: KernelWindow | None
    padding: IfmPadding | None
    upscale: Upscale


def _fetching(operation: KernelOperation, fm: FeatureMap) -> _Fetching:
    step, combines_channels = fm.depth, operation.combines_channels
    if combines_channels:
        is_part_kernel = isinstance(operation, Convolution) and operation.traversal is Traversal.PART_KERNEL_FIRST
        is_deep = operation.options is not None
        step = deep_set_depth(is_part_kernel) if is_deep else widest_ifm_block(fm.element.bytes, is_part_kernel)
    common = _extent(operation.ofm), operation.block, _extent(fm), step, combines_channels
    if isinstance(operation, WindowOperation):
        return _Fetching(*common, operation.kernel, operation.padding, operation.upscale)
    return _Fetching(*common, None, None, Upscale.NONE)


@functools.lru_cache(_REMEMBERED)
def _first_fetches(fetching: _Fetching, count: int) -> tuple[Elements, ...]:
    return tuple(islice(_fetches(fetching), count))


def _fetches(fetching: _Fetching) -> Iterator[Elements]:
    """The boxes of a map in the order in which they are fetched: of what combines channels, one IFM block after another."""
    for made in _ofm_boxes(fetching.ofm, fetching.block, is_reversed=False):
        whole = _input_box(fetching, made)
        for channel in range(whole.start[2], whole.end[2], fetching.step):
            yield Elements((*whole.start[:2], channel), (*whole.end[:2], min(channel + fetching.step, whole.end[2])))


def _input_box(fetching: _Fetching, box: Elements) -> Elements:
    """Elements of the map that the OFM elements of `box` are computed from, through all sub-kernels."""
    full, kernel, padding = fetching.extent, fetching.kernel, fetching.padding
    first, last = (0, full[2]) if fetching.combines_channels else (box.start[2], min(box.end[2], full[2]))
    if kernel is None or padding is None:
        return Elements((*box.start[:2], first), (min(box.end[0], full[0]), min(box.end[1], full[1]), last))
    rows, columns = box.end[0] - box.start[0], box.end[1] - box.start[1]
    upscale = 1 if fetching.upscale is Upscale.NONE else 2
    top, height = input_range(
        box.start[0], rows, kernel.stride_y, kernel.dilation_y, 0, kernel.height, padding.top, full[0], upscale
    )
    left, width = input_range(
        box.start[1], columns, kernel.stride_x, kernel.dilation_x, 0, kernel.width, padding.left, full[1], upscale
    )
    return Elements((top, left, first), (top + height, left + width, last))
