"""Pictures show the figures of reports, and go into files that need nothing else."""

from __future__ import annotations

import dataclasses
import struct
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import npu
from npu import extras
from npu.cli.main import main
from npu.errors import UserError
from npu.plots import charts
from npu.plots.write import page, write_charts

DIGITS = "examples/digits.tflite"
ROWS = [
    {"model": "a", "sram.bytes[0]": 1, "cycles": 9},
    {"model": "a", "sram.bytes[0]": 2, "cycles": 7},
    {"model": "b", "sram.bytes[0]": 2, "cycles": 8},
]


def test_a_point_of_the_roofline_is_macs_by_cycles_at_work_and_by_traffic() -> None:
    timed = npu.time_model(DIGITS)
    first = timed.report.operators[0]
    point = next(row for row in charts.roofline_points(timed) if row["operator"] == "0 CONV_2D" and row["memory"] == "sram")
    assert point["macs_per_cycle"] == 9216 / first.span_cycles
    assert point["intensity"] == 9216 / max(first.bytes["sram"].read, first.bytes["sram"].write)
    assert all(row["operator"].split()[1] != "SOFTMAX" for row in charts.roofline_points(timed))


def test_a_roof_rises_with_the_memory_and_ends_at_the_array() -> None:
    timed = npu.time_model(DIGITS, "ethos-u55-64")
    for memory in ("sram", "flash"):
        roof = [row for row in charts.roofline_roofs(timed) if row["memory"] == memory]
        heights = [row["macs_per_cycle"] for row in roof]
        assert heights == sorted(heights)
        assert max(heights) <= 64
        rising = [row["macs_per_cycle"] / row["intensity"] for row in roof if row["macs_per_cycle"] < 64]
        assert max(rising) == pytest.approx(min(rising))


def test_the_parts_of_an_operator_are_those_of_explain() -> None:
    explained = npu.explain("examples/digits_partial.tflite")
    rows = charts.operator_parts(explained)
    for operator in explained.operators:
        parts = {row["part"]: row["cycles"] for row in rows if row["operator"] == f"{operator.index} {operator.type}"}
        assert sum(parts.values()) == operator.busy_cycles
        assert (parts == {"CPU": operator.cycles}) == (operator.placement == "cpu" and operator.cycles > 0)


def test_only_the_slowest_operators_have_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "MOST_BARS", 2)
    explained = npu.explain(DIGITS)
    shown = {row["operator"] for row in charts.operator_parts(explained)}
    assert shown == {"5 CONV_2D", "9 SOFTMAX"}
    assert "the 2 slowest of 10 operators" in charts.operator_bars(explained).to_dict()["title"]


def test_a_model_without_work_for_the_array_says_so() -> None:
    timed = npu.time_model(DIGITS)
    report = dataclasses.replace(timed.report, operators=timed.report.operators[3:5])
    without = dataclasses.replace(timed, report=report)
    assert "no operator with multiplications" in charts.roofline(without).to_dict()["title"]


def test_names_of_fields_with_dots_and_brackets_are_columns_not_paths() -> None:
    for chart in (
        charts.swept_lines(ROWS, "sram.bytes[0]", "cycles", colour="model"),
        charts.pareto_front(ROWS, ROWS[:2], "sram.bytes[0]", "cycles", colour="model"),
    ):
        content = str(chart.to_dict())
        assert "sram_bytes_0_" in content
        assert "'field': 'sram.bytes" not in content


def test_a_picture_is_written_in_every_form(tmp_path: Path) -> None:
    drawn = [charts.swept_lines(ROWS, "sram.bytes[0]", "cycles"), charts.pareto_front(ROWS, ROWS, "sram.bytes[0]", "cycles")]
    for form in ("png", "svg", "html"):
        write_charts(tmp_path / f"x.{form}", "title", drawn)
    png = (tmp_path / "x.png").read_bytes()
    width, height = struct.unpack(">II", png[16:24])
    assert png.startswith(b"\x89PNG")
    assert width > 1000
    assert height > 1000
    assert ElementTree.fromstring((tmp_path / "x.svg").read_text(encoding="utf-8")).tag.endswith("svg")
    text = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert text.count("<figure>") == 2
    assert "default-src 'none'" in text
    assert 800_000 < len(text) < 1_100_000


def test_a_page_cannot_be_broken_by_a_name() -> None:
    row = {"model": "</script><script>alert(1)</script>", "x": 1, "cycles": 2}
    text = page("<b>title</b>", [charts.swept_lines([row], "x", "cycles", colour="model")])
    assert "<b>" not in text
    assert "alert(1)</script>" not in text


def test_another_form_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"must end in .html, .svg, .png"):
        write_charts(tmp_path / "x.jpg", "title", [charts.swept_lines(ROWS, "sram.bytes[0]", "cycles")])


def test_without_the_extra_the_command_tells_which_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(extras, "import_module", missing)
    assert main(["explain", DIGITS, "--plot", str(tmp_path / "x.png")]) == 1
    assert "pip install 'npulab[report]'" in capsys.readouterr().err


def test_explain_draws_what_it_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", DIGITS, "--plot", str(tmp_path / "x.svg")]) == 0
    drawn = (tmp_path / "x.svg").read_text(encoding="utf-8")
    assert "kernel under-use" in drawn
    assert "9 SOFTMAX" in drawn
