"""Turns operation records into the rows that the machine model reads; the only place where timing looks at records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import lru_cache
from operator import attrgetter, itemgetter
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npu.errors import SimulationError
from npu.hardware.variant import Variant
from npu.isa.operations import (
    AccumulatorFormat,
    ActivationFunction,
    Block,
    Convolution,
    DepthwiseConvolution,
    Dma,
    DmaWait,
    Elementwise,
    ElementwiseMode,
    FeatureMap,
    IfmPadding,
    KernelOperation,
    KernelWait,
    KernelWindow,
    Layout,
    OfmTranspose,
    OperandScaling,
    Operation,
    Pooling,
    PoolingMode,
    Traversal,
    Upscale,
    WeightedOperation,
    WindowOperation,
)
from npu.machine.kernels import rows as r
from npu.machine.kernels.blocks import count_fetches, expand
from npu.machine.output_unit import element_cycles, elementwise_rank, window_rank
from npu.machine.parameters import PORT_NUMBERS, burst_bytes, machine_rows, working_ublock
from npu.machine.rules import deep_set_depth, ifm_block_depth, sub_kernel
from npu.records import dataclass
from sim.trace import JobTotals

MAX_FETCHES = 1_000_000
"""Largest number of IFM block fetches that a stream may ask for; real networks have some ten thousand."""

MAX_TRANSFER_BYTES = 1 << 32
"""Largest DMA transfer that can be timed."""

MAX_OPERATION_MACS = 1 << 50
"""Largest number of multiply-accumulates of one operation that can be timed; keeps every count within 64 bits."""

_KIND_NAMES = {
    r.CONV_DEPTH_FIRST: "conv",
    r.CONV_PART_KERNEL: "conv",
    r.DEPTHWISE: "depthwise",
    r.POOL: "pool",
    r.REDUCE_SUM: "pool",
    r.ELEMENTWISE: "elementwise",
    r.DMA: "dma",
    r.DMA_WAIT: "dma wait",
    r.KERNEL_WAIT: "kernel wait",
    r.OTHER: "control",
}


_CONVOLUTIONS = (r.CONV_DEPTH_FIRST, r.CONV_PART_KERNEL)
_WIDE = (AccumulatorFormat.INT40, AccumulatorFormat.INT48)
_UNIT, _NO_PADDING = KernelWindow(), IfmPadding()
_LENGTH = attrgetter("length_bytes")
_FLAT = [name for name in r.OPERATION.names or () if r.OPERATION[name].names is None]
_IN_ORDER = itemgetter(*_FLAT)
_EMPTY = dict.fromkeys(_FLAT, 0)
_MAP_IN_ORDER = itemgetter(*(r.FEATURE_MAP.names or ()))
_NO_MAP = (0,) * len(r.FEATURE_MAP.names or ())
_NUMBERS = Struct(
    "".join({"i": "q", "f": "d", "V": f"{len(_NO_MAP)}q"}[r.OPERATION[name].kind] for name in r.OPERATION.names or ())
)


@dataclass(frozen=True, slots=True)
class Prepared:
    """`memory`: what the engine reads, with room for what it writes (`sim.timing.kernels.rows`).

    `known` (n, len(Column)): the columns of the trace that do not depend on when things happen, the others 0.
    """

    memory: NDArray[np.uint8]
    known: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StreamRows:
    """A command stream as rows: `operations` of the machine model's OPERATION and `fetches` of its FETCH."""

    kinds: tuple[str, ...]
    operations: NDArray[Any]
    fetches: NDArray[Any]
    beat_bytes: int = 8
    prepared: list[tuple[Variant, Prepared, JobTotals]] = field(default_factory=list, init=False, compare=False, repr=False)
    """At most one: what the engine is given for a variant, and the totals without cycles (`sim.timing.preparation`)."""


@dataclass(frozen=True, slots=True)
class _PortMap:
    """What rows are made for: port number of each of the eight regions, and the bytes of a full transaction of each port."""

    variant: Variant
    ports: tuple[int, ...]
    bursts: tuple[int, ...]


def stream_rows(operations: Sequence[Operation], variant: Variant, *, stream_words: int) -> StreamRows:
    """The rows of a stream of `stream_words` command words on `variant`.

    Raises SimulationError if the operations ask for more fetches than MAX_FETCHES.
    """
    port_map = _PortMap(variant, region_ports(variant), tuple(burst_bytes(variant, port) for port in PORT_NUMBERS))
    table = np.frombuffer(bytearray().join([_row(operation, port_map) for operation in operations]), r.OPERATION)
    _share_words(table, stream_words)
    kinds = tuple(_KIND_NAMES[kind] for kind in table["kind"].tolist())
    return StreamRows(kinds, table, expand_rows(table, machine_rows(variant)), variant.accelerator.axi_data_bytes)


