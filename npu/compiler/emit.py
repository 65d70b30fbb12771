"""From jobs with addresses to machine operations in order of issue."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from npu.compiler.buffers import common_layouts
from npu.compiler.compiled import NO_SOURCE
from npu.compiler.dependencies import insert_waits
from npu.compiler.ir import (
    ConvolutionStep,
    ElementwiseStep,
    GatherStep,
    PoolingStep,
    ProductStep,
    ResizeStep,
    ReverseStep,
    Step,
    Storage,
    TransposeStep,
    View,
    WindowStep,
)
from npu.compiler.jobs import Job
from npu.compiler.layout import feature_map
from npu.compiler.lifetime import LogicalBuffer, buffer_of
from npu.compiler.lut import TableSlot, TableSlots, TableUse
from npu.compiler.memory import RegionOffset
from npu.compiler.staging import Transfer
from npu.compiler.weights import Constants, WeightSlice
from npu.errors import CompileError
from npu.graph.ethos_u import Region
from npu.hardware.variant import Variant
from npu.isa.families import family_of
from npu.isa.operations import (
    Activation,
    ActivationFunction,
    AddressRange,
    Convolution,
    DepthwiseConvolution,
    Dma,
    DmaIndices,
    DmaSide,
    DmaStride,
    Elementwise,
    FeatureMap,
    KernelOptions,
    KernelWindow,
    Layout,
    OfmReverse,
    OperandScale,
    Operation,
    Pooling,
    PoolingMode,
    ResizeAxis,
    Resizing,
    ShramLayout,
    Stop,
    ifm_plane,
)
from npu.isa.shram import LUT_SLOT_BYTES
from npu.layouts import MapShape
from npu.numerics.resize_axis import ResizePlaces
from npu.records import dataclass, replace

_FUNCTIONS = {"tanh": ActivationFunction.TANH, "sigmoid": ActivationFunction.SIGMOID}


@dataclass(frozen=True, slots=True, eq=False)
class Addresses:
    """What a partition's operations need to know of memory.

    `transfers` and `buffers` are the staged slices and where each is copied to; `start` is the event of the first job.
    """

    places: Mapping[LogicalBuffer, RegionOffset]
    layouts: Mapping[Storage, Layout]
    transfers: Sequence[Transfer]
    buffers: Sequence[RegionOffset]
    start: int


def emit_operations(jobs: Sequence[Job], addresses: Addresses, constants: Constants) -> tuple[list[Operation], list[int]]:
    """The operations of one partition with waits and BLOCKDEP, ended by Stop, and the source operator of each."""
    variant = constants.variant
    uses = [_table_use(job) for job in jobs]
    table_slots = TableSlots(variant)
    slots = [table_slots.step(use) for use in uses]
    order: list[Operation] = []
    sources: list[int] = []
    tables = _table_events(slots, uses, addresses, variant)
    layouts = common_layouts(jobs, variant.shram)
    chosen = family_of(variant.accelerator.product).chosen
    transfers, pending = list(zip(addresses.transfers, addresses.buffers, strict=True)), 0
    copied, maps = _Copies(addresses), _Maps(addresses, constants)
    for index, job in enumerate(jobs):
        event, first = addresses.start + index, pending
        while pending < len(transfers) and transfers[pending][0].issue <= event:
            pending += 1
        due = sum(transfer.use <= event for transfer, _ in transfers[first:pending])
        copies = [
            [(copy, jobs[t.use - addresses.start].step.source) for copy in _slice_copies(t.constants, place)]
            for t, place in transfers[first:pending]
        ]
        loads = [(_table_copy(uses[at], slots[at], variant), jobs[at].step.source) for at in tables.get(index, ())]
        for copy, source in itertools.chain(*copies[:due], loads, *copies[due:]):
            order.append(copy if chosen is None else chosen(copy, None))
            sources.append(source)
        place = copied.place_of(job.constants, event) if job.constants is not None else None
        if isinstance(job.step, GatherStep):
            order.append(_gather(job.step, maps))
        else:
            kernel = _kernel(job, layouts[index], slots[index], place, maps)
            order.append(kernel if chosen is None else chosen(kernel, job.choice.ublock))
        sources.append(job.step.source)
    operations, sources = insert_waits(order, sources, variant)
    return [*operations, Stop()], [*sources, NO_SOURCE]


def _table_use(job: Job) -> TableUse | None:
    if job.table is None or job.step.lut is None:
        return None
    return TableUse(job.table, job.step.lut.size)


def _table_events(
    slots: Sequence[TableSlot | None], uses: Sequence[TableUse | None], addresses: Addresses, variant: Variant
) -> dict[int, list[int]]:
    """The jobs before which tables are loaded, each with the jobs that the tables are for.

    A table is loaded one job ahead, and ahead of copies for later jobs: the engine takes one after the other. But not before
    the kernel that used its slots last could have finished, nor, where a job without a table destroys them, ahead at all.
    """
    events: dict[int, list[int]] = {}
    last_used: dict[int, int] = {}
    for index, (slot, use) in enumerate(zip(slots, uses, strict=True)):
        if slot is None or use is None:
            continue
        own = range(slot.slot, slot.slot - (-use.length_bytes // LUT_SLOT_BYTES))
        if slot.must_load:
            later = [
                transfer.issue - addresses.start for transfer in addresses.transfers if transfer.use - addresses.start > index
            ]
            free = max(last_used.get(number, -2) for number in own) + 2
            ahead = variant.shram.reserved_lut_banks > 0
            event = min(index, max(free, min([index - 1, *later]), 0)) if ahead else index
            events.setdefault(event, []).append(index)
        last_used.update(dict.fromkeys(own, index))
    return events


def _table_copy(use: TableUse | None, slot: TableSlot | None, variant: Variant) -> Dma:
    assert use is not None
    assert slot is not None
    address = variant.shram.lut_address + slot.slot * LUT_SLOT_BYTES
    return Dma(source=DmaSide(Region.CONSTANTS, use.offset), destination=DmaSide(None, address), length_bytes=use.length_bytes)


def _slice_copies(constants: WeightSlice, place: RegionOffset) -> list[Dma]:
    sizes = [size for _, size in constants.pieces]
    return [
        Dma(
            source=DmaSide(Region.CONSTANTS, offset),
            destination=DmaSide(place.region, place.offset + position),
            length_bytes=size,
        )
        for (offset, size), position in zip(constants.pieces, itertools.accumulate(sizes, initial=0), strict=False)
    ]


class _Maps:
    """The feature maps of kernels in order of issue. Each keeps of the one before it the strides that do not matter to it.

    A stream then does not write those registers: of small networks one word in twelve.
    """

    def __init__(self, addresses: Addresses, constants: Constants) -> None:
        self._addresses, self._constants = addresses, constants
        self._held: dict[str, FeatureMap] = {}
        """By the operand whose registers hold it."""

    def at(self, view: View) -> RegionOffset:
        """Where a view begins that lies as NHWC does."""
        place = self._place(view.storage)
        return RegionOffset(place.region, place.offset + view.start * view.element.bytes)

    def _place(self, storage: Storage) -> RegionOffset:
        if storage.data is None:
            return self._addresses.places[buffer_of(storage)]
        return RegionOffset(Region.CONSTANTS, self._constants.add(np.ascontiguousarray(storage.data).tobytes()))

    def of(self, operand: str, view: View, shape: MapShape | None = None, channel: int = 0) -> FeatureMap:
        """The map of an operand of the next kernel."""
        storage, place = view.storage, self._place(view.storage)
        layout = Layout.NHWC if storage.data is not None else self._addresses.layouts[storage]
        made = feature_map(view, layout, place.region, place.offset, shape, channel, self._held.get(operand))
        self._held[operand] = made
        return made


class _Copies:
    """Where constants are copied to, and for which jobs."""

    def __init__(self, addresses: Addresses) -> None:
        self._known: dict[tuple[tuple[int, int], ...], list[tuple[Transfer, RegionOffset]]] = {}
        for transfer, place in zip(addresses.transfers, addresses.buffers, strict=True):
            self._known.setdefault(transfer.constants.pieces, []).append((transfer, place))

    def place_of(self, constants: WeightSlice, event: int) -> RegionOffset | None:
        """Where the job at `event` reads its weights and scale records, None if that is in place."""
        known = self._known.get(constants.pieces, ())
        return next((place for transfer, place in known if transfer.use <= event <= transfer.last), None)


def _kernel(
    job: Job, layout: ShramLayout, slot: TableSlot | None, place: RegionOffset | None, maps: _Maps
) -> Convolution | DepthwiseConvolution | Pooling | Elementwise | Resizing:
    step = job.step
    ofm_shape = (step.ofm.shape[0], step.ofm.shape[1], job.depth)
    common: dict[str, Any] = {
        "ofm": maps.of("ofm", step.ofm, ofm_shape, job.channel),
        "block": job.choice.block,
        "shram": layout,
        "activation": _activation(step, slot),
        "scale": step.scale,
        "rounding": step.rounding,
        "accumulator": job.accumulator,
    }
    if isinstance(step, ElementwiseStep):
        return _elementwise(step, common, maps)
    if isinstance(step, ResizeStep):
        return _resizing(step, common, maps)
    if isinstance(step, ProductStep):
        return _product(step, common, maps)
    if isinstance(step, TransposeStep | ReverseStep):
        return _placed_otherwise(step, job, common, maps)
    assert isinstance(step, WindowStep)
    offset = job.channel if step.ifm.shape[2] == step.ofm.shape[2] and not _mixes_channels(step) else 0
    depth = job.depth if not _mixes_channels(step) else step.ifm.shape[2]
    rows, columns = _ifm_extent(step)
    common |= {
        "ifm": maps.of("ifm", step.ifm, (rows, columns, depth), offset),
        "kernel": step.kernel,
        "padding": step.padding,
        "upscale": step.upscale,
    }
    if isinstance(step, PoolingStep):
        return Pooling(mode=step.mode, **common)
    assert isinstance(step, ConvolutionStep)
    assert job.constants is not None
    common["weights"] = _ranges(job.constants, job.constants.weights, place)
    common["scales"] = _ranges(job.constants, job.constants.scales, place)
    if step.is_depthwise:
        return DepthwiseConvolution(**common)
    return Convolution(traversal=job.choice.traversal, **common)


def _mixes_channels(step: Step) -> bool:
    is_sum = isinstance(step, PoolingStep) and step.mode is PoolingMode.REDUCE_SUM
    return is_sum or (isinstance(step, ConvolutionStep) and not step.is_depthwise)


def _ifm_extent(step: WindowStep) -> tuple[int, int]:
    """Rows and columns of the IFM that the step reads, before upscaling."""
    rows, columns = ifm_plane(*step.ofm.shape[:2], step.kernel, step.padding, step.upscale)
    if not (0 < rows <= step.ifm.shape[0] and 0 < columns <= step.ifm.shape[1]):
        raise CompileError(
            f"operator {step.source}: the input must have at least {rows}x{columns} elements for its kernel and padding, "
            f"got {step.ifm.shape[0]}x{step.ifm.shape[1]}"
        )
    return rows, columns


def _elementwise(step: ElementwiseStep, common: dict[str, Any], maps: _Maps) -> Elementwise:
    if step.mode.is_unary:
        common["shram"] = replace(common["shram"], ifm2_start=0)
    return Elementwise(
        ifm=maps.of("ifm", step.ifm),
        mode=step.mode,
        ifm2=None if step.ifm2 is None else maps.of("ifm2", step.ifm2),
        scalar=step.scalar,
        scalar_zero_point=step.scalar_zero_point,
        is_reversed=step.is_reversed,
        operand_scaling=step.operand_scaling,
        operand_rounding=step.operand_rounding,
        opa_scale=step.opa_scale,
        opb_scale=step.opb_scale,
        ifm_scale=None if step.positive is None else OperandScale(step.positive.scale, step.positive.shift, step.rounding),
        **common,
    )


def _product(step: ProductStep, common: dict[str, Any], maps: _Maps) -> Convolution:
    ifm, ifm2 = maps.of("ifm", step.ifm), maps.of("ifm2", step.ifm2)
    return Convolution(ifm=ifm, ifm2=ifm2, kernel=KernelWindow(), weights=(), scales=(), **common)


def _gather(step: GatherStep, maps: _Maps) -> Dma:
    """A row of the transfer for every column, a plane for every row."""
    planes, rows, depth = step.ofm.shape
    stride = DmaStride.PLANES if planes > 1 else DmaStride.ROWS

    def side(view: View) -> DmaSide:
        place, (plane_step, row_step), size = maps.at(view), view.pitches, view.element.bytes
        return DmaSide(place.region, place.offset, stride, steps=(row_step * size, plane_step * size if planes > 1 else 0))

    place = maps.at(step.ifm2)
    skip = (step.ifm2.pitches[0] - rows) * step.ifm2.element.bytes if planes > 1 else 0
    indices = DmaIndices(place.region, place.offset, step.ifm.shape[1] - 1, skip, is_of_destination=False)
    length = depth * step.ofm.element.bytes
    return Dma(
        source=side(step.ifm), destination=side(step.ofm), length_bytes=length, rows=rows, planes=planes, indices=indices
    )


def _placed_otherwise(step: TransposeStep | ReverseStep, job: Job, common: dict[str, Any], maps: _Maps) -> Pooling:
    """The OFM has the extent of what is computed; its tiles and strides are those of what is stored."""
    assert job.choice.ublock is not None
    ifm = maps.of("ifm", step.ifm)
    common["ofm"] = replace(common["ofm"], height=ifm.height, width=ifm.width, depth=ifm.depth)
    if isinstance(step, TransposeStep):
        options = KernelOptions(job.choice.ublock, transpose=step.order)
    else:
        options = KernelOptions(job.choice.ublock, reverse=OfmReverse.W)
    return Pooling(mode=PoolingMode.SUM, ifm=ifm, kernel=KernelWindow(), options=options, **common)


def _resizing(step: ResizeStep, common: dict[str, Any], maps: _Maps) -> Resizing:
    block = common["block"]
    y, x = _axis(step.y, block.height), _axis(step.x, block.width)
    return Resizing(ifm=maps.of("ifm", step.ifm), mode=step.mode, y=y, x=x, **common)


def _axis(places: ResizePlaces, block: int) -> ResizeAxis:
    return ResizeAxis(places.scale, places.step, places.offset, (block - 1) * places.step)


def _activation(step: Step, slot: TableSlot | None) -> Activation:
    """Clamp and function. A 32-bit result that is not clipped has no clamp: the registers hold the widest 16-bit range."""
    function = _FUNCTIONS[step.function] if step.function else ActivationFunction.NONE
    if slot is not None:
        function = ActivationFunction(ActivationFunction.LUT_0 + slot.slot)
    low, high = step.ofm.element.register_limits
    return Activation(min(max(step.minimum, low), high), max(min(step.maximum, high), low), function, step.clip_range)


def _ranges(constants: WeightSlice, parts: tuple[tuple[int, int], ...], place: RegionOffset | None) -> tuple[AddressRange, ...]:
    if place is None:
        return tuple(AddressRange(Region.CONSTANTS, constants.read_only(position), length) for position, length in parts)
    return tuple(AddressRange(place.region, place.offset + position, length) for position, length in parts)
