"""The order in which kernels and copies are issued."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.graph.attributes import Conv2DOptions, FusedActivation, Padding
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Model, Op
from npu.isa.operations import Dma
from npu.tflite.writer import write_model

from tests.support.single_ops import tensor


def gates_before_large_weights() -> Model:
    """16x16x64 elements through three tables that the outputs keep apart, then a layer whose weights take long to copy."""
    random = np.random.default_rng(0)
    weights = random.integers(-127, 128, (256, 1, 1, 64)).astype(np.int8)
    tensors = (
        tensor((1, 16, 16, 64), scale=0.05),
        tensor((1, 16, 16, 64), scale=1 / 128),
        tensor((1, 16, 16, 64), scale=1 / 256, zero_point=-128),
        tensor((1, 16, 16, 64), scale=1 / 128),
        tensor((256, 1, 1, 64), data=weights, scale=0.01),
        tensor((256,), DType.INT32, data=0, scale=0.01 / 128),
        tensor((1, 16, 16, 256), scale=0.1),
    )
    layer = Conv2DOptions(Padding.VALID, 1, 1, FusedActivation.NONE, 1, 1)
    steps = (
        Op("TANH", (0,), (1,), None),
        Op("LOGISTIC", (1,), (2,), None),
        Op("TANH", (2,), (3,), None),
        Op("CONV_2D", (3, 4, 5), (6,), layer),
    )
    return Model((Graph("main", tensors, steps, (0,), (1, 2, 6)),))


@pytest.mark.parametrize("target", ["ethos-u65-256", "ethos-u65-512"])
def test_tables_are_loaded_before_weights_that_are_needed_later(target: str) -> None:
    (partition,) = npu.compile(write_model(gates_before_large_weights()), target=target).compiled_model.partitions
    copies = [operation for operation in partition.operations if isinstance(operation, Dma)]
    tables = [number for number, copy in enumerate(copies) if copy.destination.region is None]
    weights = [number for number, copy in enumerate(copies) if copy.destination.region is not None]
    assert len(tables) == 3
    assert max(tables) < min(weights)
