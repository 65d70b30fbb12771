"""A model whose check has something of everything: NPU partitions, what splits them, both CPU paths, several limits."""

from __future__ import annotations

import numpy as np

from npu.graph.attributes import Conv2DOptions, Padding, SoftmaxOptions, TransposeOptions
from npu.graph.dtype import DType

from tests.support.builder import ModelBuilder


def mixed_model() -> bytes:
    """Convolution, convolution with stride 5, convolution, transpose, RELU, then float: dequantized, softmax."""
    b = ModelBuilder()
    x = b.input((1, 20, 20, 8), DType.INT8, scale=0.5, name="image")
    y = _convolution(b, x, (1, 20, 20, 16), 1, "features <& more>")
    y = _convolution(b, y, (1, 4, 4, 16), 5, "coarse|steps")
    y = _convolution(b, y, (1, 4, 4, 16), 1, "mixed")
    order = b.constant(np.array([0, 2, 1, 3], np.int32))
    y = b.op("TRANSPOSE", [y, order], (1, 4, 4, 16), DType.INT8, 0.5, attributes=TransposeOptions(), name="turned")
    y = b.op("RELU", [y], (1, 4, 4, 16), DType.INT8, 0.5, name="rectified")
    y = b.op("DEQUANTIZE", [y], (1, 4, 4, 16), DType.FLOAT32, name="real")
    y = b.op("SOFTMAX", [y], (1, 4, 4, 16), DType.FLOAT32, attributes=SoftmaxOptions(0.5), name="probabilities")
    b.output(y)
    return b.build()


def _convolution(b: ModelBuilder, source: int, shape: tuple[int, ...], stride: int, name: str) -> int:
    depth = b.tensors[source].shape[3]
    weights = b.constant(np.ones((shape[3], 3, 3, depth), np.int8), scale=0.25)
    bias = b.constant(np.zeros(shape[3], np.int32), scale=0.125)
    made = Conv2DOptions(Padding.SAME, stride, stride)
    return b.op("CONV_2D", [source, weights, bias], shape, DType.INT8, 0.5, attributes=made, name=name)
