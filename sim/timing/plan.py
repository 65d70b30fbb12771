"""Turns operation records into the arrays that the timing kernels read; the only place where timing looks at records."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from npu.errors import SimulationError
from npu.hardware.variant import BRICK_DEPTH, Port, Variant
from npu.isa.operations import (
    AccumulatorFormat,
    ActivationFunction,
    Convolution,
    DepthwiseConvolution,
    Dma,
    DmaWait,
    Elementwise,
    ElementwiseMode,
    FeatureMap,
    KernelOperation,
    KernelWait,
    Layout,
    OperandScaling,
    Operation,
    Pooling,
    PoolingMode,
    Traversal,
    Upscale,
    WeightedOperation,
    WindowOperation,
)
from npu.isa.weight_stream.order import KERNEL_GROUP
from sim.timing.kernels import expand as k
from sim.trace import Totals

MAX_LOADS = 1_000_000
"""Largest number of IFM loads that a stream may ask for; real networks have some ten thousand."""

MAX_TRANSFER_BYTES = 1 << 32
"""Largest DMA transfer that can be timed."""

MAX_OPERATION_MACS = 1 << 50
"""Largest number of multiply-accumulates of one operation that can be timed; keeps every count within 64 bits."""

_KIND_NAMES = {
    k.CONV_DEPTH_FIRST: "conv",
    k.CONV_PART_KERNEL: "conv",
    k.DEPTHWISE: "depthwise",
    k.POOL: "pool",
    k.REDUCE_SUM: "pool",
    k.ELEMENTWISE: "elementwise",
    k.DMA: "dma",
    k.DMA_WAIT: "dma wait",
    k.KERNEL_WAIT: "kernel wait",
    k.OTHER: "control",
}


@dataclass(frozen=True, slots=True)
class Work:
    """`words` (any,): what the engine reads, with room for what it writes (`sim.timing.kernels.rows`).

    `known` (n, len(Column)): the columns of the trace that do not depend on when things happen, the others 0.
    """

    words: NDArray[np.int64]
    known: NDArray[np.int64]


@dataclass(frozen=True)
class Plan:
    """A command stream as arrays: one row per operation, one per IFM load.

    `operations` is (n, OPERATION_COLUMNS) int64, `loads` (m, LOAD_COLUMNS) int64, `mac_cycles` and `output_cycles` (m,)
    float64 (output cycles are 0 except on the last load of a block).
    """

    kinds: tuple[str, ...]
    operations: NDArray[np.int64]
    loads: NDArray[np.int64]
    mac_cycles: NDArray[np.float64]
    output_cycles: NDArray[np.float64]
    beat_bytes: int = 8
    prepared: list[tuple[Variant, Work, Totals]] = field(default_factory=list, init=False, compare=False, repr=False)
    """At most one: what the engine is given for a variant, and the totals without cycles (`sim.timing.preparation`)."""


def make_plan(operations: Sequence[Operation], variant: Variant, *, stream_words: int) -> Plan:
    """The plan of a stream of `stream_words` command words on `variant`.

    Raises SimulationError if the operations ask for more loads than MAX_LOADS.
    """
    ports = region_ports(variant)
    rows = [_row(operation, variant, ports) for operation in operations]
    numbers = itertools.chain.from_iterable(rows)
    table = np.fromiter(numbers, np.int64, len(rows) * k.OPERATION_COLUMNS).reshape(len(rows), k.OPERATION_COLUMNS)
    _share_words(table, stream_words)
    rates = output_rates(operations, variant)
    loads, mac_cycles, elements = expand_rows(table, variant)
    output_cycles = elements * rates[loads[:, k.L_OPERATION]]
    kinds = tuple(_KIND_NAMES[row[k.KIND]] for row in rows)
    return Plan(kinds, table, loads, mac_cycles.astype(np.float64), output_cycles, variant.accelerator.axi_data_bytes)


def output_rates(operations: Sequence[Operation], variant: Variant) -> NDArray[np.float64]:
    """Output-unit cycles per element of the busiest core, one per operation."""
    return np.array([_output_rate(operation, variant) for operation in operations], dtype=np.float64)


def expand_rows(
    table: NDArray[np.int64], variant: Variant, *, has_decoder: bool = True
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Loads (m, LOAD_COLUMNS), MAC cycles (m,) and OFM elements (m,) of rows of the operation table.

    Without a decoder, weights never hold up the MAC array. Raises SimulationError beyond MAX_LOADS.
    """
    machine = _machine_scalars(variant)
    if not has_decoder:
        machine[k.M_WEIGHT_BLOCK] = 0
    count = int(k.count_loads(table))
    if count > MAX_LOADS:
        raise SimulationError(f"timing: a stream must need at most {MAX_LOADS} input loads, got {count}")
    loads = np.zeros((count, k.LOAD_COLUMNS), np.int64)
    mac_cycles = np.zeros(count, np.int64)
    elements = np.zeros(count, np.int64)
    k.expand(table, machine, loads, mac_cycles, elements)
    return loads, mac_cycles, elements


