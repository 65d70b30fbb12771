"""Which products of bytes fit 32 bits."""

from __future__ import annotations

import numpy as np
import pytest

from npu.runtime.operators.common import requantize
from npu.runtime.xnnpack.operand import ConstantOperand
from npu.runtime.xnnpack.packing import OutputLimits, bounds_of, scaled_stage, sums_fit

MOST = (1 << 31) - 1


@pytest.mark.parametrize("sign", [1, -1])
def test_sums_up_to_the_largest_number_of_32_bits_fit_and_no_larger_ones(sign: int) -> None:
    weights = np.array([[sign, 0, 0], [100, -20, sign]], np.int16)
    largest = np.array([255, 121 * 255])
    assert sums_fit(weights, sign * (MOST - largest))
    for channel in (0, 1):
        beyond = MOST - largest
        beyond[channel] += 1
        assert not sums_fit(weights, sign * beyond)


def test_scaled_sums_are_doubled_and_shifted_by_the_factor_of_a_channel() -> None:
    factors, limits = (np.full(2, 1 << 30), np.array([3, -5])), OutputLimits(0, -128, 127, is_unsigned=False)
    bias, most = np.zeros(2, np.int64), np.array([MOST >> 4, MOST >> 1])
    assert scaled_stage(bias, most, factors, limits) is not None
    for channel in (0, 1):
        beyond = most.copy()
        beyond[channel] += 1
        assert scaled_stage(bias, beyond, factors, limits) is None


@pytest.mark.parametrize("bias", [(1 << 30) + 77, -(1 << 30)])
def test_a_channel_with_a_bias_beyond_the_output_stage_and_one_result_gets_a_small_bias(bias: int) -> None:
    factors = np.array([1 << 30, 1 << 30]), np.array([-24, -3])
    limits = OutputLimits(0, -128, 127, is_unsigned=False)
    weights = np.array([[100, -27, 3, 4], [1, 2, 3, 4]], np.int8)
    given = ConstantOperand(weights, np.array([bias, 9], np.int32), factors, None, limits, 0)
    plain = given.with_constants_as_biases()
    assert scaled_stage(plain.bias, bounds_of(plain.weights, plain.bias), plain.factors, limits) is not None  # type: ignore[arg-type]
    np.testing.assert_array_equal(plain.weights, [[0] * 4, weights[1]])
    inputs = np.array([[0, 0, 0, 0], [255, -255, 255, 255]], np.int64)
    results = [
        requantize(inputs @ one.weights.astype(np.int64).T + one.bias, one.factors, 0, (-128, 127)) for one in (given, plain)
    ]
    np.testing.assert_array_equal(*results)
    assert results[0][0, 0] == bias >> 25