def expand_rows(table: NDArray[Any], machine: NDArray[Any]) -> NDArray[Any]:
    """The fetches of OPERATION rows on the one MACHINE row. Raises SimulationError beyond MAX_FETCHES."""
    count = int(count_fetches(table))
    if count > MAX_FETCHES:
        raise SimulationError(f"timing: a stream must need at most {MAX_FETCHES} input loads, got {count}")
    fetches = np.zeros(count, r.FETCH)
    expand(table, machine, fetches)
    return fetches


def region_ports(variant: Variant) -> tuple[int, ...]:
    """Port number of each of the eight regions: constants 0, arena 1, fast cache 2, the rest like the arena."""
    mode = variant.memory_mode
    arena = PORT_NUMBERS[mode.arena]
    return (PORT_NUMBERS[mode.constants], arena, PORT_NUMBERS[mode.cache], arena, arena, arena, arena, arena)


def _row(operation: Operation, port_map: _PortMap) -> bytes:
    """An OPERATION row; packed, because numpy takes three times as long for a row of so many fields."""
    if isinstance(operation, KernelOperation):
        return _NUMBERS.pack(
            *_IN_ORDER(_kernel_fields(operation, port_map)),
            *_map_fields(operation.ifm, port_map),
            *(_map_fields(operation.ifms[1], port_map) if len(operation.ifms) > 1 else _NO_MAP),
            *_map_fields(operation.ofm, port_map),
        )
    if isinstance(operation, Dma):
        return _transfer_row(operation, port_map)
    if isinstance(operation, DmaWait):
        return _mapless_row(kind=r.DMA_WAIT, outstanding=operation.outstanding)
    if isinstance(operation, KernelWait):
        return _mapless_row(kind=r.KERNEL_WAIT, outstanding=operation.outstanding)
    return _mapless_row(kind=r.OTHER)


@lru_cache(maxsize=256)
def _mapless_row(**fields: int) -> bytes:
    return _NUMBERS.pack(*_IN_ORDER(_EMPTY | fields), *_NO_MAP, *_NO_MAP, *_NO_MAP)


def _transfer_row(dma: Dma, port_map: _PortMap) -> bytes:
    size = dma.length_bytes * dma.rows * dma.planes
    if size > MAX_TRANSFER_BYTES:
        raise SimulationError(f"timing: a DMA transfer must move at most {MAX_TRANSFER_BYTES} bytes, got {size}")
    source, target = dma.source.region, dma.destination.region
    return _mapless_row(
        kind=r.DMA,
        dma_bytes=size,
        dma_from=-1 if source is None else port_map.ports[source],
        dma_to=-1 if target is None else port_map.ports[target],
    )


def _map_fields(fm: FeatureMap, port_map: _PortMap) -> tuple[int, ...]:
    port = port_map.ports[fm.region] if fm.is_in_memory else 0
    fields: tuple[int, ...] = _MAP_IN_ORDER(
        {
            "height": fm.height,
            "width": fm.width,
            "depth": fm.depth,
            "element_bytes": fm.element.bytes,
            "layout": fm.layout,
            "address": fm.addresses[0],
            "stride_y": fm.stride_y,
            "stride_x": fm.stride_x,
            "port": port,
            "burst_bytes": port_map.bursts[port] if fm.is_in_memory else 0,
        }
    )
    return fields