def region_ports(variant: Variant) -> tuple[int, ...]:
    """Port number of each of the eight regions: constants 0, arena 1, fast cache 2, the rest like the arena."""
    mode = variant.memory_mode
    number = {Port.AXI0: 0, Port.AXI1: 1}
    arena = number[mode.arena]
    return (number[mode.constants], arena, number[mode.cache], arena, arena, arena, arena, arena)


def burst_bytes(variant: Variant, port: Port) -> int:
    """Bytes of one full transaction of a port: what the memory takes, as far as the AXI_LIMIT registers allow."""
    memory = variant.system.memories.get(port)
    longest = variant.timing.max_burst_bytes
    return longest if memory is None else min(memory.burst_bytes, longest)


def _machine_scalars(variant: Variant) -> NDArray[np.int64]:
    accelerator, timing = variant.accelerator, variant.timing
    scalars = np.zeros(k.MACHINE_SCALARS, np.int64)
    scalars[k.M_UBLOCK_D] = accelerator.ofm_ublock.depth
    scalars[k.M_CORES] = accelerator.cores
    scalars[k.M_UBLOCK_CYCLES] = timing.ublock_mac_cycles
    scalars[k.M_WEIGHT_BLOCK] = 32 * accelerator.ofm_ublock.depth // timing.weights_per_cycle
    scalars[k.M_BUBBLE] = timing.bubble_cycles
    scalars[k.M_BUBBLE_40] = timing.bubble_cycles_40_bit
    scalars[k.M_POOL_16] = timing.pooling_16_bit_factor
    scalars[k.M_BUFFER_HALVES] = 2
    scalars[k.M_BEAT] = accelerator.axi_data_bytes
    scalars[k.M_BURST0] = burst_bytes(variant, Port.AXI0)
    scalars[k.M_BURST1] = burst_bytes(variant, Port.AXI1)
    scalars[k.M_BRICK] = BRICK_DEPTH
    scalars[k.M_SWITCH] = timing.weight_switch_cycles
    scalars[k.M_KERNEL_GROUP] = KERNEL_GROUP
    return scalars


def _row(operation: Operation, variant: Variant, ports: tuple[int, ...]) -> list[int]:
    row = [0] * k.OPERATION_COLUMNS
    if isinstance(operation, KernelOperation):
        _fill_kernel(row, operation, variant, ports)
    elif isinstance(operation, Dma):
        row[k.KIND] = k.DMA
        size = operation.length_bytes * operation.rows * operation.planes
        if size > MAX_TRANSFER_BYTES:
            raise SimulationError(f"timing: a DMA transfer must move at most {MAX_TRANSFER_BYTES} bytes, got {size}")
        row[k.DMA_BYTES] = size
        source, target = operation.source.region, operation.destination.region
        row[k.DMA_FROM] = -1 if source is None else ports[source]
        row[k.DMA_TO] = -1 if target is None else ports[target]
    elif isinstance(operation, DmaWait):
        row[k.KIND] = k.DMA_WAIT
        row[k.WAIT] = operation.outstanding
    elif isinstance(operation, KernelWait):
        row[k.KIND] = k.KERNEL_WAIT
        row[k.WAIT] = operation.outstanding
    else:
        row[k.KIND] = k.OTHER
    return row


