"""A convolution whose sums an accumulator may not hold runs on the CPU, where it wraps around as the reference kernels do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import npu
from constraints.sums import largest_sum
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.graph.graph import Tensor
from npu.tflite.writer import write_model

from tests.support import single_ops as ops
from tests.support.builder import ModelBuilder
from tests.support.litert import random_inputs, run_reference
from tests.support.single_ops import quantization, tensor


def _model(bias: int) -> bytes:
    weights = tensor((8, 3, 3, 4), data=127, scale=1e-6)
    return write_model(ops.conv(weights=weights, bias=tensor((8,), DType.INT32, data=bias)))


@pytest.mark.parametrize("bias", [(1 << 31) - 1, -(1 << 31), (1 << 31) - 1 - 36 * 127 * 128, 0])
def test_a_bias_near_the_largest_number_gives_what_the_reference_kernels_give(bias: int) -> None:
    content = _model(bias)
    inputs = random_inputs(content, 3)
    np.testing.assert_array_equal(npu.run(content, inputs).outputs[0], run_reference(content, inputs)[0])
    fits = abs(bias) + 36 * 127 * 128 < 1 << 31
    (placed,) = npu.check(content).ops
    assert [violation.rule for violation in placed.violations] == ([] if fits else ["N-W-8"])


FAINT = 0.49 / (1 << 31)
"""About the factor by which no sum of 32 bits becomes anything but zero."""


@pytest.mark.parametrize("bias", [(1 << 31) - 1, -(1 << 31)])
@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"])
@pytest.mark.parametrize(("factor", "on_npu"), [(1e-30, True), (FAINT / 1.01, True), (FAINT * 1.01, False), (2.0**-30, False)])
def test_a_bias_that_a_quantizer_has_cut_off_does_no_harm_where_its_channel_is_zero(
    kind: str, bias: int, factor: float, on_npu: bool
) -> None:
    """Channels of hardly any weights: their scale is tiny and their bias, in steps of it, does not fit 32 bits."""
    b, rng, channels = ModelBuilder(), np.random.default_rng(7), 4
    shape = (1, 4) if kind == "FULLY_CONNECTED" else (1, 5, 5, 4)
    x = b.input(shape, DType.INT8, scale=1.0, zero_point=-5)
    sizes = {"FULLY_CONNECTED": (channels, 4), "DEPTHWISE_CONV_2D": (1, 3, 3, channels)}.get(kind, (channels, 3, 3, 4))
    scales = [0.01, factor, 0.02, factor]
    axis = 3 if kind == "DEPTHWISE_CONV_2D" else 0
    weights = b.constant(rng.integers(-127, 128, sizes).astype(np.int8), scale=scales, zero_point=[0] * channels, axis=axis)
    added = b.constant(np.array([100, bias, -70, bias], np.int32), scale=scales, zero_point=[0] * channels)
    options: dict[str, at.Attributes] = {
        "CONV_2D": at.Conv2DOptions(at.Padding.SAME, 1, 1),
        "DEPTHWISE_CONV_2D": at.DepthwiseConv2DOptions(at.Padding.SAME, 1, 1, 1),
        "FULLY_CONNECTED": at.FullyConnectedOptions(),
    }
    b.output(b.op(kind, [x, weights, added], shape, DType.INT8, 1.0, 3, attributes=options[kind]))
    content = b.build()
    assert (not npu.check(content).ops[0].violations) == on_npu
    inputs = random_inputs(content, 3)
    np.testing.assert_array_equal(npu.run(content, inputs).outputs[0], run_reference(content, inputs)[0])


@pytest.mark.parametrize("factor", [2.0**-28, 5.37e-9, 2.0**-20, 0.3])
@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D"])
def test_a_channel_without_weights_may_have_the_least_bias(kind: str, factor: float) -> None:
    """As quantizers leave channels that were pruned; its results are those of the bias, which 32 bits hold."""
    b, channels = ModelBuilder(), 4
    x = b.input((1, 6, 6, 4), DType.INT8, scale=1.0, zero_point=-128)
    axis, sizes = (3, (1, 3, 3, channels)) if kind == "DEPTHWISE_CONV_2D" else (0, (channels, 3, 3, 4))
    values = np.random.default_rng(5).integers(-127, 128, sizes).astype(np.int8)
    np.moveaxis(values, axis, 0)[1] = 0
    scales = [0.01, factor, 0.02, 0.01]
    weights = b.constant(values, scale=scales, zero_point=[0] * channels, axis=axis)
    added = b.constant(np.array([100, -(1 << 31), -70, 12], np.int32), scale=scales, zero_point=[0] * channels)
    made = {
        "CONV_2D": at.Conv2DOptions(at.Padding.SAME, 1, 1),
        "DEPTHWISE_CONV_2D": at.DepthwiseConv2DOptions(at.Padding.SAME, 1, 1, 1),
    }
    b.output(b.op(kind, [x, weights, added], (1, 6, 6, channels), DType.INT8, 1.0, -60, attributes=made[kind]))
    content = b.build()
    assert not npu.check(content).ops[0].violations
    inputs = random_inputs(content, 3)
    np.testing.assert_array_equal(npu.run(content, inputs).outputs[0], run_reference(content, inputs)[0])


def _maps(dtype: DType, zero_point: int = 0) -> Tensor:
    return tensor((1, 1, 1, 100_000), dtype, zero_point=zero_point)


def test_sums_are_bounded_by_every_channel_on_its_own() -> None:
    weights = np.ones((3, 1, 1, 100_000), np.int8)
    weights[1] = -100
    bias = tensor((3,), DType.INT32, data=[5, -7, 11])
    constant = tensor(weights.shape, data=weights)
    assert largest_sum("CONV_2D", _maps(DType.INT8), constant, bias) == (100 * 100_000 * 128, 1 << 31)
    assert largest_sum("CONV_2D", _maps(DType.INT8, zero_point=127), constant, bias) == (100 * 100_000 * 255, 1 << 31)
    assert largest_sum("CONV_2D", _maps(DType.INT16), constant, None) == (100 * 100_000 * 32768, 1 << 39)
    depthwise = tensor((1, 1, 1, 100_000), data=weights[1:2])
    assert largest_sum("DEPTHWISE_CONV_2D", _maps(DType.INT8), depthwise, None) is None


@pytest.mark.parametrize("weights", [None, tensor((3, 1, 1, 100_000)), tensor((), data=1)], ids=["none", "computed", "scalar"])
def test_what_cannot_be_told_is_not_bounded(weights: Tensor | None) -> None:
    assert largest_sum("CONV_2D", _maps(DType.INT8), weights, None) is None


@pytest.mark.parametrize("dtype", [DType.COMPLEX128, DType.STRING], ids=str)
def test_a_bias_that_is_no_number_is_not_bounded(dtype: DType) -> None:
    weights = tensor((3, 1, 1, 100_000), data=1)
    values = np.array([b"a", b"b", b"c"], object) if dtype is DType.STRING else np.ones(3, np.complex128)
    assert largest_sum("CONV_2D", _maps(DType.INT8), weights, Tensor("bias", (3,), dtype, None, values)) is None


def test_weights_count_from_their_zero_point() -> None:
    weights = replace(tensor((2, 1, 1, 100_000), data=100), quantization=quantization(0.5, zero_point=-28))
    assert largest_sum("CONV_2D", _maps(DType.INT8), weights, None) == (128 * 100_000 * 128 - 1, 1 << 31)  # of a negative sum


EDGES = ((1 << 31) - 1, -(1 << 31), (1 << 30) + 3, 1 << 29, -(1 << 28), 1 << 25, 1 << 20, -5)
SCALED: dict[str, tuple[DType, DType, int]] = {
    "int8": (DType.INT8, DType.INT32, 1),
    "uint8": (DType.UINT8, DType.INT32, 1),
    "int16": (DType.INT16, DType.INT64, 200),
}
"""Types of maps and bias, and how much larger than EDGES the bias is."""


def _scaled(kind: str, case: str, scale: float) -> bytes:
    """Sums with a bias up to what its type holds, in maps of a scale that may be far above the output's."""
    dtype, bias_type, factor = SCALED[case]
    b, rng, count = ModelBuilder(), np.random.default_rng(5), len(EDGES)
    zero = 128 if dtype is DType.UINT8 else 0
    shape = {"FULLY_CONNECTED": (2, 12), "DEPTHWISE_CONV_2D": (1, 4, 4, count)}.get(kind, (1, 4, 4, 4))
    x = b.input(shape, dtype, scale=0.1, zero_point=zero)
    sizes = {"FULLY_CONNECTED": (count, 12), "DEPTHWISE_CONV_2D": (1, 3, 3, count)}.get(kind, (count, 3, 3, 4))
    values = rng.integers(-127, 128, sizes) + zero
    weights = b.constant(values.astype(np.uint8 if zero else np.int8), scale=0.05, zero_point=zero)
    bias = b.constant((np.array(EDGES, np.int64) * factor).astype(bias_type.numpy), scale=0.005)
    made = {"FULLY_CONNECTED": (2, count), "TRANSPOSE_CONV": (1, 8, 8, count)}.get(kind, (1, 4, 4, count))
    same = at.Padding.SAME
    options: dict[str, at.Attributes] = {
        "CONV_2D": at.Conv2DOptions(same, 1, 1),
        "DEPTHWISE_CONV_2D": at.DepthwiseConv2DOptions(same, 1, 1, 1),
        "FULLY_CONNECTED": at.FullyConnectedOptions(),
        "TRANSPOSE_CONV": at.TransposeConvOptions(same, 2, 2),
    }
    inputs = [b.constant(np.array(made, np.int32)), weights, x] if kind == "TRANSPOSE_CONV" else [x, weights]
    b.output(b.op(kind, [*inputs, bias], made, dtype, scale, zero, attributes=options[kind]))
    return b.build()


