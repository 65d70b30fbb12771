"""A causal convolution over a sequence, as converters write it: its PAD is carried through the reshape between."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.graph import attributes as at
from npu.graph.attributes import FusedActivation, Padding
from npu.graph.dtype import DType
from npu.isa.operations import Convolution, DepthwiseConvolution, KernelOperation

from tests.support.builder import ModelBuilder
from tests.support.litert import random_inputs, run_reference

TARGETS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
MAP = {"dtype": DType.INT8, "scale": 0.05, "zero_point": -7}
LENGTH, DEPTH = 24, 16


def causal(
    pads: tuple[int, int] = (2, 0),
    *,
    kind: str = "CONV_2D",
    kernel: int = 3,
    dilation: int = 1,
    stands: bool = False,
    seen: str = "",
) -> bytes:
    """PAD and RESHAPE in front of a convolution; `stands`: along the height; `seen`: what is an output of the model, too."""
    b, rng = ModelBuilder(), np.random.default_rng(3)
    x = b.input((1, LENGTH, DEPTH), **MAP)
    length = LENGTH + sum(pads)
    table = b.constant(np.array([(0, 0), pads, (0, 0)], np.int32))
    padded = b.op("PAD", [x, table], (1, length, DEPTH), **MAP, attributes=at.PadOptions())
    shape = (1, length, 1, DEPTH) if stands else (1, 1, length, DEPTH)
    row = b.op("RESHAPE", [padded, b.constant(np.array(shape, np.int32))], shape, **MAP, attributes=at.ReshapeOptions(shape))
    window = (kernel, 1) if stands else (1, kernel)
    is_depthwise = kind == "DEPTHWISE_CONV_2D"
    weights = rng.integers(-90, 90, (1 if is_depthwise else 8, *window, DEPTH)).astype(np.int8)
    count = DEPTH if is_depthwise else 8
    scales = [0.01 * (1 + n / 8) for n in range(count)]
    w = b.constant(weights, scale=scales, zero_point=[0] * count, axis=3 if is_depthwise else 0)
    bias = b.constant(rng.integers(-900, 900, count).astype(np.int32), scale=[0.05 * one for one in scales])
    left = length - (kernel - 1) * dilation
    made = (1, left, 1, count) if stands else (1, 1, left, count)
    along = {"dilation_h_factor": dilation if stands else 1, "dilation_w_factor": 1 if stands else dilation}
    if is_depthwise:
        options: at.Attributes = at.DepthwiseConv2DOptions(Padding.VALID, 1, 1, 1, FusedActivation.RELU, **along)
    else:
        options = at.Conv2DOptions(Padding.VALID, 1, 1, FusedActivation.RELU, **along)
    y = b.op(kind, [row, w, bias], made, DType.INT8, 0.3, -128, attributes=options)
    back = b.constant(np.array((1, left, count), np.int32))
    b.output(
        b.op("RESHAPE", [y, back], (1, left, count), DType.INT8, 0.3, -128, attributes=at.ReshapeOptions((1, left, count)))
    )
    for name, tensor in (("padded", padded), ("row", row)):
        if name == seen:
            b.output(tensor)
    return b.build()


def kernels(model: bytes, target: str) -> list[KernelOperation]:
    (part,) = npu.compile(model, target=target).compiled_model.partitions
    return [operation for operation in part.operations if isinstance(operation, KernelOperation)]


def assert_exact(model: bytes, target: str) -> None:
    inputs = random_inputs(model, 1)
    result = npu.run(model, inputs, target=target)
    for found, expected in zip(result.outputs, run_reference(model, inputs), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("stands", [False, True], ids=["lies", "stands"])
@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D"])
def test_a_causal_convolution_is_one_kernel(kind: str, target: str, *, stands: bool) -> None:
    model = causal(kind=kind, stands=stands)
    assert [type(one) for one in kernels(model, target)] == [Convolution if kind == "CONV_2D" else DepthwiseConvolution]
    assert_exact(model, target)


OTHERS = [((4, 0), 3, 2), ((1, 1), 3, 1), ((0, 2), 3, 1), ((8, 0), 3, 4), ((9, 3), 3, 1)]
"""What is put around a sequence, kernel and dilation."""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("pads", "kernel", "dilation"), OTHERS)
def test_other_paddings_are_exact(pads: tuple[int, int], kernel: int, dilation: int, target: str) -> None:
    assert_exact(causal(pads, kernel=kernel, dilation=dilation), target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seen", ["padded", "row"])
def test_what_others_see_stays(seen: str, target: str) -> None:
    assert_exact(causal(seen=seen), target)
