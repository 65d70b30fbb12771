"""Comparisons: rows aligned by source operator, sums that are the totals, and the operators that explain the difference."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import npu
from npu.cli.main import main
from npu.hardware.choice import Hardware
from npu.rendering.comparison import comparison_markdown, comparison_text
from npu.reports.comparison import OPERATOR, UNMATCHED, Comparison
from npu.toolchain.compare import compare
from npu.toolchain.session import Session

from tests.support.shared import shared_models
from tests.support.vela import compile_with_vela

ROOT = Path(__file__).parents[3]
DIGITS, PARTIAL = ROOT / "examples" / "digits.tflite", ROOT / "examples" / "digits_partial.tflite"
SIX = (
    "ad_medium_int8", "kws_micronet_m", "mobilenet_v2_1.0_224_INT8", "rnnoise_INT8", "vww4_128_128_INT8",
    "yolo-fastest_192_face_v4",
)  # fmt: skip


def sums_are_totals(result: Comparison) -> bool:
    """Whether the columns of both sum to what the reports say."""
    for side, name in ((result.a, "a"), (result.b, "b")):
        figures = [getattr(row, name) for row in result.rows if getattr(row, name) is not None]
        if sum(item.cycles for item in figures) != side.totals.total_cycles:
            return False
        if sum(item.traffic for item in figures) != side.traffic:
            return False
    return sum(row.more_cycles for row in result.rows) == result.more_cycles


def test_ours_and_velas_file_are_aligned_by_the_source() -> None:
    vela = compile_with_vela(DIGITS.read_bytes(), "ethos-u55-128")
    session = Session()
    result = compare(DIGITS, vela, (session, session))
    assert sums_are_totals(result)
    assert not result.unmatched
    assert [row.index for row in result.rows if row.kind == OPERATOR] == list(range(10))
    assert result.rows[0].match == "weights, certain"
    other_way = compare(vela, DIGITS, (session, session))
    assert other_way.more_cycles == -result.more_cycles


@pytest.mark.parametrize("name", [name for name in SIX if name in shared_models() and name != "mobilenet_v2_1.0_224_INT8"])
def test_every_operator_of_a_real_model_is_found_in_velas_file(name: str) -> None:
    model = shared_models()[name]
    session = Session()
    result = compare(model, compile_with_vela(model.read_bytes(), "ethos-u55-128"), (session, session))
    assert sums_are_totals(result)
    assert not result.unmatched
    assert all(row.match for row in result.rows if row.kind == OPERATOR)


def test_a_file_without_source_has_rows_of_its_own() -> None:
    vela = compile_with_vela(DIGITS.read_bytes(), "ethos-u55-128")
    ours = npu.compile(DIGITS).content
    session = Session()
    result = compare(ours, vela, (session, session))
    assert sums_are_totals(result)
    assert any(row.kind == UNMATCHED and row.b is not None and row.b.cycles for row in result.rows)
    assert sums_are_totals(compare(ours, vela, (session, session), origin=npu.Origin(DIGITS)))


def test_another_model_is_aligned_by_names() -> None:
    session = Session()
    result = compare(DIGITS, PARTIAL, (session, session))
    assert sums_are_totals(result)
    shared = [row for row in result.rows if row.kind == OPERATOR]
    assert len(shared) >= 5
    assert all(row.a is not None and row.b is not None for row in shared)


def test_the_reasons_are_the_largest_parts_of_the_difference() -> None:
    slow = Session(Hardware("ethos-u55-32"))
    result = compare(DIGITS, DIGITS, (Session(), slow))
    reasons = result.reasons()
    assert len(reasons) == 3
    assert result.more_cycles > 0
    others = [row.more_cycles for row in result.rows if row not in [reason.row for reason in reasons]]
    assert min(reason.row.more_cycles for reason in reasons) >= max(others)
    assert reasons[0].share == reasons[0].row.more_cycles / result.more_cycles
    assert not compare(DIGITS, DIGITS, (slow, slow)).reasons()


def test_every_form_names_the_reasons_and_the_totals(tmp_path: Path) -> None:
    result = compare(DIGITS, DIGITS, (Session(), Session(Hardware("ethos-u55-32"))))
    total = f"{result.b.totals.total_cycles:,}"
    for text in (comparison_text(result, 200), comparison_markdown(result)):
        assert total in text
        assert all(f"{reason.row.more_cycles:+,} cycles" in text for reason in result.reasons())
    content = json.loads(result.to_json())
    assert [item["more_cycles"] for item in content["reasons"]] == [reason.row.more_cycles for reason in result.reasons()]


def test_the_command_takes_options_for_b(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["compare", str(DIGITS), "--b-target", "ethos-u55-32", "--format", "json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["a"]["target"], content["b"]["target"]) == ("ethos-u55-128", "ethos-u55-32")
    assert main(["compare", str(DIGITS), "--b-optimise", "size", "--format", "md", "-o", str(tmp_path / "x.md")]) == 0
    assert "| **Sum** |" in (tmp_path / "x.md").read_text()
    with pytest.raises(SystemExit) as ended:
        main(["compare", str(DIGITS)])
    assert ended.value.code == 2
