"""Small models of a few layers."""

from __future__ import annotations

import numpy as np

from npu.graph.attributes import Conv2DOptions, FusedActivation, Padding
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Model, Op

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
