"""What lies in a fast memory of the NPU's own: maps between operators, also where one could replace what the CPU sees."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.graph.ethos_u import Region
from npu.graph.graph import Graph, Model, Op
from npu.hardware.choice import Hardware
from npu.isa.operations import Elementwise, KernelOperation, Layout
from npu.tflite.writer import write_model
from npu.toolchain.session import Session

from tests.support.builder import ModelBuilder
from tests.support.single_ops import tensor


def sums(count: int, hardware: Hardware) -> list[Elementwise]:
    """The kernels of so many ADDs in a row, each of a map and itself: with 16 bits none is a table."""
    tensors = tuple(tensor((1, 96, 96, 3), DType.INT16, scale=0.1 * (i + 1)) for i in range(count + 1))
    ops = tuple(Op("ADD", (i, i), (i + 1,), at.AddOptions()) for i in range(count))
    return kernels(write_model(Model((Graph("main", tensors, ops, (0,), (count,)),))), hardware)


def kernels(content: bytes, hardware: Hardware) -> list[Elementwise]:
    return [operation for operation in operations(content, hardware) if isinstance(operation, Elementwise)]


def operations(content: bytes, hardware: Hardware) -> list[KernelOperation]:
    (partition,) = npu.compile(content, session=Session(hardware)).compiled_model.partitions
    return [operation for operation in partition.operations if isinstance(operation, KernelOperation)]


def branches(depth: int) -> bytes:
    """A convolution to a map of so many channels, which two others read."""
    b, random = ModelBuilder(), np.random.default_rng(depth)

    def convolution(x: int, channels: int, zero_point: int) -> int:
        weights = random.integers(-127, 128, (channels, 3, 3, depth)).astype(np.int8)
        inputs = [x, b.constant(weights, scale=0.01), b.constant(np.zeros(channels, np.int32), scale=0.001)]
        options = at.Conv2DOptions(at.Padding.SAME, 1, 1)
        return b.op("CONV_2D", inputs, (1, 32, 32, channels), DType.INT8, 0.1, zero_point, attributes=options)

    between = convolution(b.input((1, 32, 32, depth), DType.INT8, scale=0.1), depth, 0)
    for zero_point in (1, 2):
        b.output(convolution(between, 8, zero_point))
    return b.build()


@pytest.mark.parametrize("depth", [16, 32])
def test_a_map_that_fills_the_whole_fast_memory_is_in_it(depth: int) -> None:
    """Without it copies of weights would have a twelfth of the memory, and the map would be cut or lie behind it."""
    map_bytes = 32 * 32 * depth
    content, hardware = branches(depth), Hardware("ethos-u65-256", arena_cache_bytes=map_bytes)
    compiled = npu.compile(content, session=Session(hardware)).compiled_model
    assert compiled.usage.fast_bytes == map_bytes
    assert len(compiled.partitions[0].operations) == 4  # three kernels and the end: nothing is cut or copied


def test_weights_that_every_block_reads_have_room_beside_maps_that_would_fill_the_fast_memory() -> None:
    """A kernel that reads them in place waits a latency for every window of the decoder."""
    b, random = ModelBuilder(), np.random.default_rng(0)
    x = b.input((1, 40, 40, 16), DType.INT8, scale=0.1)
    for _ in range(4):
        weights = random.integers(-127, 128, (16, 1, 1, 16)).astype(np.int8)
        inputs = [x, b.constant(weights, scale=0.01), b.constant(np.zeros(16, np.int32), scale=0.001)]
        options = at.Conv2DOptions(at.Padding.SAME, 1, 1)
        x = b.op("CONV_2D", inputs, (1, 40, 40, 16), DType.INT8, 0.1, attributes=options)
    b.output(x)
    maps_bytes = 2 * 40 * 40 * 16
    usage = npu.compile(
        b.build(), session=Session(Hardware("ethos-u65-256", arena_cache_bytes=maps_bytes))
    ).compiled_model.usage
    assert usage.fast_bytes < maps_bytes


def test_a_map_between_operators_does_not_replace_the_input_behind_the_fast_memory() -> None:
    made = sums(3, Hardware("ethos-u65-256"))
    assert [kernel.ifm.region for kernel in made] == [Region.ARENA, Region.FAST, Region.FAST]
    assert [kernel.ofm.region for kernel in made] == [Region.FAST, Region.FAST, Region.ARENA]


def test_maps_that_replace_each_other_do_so_in_a_fast_memory_that_holds_one_of_them() -> None:
    """The last result, which the application sees, takes no part in that."""
    made = sums(4, Hardware("ethos-u65-256", arena_cache_bytes=64 * 1024))
    assert [kernel.ofm.region for kernel in made] == [Region.FAST, Region.FAST, Region.FAST, Region.ARENA]
    assert len({kernel.ofm.addresses[0] for kernel in made[:3]}) == 1


def test_in_one_memory_every_result_replaces_its_operand() -> None:
    made = sums(3, Hardware("ethos-u55-256"))
    assert len({(fm.region, fm.addresses[0]) for kernel in made for fm in (kernel.ifm, kernel.ofm)}) == 1


def test_maps_without_room_are_written_in_whole_rows() -> None:
    """Of a map of more than 16 channels without bricks every 16 bytes would be a burst, which a slow memory takes long for."""
    b, shape = ModelBuilder(), (1, 224, 224, 3)
    y, other = (b.input(shape, DType.INT8, scale=0.1) for _ in range(2))
    for scale in (0.06, 0.05, 0.04):
        y = b.op("SUB", [y, other], shape, DType.INT8, scale, 3, attributes=at.SubOptions())
    b.output(y)
    near, far = (kernels(b.build(), Hardware("ethos-u65-512", arena_cache_bytes=size))[1].ofm for size in (None, 16384))
    assert (near.region, far.region) == (Region.FAST, Region.ARENA)
    assert near.depth > 16 >= far.depth


@pytest.mark.parametrize(
    ("depth", "layout"),
    [
        (17, Layout.NHCWB16),  # of 32 channels in bricks
        (24, Layout.NHCWB16),
        (12, Layout.NHWC),  # a pixel is one burst anyhow
    ],
)
def test_convolutions_write_maps_without_room_in_bricks_where_these_are_faster(depth: int, layout: Layout) -> None:
    near, far = (operations(branches(depth), Hardware("ethos-u65-512", arena_cache_bytes=size))[0].ofm for size in (None, 8192))
    assert (near.region, near.layout) == (Region.FAST, Layout.NHWC)
    assert (far.region, far.layout) == (Region.ARENA, layout)


@pytest.mark.parametrize("depth", [17, 24])
def test_a_map_in_bricks_without_room_holds_the_same_values(depth: int) -> None:
    hardware = Hardware("ethos-u65-512", arena_cache_bytes=8192)
    ran = npu.run(branches(depth), session=Session(hardware), seed=depth)
    reference = npu.Interpreter(model_content=branches(depth))
    reference.allocate_tensors()
    reference.set_tensor(reference.get_input_details()[0]["index"], ran.inputs[0])
    reference.invoke()
    for detail, found in zip(reference.get_output_details(), ran.outputs, strict=True):
        assert np.array_equal(reference.get_tensor(detail["index"]), found)
