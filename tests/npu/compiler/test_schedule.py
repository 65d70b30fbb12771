"""Where a layer whose weights are copied is cut."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.graph.attributes import Conv2DOptions, FusedActivation, Padding
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Model, Op
from npu.isa.operations import Convolution
from npu.tflite.writer import write_model

from tests.support.single_ops import tensor


def pointwise_pair(extent: int, depth: int, channels: int) -> Model:
    """A small layer whose work hides the first copy of the next one, and that: (extent, extent, depth) to `channels`."""
    random = np.random.default_rng(0)
    tensors = [tensor((1, extent, extent, depth), scale=0.1)]
    steps = []
    for inputs, outputs in ((depth, depth), (depth, channels)):
        first = len(tensors)
        tensors += [
            tensor(
                (outputs, 1, 1, inputs), data=random.integers(-127, 128, (outputs, 1, 1, inputs)).astype(np.int8), scale=0.01
            ),
            tensor((outputs,), DType.INT32, data=0, scale=0.001),
            tensor((1, extent, extent, outputs), scale=0.1),
        ]
        options = Conv2DOptions(Padding.VALID, 1, 1, FusedActivation.NONE, 1, 1)
        steps.append(Op("CONV_2D", (first - 1, first, first + 1), (first + 2,), options))
    return Model((Graph("main", tuple(tensors), tuple(steps), (0,), (len(tensors) - 1,)),))


@pytest.mark.parametrize(
    ("target", "shape", "slices"),
    [
        ("ethos-u55-256", (32, 192, 276), [128, 128, 20]),  # blocks of 128 channels, of which 144 would need two
        ("ethos-u65-256", (32, 192, 276), [48, 48, 36]),  # no gain: equal slices need less memory at a time
        ("ethos-u65-256", (1, 114, 288), [80, 80, 48]),
    ],
)
def test_slices_are_whole_blocks_where_these_are_clearly_faster(
    target: str, shape: tuple[int, int, int], slices: list[int]
) -> None:
    (partition,) = npu.compile(write_model(pointwise_pair(*shape)), target=target).result.partitions
    found = [operation.ofm.depth for operation in partition.operations if isinstance(operation, Convolution)]
    assert found[-len(slices) :] == slices
    assert sum(found) == shape[1] + shape[2]
