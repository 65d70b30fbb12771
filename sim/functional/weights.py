"""Weights and scale records of an operation, decoded from memory.

Decoded constants are kept by content: the bytes they came from are compared again before every use, so a stream that
rewrites its own weights (or copies other weights over them) stays correct.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from npu.errors import SimulationError, StreamError
from npu.hardware.variant import Accelerator
from npu.isa.decoded import PLACES_OF, RANGES
from npu.isa.families import family_of
from npu.isa.family import ScaleFormat, WeightUse, weight_shape
from npu.isa.operations import AddressRange, Convolution, DepthwiseConvolution
from npu.isa.weight_stream.order import WeightOrder, interleave_cores
from npu.native.call import array_address
from npu.numerics.arrays import Ints
from npu.records import dataclass
from sim.memory import NpuMemory

Bytes = npt.NDArray[np.uint8]
ConstantRange = Sequence[int]
"""Region, address and length."""


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


@dataclass(frozen=True, slots=True, eq=False)
class ConstantBytes:
    """The bytes of the `source_ranges` of an operation; nobody writes them."""

    operation: Convolution | DepthwiseConvolution
    """One that is alike, not at its places."""
    ranges: Sequence[ConstantRange]
    places: Sequence[tuple[Bytes, int]]
    """Of each range the array that has its bytes, and where in it they begin."""
    addresses: Sequence[int]
    """Of these bytes, in this process."""

    @property
    def source(self) -> list[Bytes]:
        """The bytes of each range."""
        return [array[start : start + size] for (array, start), (_, _, size) in zip(self.places, self.ranges, strict=True)]

    def copied(self) -> ConstantBytes:
        """The same, which nobody else can write."""
        return ConstantBytes.of(self.operation, self.ranges, [part.copy() for part in self.source])

    @staticmethod
    def of(
        operation: Convolution | DepthwiseConvolution, ranges: Sequence[ConstantRange], source: Sequence[Bytes]
    ) -> ConstantBytes:
        """Those of `source`."""
        return ConstantBytes(operation, ranges, [(part, 0) for part in source], list(map(array_address, source)))


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
    accelerator, shape = memory.variant.accelerator, weight_shape(operation)
    decode, orders = family_of(accelerator.product).weights.decode, weight_orders(operation, accelerator)
    try:
        views = (memory.view(part.region, part.address, part.length_bytes) for part in operation.weights)
        weights = [decode(data, shape, order) for data, order in zip(views, orders, strict=False)]
    except StreamError as error:
        raise SimulationError(str(error)) from error
    return DecodedConstants(weights[0] if len(weights) == 1 else interleave_cores(weights), *decode_channels(operation, memory))


def decode_channels(operation: Convolution | DepthwiseConvolution, memory: NpuMemory) -> tuple[Ints, Ints, Ints]:
    """Biases, scales and shifts, int64 (O,). Raises SimulationError."""
    format = family_of(memory.variant.accelerator.product).scales
    source = [memory.view(part.region, part.address, part.length_bytes) for part in operation.scales[: operation.ofm.depth]]
    try:
        return format.decode(scale_records(operation, source, format), operation.ofm.depth)
    except StreamError as error:
        raise SimulationError(str(error)) from error


def scale_records(operation: Convolution | DepthwiseConvolution, source: Sequence[Bytes], format: ScaleFormat) -> Bytes:
    """The bytes of the records of all channels, from those of each core."""
    depth, cores = operation.ofm.depth, len(source)
    parts = [part[: format.record_bytes * len(range(core, depth, cores))] for core, part in enumerate(source)]
    if cores == 1:
        return parts[0]
    return interleave_cores([part.reshape(-1, format.record_bytes) for part in parts]).reshape(-1)


def weight_orders(operation: Convolution | DepthwiseConvolution, accelerator: Accelerator) -> list[WeightOrder]:
    """The order of the weights of each core."""
    format, use = family_of(accelerator.product).weights, WeightUse.of(operation)
    return [format.order(accelerator, use, core) for core in range(min(use.cores, operation.ofm.depth))]