def _fill_kernel(row: list[int], operation: KernelOperation, variant: Variant, ports: tuple[int, ...]) -> None:
    ifm, ofm, block = operation.ifm, operation.ofm, operation.block
    row[k.KIND] = _kind(operation)
    row[k.OFM_H], row[k.OFM_W], row[k.OFM_D] = ofm.height, ofm.width, ofm.depth
    row[k.BLOCK_H], row[k.BLOCK_W], row[k.BLOCK_D] = block.height, block.width, block.depth
    row[k.IFM_H], row[k.IFM_W], row[k.IFM_D] = ifm.height, ifm.width, ifm.depth
    row[k.IFM_BYTES], row[k.IFM_LAYOUT], row[k.IFM_ADDRESS] = ifm.element.bytes, ifm.layout, ifm.addresses[0]
    row[k.IFM_ROW], row[k.IFM_PIXEL] = ifm.stride_y, ifm.stride_x
    row[k.OFM_BYTES], row[k.OFM_LAYOUT], row[k.OFM_ADDRESS] = ofm.element.bytes, ofm.layout, ofm.addresses[0]
    row[k.OFM_ROW], row[k.OFM_PIXEL] = ofm.stride_y, ofm.stride_x
    row[k.KERNEL_H] = row[k.KERNEL_W] = row[k.STRIDE_H] = row[k.STRIDE_W] = row[k.DILATION_H] = row[k.DILATION_W] = 1
    row[k.UPSCALE], row[k.SUB_KERNEL], row[k.IFM_SLICE] = 1, 8, max(1, ifm.depth)
    row[k.IFM_PORT], row[k.OFM_PORT] = ports[ifm.region], ports[ofm.region]
    row[k.BLOCKDEP] = operation.blockdep
    row[k.ACC_40] = operation.accumulator is AccumulatorFormat.INT40
    _fill_ublock(row, operation, variant)
    if isinstance(operation, WindowOperation):
        _fill_window(row, operation)
    if isinstance(operation, WeightedOperation):
        row[k.STREAM_BYTES] = sum(part.length_bytes for part in (*operation.weights, *operation.scales))
        row[k.WEIGHT_PORT] = ports[operation.weights[0].region]
    macs = ofm.height * ofm.width * ofm.depth * ifm.depth * row[k.KERNEL_H] * row[k.KERNEL_W]
    if macs > MAX_OPERATION_MACS:
        raise SimulationError(f"timing: an operation must need at most {MAX_OPERATION_MACS} products, got {macs}")
    if isinstance(operation, Elementwise) and operation.ifm2 is not None:
        _fill_second(row, operation.ifm2, ports)


def _kind(operation: KernelOperation) -> int:
    if isinstance(operation, Convolution):
        return k.CONV_PART_KERNEL if operation.traversal is Traversal.PART_KERNEL_FIRST else k.CONV_DEPTH_FIRST
    if isinstance(operation, DepthwiseConvolution):
        return k.DEPTHWISE
    if isinstance(operation, Pooling):
        return k.REDUCE_SUM if operation.mode is PoolingMode.REDUCE_SUM else k.POOL
    return k.ELEMENTWISE


def _fill_ublock(row: list[int], operation: KernelOperation, variant: Variant) -> None:
    """A micro-block of 2x2 works as 1x4 on one-row convolutions with a one-row kernel and an even width."""
    ublock = variant.accelerator.ofm_ublock
    row[k.UBLOCK_H], row[k.UBLOCK_W] = ublock.height, ublock.width
    if (
        ublock.height > 1
        and isinstance(operation, Convolution)
        and operation.ofm.height == 1
        and operation.ofm.width % 2 == 0
        and operation.kernel.height == 1
    ):
        row[k.UBLOCK_H], row[k.UBLOCK_W] = 1, ublock.width * ublock.height


