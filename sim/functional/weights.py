"""Weights and scale records of an operation, decoded from memory; the only place that knows their packing over cores.

Decoded constants are kept by content: the bytes they came from are compared again before every use, so a stream that
rewrites its own weights (or copies other weights over them) stays correct.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npu.errors import SimulationError
from npu.isa.operations import AddressRange, Convolution, DepthwiseConvolution, Traversal
from sim.functional.kernels import weight_stream
from sim.memory import Memory

RECORD_BYTES = 10
_ERRORS = {
    weight_stream.TRUNCATED: "must end within its length, got a truncated slice",
    weight_stream.BAD_DIVISOR: "must use known divisors, got a reserved value",
    weight_stream.NO_PALETTE: "must begin with a palette, got a slice without one",
    weight_stream.BAD_SYMBOL: "must hold symbols below 512, got a larger one",
    weight_stream.ZERO_RUNS_CHANGED: "must keep its zero-run mode between palettes, got a change",
}


@dataclass(frozen=True, slots=True)
class Constants:
    """weights int16 (O, KH, KW, I), I = 1 for depthwise; biases, scales, shifts int64 (O,)."""

    weights: npt.NDArray[np.int16]
    biases: npt.NDArray[np.int64]
    scales: npt.NDArray[np.int64]
    shifts: npt.NDArray[np.int64]


def source_ranges(operation: Convolution | DepthwiseConvolution) -> tuple[AddressRange, ...]:
    """The byte ranges that `decode_constants` reads."""
    cores = min(len(operation.weights), operation.ofm.depth)
    return (*operation.weights[:cores], *operation.scales[:cores])


def check_constants(operation: Convolution | DepthwiseConvolution, memory: Memory) -> None:
    """Raise SimulationError unless the weight and scale ranges lie in memory and are long enough for the records."""
    cores = len(operation.weights)
    available = memory.variant.accelerator.cores
    if not 1 <= cores <= available or len(operation.scales) != cores:
        raise SimulationError(f"weights: number of weight streams must be in [1, {available}], got {cores}")
    for part in source_ranges(operation):
        memory.check(part.region, part.address, part.address + part.length_bytes)
    for core in range(min(cores, operation.ofm.depth)):
        needed = RECORD_BYTES * len(range(core, operation.ofm.depth, cores))
        if operation.scales[core].length_bytes < needed:
            got = operation.scales[core].length_bytes
            raise SimulationError(f"scale records: length must be at least {needed} bytes for core {core}, got {got}")


def decode_constants(operation: Convolution | DepthwiseConvolution, memory: Memory) -> Constants:
    """Decode weights and scale records. Raises SimulationError if the streams do not fit the operation."""
    is_depthwise = isinstance(operation, DepthwiseConvolution)
    depth = operation.ofm.depth
    shape = (depth, operation.kernel.height, operation.kernel.width, 1 if is_depthwise else operation.ifm.depth)
    weights = np.zeros(shape, np.int16)
    records = np.zeros((3, depth), np.int64)
    cores = len(operation.weights)
    for core in range(min(cores, depth)):
        order = _order(operation, core, memory)
        weight_part, scale_part = operation.weights[core], operation.scales[core]
        needed = int(weight_stream.arrange(np.empty(0, np.int16), weights, order))
        data = memory.view(weight_part.region, weight_part.address, weight_part.length_bytes)
        weight_stream.arrange(_decode_stream(data, needed), weights, order)
        scale_data = memory.view(scale_part.region, scale_part.address, scale_part.length_bytes)
        _decode_records(scale_data, records[:, core::cores])
    return Constants(weights, records[0], records[1], records[2])


def _decode_stream(data: npt.NDArray[np.uint8], needed: int) -> npt.NDArray[np.int16]:
    guarded = np.zeros(data.size + weight_stream.GUARD_BYTES, np.uint8)
    guarded[: data.size] = data
    sequence = np.zeros(needed, np.int16)
    count = int(weight_stream.decode(guarded.ctypes.data, data.size, sequence))
    if count == weight_stream.TOO_MANY:
        raise SimulationError(f"weight stream: must decode to {needed} values, got more")
    if count < 0:
        raise SimulationError(f"weight stream: {_ERRORS[count]}")
    if count != needed:
        raise SimulationError(f"weight stream: must decode to {needed} values, got {count}")
    return sequence


def _decode_records(data: npt.NDArray[np.uint8], records: npt.NDArray[np.int64]) -> None:
    count = records.shape[1]
    rows = data[: count * RECORD_BYTES].reshape(count, RECORD_BYTES).astype(np.int64)
    bias = rows[:, :5] @ (1 << np.arange(0, 40, 8, dtype=np.int64))
    records[0] = bias - ((bias >> 39) << 40)
    records[1] = rows[:, 5:9] @ (1 << np.arange(0, 32, 8, dtype=np.int64))
    records[2] = rows[:, 9] & 63


def _order(operation: Convolution | DepthwiseConvolution, core: int, memory: Memory) -> npt.NDArray[np.int64]:
    accelerator = memory.variant.accelerator
    cores = len(operation.weights)
    is_16_bit = operation.ifm.element.bits == 16
    block_depth = (operation.block.depth + cores - 1 - core) // cores
    limit = 4 if operation.has_4x4_sub_kernels else 8
    if isinstance(operation, DepthwiseConvolution):
        mode, block, rounding = 2, 1, 4
    elif operation.traversal is Traversal.PART_KERNEL_FIRST:
        mode, block, rounding = 1, 16, 2 if is_16_bit else 4
    else:
        mode, block, rounding = 0, 16 if is_16_bit else 32, 1
    if block_depth < 1:
        raise SimulationError(f"weights: block depth must give core {core} a channel, got {operation.block.depth}")
    return np.array(
        [
            core,
            cores,
            block_depth,
            accelerator.ofm_ublock.depth,
            accelerator.ifm_ublock.depth,
            mode,
            block,
            limit // operation.kernel.dilation_y,
            limit // operation.kernel.dilation_x,
            rounding,
        ],
        np.int64,
    )
