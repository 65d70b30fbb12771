"""How a permutation is cut into maps: every element moves once to its place, in the fewest maps."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu.graph.permutation import (
    ABSENT,
    Axis,
    Cut,
    cut_for_copies,
    cut_for_runs,
    cut_for_swaps,
    cut_for_transposes,
    dense_pitches,
    is_permutation,
    mixed_channels,
    moved_axes,
)

SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=6)
PERMUTATIONS = SHAPES.flatmap(lambda shape: st.tuples(st.just(tuple(shape)), st.permutations(range(len(shape))).map(tuple)))


def transposed(shape: tuple[int, ...], order: tuple[int, ...]) -> list[int]:
    return np.arange(math.prod(shape)).reshape(shape).transpose(order).reshape(-1).tolist()


def moved(cut: Cut, size: int, rows: int, others: int) -> list[int]:
    """Which element of the source comes to every place of the target; -1: none. No place is written twice."""
    result = [-1] * size
    for source, target, (height, width, depth) in cut.pieces(rows, others):
        assert max(width, depth) <= others
        assert height <= rows
        for y in range(height):
            for x in range(width):
                for c in range(depth):
                    place = target + y * cut.rows.target + x * cut.columns.target + c * cut.depth.target
                    assert result[place] == -1
                    result[place] = source + y * cut.rows.source + x * cut.columns.source + c * cut.depth.source
    return result


@given(PERMUTATIONS, st.integers(1, 6), st.integers(1, 6))
def test_the_pieces_of_all_cuts_move_every_element_to_its_place(
    case: tuple[tuple[int, ...], tuple[int, ...]], rows: int, others: int
) -> None:
    shape, order = case
    axes = moved_axes(shape, order)
    cuts = [cut_for_copies(axes), cut_for_runs(axes) if axes else None, cut_for_transposes(axes), cut_for_swaps(axes)]
    for cut in (item for item in cuts if item is not None):
        assert moved(cut, math.prod(shape), rows, others) == transposed(shape, order)
        assert cut.count(rows, others) == len(list(cut.pieces(rows, others)))


@given(PERMUTATIONS, st.integers(1, 200))
def test_joined_channels_in_their_new_order_are_moved_to_their_places(
    case: tuple[tuple[int, ...], tuple[int, ...]], largest: int
) -> None:
    shape, order = case
    found = mixed_channels(moved_axes(shape, order), largest)
    if found is None:
        return
    axes, channels = found
    assert 1 < len(channels) <= largest
    whole = moved(cut_for_copies(axes), math.prod(shape), 100, 10_000)  # as if the channels stayed where they are
    pixels = np.array(whole).reshape(-1, len(channels))
    assert pixels[:, list(channels)].reshape(-1).tolist() == transposed(shape, order)


MIXES: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[Axis, ...], tuple[int, ...]] | None]] = {
    "shuffle": ((7, 2, 3), (0, 2, 1), ((Axis(7, 6, 6), Axis(6, 1, 1)), (0, 3, 1, 4, 2, 5))),
    "rows that move, too": (
        (5, 7, 2, 2), (1, 0, 3, 2), ((Axis(7, 4, 20), Axis(5, 28, 4), Axis(4, 1, 1)), (0, 2, 1, 3)),
    ),
    "all there is": ((2, 3), (1, 0), None),
    "channels that go to the front": ((7, 2, 3), (2, 0, 1), None),
    "more channels than wanted": ((7, 4, 3), (0, 2, 1), None),
}  # fmt: skip


@pytest.mark.parametrize("case", MIXES)
def test_channels_that_change_places_are_one_axis(case: str) -> None:
    shape, order, expected = MIXES[case]
    assert mixed_channels(moved_axes(shape, order), 10) == expected


def test_channels_with_gaps_between_them_are_not_joined() -> None:
    assert mixed_channels(moved_axes((7, 2, 3), (0, 2, 1), [12, 6, 1]), 10) is None
    assert mixed_channels(moved_axes((7, 2, 3), (0, 2, 1), None, [12, 4, 1]), 10) is None


@given(PERMUTATIONS)
def test_fewer_than_two_axes_move_nothing(case: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    shape, order = case
    stays = transposed(shape, order) == list(range(math.prod(shape)))
    assert (len(moved_axes(shape, order)) < 2) is stays


@given(PERMUTATIONS)
def test_copies_are_as_few_as_any_choice_of_axes_gives(case: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    axes = moved_axes(*case)
    choices = []
    for count in range(min(3, len(axes)) + 1):
        for chosen in combinations(axes, count):
            contiguous = [axis for axis in chosen if axis.source == axis.target == 1]
            if count < 3 or contiguous:
                choices.append(math.prod(axis.extent for axis in axes if axis not in chosen))
    assert cut_for_copies(axes).count(1 << 20, 1 << 20) == min(choices)


CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[Axis, ...]]] = {
    "channels to the front": ((1, 28, 28, 48), (0, 3, 1, 2), (Axis(48, 1, 784), Axis(784, 48, 1))),
    "channels to the back": ((1, 24, 28, 28), (0, 2, 3, 1), (Axis(784, 1, 24), Axis(24, 784, 1))),
    "rows and columns": ((2, 3, 4, 5), (0, 2, 1, 3), (Axis(2, 60, 60), Axis(4, 5, 15), Axis(3, 20, 5), Axis(5, 1, 1))),
    "shuffle of channels": (
        (1, 7, 7, 2, 24), (0, 1, 2, 4, 3), (Axis(49, 48, 48), Axis(24, 1, 2), Axis(2, 24, 1)),
    ),
    "all the other way round": ((2, 3, 4), (2, 1, 0), (Axis(4, 1, 6), Axis(3, 4, 2), Axis(2, 12, 1))),
    "ones only": ((1, 1, 5, 1), (2, 0, 3, 1), (Axis(5, 1, 1),)),
    "one element": ((1, 1), (1, 0), ()),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_neighbours_that_stay_are_one_axis(case: str) -> None:
    shape, order, axes = CASES[case]
    assert moved_axes(shape, order) == axes


def test_axes_with_a_gap_between_them_stay_apart() -> None:
    gaps = [40, 8, 1]  # a box of 5 columns by 4 channels inside a map of 5 by 8
    assert moved_axes((3, 5, 4), (2, 0, 1)) == (Axis(4, 1, 15), Axis(15, 4, 1))
    assert moved_axes((3, 5, 4), (2, 0, 1), gaps) == (Axis(4, 1, 15), Axis(15, 8, 1))
    assert moved_axes((3, 5, 4), (2, 0, 1), [48, 8, 1]) == (Axis(4, 1, 15), Axis(3, 48, 5), Axis(5, 8, 1))


def test_columns_are_contiguous_where_an_axis_of_the_map_is() -> None:
    assert cut_for_copies(moved_axes((784, 2, 24), (0, 2, 1))) == Cut(
        Axis(784, 48, 48), Axis(24, 1, 2), ABSENT, (Axis(2, 24, 1),)
    )


def test_there_are_no_runs_where_an_axis_is_contiguous_on_both_sides() -> None:
    assert cut_for_runs(moved_axes((3, 4, 5), (1, 0, 2))) is None


def test_runs_are_columns_of_the_source_and_rows_that_the_target_has_side_by_side() -> None:
    cut = cut_for_runs(moved_axes((2, 3, 4), (2, 1, 0)))
    assert cut == Cut(Axis(2, 12, 1), Axis(4, 1, 6), ABSENT, (Axis(3, 4, 2),))


def test_transposes_have_channels_of_the_source_and_columns_that_are_channels_of_the_target() -> None:
    cut = cut_for_transposes(moved_axes((2, 3, 4), (2, 0, 1)))
    assert cut == Cut(ABSENT, Axis(6, 4, 1), Axis(4, 1, 6), ())
    assert cut_for_transposes(moved_axes((2, 5, 3, 4), (1, 3, 0, 2))) == Cut(
        Axis(5, 12, 24), Axis(3, 4, 1), Axis(4, 1, 6), (Axis(2, 60, 3),)
    )


def test_swaps_have_columns_beside_the_channels_of_the_source_and_rows_beside_those_of_the_target() -> None:
    assert cut_for_swaps(moved_axes((3, 4, 5), (1, 0, 2))) == Cut(Axis(3, 20, 5), Axis(4, 5, 15), Axis(5, 1, 1), ())
    assert cut_for_swaps(moved_axes((2, 3, 4, 5), (0, 2, 1, 3))) == Cut(
        Axis(3, 20, 5), Axis(4, 5, 15), Axis(5, 1, 1), (Axis(2, 60, 60),)
    )


def test_nothing_is_swapped_where_channels_move_or_one_axis_is_beside_them_on_both_sides() -> None:
    assert cut_for_swaps(moved_axes((3, 4, 5), (2, 1, 0))) is None
    assert cut_for_swaps(moved_axes((6,), (0,), source=[2], target=[1])) is None
    assert cut_for_swaps([Axis(3, 100, 1000), Axis(4, 10, 10), Axis(2, 1, 1)]) is None


def test_there_is_no_transpose_where_an_axis_is_contiguous_on_both_sides() -> None:
    assert cut_for_transposes(moved_axes((3, 4, 5), (1, 0, 2))) is None


@pytest.mark.parametrize(
    ("order", "rank", "expected"),
    [
        ((2, 0, 1), 3, True),
        ((), 0, True),
        ((0, 0, 1), 3, False),
        ((0, 1), 3, False),
        ((0, 1, -1), 3, False),
        ((0, 3, 1), 3, False),
    ],
)
def test_a_permutation_names_every_axis_once(order: tuple[int, ...], rank: int, expected: bool) -> None:
    assert is_permutation(order, rank) is expected


def test_pitches_without_gaps_are_those_of_row_order() -> None:
    assert dense_pitches((2, 3, 4)) == [12, 4, 1]
    assert dense_pitches(()) == []
