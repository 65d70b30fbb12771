"""Inputs that are read again and again are copied into a fast memory of the NPU's own, and no others."""

from __future__ import annotations

import pytest

import npu
from npu.compiler.goal import Goal
from npu.graph.ethos_u import Region
from npu.graph.graph import Graph, Model, Op
from npu.hardware.choice import Hardware
from npu.isa.operations import Convolution, KernelOperation, Pooling
from npu.tflite.writer import write_model
from npu.toolchain.session import Session

from tests.support.layers import pointwise_pair
from tests.support.single_ops import tensor


def kernels(model: Model, hardware: Hardware, goal: Goal = Goal.PERFORMANCE) -> list[KernelOperation]:
    result = npu.compile(write_model(model), session=Session(hardware, goal=goal)).compiled_model
    (partition,) = result.partitions
    return [operation for operation in partition.operations if isinstance(operation, KernelOperation)]


def test_the_input_of_a_long_row_of_channels_is_copied_first() -> None:
    """Every slice of the weights needs all of it, and each of its pieces waits for the slow memory."""
    copy, *layers = kernels(pointwise_pair(1, 1024, 16), Hardware("ethos-u65-256"))
    assert isinstance(copy, Pooling)
    assert (copy.ifm.region, copy.ofm.region) == (Region.ARENA, Region.FAST)
    assert all(isinstance(layer, Convolution) and layer.ifm.region == Region.FAST for layer in layers)


@pytest.mark.parametrize(
    ("hardware", "goal"),
    [
        (Hardware("ethos-u55-256"), Goal.PERFORMANCE),  # one memory for all
        (Hardware("ethos-u65-256"), Goal.SIZE),
        (Hardware("ethos-u65-256", arena_cache_bytes=4096), Goal.PERFORMANCE),  # too small for it
    ],
    ids=["shared", "size", "small"],
)
def test_where_memory_counts_it_stays(hardware: Hardware, goal: Goal) -> None:
    assert all(isinstance(kernel, Convolution) for kernel in kernels(pointwise_pair(1, 1024, 16), hardware, goal))


def test_an_input_that_is_read_once_stays() -> None:
    tensors = tuple(tensor((1, 8, 8, 16), scale=scale) for scale in (0.1, 0.2))
    model = Model((Graph("main", tensors, (Op("QUANTIZE", (0,), (1,)),), (0,), (1,)),))
    (kernel,) = kernels(model, Hardware("ethos-u65-256"))
    assert kernel.ifm.region == Region.ARENA
