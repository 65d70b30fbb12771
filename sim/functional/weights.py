"""Weights and scale records of an operation, decoded from memory.

Decoded constants are kept by content: the bytes they came from are compared again before every use, so a stream that
rewrites its own weights (or copies other weights over them) stays correct.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from npu.errors import SimulationError, StreamError
from npu.hardware.variant import Accelerator
from npu.isa.decoded import PLACES_OF, RANGES
from npu.isa.families import family_of
from npu.isa.family import ScaleFormat
from npu.isa.operations import AddressRange, Convolution, DepthwiseConvolution
from npu.isa.weight_stream.order import WeightOrder, interleave_cores
from npu.isa.weight_stream.use import WeightUse, weight_shape
from npu.native.call import array_address
from npu.numerics.arrays import Ints
from npu.records import dataclass
from sim.memory import NpuMemory

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class DecodedConstants:
    """weights int16 (O, KH, KW, I), I = 1 for depthwise; biases, scales, shifts int64 (O,)."""

    weights: npt.NDArray[np.int16]
    biases: npt.NDArray[np.int64]
    scales: npt.NDArray[np.int64]
    shifts: npt.NDArray[np.int64]


def source_ranges(operation: Convolution | DepthwiseConvolution) -> tuple[AddressRange, ...]:
    """The byte ranges that `decode_constants` reads."""
    if operation.options is not None:
        return (*operation.weights, *operation.scales)
    cores = min(len(operation.weights), operation.ofm.depth)
    return (*operation.weights[:cores], *operation.scales[:cores])


@dataclass(frozen=True, slots=True, eq=False)
class ConstantBytes:
    """The bytes of the `source_ranges` of operations; nobody writes them."""

    operations: Ints
    """The operations, by index."""
    counts: Ints
    """Of the ranges of each operation: its weights, then as many of scale records."""
    ranges: Ints
    """Region, address and length of those of all operations, one after the other."""
    addresses: Ints
    """Of their bytes, in this process."""
    kept: Sequence[Bytes]
    """The arrays that these bytes belong to."""

    @staticmethod
    def of(index: int, ranges: Sequence[AddressRange], source: Sequence[Bytes]) -> ConstantBytes:
        """Those of one operation, which are `source`."""
        places = np.array([(part.region, part.address, part.length_bytes) for part in ranges], np.int64).reshape(-1, 3)
        addresses = np.array(list(map(array_address, source)), np.int64)
        return ConstantBytes(np.array([index]), np.array([len(source)]), places, addresses, source)

    def source(self, index: int) -> list[Bytes]:
        """A copy of the bytes of each range of an operation."""
        own = np.repeat(self.operations, self.counts) == index
        parts = zip(self.addresses[own].tolist(), self.ranges[own, 2].tolist(), strict=True)
        return [np.frombuffer(ctypes.string_at(address, size), np.uint8) for address, size in parts]


def source_columns(operation: Convolution | DepthwiseConvolution) -> list[tuple[int, int]]:
    """Of each of the `source_ranges` the region, and where in PLACES its address is, before its length."""
    cores = min(len(operation.weights), operation.ofm.depth)
    return [
        (ranges[core].region, PLACES_OF[name].start + 2 * core)
        for name, ranges in zip(RANGES, (operation.weights, operation.scales), strict=True)
        for core in range(cores)
    ]


def check_constants(operation: Convolution | DepthwiseConvolution, memory: NpuMemory) -> None:
    """Raise SimulationError unless the weight and scale ranges lie in memory and are long enough for the records."""
    if operation.options is not None:
        _check_chosen(operation, memory)
        return
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


def _check_chosen(operation: Convolution | DepthwiseConvolution, memory: NpuMemory) -> None:
    """`check_constants` where one block of records belongs to all streams."""
    for part in source_ranges(operation):
        memory.check(part.region, part.address, part.address + part.length_bytes)
    needed = family_of(memory.variant.accelerator.product).scales.record_bytes * operation.ofm.depth
    if operation.scales and operation.scales[0].length_bytes < needed:
        raise SimulationError(f"scale records: length must be at least {needed} bytes, got {operation.scales[0].length_bytes}")


def decode_constants(operation: Convolution | DepthwiseConvolution, memory: NpuMemory) -> DecodedConstants:
    """Decode weights and scale records. Raises SimulationError if the streams do not fit the operation."""
    accelerator, shape = memory.variant.accelerator, weight_shape(operation)
    decode = family_of(accelerator.product).weights.decode
    try:
        streams = [memory.view(part.region, part.address, part.length_bytes) for part in operation.weights]
        weights = decode(accelerator, WeightUse.of(operation), shape, streams)
    except StreamError as error:
        raise SimulationError(str(error)) from error
    return DecodedConstants(weights, *decode_channels(operation, memory))


def decode_channels(operation: Convolution | DepthwiseConvolution, memory: NpuMemory) -> tuple[Ints, Ints, Ints]:
    """Biases, scales and shifts, int64 (O,). Raises SimulationError."""
    format = family_of(memory.variant.accelerator.product).scales
    source = [memory.view(part.region, part.address, part.length_bytes) for part in operation.scales[: operation.ofm.depth]]
    try:
        return format.decode(scale_records(operation, source, format), operation.ofm.depth, operation.ifm.element.bits)
    except StreamError as error:
        raise SimulationError(str(error)) from error


def scale_records(operation: Convolution | DepthwiseConvolution, source: Sequence[Bytes], format: ScaleFormat) -> Bytes:
    """The bytes of the records of all channels, from those of each core."""
    depth, cores = operation.ofm.depth, len(source)
    parts = [part[: format.record_bytes * len(range(core, depth, cores))] for core, part in enumerate(source)]
    if cores == 1:
        return parts[0]
    return interleave_cores([part.reshape(-1, format.record_bytes) for part in parts]).reshape(-1)


def weight_orders(use: WeightUse, depth: int, accelerator: Accelerator) -> list[WeightOrder]:
    """The order of the weights of so many channels, of each core that has some."""
    order = family_of(accelerator.product).weights.of_cores.order
    return [order(accelerator, use, core) for core in range(min(use.cores, depth))]