def _kernel_fields(operation: KernelOperation, port_map: _PortMap) -> dict[str, float]:
    ifm, ofm, block, kind = operation.ifm, operation.ofm, operation.block, _kind(operation)
    window = operation if isinstance(operation, WindowOperation) else None
    kernel, padding = (_UNIT, _NO_PADDING) if window is None else (window.kernel, window.padding)
    macs = ofm.height * ofm.width * ofm.depth * ifm.depth * kernel.height * kernel.width
    if macs > MAX_OPERATION_MACS:
        raise SimulationError(f"timing: an operation must need at most {MAX_OPERATION_MACS} products, got {macs}")
    is_small, stream_bytes, weight_port = False, 0, 0
    if isinstance(operation, WeightedOperation):
        is_small = operation.has_4x4_sub_kernels
        ranges = (*operation.weights, *operation.scales)
        stream_bytes = sum(map(_LENGTH, ranges))
        weight_port = port_map.ports[ranges[0].region] if ranges else 0
    ublock = _ublock(operation, kernel, port_map.variant)
    stored = (OfmTranspose.HWC if operation.options is None else operation.options.transpose).axes
    return {
        "kind": kind,
        "block_height": block.height,
        "block_width": block.width,
        "block_depth": block.depth,
        "kernel_height": kernel.height,
        "kernel_width": kernel.width,
        "stride_y": kernel.stride_y,
        "stride_x": kernel.stride_x,
        "dilation_y": kernel.dilation_y,
        "dilation_x": kernel.dilation_x,
        "pad_top": padding.top,
        "pad_left": padding.left,
        "upscale": 1 if window is None or window.upscale is Upscale.NONE else 2,
        "sub_kernel_height": sub_kernel(kernel.dilation_y, is_small=is_small),
        "sub_kernel_width": sub_kernel(kernel.dilation_x, is_small=is_small),
        "ublock_height": ublock.height,
        "ublock_width": ublock.width,
        "ublock_depth": ublock.depth,
        "ifm_block_depth": _ifm_block_depth(operation, kind),
        "set_depth": 0 if operation.options is None or kind not in _CONVOLUTIONS else _ifm_block_depth(operation, kind),
        "has_40_bit_accumulators": operation.accumulator in _WIDE,
        "has_ifm2": len(operation.ifms) > 1,
        "stream_bytes": stream_bytes,
        "weight_port": weight_port,
        "streams_once": 0,
        "blockdep": operation.blockdep,
        "ifm_end": operation.shram.ifm_end,
        "accumulator_start": operation.shram.accumulator_start,
        "stored_rows": stored[0],
        "stored_columns": stored[1],
        "stored_channels": stored[2],
        "dma_bytes": 0,
        "dma_from": 0,
        "dma_to": 0,
        "outstanding": 0,
        "command_words": 0,
        "output_element_cycles": _output_element_cycles(operation, port_map.variant),
    }


def _ublock(operation: KernelOperation, kernel: KernelWindow, variant: Variant) -> Block:
    """The micro-block that an operation works with."""
    if operation.options is not None:
        return operation.options.ublock
    ofm, is_convolution = operation.ofm, isinstance(operation, Convolution)
    plane = working_ublock(variant, (ofm.height, ofm.width), kernel.height, is_convolution=is_convolution)
    return Block(*plane, variant.accelerator.ofm_ublock.depth)


def _ifm_block_depth(operation: KernelOperation, kind: int) -> int:
    """Channels of an IFM block."""
    ifm, is_part_kernel = operation.ifm, kind == r.CONV_PART_KERNEL
    if operation.options is not None:
        return deep_set_depth(is_part_kernel)
    return ifm_block_depth(ifm.depth, ifm.element.bytes, is_part_kernel)


def _kind(operation: KernelOperation) -> int:
    if isinstance(operation, Convolution):
        return r.CONV_PART_KERNEL if operation.traversal is Traversal.PART_KERNEL_FIRST else r.CONV_DEPTH_FIRST
    if isinstance(operation, DepthwiseConvolution):
        return r.DEPTHWISE
    if isinstance(operation, Pooling):
        return r.REDUCE_SUM if operation.mode is PoolingMode.REDUCE_SUM else r.POOL
    return r.ELEMENTWISE


def _share_words(table: NDArray[Any], stream_words: int) -> None:
    """Gives waits, controls and interrupts one word each and shares the rest among kernels and transfers, exact in sum."""
    if not len(table):
        return
    heavy, words = table["kind"] <= r.DMA, table["command_words"]
    words[~heavy] = min(1, stream_words // len(table))
    count = int(heavy.sum())
    if count:
        left = stream_words - int(words.sum())
        bounds = np.arange(count + 1, dtype=np.int64) * left // count
        words[heavy] = np.diff(bounds)


def _output_element_cycles(operation: KernelOperation, variant: Variant) -> float:
    activation, element = operation.activation, operation.ofm.element
    return element_cycles(
        variant,
        _output_rank(operation),
        has_function=activation.function is not ActivationFunction.NONE,
        has_clamp=activation.minimum > element.minimum or activation.maximum < element.maximum,
        has_nhwc_operand=any(ifm.layout is not Layout.NHCWB16 for ifm in operation.ifms),
    )


def _output_rank(operation: KernelOperation) -> str:
    if isinstance(operation, Elementwise):
        return elementwise_rank(
            operation.ifm.element.bits,
            operation.ofm.element.bits,
            is_unary=operation.mode.is_unary,
            is_multiplication=operation.mode is ElementwiseMode.MUL,
            scales_operands=operation.mode.scales_operands,
            scales_both_alike=operation.operand_scaling is OperandScaling.BOTH_16,
        )
    return window_rank(
        is_pooling=isinstance(operation, Pooling),
        is_max_pooling=isinstance(operation, Pooling) and operation.mode is PoolingMode.MAX,
        has_40_bit_accumulators=operation.accumulator in _WIDE,
    )
