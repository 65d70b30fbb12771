"""Results as tables: rows that sum to the totals, DataFrames, and what a notebook shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import npu
from npu.tabular import Record, Tabular

DIGITS = Path(__file__).parents[2] / "examples/digits.tflite"


class Hostile(Tabular):
    def records(self) -> list[Record]:
        return [{"name": "<script>", "empty": None, "share": 0.123456, "count": 12345}] * 201

    def headline(self) -> str:
        return "<b>"


def tables() -> list[Tabular]:
    ran = npu.run(DIGITS)
    return [
        ran,
        ran.report,
        ran.timeline,
        npu.compile(DIGITS),
        npu.explain(DIGITS),
        npu.check(DIGITS),
        npu.check_report(DIGITS),
    ]


@pytest.fixture(scope="module")
def results() -> list[Tabular]:
    return tables()


def test_every_result_is_a_frame_and_a_table(results: list[Tabular]) -> None:
    for result in results:
        frame, page = result.to_frame(), result._repr_html_()
        assert len(frame) == len(result.records()) == page.count("<tr>") - 1 > 5
        assert len({tuple(row) for row in result.records()}) == 1
        assert len(re.findall("<th>", page)) <= len(frame.columns)


def test_the_rows_sum_to_the_totals(results: list[Tabular]) -> None:
    ran, _, timeline, _, explained, _, _ = results
    assert isinstance(explained, npu.toolchain.explain.ExplainedModel)
    assert ran.to_frame()["cycles"].sum() == explained.to_frame()["cycles"].sum()
    frame = timeline.to_frame()
    assert (frame["cycles"] == frame["end"] - frame["start"]).all()
    assert f"{frame['cycles'].sum():,} cycles" in timeline.headline()
    parts = explained.to_frame().drop(columns=["operator", "cycles"]).select_dtypes("number").sum(axis=1)
    assert parts.tolist() == explained.to_frame()["cycles"].tolist()


def test_names_are_escaped_and_long_tables_cut() -> None:
    page = Hostile()._repr_html_()
    assert ("<script>" in page, "&lt;script&gt;" in page) == (False, True)
    assert page.count("<tr>") == 1 + 200
    assert ("and 1 more rows" in page, "empty" in page, "12,345" in page, "0.123" in page) == (True, False, True, True)