@pytest.mark.parametrize("case", SCALED)
@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"])
def test_sums_that_are_scaled_up_give_what_the_reference_kernels_give(kind: str, case: str) -> None:
    """The CPU wraps around where a scaled sum needs more than 32 bits, as LiteRT does; the NPU would saturate."""
    for scale in (1e-4, 0.004, 0.02, 1.0, 1e4):
        content = _scaled(kind, case, scale)
        inputs = random_inputs(content, 3)
        variants = [run_reference(content, inputs)[0], run_reference(content, inputs, fully_connected="npu")[0]]
        for target in ("ethos-u55-128", "ethos-u65-512"):
            outputs = npu.run(content, inputs, target=target).outputs[0]
            found = [np.array_equal(outputs, expected) for expected in variants]
            assert any(found), (scale, target)


def test_a_scaled_sum_has_32_bits() -> None:
    weights = tensor((1, 1, 1, 1000), data=1, scale=0.5)
    maps = {dtype: tensor((1, 1, 1, 1000), dtype, scale=0.1) for dtype in (DType.INT8, DType.INT16)}
    bias = tensor((1,), DType.INT32, data=[(1 << 31) - 1])
    wide = tensor((1,), DType.INT64, data=[(1 << 39) - 1])

    def room(dtype: DType, bias: Tensor, scale: float) -> int:
        bound = largest_sum("CONV_2D", maps[dtype], weights, bias, tensor((1, 1, 1, 1), dtype, scale=scale))
        assert bound is not None
        return bound[1]

    assert [room(DType.INT8, bias, scale) for scale in (0.1, 0.05, 0.03, 0.0125)] == [1 << 31, 1 << 30, 1 << 30, 1 << 28]
    assert [room(DType.INT16, wide, scale) for scale in (0.1, 0.0125, 100.0)] == [1 << 32, 1 << 29, 1 << 39]
