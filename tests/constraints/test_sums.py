"""A convolution whose sums an accumulator may not hold runs on the CPU, where it wraps around as the reference kernels do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import npu
from constraints.sums import largest_sum
from npu.graph.dtype import DType
from npu.graph.graph import Tensor
from npu.tflite.writer import write_model

from tests.support import single_ops as ops
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


def _maps(dtype: DType, zero_point: int = 0) -> Tensor:
    return tensor((1, 1, 1, 100_000), dtype, zero_point=zero_point)


def test_sums_are_bounded_by_every_channel_on_its_own() -> None:
    weights = np.ones((3, 1, 1, 100_000), np.int8)
    weights[1] = -100
    bias = tensor((3,), DType.INT32, data=[5, -7, 11])
    constant = tensor(weights.shape, data=weights)
    assert largest_sum("CONV_2D", _maps(DType.INT8), constant, bias) == (100 * 100_000 * 128 + 7, 1 << 31)
    assert largest_sum("CONV_2D", _maps(DType.INT8, zero_point=127), constant, bias) == (100 * 100_000 * 255 + 7, 1 << 31)
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
    assert largest_sum("CONV_2D", _maps(DType.INT8), weights, None) == (128 * 100_000 * 128, 1 << 31)
