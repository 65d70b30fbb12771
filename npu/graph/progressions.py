"""Constant indices as arithmetic progressions: the only place that says in how many evenly spaced parts a GATHER takes."""

from __future__ import annotations

import sys
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from npu.records import dataclass

MOST_PARTS = 1024
"""Parts into which indices may be taken for the NPU: every one is an operation."""

_LARGEST_STEP = 64
"""Places from one index of a progression to the next, up to which it is looked for."""

_AT_FIRST = 16
"""Indices that are looked at to see whether a progression goes on; then eight times as many."""


@dataclass(frozen=True, slots=True)
class Progression:
    """`count` indices, the first one `first` and `step` apart, that stand at place `place` and every `places` from there."""

    count: int
    first: int
    step: int
    place: int
    places: int


@lru_cache(256)
def progressions(indices: tuple[int, ...], most: int = sys.maxsize) -> tuple[Progression, ...]:
    """The progressions that a list of indices consists of, or the first `most` of them, in the order of their first places.

    Each begins at the first place that no other one has, and is as long as can be; its indices grow.
    """
    values, left = np.array(indices, np.int64), np.ones(len(indices), np.bool_)
    parts: list[Progression] = []
    place = 0
    while place < len(indices) and len(parts) < most:
        count, places = _longest(values[place:], left[place:])
        last = place + (count - 1) * places
        step = (indices[last] - indices[place]) // (count - 1) if count > 1 else 1
        parts.append(Progression(count, indices[place], step, place, places))
        left[place : last + 1 : places] = False
        place = place + int(left[place:].argmax()) if left[place:].any() else len(indices)
    return tuple(parts)


def _longest(values: npt.NDArray[np.int64], left: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """How many indices the longest progression has that begins with the first one, and the places between two of them."""
    most, best = 1, 1
    for places in range(1, min(_LARGEST_STEP, len(values) - 1) + 1):
        if -(-len(values) // places) <= most:
            break
        count = _length(values[::places], left[::places])
        if count > most:
            most, best = count, places
    return most, best


def _length(values: npt.NDArray[np.int64], left: npt.NDArray[np.bool_]) -> int:
    """How many of the first indices grow evenly and are left."""
    seen, step = _AT_FIRST, values[1] - values[0]
    while step > 0:
        goes_on = (np.diff(values[:seen]) == step) & left[1:seen]
        if not goes_on.all():
            return int(goes_on.argmin()) + 1
        if seen >= len(values):
            return len(values)
        seen *= 8
    return 1