def _fill_window(row: list[int], operation: WindowOperation) -> None:
    kernel, ifm = operation.kernel, operation.ifm
    row[k.KERNEL_H], row[k.KERNEL_W] = kernel.height, kernel.width
    row[k.STRIDE_H], row[k.STRIDE_W] = kernel.stride_y, kernel.stride_x
    row[k.DILATION_H], row[k.DILATION_W] = kernel.dilation_y, kernel.dilation_x
    row[k.PAD_TOP], row[k.PAD_LEFT] = operation.padding.top, operation.padding.left
    row[k.UPSCALE] = 1 if operation.upscale is Upscale.NONE else 2
    if isinstance(operation, WeightedOperation) and operation.has_4x4_sub_kernels:
        row[k.SUB_KERNEL] = 4
    if ifm.element.bits == 16:
        slice_depth = -(-min(ifm.depth, 16) // 4) * 4
    else:
        part_kernel = isinstance(operation, Convolution) and operation.traversal is Traversal.PART_KERNEL_FIRST
        slice_depth = -(-min(ifm.depth, 16 if part_kernel else 32) // 8) * 8
    row[k.IFM_SLICE] = slice_depth


def _fill_second(row: list[int], ifm2: FeatureMap, ports: tuple[int, ...]) -> None:
    row[k.HAS_IFM2] = 1
    row[k.IFM2_H], row[k.IFM2_W], row[k.IFM2_D] = ifm2.height, ifm2.width, ifm2.depth
    row[k.IFM2_LAYOUT] = ifm2.layout is Layout.NHCWB16
    row[k.IFM2_PORT] = ports[ifm2.region]


def _share_words(table: NDArray[np.int64], stream_words: int) -> None:
    """Gives waits, controls and interrupts one word each and shares the rest among kernels and transfers, exact in sum."""
    if not len(table):
        return
    heavy = table[:, k.KIND] <= k.DMA
    table[~heavy, k.WORDS] = min(1, stream_words // len(table))
    count = int(heavy.sum())
    if count:
        left = stream_words - int(table[:, k.WORDS].sum())
        bounds = np.arange(count + 1, dtype=np.int64) * left // count
        table[heavy, k.WORDS] = np.diff(bounds)


def _output_rate(operation: Operation, variant: Variant) -> float:
    """Output-unit cycles per element of the busiest core."""
    if not isinstance(operation, KernelOperation):
        return 0.0
    cycles = variant.timing.output_cycles
    rate = cycles.other
    if isinstance(operation, Elementwise):
        rate = _elementwise_rate(operation, variant)
    elif operation.accumulator is AccumulatorFormat.INT40 and not isinstance(operation, Pooling):
        rate = cycles.mul_or_40_bit_accumulator
    elif isinstance(operation, Pooling) and operation.mode is PoolingMode.MAX:
        rate = cycles.max_pool
    activation = operation.activation
    if activation.function is not ActivationFunction.NONE:
        rate = max(rate, cycles.activation_lut)
    elif activation.minimum > operation.ofm.element.minimum or activation.maximum < operation.ofm.element.maximum:
        rate = max(rate, cycles.activation_clamp)
    return rate * variant.accelerator.cores


def _elementwise_rate(operation: Elementwise, variant: Variant) -> float:
    cycles = variant.timing.output_cycles
    if operation.ifm.element.bits == 32:
        return cycles.elementwise_32_bit_unary if operation.mode.is_unary else cycles.elementwise_32_bit_binary
    if operation.mode is ElementwiseMode.MUL:
        return cycles.mul_32_bit_ofm if operation.ofm.element.bits == 32 else cycles.mul_or_40_bit_accumulator
    if operation.mode.scales_operands:
        return cycles.add_sub_simple if operation.operand_scaling is OperandScaling.BOTH_16 else cycles.add_sub
    return cycles.other
