"""Evenly spaced parts of indices: they are all of the indices, each at its place, and few where that can be."""

from __future__ import annotations

import time

import numpy as np
import pytest

from npu.graph.progressions import Progression, progressions

FEW: dict[str, tuple[list[int], int]] = {
    "one": ([5], 1),
    "neighbours": ([3, 4, 5, 6], 1),
    "every third": ([1, 4, 7], 1),
    "two halves by turns": ([0, 12, 1, 13, 2, 14, 3, 15], 2),
    "four quarters by turns": (np.arange(32).reshape(4, 8).T.reshape(-1).tolist(), 4),
    "every one twice": ([0, 0, 1, 1, 2, 2, 3, 3], 2),
    "pieces in another order": ([8, 9, 10, 11, 0, 1, 2, 3, 4], 2),
    "backwards": ([3, 2, 1, 0], 4),
    "the same again": ([2, 2, 2], 3),
}


def indices_of(parts: tuple[Progression, ...]) -> list[int]:
    """What the parts put at the places from the first on, each place once."""
    at = {part.place + n * part.places: part.first + n * part.step for part in parts for n in range(part.count)}
    assert len(at) == sum(part.count for part in parts)
    return [at[place] for place in range(len(at))]


@pytest.mark.parametrize("case", FEW)
def test_parts_are_few_and_all_of_the_indices(case: str) -> None:
    indices, count = FEW[case]
    parts = progressions(tuple(indices))
    assert indices_of(parts) == indices
    assert len(parts) == count


def test_random_indices_are_all_there() -> None:
    rng = np.random.default_rng(3)
    for _ in range(500):
        indices = rng.integers(int(rng.integers(1, 30)), size=int(rng.integers(1, 90))).tolist()
        parts = progressions(tuple(indices))
        assert indices_of(parts) == indices
        assert all(part.step > 0 and part.places > 0 for part in parts)
        assert [part.place for part in parts] == sorted(part.place for part in parts)


def test_a_long_list_is_looked_at_only_as_far_as_asked() -> None:
    indices = tuple(np.random.default_rng(4).integers(1 << 20, size=1 << 18).tolist())
    begun = time.process_time()
    assert len(progressions(indices, 100)) == 100
    assert time.process_time() - begun < 2
