"""What is inside a file that Vela compiled: its streams with their variant, and the weight streams of its operations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import tflite
from numpy.typing import NDArray

from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Variant
from npu.isa.decode import decode
from npu.isa.decoded import Decoded
from npu.isa.operations import Convolution, DepthwiseConvolution, Dma, Operation, Traversal, WeightedOperation
from npu.isa.payload import Payload, decode_config, find_target, parse_payload
from npu.isa.weight_stream.order import WeightOrder, WeightShape

VARIANTS = tuple(load_variant(f"ethos-{name}") for name in ("u55-32", "u55-64", "u55-128", "u55-256", "u65-256", "u65-512"))


@dataclass(frozen=True, slots=True)
class Job:
    """One `ethos-u` operator: its payload bytes, parsed payload, constants, and the variant that its configuration names."""

    data: bytes
    payload: Payload
    read_only: bytes
    variant: Variant

    def decode(self) -> tuple[Decoded, ...]:
        return decode(self.payload.words, self.variant)


@dataclass(frozen=True, slots=True)
class Stream:
    """One core's weight stream with the shape and order that its operation implies."""

    data: bytes
    shape: WeightShape
    order: WeightOrder


def in_place_of(decoded: Decoded, operation: Operation) -> Decoded:
    """Another operation where one is started."""
    return Decoded(operation, decoded.command_index, decoded.word_index)


def jobs(content: bytes) -> list[Job]:
    """Every `ethos-u` operator of a compiled file."""
    model = tflite.Model.GetRootAsModel(content, 0)
    graph = model.Subgraphs(0)
    found = []
    for number in range(graph.OperatorsLength()):
        operator = graph.Operators(number)
        if model.OperatorCodes(operator.OpcodeIndex()).CustomCode() != b"ethos-u":
            continue
        buffers = [model.Buffers(graph.Tensors(operator.Inputs(k)).Buffer()) for k in range(2)]
        data, read_only = (bytes(buffer.DataAsNumpy()) if buffer.DataLength() else b"" for buffer in buffers)
        payload = parse_payload(data)
        found.append(Job(data, payload, read_only, find_target(decode_config(payload.config_word), VARIANTS)))
    return found


def weight_streams(job: Job) -> Iterator[Stream]:
    """Weight streams in the order of use; staged ones are found in the constants through their transfer."""
    staged: list[Dma] = []
    for one in job.decode():
        operation = one.operation
        if isinstance(operation, Dma) and operation.source.region == 0 and operation.destination.region is not None:
            staged.insert(0, operation)
        if isinstance(operation, WeightedOperation):
            for core, part in enumerate(operation.weights):
                start = part.address if part.region == 0 else _source(staged, part.region, part.address)
                yield Stream(job.read_only[start : start + part.length_bytes], *_order(operation, job.variant, core))


def _source(staged: list[Dma], region: int, address: int) -> int:
    for dma in staged:
        offset = address - dma.destination.address
        if dma.destination.region == region and 0 <= offset < dma.length_bytes:
            return dma.source.address + offset
    raise AssertionError(f"no transfer fills region {region} at {address:#x}")


def _order(operation: WeightedOperation, variant: Variant, core: int) -> tuple[WeightShape, WeightOrder]:
    is_depthwise, kernel = isinstance(operation, DepthwiseConvolution), operation.kernel
    order = WeightOrder(
        block_depth=operation.block.depth,
        traversal=operation.traversal if isinstance(operation, Convolution) else Traversal.DEPTH_FIRST,
        is_depthwise=is_depthwise,
        ifm_bits=operation.ifm.element.bits,
        dilation_y=kernel.dilation_y,
        dilation_x=kernel.dilation_x,
        ofm_ublock_depth=variant.accelerator.ofm_ublock.depth,
        ifm_ublock_depth=variant.accelerator.ifm_ublock.depth,
        core=core,
        cores=variant.accelerator.cores,
    )
    return (operation.ofm.depth, kernel.height, kernel.width, 1 if is_depthwise else operation.ifm.depth), order


def random_weights(shape: tuple[int, ...], seed: int = 0, *, limit: int = 127) -> NDArray[np.int16]:
    """Weights of a bell-shaped distribution, int16 in [-limit, limit]."""
    values = np.random.default_rng(seed).normal(0, limit / 4, shape)
    return np.clip(np.rint(values), -limit, limit).astype(np.int16)
