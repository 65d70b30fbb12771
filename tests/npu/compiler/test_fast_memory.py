"""What lies in a fast memory of the NPU's own: maps between operators, also where one could replace what the CPU sees."""

from __future__ import annotations

import numpy as np

import npu
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.graph.ethos_u import Region
from npu.graph.graph import Graph, Model, Op
from npu.hardware.choice import Hardware
from npu.isa.operations import Elementwise
from npu.tflite.writer import write_model
from npu.toolchain.session import Session

from tests.support.builder import ModelBuilder
from tests.support.single_ops import tensor


def sums(count: int, hardware: Hardware) -> list[Elementwise]:
    """The kernels of so many ADDs in a row, each of a map and itself."""
    tensors = tuple(tensor((1, 96, 96, 3), scale=0.1 * (i + 1)) for i in range(count + 1))
    ops = tuple(Op("ADD", (i, i), (i + 1,), at.AddOptions()) for i in range(count))
    return kernels(write_model(Model((Graph("main", tensors, ops, (0,), (count,)),))), hardware)


def kernels(content: bytes, hardware: Hardware) -> list[Elementwise]:
    (partition,) = npu.compile(content, session=Session(hardware)).compiled_model.partitions
    return [operation for operation in partition.operations if isinstance(operation, Elementwise)]


def test_a_map_between_operators_does_not_replace_the_input_behind_the_fast_memory() -> None:
    made = sums(3, Hardware("ethos-u65-256"))
    assert [kernel.ifm.region for kernel in made] == [Region.ARENA, Region.FAST, Region.FAST]
    assert [kernel.ofm.region for kernel in made] == [Region.FAST, Region.FAST, Region.ARENA]


def test_in_one_memory_every_result_replaces_its_operand() -> None:
    made = sums(3, Hardware("ethos-u55-256"))
    assert len({(fm.region, fm.addresses[0]) for kernel in made for fm in (kernel.ifm, kernel.ofm)}) == 1


def test_maps_without_room_are_written_in_whole_rows() -> None:
    """Of a map of more than 16 channels without bricks every 16 bytes would be a burst, which a slow memory takes long for."""
    b, shape = ModelBuilder(), (1, 224, 224, 3)
    y, half = b.input(shape, DType.INT8, scale=0.1), b.constant(np.array(64, np.int8), scale=1 / 128)
    for scale in (0.06, 0.05, 0.04):
        y = b.op("SUB", [y, half], shape, DType.INT8, scale, 3, attributes=at.SubOptions())
    b.output(y)
    near, far = (kernels(b.build(), Hardware("ethos-u65-512", arena_cache_bytes=size))[1].ofm for size in (None, 16384))
    assert (near.region, far.region) == (Region.FAST, Region.ARENA)
    assert near.depth > 16 >= far.depth
