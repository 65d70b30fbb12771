"""Small models of many kinds, each of which LiteRT's reference kernels run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npu.graph.attributes import (
    AddOptions,
    ConcatenationOptions,
    Conv2DOptions,
    DepthwiseConv2DOptions,
    FullyConnectedOptions,
    FusedActivation,
    IfOptions,
    Padding,
    Pool2DOptions,
    ReshapeOptions,
    SoftmaxOptions,
    SplitOptions,
    SVDFOptions,
)
from npu.graph.attributes_2 import DilateOptions
from npu.graph.dtype import DType
from npu.tflite.schema import DimensionMetadata, DimensionType, Int32Vector, SparsityParameters

from tests.support.builder import ModelBuilder


def image_classifier() -> bytes:
    """Per-channel convolution and depthwise convolution, pool, reshape, FULLY_CONNECTED with absent bias, softmax."""
    rng = np.random.default_rng(1)
    b = ModelBuilder()
    x = b.input((1, 8, 8, 4), DType.INT8, scale=0.1, zero_point=-3, name="image")
    kernel = b.constant(rng.integers(-127, 128, (8, 3, 3, 4), np.int8), scale=[0.01 * (i + 1) for i in range(8)])
    bias = b.constant(rng.integers(-999, 999, 8, np.int32), scale=[0.001 * (i + 1) for i in range(8)])
    conv = Conv2DOptions(Padding.SAME, 2, 2, FusedActivation.RELU6)
    y = b.op("CONV_2D", [x, kernel, bias], (1, 4, 4, 8), DType.INT8, 0.03, -128, attributes=conv)
    filters = b.constant(rng.integers(-127, 128, (1, 3, 3, 8), np.int8), scale=[0.02] * 8, axis=3)
    zero = b.constant(np.zeros(8, np.int32), scale=[0.0006] * 8)
    depthwise = DepthwiseConv2DOptions(Padding.VALID, 1, 1, 1)
    y = b.op("DEPTHWISE_CONV_2D", [y, filters, zero], (1, 2, 2, 8), DType.INT8, 0.1, 5, attributes=depthwise)
    y = b.op("MAX_POOL_2D", [y], (1, 1, 1, 8), DType.INT8, 0.1, 5, attributes=Pool2DOptions(Padding.VALID, 2, 2, 2, 2))
    shape = b.constant(np.array([1, 8], np.int32))
    y = b.op("RESHAPE", [y, shape], (1, 8), DType.INT8, 0.1, 5, attributes=ReshapeOptions((1, 8)))
    weights = b.constant(rng.integers(-127, 128, (5, 8), np.int8), scale=0.01)
    y = b.op("FULLY_CONNECTED", [y, weights, None], (1, 5), DType.INT8, 0.2, 0, attributes=FullyConnectedOptions())
    y = b.op("SOFTMAX", [y], (1, 5), DType.INT8, 1 / 256, -128, attributes=SoftmaxOptions(1.0), name="probabilities")
    b.output(y)
    b.signature("serving_default", {"image": x}, {"probabilities": y})
    b.metadata["min_runtime_version"] = b"2.3.0"
    return b.build()


def wide_activations() -> bytes:
    """16-bit data with 8-bit weights and 64-bit bias."""
    rng = np.random.default_rng(2)
    b = ModelBuilder()
    x = b.input((2, 6), DType.INT16, scale=0.001)
    weights = b.constant(rng.integers(-127, 128, (3, 6), np.int8), scale=0.01)
    bias = b.constant(rng.integers(-9999, 9999, 3, np.int64), scale=0.00001)
    b.output(b.op("FULLY_CONNECTED", [x, weights, bias], (2, 3), DType.INT16, 0.002, attributes=FullyConnectedOptions()))
    return b.build()


def float_arithmetic() -> bytes:
    """float32, a scalar constant, two outputs of one operator, an output that is also read."""
    b = ModelBuilder()
    x = b.input((2, 4), DType.FLOAT32)
    y = b.op("ADD", [x, b.constant(np.float32(1.5))], (2, 4), DType.FLOAT32, attributes=AddOptions())
    left, right = b.tensor((2, 2), DType.FLOAT32), b.tensor((2, 2), DType.FLOAT32)
    axis = b.constant(np.array(1, np.int32))
    b.multi_op("SPLIT", [axis, y], [left, right], attributes=SplitOptions(2))
    b.output(right, y, left)
    return b.build()


def stateful_filter() -> bytes:
    """SVDF with its variable state."""
    rng = np.random.default_rng(3)
    b = ModelBuilder()
    x = b.input((1, 4), DType.FLOAT32)
    features = b.constant(rng.standard_normal((3, 4)).astype(np.float32))
    time = b.constant(rng.standard_normal((3, 5)).astype(np.float32))
    state = b.variable((1, 15), DType.FLOAT32)
    b.output(b.op("SVDF", [x, features, time, None, state], (1, 3), DType.FLOAT32, attributes=SVDFOptions(1)))
    return b.build()


def two_branches() -> bytes:
    """IF over two further subgraphs, with two signatures."""
    b = ModelBuilder()
    condition = b.input((), DType.BOOL)
    x = b.input((3,), DType.FLOAT32)
    branches = []
    for kind in ("NEG", "ABS"):
        branch = ModelBuilder(kind.lower())
        argument = branch.input((3,), DType.FLOAT32)
        branch.output(branch.op(kind, [argument], (3,), DType.FLOAT32))
        branches.append(b.subgraph(branch))
    y = b.op("IF", [condition, x], (3,), DType.FLOAT32, attributes=IfOptions(*branches))
    b.output(y)
    b.signature("choose", {"condition": condition, "x": x}, {"y": y})
    b.signature("negate", {"x": 0}, {"y": 1}, graph=1)
    return b.build()


def sparse_weights() -> bytes:
    """A sparse constant, expanded by DENSIFY: [[1, 0, 0], [0, 0, 2]], rows dense, columns compressed."""
    sparsity = SparsityParameters(
        traversal_order=(0, 1),
        dim_metadata=(
            DimensionMetadata(DimensionType.DENSE, 2),
            DimensionMetadata(
                DimensionType.SPARSE_CSR,
                0,
                Int32Vector(np.array([0, 1, 2], np.int32)),
                Int32Vector(np.array([0, 2], np.int32)),
            ),
        ),
    )
    b = ModelBuilder()
    x = b.input((2, 3), DType.FLOAT32)
    packed = b.tensor((2, 3), DType.FLOAT32, data=np.array([1, 2], np.float32), extra={"sparsity": sparsity})
    dense = b.op("DENSIFY", [packed], (2, 3), DType.FLOAT32)
    b.output(b.op("ADD", [x, dense], (2, 3), DType.FLOAT32, attributes=AddOptions()))
    return b.build()


def second_options_union() -> bytes:
    """DILATE, whose options are a member of the second union."""
    b = ModelBuilder()
    x = b.input((2, 2), DType.FLOAT32)
    steps, fill = b.constant(np.array([2, 1], np.int32)), b.constant(np.float32(9))
    b.output(b.op("DILATE", [x, steps, fill], (3, 2), DType.FLOAT32, attributes=DilateOptions()))
    return b.build()


def four_bit_weights() -> bytes:
    """FULLY_CONNECTED with packed 4-bit weights, low nibble first, an odd number of them."""
    b = ModelBuilder()
    x = b.input((1, 3), DType.INT8, scale=0.1)
    packed = np.array([0x2F, 0x71, 0x03, 0x5E, 0x01], np.uint8)
    weights = b.tensor((3, 3), DType.INT4, scale=0.05, data=packed)
    bias = b.constant(np.array([3, -4, 5], np.int32), scale=0.005)
    b.output(
        b.op("FULLY_CONNECTED", [x, weights, bias], (1, 3), DType.INT8, 0.1, version=10, attributes=FullyConnectedOptions())
    )
    return b.build()


def dynamic_batch() -> bytes:
    """A shape signature with an unknown dimension."""
    b = ModelBuilder()
    x = b.input((1, 3), DType.FLOAT32, shape_signature=(-1, 3))
    b.output(b.op("NEG", [x], (1, 3), DType.FLOAT32, shape_signature=(-1, 3)))
    return b.build()


def empty_constant() -> bytes:
    """A constant without elements among the inputs of a concatenation."""
    b = ModelBuilder()
    x = b.input((3,), DType.FLOAT32)
    nothing = b.constant(np.zeros(0, np.float32))
    b.output(b.op("CONCATENATION", [x, nothing], (3,), DType.FLOAT32, attributes=ConcatenationOptions(0)))
    return b.build()


SAMPLES: dict[str, Callable[[], bytes]] = {
    builder.__name__: builder
    for builder in (
        image_classifier,
        wide_activations,
        float_arithmetic,
        stateful_filter,
        two_branches,
        sparse_weights,
        second_options_union,
        four_bit_weights,
        dynamic_batch,
        empty_constant,
    )
}
