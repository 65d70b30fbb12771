"""Outputs and tensors that are no real numbers, compared by inference-diff."""

from __future__ import annotations

import numpy as np
import pytest

from npu.tools.inference_diff import _difference

PAIRS = {
    "strings": (np.array([b"a", b"b"], object), np.array([b"a", b"c"], object)),
    "complex": (np.array([1 + 1j, 2], np.complex64), np.array([1 + 1j, 2 + 1j], np.complex64)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_values_that_are_no_real_numbers_are_equal_or_infinitely_far(name: str) -> None:
    assert _difference(*PAIRS[name]).tolist() == [0.0, np.inf]


@pytest.mark.parametrize(("left", "right", "distance"), [(np.nan, np.nan, 0), (np.nan, 1, np.inf), (1, np.nan, np.inf)])
def test_only_two_values_that_are_no_numbers_are_equal(left: float, right: float, distance: float) -> None:
    found = _difference(np.array([left, 2], np.float32), np.array([right, 2], np.float32))
    assert found.tolist() == [distance, 0]
