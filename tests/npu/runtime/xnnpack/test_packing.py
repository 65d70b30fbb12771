"""Which products of bytes fit 32 bits."""

from __future__ import annotations

import numpy as np
import pytest

from npu.runtime.xnnpack.packing import sums_fit

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


def test_the_left_shift_of_a_channel_counts() -> None:
    weights = np.zeros((2, 4), np.int16)
    assert sums_fit(weights, np.array([MOST >> 3, MOST]), np.array([3, -5]))
    assert not sums_fit(weights, np.array([(MOST >> 3) + 1, MOST]), np.array([3, -5]))
