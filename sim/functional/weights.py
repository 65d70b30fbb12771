"""Weights and scale records of an operation, decoded from memory.

Decoded constants are kept by content: the bytes they came from are compared again before every use, so a stream that
rewrites its own weights (or copies other weights over them) stays correct.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu.errors import SimulationError, StreamError
from npu.isa.families import family_of
from npu.isa.operations import AddressRange, Convolution, DepthwiseConvolution, Traversal
from npu.isa.weight_stream.order import interleave_cores
from npu.records import dataclass
from sim.memory import NpuMemory


@dataclass(frozen=True, slots=True)
class DecodedConstants:
    """weights int16 (O, KH, KW, I), I = 1 for depthwise; biases, scales, shifts int64 (O,)."""

    weights: npt.NDArray[np.int16]
    biases: npt.NDArray[np.int64]
    scales: npt.NDArray[np.int64]
    shifts: npt.NDArray[np.int64]


def source_ranges(operation: Convolution | DepthwiseConvolution) -> tuple[AddressRange, ...]:
    """The byte ranges that `decode_constants` reads."""
    cores = min(len(operation.weights), operation.ofm.depth)
    return (*operation.weights[:cores], *operation.scales[:cores])


def check_constants(operation: Convolution | DepthwiseConvolution, memory: NpuMemory) -> None:
    """Raise SimulationError unless the weight and scale ranges lie in memory and are long enough for the records."""
    cores = len(operation.weights)
    accelerator = memory.variant.accelerator
    available, record_bytes = accelerator.cores, family_of(accelerator.product).scales.record_bytes
    if not 1 <= cores <= available or len(operation.scales) != cores:
        raise SimulationError(f"weights: number of weight streams must be in [1, {available}], got {cores}")
    for part in source_ranges(operation):
        memory.check(part.region, part.address, part.address + part.length_bytes)
    for core in range(min(cores, operation.ofm.depth)):
        needed = record_bytes * len(range(core, operation.ofm.depth, cores))
        if operation.scales[core].length_bytes < needed:
            got = operation.scales[core].length_bytes
            raise SimulationError(f"scale records: length must be at least {needed} bytes for core {core}, got {got}")


def decode_constants(operation: Convolution | DepthwiseConvolution, memory: NpuMemory) -> DecodedConstants:
    """Decode weights and scale records. Raises SimulationError if the streams do not fit the operation."""
    is_depthwise = isinstance(operation, DepthwiseConvolution)
    depth = operation.ofm.depth
    shape = (depth, operation.kernel.height, operation.kernel.width, 1 if is_depthwise else operation.ifm.depth)
    cores = len(operation.weights)
    accelerator = memory.variant.accelerator
    family = family_of(accelerator.product)
    weights, records = [], []
    try:
        for core in range(min(cores, depth)):
            stream, scales = operation.weights[core], operation.scales[core]
            data = memory.view(stream.region, stream.address, stream.length_bytes)
            order = family.weights.order(
                accelerator,
                operation.kernel,
                block_depth=operation.block.depth,
                traversal=operation.traversal if isinstance(operation, Convolution) else Traversal.DEPTH_FIRST,
                is_depthwise=is_depthwise,
                ifm_bits=operation.ifm.element.bits,
                core=core,
                cores=cores,
                has_4x4_sub_kernels=operation.has_4x4_sub_kernels,
            )
            weights.append(family.weights.decode(data, shape, order))
            scale_data = memory.view(scales.region, scales.address, scales.length_bytes)
            records.append(family.scales.decode(scale_data, len(range(core, depth, cores))))
    except StreamError as error:
        raise SimulationError(str(error)) from error
    if len(weights) == 1:
        return DecodedConstants(weights[0], *records[0])
    return DecodedConstants(interleave_cores(weights), *(interleave_cores(columns) for columns in zip(*records, strict=True)))
