"""The Pareto front against its definition."""

from __future__ import annotations

import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

import npu
from npu.errors import UserError
from npu.explore.pareto import pareto_rows

ROWS = [
    {"ms": 3.0, "bytes": 1, "accuracy": 0.5},
    {"ms": 1.0, "bytes": 5, "accuracy": 0.5},
    {"ms": 3.0, "bytes": 2, "accuracy": 0.9},
    {"ms": 2.0, "bytes": 2, "accuracy": 0.4},
    {"ms": None, "bytes": 0, "accuracy": 1.0},
]


def test_the_front_is_in_the_order_of_the_first_column() -> None:
    assert pareto_rows(ROWS, "ms", "bytes") == [1, 3, 0]
    assert pareto_rows(ROWS, "ms", "bytes", largest=["accuracy"]) == [1, 3, 0, 2]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6)), max_size=40))
def test_no_row_of_the_front_is_beaten_and_every_other_is(values: list[tuple[int, int, int]]) -> None:
    rows = [dict(zip("abc", value, strict=True)) for value in values]
    front = set(pareto_rows(rows, "a", "b", largest=["c"])) if rows else set()
    for number, (a, b, c) in enumerate(values):
        beaten = any((x <= a and y <= b and z >= c) and (x, y, z) != (a, b, c) for x, y, z in values)
        assert (number in front) == (not beaten)


def test_of_a_frame_whole_rows_are_given() -> None:
    frame = pandas.DataFrame(ROWS).convert_dtypes()
    assert npu.pareto(frame, "ms", "bytes")["accuracy"].tolist() == [0.5, 0.4, 0.5]


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(UserError, match="must be among ms, bytes, accuracy, got 'size'"):
        npu.pareto(pandas.DataFrame(ROWS), "ms", "size")
    with pytest.raises(UserError, match="at least one column"):
        npu.pareto(pandas.DataFrame(ROWS))
    with pytest.raises(UserError, match="must be among"):
        pareto_rows(ROWS, "size")
