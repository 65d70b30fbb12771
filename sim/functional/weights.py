"""Weights and scale records of an operation, decoded from memory.

Decoded constants are kept by content: the bytes they came from are compared again before every use, so a stream that
rewrites its own weights (or copies other weights over them) stays correct.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from npu.errors import SimulationError, StreamError
from npu.isa.families import family_of
from npu.isa.family import WeightUse, weight_shape
from npu.isa.operations import AddressRange, Convolution, DepthwiseConvolution
from npu.isa.weight_stream.order import WeightOrder, interleave_cores
from npu.numerics.arrays import Ints
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
    format = family_of(memory.variant.accelerator.product).weights
    try:
        weights = [format.decode(data, weight_shape(operation), order) for data, order in _streams(operation, memory)]
    except StreamError as error:
        raise SimulationError(str(error)) from error
    return DecodedConstants(weights[0] if len(weights) == 1 else interleave_cores(weights), *decode_channels(operation, memory))


def decode_groups(
    operation: Convolution | DepthwiseConvolution, memory: NpuMemory, places: Ints, groups: npt.NDArray[np.int8]
) -> bool:
    """Decode the weights into zeroed `groups`, as `npu.isa.family.WeightFormat` says; False if one has more than 8 bits."""
    format, shape = family_of(memory.variant.accelerator.product).weights, weight_shape(operation)
    try:
        return all([format.decode_groups(data, shape, order, places, groups) for data, order in _streams(operation, memory)])
    except StreamError as error:
        raise SimulationError(str(error)) from error


def decode_channels(operation: Convolution | DepthwiseConvolution, memory: NpuMemory) -> tuple[Ints, Ints, Ints]:
    """Biases, scales and shifts, int64 (O,). Raises SimulationError."""
    format, depth, cores = family_of(memory.variant.accelerator.product).scales, operation.ofm.depth, len(operation.weights)
    records = []
    try:
        for core in range(min(cores, depth)):
            part = operation.scales[core]
            data = memory.view(part.region, part.address, part.length_bytes)
            records.append(format.decode(data, len(range(core, depth, cores))))
    except StreamError as error:
        raise SimulationError(str(error)) from error
    if len(records) == 1:
        return records[0]
    biases, scales, shifts = (interleave_cores(columns) for columns in zip(*records, strict=True))
    return biases, scales, shifts


def _streams(
    operation: Convolution | DepthwiseConvolution, memory: NpuMemory
) -> Iterator[tuple[npt.NDArray[np.uint8], WeightOrder]]:
    """The stream of each core, and the order of its weights."""
    accelerator, use = memory.variant.accelerator, WeightUse.of(operation)
    weights = family_of(accelerator.product).weights
    for core, stream in enumerate(operation.weights[: operation.ofm.depth]):
        yield memory.view(stream.region, stream.address, stream.length_bytes), weights.order(accelerator, use, core)
