"""What is in memory when, where inputs of joins live in their results, and which of them are copied for less."""

from __future__ import annotations

import pytest

from npu.compiler.lower.late_joins import all_but_last, early_parts
from npu.compiler.lower.tensor_lives import TensorLives
from npu.graph import attributes as at
from npu.graph.graph import Graph, Op

from tests.support.single_ops import tensor

EARLY, LATE, JOINED, MIDDLE = 1, 4, 5, 3


def waiting() -> TensorLives:
    """An input of 16 bytes, a map of 16, one of 64 beside it and one of 16 after that, a map of 48, both joined, a result."""
    sizes = (16, 16, 64, 16, 48, 64, 16)
    ops = (
        *(Op("RELU", (source,), (target,)) for source, target in ((0, 1), (1, 2), (2, 3), (3, 4))),
        Op("CONCATENATION", (EARLY, LATE), (JOINED,), at.ConcatenationOptions(3)),
        Op("RELU", (JOINED,), (6,)),
    )
    graph = Graph("main", tuple(tensor((1, 1, 1, size), scale=0.1) for size in sizes), ops, (0,), (6,))
    return TensorLives(graph, range(len(ops)), (6,), ())


def test_a_result_takes_all_of_its_bytes_from_its_first_input_on() -> None:
    lives = waiting()
    assert lives.usage({EARLY: JOINED, LATE: JOINED}) == [80, 128, 144, 80, 64, 80]
    assert lives.usage({LATE: JOINED}) == [32, 80, 96, 96, 80, 80]


def test_an_input_is_copied_where_that_lowers_the_peak() -> None:
    lives, nest = waiting(), {EARLY: JOINED, LATE: JOINED}
    assert early_parts(lives, {JOINED: [EARLY, LATE]}, nest) == {EARLY}
    assert early_parts(lives, {JOINED: [LATE]}, {LATE: JOINED}) == set()
    assert all_but_last(lives, {JOINED: [EARLY, LATE], MIDDLE: []}) == {EARLY}


@pytest.mark.parametrize("same", [[(1, 2)], [(2, 1), (1, 2)]])
def test_tensors_in_one_place_take_the_larger_of_their_bytes(same: list[tuple[int, int]]) -> None:
    ops = (Op("RELU", (0,), (1,)), Op("RELU", (1,), (2,)))
    graph = Graph("main", tuple(tensor((1, 1, 1, size), scale=0.1) for size in (16, 32, 48)), ops, (0,), (2,))
    assert TensorLives(graph, (0, 1), (2,), same).usage({}) == [64, 48]


def test_however_many_joins_wait_few_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven hundred maps, and as many joins of each with the map of another end."""
    count, looks = 700, list[int]()
    ops = [Op("RELU", (0,), (1 + i,)) for i in range(2 * count)]
    joined = [1 + 2 * count + i for i in range(count)]
    ops += [Op("CONCATENATION", (1 + i, 1 + count + i), (joined[i],), at.ConcatenationOptions(3)) for i in range(count)]
    sizes = [16] * (1 + 2 * count) + [32] * count
    graph = Graph("main", tuple(tensor((1, 1, 1, size), scale=0.1) for size in sizes), tuple(ops), (0,), tuple(joined))
    usage = TensorLives.usage
    monkeypatch.setattr(TensorLives, "usage", lambda lives, nest: looks.append(1) or usage(lives, nest))
    inside = {joined[i]: [1 + i, 1 + count + i] for i in range(count)}
    nest = {part: result for result, parts in inside.items() for part in parts}
    early_parts(TensorLives(graph, range(len(ops)), joined, ()), inside, nest)
    assert 24 < len(looks) <= 24 * 24 + 1
