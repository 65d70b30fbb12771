"""What a permutation of axes moves: the only place that says how many maps of which axes a TRANSPOSE is moved in."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby, product

from npu.records import dataclass


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis that is moved: its extent, and the elements from one position to the next in source and target."""

    extent: int
    source: int
    target: int

    def parts(self, most: int) -> list[tuple[int, int, int]]:
        """(elements to the first one in source, in target, extent) of parts of at most `most` positions."""
        return [(at * self.source, at * self.target, min(self.extent - at, most)) for at in range(0, self.extent, most)]


ABSENT = Axis(1, 0, 0)


@dataclass(frozen=True, slots=True)
class Cut:
    """A permutation in maps: one of `rows` x `columns` x `depth` for every position along the axes `outer`.

    `depth` is contiguous in source and target, and ABSENT where no axis is; `rows` and `columns` have any pitch.
    """

    rows: Axis
    columns: Axis
    depth: Axis
    outer: tuple[Axis, ...]

    @property
    def elements(self) -> int:
        """Elements that are moved."""
        return math.prod(axis.extent for axis in (self.rows, self.columns, self.depth, *self.outer))

    def pieces(self, rows: int, others: int) -> Iterator[tuple[int, int, tuple[int, int, int]]]:
        """(elements to the first one in source, in target, shape) of every map of at most `rows` rows, `others` columns
        and channels."""
        along = [axis.parts(1) for axis in self.outer]
        inner = (self.rows.parts(rows), self.columns.parts(others), self.depth.parts(others))
        for outer in product(*along):
            source, target = sum([part[0] for part in outer]), sum([part[1] for part in outer])
            for (down, to, height), (across, beside, width), (deep, behind, depth) in product(*inner):
                yield source + down + across + deep, target + to + beside + behind, (height, width, depth)

    def count(self, rows: int, others: int) -> int:
        """How many `pieces` there are."""
        sizes = ((self.rows, rows), (self.columns, others), (self.depth, others))
        return math.prod((*(-(-axis.extent // most) for axis, most in sizes), *(axis.extent for axis in self.outer)))


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
    axes: list[Axis] = []
    for axis, pitch in zip(order, target or dense_pitches(made), strict=True):
        inner = Axis(shape[axis], pitches[axis], pitch)
        outer = axes[-1] if axes else ABSENT
        if axes and (outer.source, outer.target) == (inner.source * inner.extent, inner.target * inner.extent):
            axes[-1] = Axis(outer.extent * inner.extent, inner.source, inner.target)
        elif inner.extent > 1:
            axes.append(inner)
    return tuple(axes)


def cut_for_copies(axes: Sequence[Axis]) -> Cut:
    """The cut in the fewest maps: what is contiguous is their depth, the two longest of the other axes rows and columns.

    Columns that are contiguous on one side are moved in runs there.
    """
    depth = next((axis for axis in axes if axis.source == axis.target == 1), ABSENT)
    others = sorted((axis for axis in axes if axis is not depth), key=lambda axis: -axis.extent)
    columns, rows = sorted((*others, ABSENT, ABSENT)[:2], key=lambda axis: min(axis.source, axis.target) or math.inf)
    return Cut(rows, columns, depth, tuple(others[2:]))


def cut_for_runs(axes: Sequence[Axis]) -> Cut | None:
    """The cut whose columns are the densest axis of the source and whose rows are contiguous in the target.

    So both sides are moved in runs, if the rows of the source become channels of the target. None if there are no such axes,
    or if one is contiguous on both sides.
    """
    columns = min(axes, key=lambda axis: axis.source)
    rows = next((axis for axis in axes if axis.target == 1), columns)
    if rows is columns:
        return None
    return Cut(rows, columns, ABSENT, tuple(axis for axis in axes if axis not in (rows, columns)))


def cut_for_transposes(axes: Sequence[Axis]) -> Cut | None:
    """The cut whose depth is contiguous in the source and whose columns are in the target, where they change places.

    None if one axis is both.
    """
    depth = next((axis for axis in axes if axis.source == 1), ABSENT)
    columns = next((axis for axis in axes if axis.target == 1), ABSENT)
    if ABSENT in (depth, columns) or depth is columns:
        return None
    others = sorted((axis for axis in axes if axis not in (depth, columns)), key=lambda axis: -axis.extent)
    return Cut((*others, ABSENT)[0], columns, depth, tuple(others[1:]))


def cut_for_swaps(axes: Sequence[Axis]) -> Cut | None:
    """The cut whose columns are next to the depth in the source and whose rows are in the target, where they change places.

    None if no axis is contiguous on both sides, or if one is next to it on both.
    """
    depth = next((axis for axis in axes if axis.source == axis.target == 1), ABSENT)
    others = [axis for axis in axes if axis is not depth]
    if depth is ABSENT or not others:
        return None
    columns, rows = min(others, key=lambda axis: axis.source), min(others, key=lambda axis: axis.target)
    if rows is columns:
        return None
    return Cut(rows, columns, depth, tuple(axis for axis in others if axis not in (rows, columns)))


def mixed_channels(axes: Sequence[Axis], largest: int) -> tuple[tuple[Axis, ...], tuple[int, ...]] | None:
    """The axes with the fewest of the densest as one, which is contiguous on both sides though its elements change places: for
    every element along it in the target the one of the source. None if it would be longer than `largest`, or the only axis.
    """
    by_source, by_target = (sorted(axes, key=key) for key in (lambda axis: axis.source, lambda axis: axis.target))
    count = next((n for n in range(2, len(axes)) if set(by_source[:n]) == set(by_target[:n])), 0)
    inner = by_target[:count][::-1]
    extents = [axis.extent for axis in inner]
    size = math.prod(extents)
    if not 1 < size <= largest or [axis.target for axis in inner] != dense_pitches(extents):
        return None
    places = [
        sum(axis.source * at for axis, at in zip(inner, position, strict=True)) for position in product(*map(range, extents))
    ]
    if sorted(places) != list(range(size)):
        return None
    return (*(axis for axis in axes if axis not in inner), Axis(size, 1, 1)), tuple(places)


def side_by_side(shape: Sequence[int], axes: Collection[int]) -> tuple[int, int, int] | None:
    """Elements in front of `axes`, in them and behind them; None if an axis of more than one element lies between them."""
    inside = [axis for axis in range(len(shape)) if axis in axes and shape[axis] > 1]
    first, last = (inside[0], inside[-1]) if inside else (0, -1)
    if any(shape[axis] > 1 and axis not in axes for axis in range(first, last + 1)):
        return None
    return math.prod(shape[:first]), math.prod(shape[first : last + 1]), math.prod(shape[last + 1 :])


def axis_groups(shape: Sequence[int], axes: Collection[int]) -> Iterator[tuple[int, int, int]]:
    """For reduced axes that lie side by side, from the last: elements in front of them, in them, behind them."""
    left = list(shape)
    for _, row in groupby(reversed(range(len(shape))), key=lambda axis: axis in axes):
        group = list(row)
        if group[0] in axes:
            first, last = group[-1], group[0]
            extent = math.prod(left[first : last + 1])
            if extent > 1:
                yield math.prod(left[:first]), extent, math.prod(left[last + 1 :])
            left[first : last + 1] = [1] * len(group)
