"""Pages say what the reports say, ask for nothing, and cannot be written by names in a model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import npu
from npu import extras
from npu.cli.main import main
from npu.errors import UserError
from npu.plots import timeline as plots
from npu.rendering.pages.page import Cell, Column, document, number, table
from npu.rendering.pages.report import report_page
from npu.toolchain.report import report
from npu.toolchain.session import Session

from tests.support.vela import compile_with_vela

ROOT = Path(__file__).parents[4]
DIGITS, PARTIAL = ROOT / "examples" / "digits.tflite", ROOT / "examples" / "digits_partial.tflite"


def text_of(page: str) -> str:
    """What a person reads of a page."""
    return re.sub("<[^>]*>", " ", page.partition("<script>")[0])


def test_the_report_shows_what_the_run_says() -> None:
    reported = report(PARTIAL, Session())
    page = report_page(reported)
    run = reported.timed.report
    told = text_of(page)
    assert f"{run.totals.total_cycles:,}" in told
    for row in run.operators:
        assert f"{row.cycles:,}" in told
        for violation in row.violations:
            assert violation.rule in told
    for title in ("Timeline", "Arena over time", "Roofline", "Cycles by bound", "Traffic by memory", "Weights", "Hardware"):
        assert f">{title}</h2>" in page
    assert run.hardware_sha256 in told
    assert len(page) < 2_000_000


def test_the_table_of_operators_sums_to_the_total() -> None:
    page = report_page(report(DIGITS, Session()))
    operators = page[page.index('id="operators"') : page.index('id="roofline"')]
    *rows, last = [int(value) for value in re.findall(r'data-label="cycles" data-v="(\d+)"', operators)]
    assert sum(rows) == last


def test_weights_are_those_of_the_memory_map() -> None:
    reported = report(DIGITS, Session())
    compressed = npu.compile(DIGITS).compiled_model.memory.compressions
    assert [(item.operator, item.original_bytes) for item in reported.weights] == [
        (item.op, item.original_bytes) for item in compressed
    ]
    assert [item.encoded_bytes for item in reported.weights] == [item.encoded_bytes for item in compressed]


def test_the_peak_is_that_of_the_arena() -> None:
    reported = report(DIGITS, Session())
    (peak,) = reported.peaks
    assert peak.bytes == max(peak.bytes for peak in reported.peaks)
    assert peak.operator in {row.index for row in reported.timed.report.operators}
    boxes = plots.memory_over_time(reported).to_dict()
    assert len(next(iter(boxes["datasets"].values())) if "datasets" in boxes else boxes["data"]["values"]) == len(
        reported.stays
    )


def test_the_timeline_has_every_cycle_once() -> None:
    timed = npu.time_model(PARTIAL)
    chart = plots.timeline(timed).to_dict()
    rows = [row for row in chart["data"]["values"] if row["lane"] in ("NPU", "CPU")]
    assert sum(row["cycles"] for row in rows) == timed.report.totals.total_cycles
    ports = [row for row in chart["data"]["values"] if row["lane"].startswith("AXI")]
    assert ports
    assert all(0 <= row["share"] <= 1 for row in ports)


@pytest.mark.parametrize(
    "arguments",
    [["report"], ["run", "--format", "html"], ["explain", "--format", "html"], ["check", "--format", "html"],
     ["compare", "--b-target", "ethos-u55-32", "--format", "html"]],
)  # fmt: skip
def test_every_command_writes_a_page_that_may_ask_for_nothing(arguments: list[str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert main([arguments[0], str(PARTIAL), *arguments[1:], "-o", str(page)]) == 0
    content = page.read_text()
    assert "default-src 'none'" in content
    assert not re.search(r'(src|href)="(?!#)', content.partition("<script>")[0])
    assert "digits_partial.tflite" in content


def test_a_file_of_another_compiler_has_a_page_with_names() -> None:
    from npu.toolchain.origin import Origin

    vela = compile_with_vela(DIGITS.read_bytes(), "ethos-u55-128")
    told = text_of(report_page(report(vela, Session(), origin=Origin(DIGITS))))
    assert "weights, certain" in told
    assert "operators of the source found in the file" in told


def test_names_of_a_model_cannot_become_markup() -> None:
    row: list[Cell | str] = ["<script>alert(1)</script>", number(3)]
    page = document("<b>x</b>", "a & b", [table([Column("name", is_wide=True), Column("n", True)], [row])])
    assert "<script>alert" not in page
    assert "<b>x</b>" not in page


def test_without_the_extra_the_command_says_which_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(extras, "import_module", missing)
    with pytest.raises(UserError, match=r"npulab\[report\]"):
        extras.load("altair", "report")
    assert main(["report", str(DIGITS)]) == 1
    assert "npulab[report]" in capsys.readouterr().err
