"""What a permutation of axes moves: the only place that says how many copies of strided maps a TRANSPOSE takes, and which."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis that is copied: its extent, and the elements from one position to the next in source and target."""

    extent: int
    source: int
    target: int


ABSENT = Axis(1, 0, 0)


@dataclass(frozen=True, slots=True)
class Cut:
    """A copy in maps: one of `rows` x `columns` x `depth` for every position along the axes `outer`.

    `depth` is contiguous in source and target, and ABSENT where no axis is; `rows` and `columns` have any pitch.
    """

    rows: Axis
    columns: Axis
    depth: Axis
    outer: tuple[Axis, ...]

    def count(self, largest: int) -> int:
        """Maps of at most `largest` rows, columns and channels."""
        pieces = (-(-axis.extent // largest) for axis in (self.rows, self.columns, self.depth))
        return math.prod((*pieces, *(axis.extent for axis in self.outer)))


def is_permutation(order: Sequence[int], rank: int) -> bool:
    """Whether `order` names each of `rank` axes once, counted from the first."""
    return sorted(order) == list(range(rank))


def dense_pitches(shape: Sequence[int]) -> list[int]:
    """Elements from one position to the next along every axis of a tensor without gaps."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def moved_axes(
    shape: Sequence[int], order: Sequence[int], source: Sequence[int] | None = None, target: Sequence[int] | None = None
) -> tuple[Axis, ...]:
    """The axes that a permutation of a tensor of `shape` moves, in the target's order; fewer than two: it moves nothing.

    Those of extent 1 are left out, and those that follow each other evenly in source and target are one. `source` and
    `target` are the pitches of the axes of input and output, dense if not given. `order` is a permutation of the axes.
    """
    made = [shape[axis] for axis in order]
    pitches = source or dense_pitches(shape)
    found: list[Axis] = []
    for axis, pitch in zip(order, target or dense_pitches(made), strict=True):
        inner = Axis(shape[axis], pitches[axis], pitch)
        outer = found[-1] if found else ABSENT
        if (outer.source, outer.target) == (inner.source * inner.extent, inner.target * inner.extent):
            found[-1] = Axis(outer.extent * inner.extent, inner.source, inner.target)
        elif inner.extent > 1:
            found.append(inner)
    return tuple(found)


def cut_axes(axes: Iterable[Axis]) -> Cut:
    """The cut in the fewest maps: what is contiguous is their depth, the two longest of the other axes rows and columns.

    Columns that are contiguous on one side are moved in runs there.
    """
    depth = next((axis for axis in axes if axis.source == axis.target == 1), ABSENT)
    others = sorted((axis for axis in axes if axis is not depth), key=lambda axis: -axis.extent)
    columns, rows = sorted((*others, ABSENT, ABSENT)[:2], key=lambda axis: min(axis.source, axis.target) or math.inf)
    return Cut(rows, columns, depth, tuple(others[2:]))
