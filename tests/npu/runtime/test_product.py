"""Float products in the order of the reference kernels: the same numbers whatever tiles cover them."""

from __future__ import annotations

import numpy as np
import pytest

from npu.runtime.kernels.product import dense_in_order


@pytest.mark.parametrize("count", [1, 5, 6, 7, 8, 13, 14, 15, 29])
@pytest.mark.parametrize("units", [1, 15, 16, 17, 40])
def test_sums_are_those_of_one_product_after_another(count: int, units: int) -> None:
    rng = np.random.default_rng(count * units)
    rows, weights = (rng.normal(size=(n, 37)).astype(np.float32) for n in (count, units))
    bias, out = rng.normal(size=units).astype(np.float32), np.empty((count, units), np.float32)
    expected = np.zeros_like(out)
    for k in range(rows.shape[1]):
        expected += rows[:, k, None] * weights[None, :, k]
    expected = np.clip(expected + bias, np.float32(-3), np.float32(2))
    dense_in_order(rows, weights, np.empty((37, units), np.float32), bias, np.float32(-3), np.float32(2), out)
    np.testing.assert_array_equal(out, expected)
