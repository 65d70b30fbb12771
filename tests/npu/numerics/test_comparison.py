"""Symbols of 8 bits stand for the values of both sides of a comparison."""

from __future__ import annotations

import numpy as np
import pytest

from npu.numerics.comparison import EQUALITIES, MOST_SYMBOLS, RELATIONS, on_one_scale, symbols

VALUES = np.arange(-128, 128)
SCALES = (0.001, 0.0039, 0.01, 0.05, 0.5, 0.9)
FACTORS = (1, 1, 1, 0.5, 0.99, 1.01, 0.1)


@pytest.mark.parametrize("kind", sorted(RELATIONS))
def test_the_relation_holds_of_values_as_it_holds_of_their_symbols(kind: str) -> None:
    """Of what a difference that saturates leaves of them, too."""
    rng, most = np.random.default_rng(7), 0
    for _ in range(200):
        scale = float(rng.choice(SCALES))
        point = int(rng.integers(-128, 128))
        other = point + int(rng.integers(-1, 2)) if rng.random() < 0.3 else int(rng.integers(-128, 128))
        left, right = on_one_scale(VALUES, scale, point), on_one_scale(VALUES, scale * float(rng.choice(FACTORS)), other)
        found, wanted = symbols(kind, left, right), RELATIONS[kind](left[:, None], right[None])
        assert min(found.left.min(), found.right.min()) >= 0
        assert max(found.left.max(), found.right.max()) < found.count
        np.testing.assert_array_equal(found.relation(found.left[:, None], found.right[None]), wanted)
        if found.count <= MOST_SYMBOLS:
            difference = np.clip(found.left[:, None] - found.right[None], -128, 127)
            np.testing.assert_array_equal(found.relation(difference, np.zeros_like(difference)), wanted)
        most = max(most, found.count)
    assert most == MOST_SYMBOLS + (kind in EQUALITIES)


def test_values_of_one_quantization_are_their_own_symbols() -> None:
    for kind in RELATIONS:
        found = symbols(kind, *[on_one_scale(VALUES, 0.1, 5)] * 2)
        np.testing.assert_array_equal(found.left, np.arange(256))
        np.testing.assert_array_equal(found.right, np.arange(256))
