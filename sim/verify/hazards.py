"""Whether waits and BLOCKDEP keep every operation from meeting data that an unfinished one still owns.

The machine as the judge sees it: at most so many transfers and kernels are unfinished at a time; a KERNEL_WAIT or DMA_WAIT
retires the oldest; kernels of one queue finish in order, and blocks of neighbouring ones overlap as far as BLOCKDEP lets them.

The walk over blocks is written here a second time on purpose: a judge that asked `npu.machine`, as the compiler does, would
find every mistake of that walk in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from npu.hardware.variant import Variant
from npu.isa.decoded import Decoded
from npu.isa.operations import (
    Convolution,
    Dma,
    DmaWait,
    FeatureMap,
    KernelOperation,
    KernelWait,
    Operation,
    ResizeAxis,
    Resizing,
    Stop,
    Traversal,
    Upscale,
    WindowOperation,
)
from npu.machine.rules import deep_set_depth, widest_ifm_block
from npu.records import dataclass
from sim.verify.footprint import ByteSet, Footprint, MapBox, bytes_of_map, whole


@dataclass(frozen=True, slots=True)
class Conflict:
    """Operation `at` touches `address` of `region` while the operation at command `earlier` is not known to be done with it."""

    rule: str
    at: Decoded
    earlier: Decoded
    region: int
    address: int
    what: str


@dataclass(frozen=True, slots=True)
class _Pending:
    decoded: Decoded
    footprint: Footprint


class HazardTracker:
    """Feed it the operations in order; each call yields the conflicts of that operation."""

    def __init__(self, variant: Variant) -> None:
        self._variant = variant
        self._kernels: list[_Pending] = []
        self._transfers: list[_Pending] = []

    def has_effect(self, operation: Operation) -> bool:
        """Whether a wait has anything to wait for, as far as is known; True for everything else."""
        if isinstance(operation, KernelWait):
            return len(self._kernels) > operation.outstanding
        if isinstance(operation, DmaWait):
            return len(self._transfers) > operation.outstanding
        return True

    def step(self, decoded: Decoded, touched: Footprint) -> list[Conflict]:
        """Conflicts of one operation with what may still be unfinished when it starts."""
        operation = decoded.operation
        if isinstance(operation, KernelWait):
            self._kernels = _newest(self._kernels, operation.outstanding)
        elif isinstance(operation, DmaWait):
            self._transfers = _newest(self._transfers, operation.outstanding)
        elif isinstance(operation, Stop):
            self._kernels, self._transfers = [], []
        elif isinstance(operation, Dma):
            return self._transfer(_Pending(decoded, touched))
        elif isinstance(operation, KernelOperation):
            return self._kernel(_Pending(decoded, touched))
        return []

    def _transfer(self, new: _Pending) -> list[Conflict]:
        self._transfers = _newest(self._transfers, self._variant.accelerator.max_outstanding_dma - 1)
        conflicts = _conflicts("HAZARD-DMA-KERNEL", new, self._kernels)
        conflicts += _conflicts("HAZARD-DMA-DMA", new, self._transfers)
        self._transfers.append(new)
        return conflicts

    def _kernel(self, new: _Pending) -> list[Conflict]:
        conflicts = _conflicts("HAZARD-KERNEL-DMA", new, self._transfers)
        if self._kernels:
            conflicts += list(_block_conflicts(self._kernels[-1].decoded, new.decoded))
        self._kernels = [*_newest(self._kernels, self._variant.accelerator.max_outstanding_kernels - 1), new]
        return conflicts


def _newest(pending: list[_Pending], count: int) -> list[_Pending]:
    return pending[max(0, len(pending) - count) :]


def _conflicts(rule: str, new: _Pending, pending: list[_Pending]) -> list[Conflict]:
    conflicts = []
    for old in pending:
        pairs = (
            (new.footprint.reads, old.footprint.writes),
            (new.footprint.writes, old.footprint.reads),
            (new.footprint.writes, old.footprint.writes),
        )
        clash = next((hit for mine, theirs in pairs for hit in _first_common(mine, theirs)), None)
        if clash:
            what, region, address = clash
            conflicts.append(Conflict(rule, new.decoded, old.decoded, region, address, what))
    return conflicts


def _first_common(
    mine: tuple[tuple[str, ByteSet], ...], theirs: tuple[tuple[str, ByteSet], ...]
) -> Iterator[tuple[str, int, int]]:
    for name, a in mine:
        for other, b in theirs:
            address = a.common(b)
            if address is not None:
                yield f"bytes of its {name} are also the {other}", a.region, address


def _block_conflicts(earlier: Decoded, later: Decoded) -> Iterator[Conflict]:
    """Job i of the later kernel must not need one of the last blocks of the earlier one that BLOCKDEP leaves unfinished.

    Kernels before the earlier one are not looked at: streams of Vela, which run on hardware, do not wait for them.
    A job fetches one IFM block: convolutions and sums over channels have several a block of OFM, one after another in depth.
    """
    first, second = earlier.operation, later.operation
    assert isinstance(first, KernelOperation)
    assert isinstance(second, KernelOperation)
    depth = second.blockdep
    if not depth:
        return
    written = list(_last_written(first, depth))
    for name, fm in zip(("IFM", "IFM2"), second.ifms, strict=False):
        if not fm.is_in_memory:
            continue
        for i, box in enumerate(islice(_input_jobs(second, fm), depth)):
            read = bytes_of_map(fm, box)
            for block in written[: depth - i]:
                address = read.common(block)
                if address is not None:
                    what = f"its {name} meets the OFM under BLOCKDEP {depth}"
                    yield Conflict("HAZARD-BLOCKDEP", later, earlier, fm.region, address, what)
                    return


def _last_written(operation: KernelOperation, count: int) -> Iterator[ByteSet]:
    """What the last blocks write, the very last first; all of an OFM that is stored in another order."""
    stored = operation.stored_ofm
    if stored is None:
        return
    if operation.writes_in_order:
        yield from (bytes_of_map(stored, box) for box in islice(_ofm_blocks(operation, is_reversed=True), count))
    else:
        yield from [bytes_of_map(stored)] * count


def _ofm_blocks(operation: KernelOperation, *, is_reversed: bool) -> Iterator[MapBox]:
    """OFM blocks in the order in which they are made: depth fastest, then width, then height."""
    ofm, block = operation.ofm, operation.block
    extents, sizes = (ofm.height, ofm.width, ofm.depth), (block.height, block.width, block.depth)
    spans = [
        [(start, min(start + size, extent)) for start in range(0, extent, size)]
        for extent, size in zip(extents, sizes, strict=True)
    ]
    if is_reversed:
        spans = [span[::-1] for span in spans]
    for rows in spans[0]:
        for columns in spans[1]:
            for channels in spans[2]:
                yield rows, columns, channels


def _input_jobs(operation: KernelOperation, fm: FeatureMap) -> Iterator[MapBox]:
    """Boxes of `fm` in the order in which they are fetched."""
    if isinstance(operation, WindowOperation) and fm is not operation.ifm:
        yield whole(fm)  # which block reads what of it is not followed
        return
    step = _ifm_block_depth(operation) if operation.combines_channels else fm.depth
    for block in _ofm_blocks(operation, is_reversed=False):
        rows, columns, channels = _input_box(operation, fm, block)
        for first in range(channels[0], channels[1], step):
            yield rows, columns, (first, min(first + step, channels[1]))


def _ifm_block_depth(operation: KernelOperation) -> int:
    """Channels of an IFM block."""
    is_part_kernel = isinstance(operation, Convolution) and operation.traversal is Traversal.PART_KERNEL_FIRST
    if operation.options is not None:
        return deep_set_depth(is_part_kernel)
    return widest_ifm_block(operation.ifm.element.bytes, is_part_kernel)


def _input_box(operation: KernelOperation, fm: FeatureMap, box: MapBox) -> MapBox:
    """The elements of `fm` from which the OFM elements of `box` are made."""
    rows, columns, channels = box
    if isinstance(operation, WindowOperation):
        kernel, padding = operation.kernel, operation.padding
        factor = 1 if operation.upscale is Upscale.NONE else 2
        rows = _window(rows, kernel.stride_y, kernel.dilated_height, padding.top, factor, fm.height)
        columns = _window(columns, kernel.stride_x, kernel.dilated_width, padding.left, factor, fm.width)
        return rows, columns, (0, fm.depth) if operation.combines_channels else channels
    if isinstance(operation, Resizing):
        return _resized(rows, operation.y, fm.height), _resized(columns, operation.x, fm.width), channels
    return (
        rows if fm.height > 1 else (0, 1),
        columns if fm.width > 1 else (0, 1),
        channels if fm.depth > 1 else (0, 1),
    )


def _window(span: tuple[int, int], stride: int, kernel: int, pad: int, factor: int, extent: int) -> tuple[int, int]:
    start, end = span[0] * stride - pad, (span[1] - 1) * stride - pad + kernel
    low = max(0, start // factor)
    return low, max(low, min(extent, -(-end // factor)))


def _resized(span: tuple[int, int], axis: ResizeAxis, extent: int) -> tuple[int, int]:
    """Both neighbours of the first and of the last element of the OFM."""
    first, last = ((place * axis.step + axis.offset) // axis.scale for place in (span[0], span[1] - 1))
    low = max(0, min(first, extent - 1))
    return low, max(low, min(last + 1, extent - 1)) + 1
