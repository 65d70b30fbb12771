"""Inputs read again and again, and outputs written in pieces, have a copy in the fast memory of the NPU."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.compiler.goal import Goal
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.graph.ethos_u import Region
from npu.graph.graph import Graph, Model, Op
from npu.hardware.choice import Hardware
from npu.isa.operations import Convolution, KernelOperation, Pooling
from npu.tflite.writer import write_model
from npu.toolchain.session import Session

from tests.support.architectures.layers import Layers
from tests.support.layers import pointwise_pair
from tests.support.litert import random_inputs, run_reference
from tests.support.single_ops import tensor


def kernels(content: bytes, hardware: Hardware, goal: Goal = Goal.PERFORMANCE) -> list[KernelOperation]:
    (partition,) = npu.compile(content, session=Session(hardware, goal=goal)).compiled_model.partitions
    return [operation for operation in partition.operations if isinstance(operation, KernelOperation)]


def test_the_input_of_a_long_row_of_channels_is_copied_first() -> None:
    """Every slice of the weights needs all of it, and each of its pieces waits for the slow memory."""
    copy, *layers = kernels(write_model(pointwise_pair(1, 1024, 16)), Hardware("ethos-u65-256"))
    assert isinstance(copy, Pooling)
    assert (copy.ifm.region, copy.ofm.region) == (Region.ARENA, Region.FAST)
    assert all(isinstance(layer, Convolution) and layer.ifm.region == Region.FAST for layer in layers)


@pytest.mark.parametrize(
    ("hardware", "goal"),
    [
        (Hardware("ethos-u55-256"), Goal.PERFORMANCE),  # one memory for all
        (Hardware("ethos-u65-256"), Goal.SIZE),
        (Hardware("ethos-u65-256", arena_cache_bytes=1536), Goal.PERFORMANCE),  # too small for it
    ],
    ids=["shared", "size", "small"],
)
def test_where_memory_counts_it_stays(hardware: Hardware, goal: Goal) -> None:
    content = write_model(pointwise_pair(1, 1024, 16))
    assert all(isinstance(kernel, Convolution) for kernel in kernels(content, hardware, goal))


def test_an_input_that_is_read_once_stays() -> None:
    tensors = tuple(tensor((1, 8, 8, 16), scale=scale) for scale in (0.1, 0.2))
    model = Model((Graph("main", tensors, (Op("QUANTIZE", (0,), (1,)),), (0,), (1,)),))
    (kernel,) = kernels(write_model(model), Hardware("ethos-u65-256"))
    assert kernel.ifm.region == Region.ARENA


def test_an_output_that_a_copy_would_only_make_wait_is_written_where_it_lies() -> None:
    """The copy can begin when the last block is there, and nothing else is under way then."""
    net = Layers(3, DType.INT16)
    x, row = net.input(2, 12, 64), net.input(1, 1, 64)
    content = net.finish(net.b.op("SUB", [x, row], (1, 2, 12, 64), DType.INT16, 0.02, attributes=at.SubOptions()))
    (kernel,) = kernels(content, Hardware("ethos-u85-512"))
    assert kernel.ofm.region == Region.ARENA


def joined(depth: int = 10) -> bytes:
    """Two convolutions side by side in an output, which a third one reads."""
    net = Layers(1)
    x = net.input(40, 40, 8)
    both = net.cat(net.conv(x, depth, 1), net.conv(x, depth + 1, 1))
    return net.finish(both, net.conv(both, 8, 3))


def test_an_output_that_is_written_in_pieces_is_made_in_the_fast_memory_and_copied_last() -> None:
    content = joined()
    made = kernels(content, Hardware("ethos-u65-256"))
    regions = [(type(kernel), kernel.ifm.region, kernel.ofm.region) for kernel in made]
    assert regions.count((Pooling, Region.FAST, Region.ARENA)) == 1  # the copy
    assert regions.count((Convolution, Region.FAST, Region.ARENA)) == 1  # what reads it, and is an output itself
    assert (Convolution, Region.ARENA, Region.ARENA) not in regions
    inputs = random_inputs(content, 3)
    compiled = npu.compile(content, "ethos-u65-256").content
    for ours, theirs in zip(npu.run(compiled, inputs).outputs, run_reference(content, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    "hardware",
    [
        Hardware("ethos-u55-256"),  # one memory for all
        Hardware("ethos-u65-256", arena_cache_bytes=32768),  # 33,600 bytes find no room
    ],
    ids=["shared", "small"],
)
def test_an_output_without_room_beside_is_written_where_it_lies(hardware: Hardware) -> None:
    assert all(isinstance(kernel, Convolution) for kernel in kernels(joined(), hardware))


def test_an_output_does_not_take_the_place_of_a_map_in_between() -> None:
    """33,600 bytes find room in a fast memory of 40,960, but not beside the 12,800 that both convolutions read."""
    net = Layers(1)
    x = net.conv(net.input(40, 40, 8), 8, 1)
    both = net.cat(net.conv(x, 10, 1), net.conv(x, 11, 1))
    content = net.finish(both, net.conv(both, 8, 3))
    hardware = Hardware("ethos-u65-256", arena_cache_bytes=40960)
    assert all(isinstance(kernel, Convolution) for kernel in kernels(content, hardware))


def test_an_output_takes_the_room_of_copies_of_constants_where_that_saves_much() -> None:
    """Three maps of 92 KB fill the fast memory but for 15 KB."""
    net = Layers(1)
    x = net.conv(net.input(62, 62, 24), 24, 3)
    y, shape = net.like("RELU", x), (1, 62, 2, 62, 24)
    packed = net.like("PACK", x, shape, at.PackOptions(2, 2), [y])
    made = kernels(net.finish(net.reshape(packed, 1, 62, 124, 24), net.conv(x, 8, 3)), Hardware("ethos-u65-256"))
    assert [kernel.ofm.region for kernel in made].count(Region.ARENA) == 2  # the copy, and the output of the convolution


def test_weights_and_an_input_that_pass_one_port_count_together() -> None:
    """Each of 20 slices of the weights reads the input again, which is what the copies of the others wait for."""
    net = Layers(1)
    x = net.input(9, 5, 320)
    content = net.finish(net.conv(x, 320, 3))
    first, *_ = kernels(content, Hardware("ethos-u65-256"))
    assert isinstance(first, Pooling)
    assert (first.ifm.region, first.ofm.region) == (Region.ARENA, Region.FAST)
