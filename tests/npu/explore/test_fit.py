"""Which boards a model fits: the figures of a run, and what is missing in bytes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from npu.cli.main import main
from npu.explore.fit import Missing, fit
from npu.hardware.catalogue import list_boards
from npu.rendering.fit import fit_text
from npu.workers import Here

DIGITS = "examples/digits.tflite"
PARTIAL = "examples/digits_partial.tflite"
SMALL = """extends: boards/nuvoton-m55m1
memory_mode: {{arena_cache_bytes: {arena}}}
system: {{memories: {{axi1: {{size_bytes: {flash}}}}}}}
"""


@pytest.mark.parametrize("board", ["himax-we2", "infineon-psoc-edge-e84", "nxp-imx93"])
def test_the_figures_are_those_of_a_run(board: str, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    for model in (DIGITS, PARTIAL):
        (one,) = fit([model], [board], Here())
        assert main(["run", model, "--timing-only", "--board", board, "--report", str(report)]) == 0
        said = json.loads(report.read_text())
        assert one.fits
        assert {name: one.figures[name] for name in said["totals"]} == said["totals"]
        band = said["timing_error"]
        assert one.figures["npu_error_mean_percent"] == band["mean_error_percent"] > 0
        assert one.figures["npu_error_worst_percent"] == band["worst_error_percent"]
        assert one.figures["cpu_operators"] == sum(operator["placement"] == "cpu" for operator in said["operators"])


def test_what_is_missing_is_told_in_bytes_and_by_memory(tmp_path: Path) -> None:
    board = tmp_path / "small.yaml"
    board.write_text(SMALL.format(arena=1024, flash=4096))
    (one,) = fit([DIGITS], [str(board)], Here())
    assert not one.fits
    arena, flash = one.missing
    assert (arena.where, arena.available_bytes) == ("arena in sram", 1024)
    assert arena.needed_bytes == one.figures["sram_bytes"] > 1024
    assert flash == Missing("flash", one.figures["flash_bytes"], 4096)
    assert f"needs {flash.needed_bytes:,} bytes of flash, {flash.needed_bytes - 4096:,} more than" in " ".join(
        fit_text([one], 120).split()
    )


def test_constants_and_arena_share_a_memory_where_there_is_but_one(tmp_path: Path) -> None:
    board = tmp_path / "one.yaml"
    changes = "memory_mode: {arena_cache_bytes: 8192}\nsystem: {memories: {axi0: {size_bytes: 14000}}}\n"
    board.write_text(f"extends: boards/infineon-psoc-edge-e84\n{changes}")
    (one,) = fit([DIGITS], [str(board)], Here())
    assert one.missing == (Missing("sram", one.figures["sram_bytes"] + one.figures["flash_bytes"], 14000),)


def test_less_than_the_least_arena_takes_more_cycles(tmp_path: Path) -> None:
    (one,) = fit([DIGITS], ["nuvoton-m55m1"], Here(), finds_least_arena=True)
    least = one.least_arena_bytes
    assert least is not None
    assert least <= one.arena_bytes

    def cycles(limit: int) -> int:
        report = tmp_path / "report.json"
        command = ["run", DIGITS, "--timing-only", "--board", "nuvoton-m55m1", "--arena-cache-size", str(limit)]
        assert main([*command, "--report", str(report)]) == 0
        return int(json.loads(report.read_text())["totals"]["total_cycles"])

    most, fewest = cycles(least - 1024), one.figures["total_cycles"]
    assert fewest <= cycles(2 * least) <= most
    assert fewest < most


def test_every_board_has_an_answer_and_equal_hardware_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from npu.explore import fit as module

    measured = []
    once = module.measure
    monkeypatch.setattr(module, "measure", lambda point: measured.append(point) or once(point))
    fits = fit([DIGITS], list_boards(), Here())
    assert [one.board for one in fits] == list(list_boards())
    assert all(one.fits for one in fits)
    assert len(measured) == 12


def test_the_table_says_the_same_of_equal_boards_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["fit", DIGITS, "--board", "alif-ensemble-e3-hp", "--board", "alif-ensemble-e7-hp", "--board", "himax-we2"]) == 0
    )
    told = capsys.readouterr().out
    assert "alif-ensemble-e3-hp, and the same: alif-ensemble-e7-hp" in told
    assert len(re.findall(r"^ alif", told, re.MULTILINE)) == 1


def test_the_forms_hold_every_board(tmp_path: Path) -> None:
    paths = {form: tmp_path / f"x.{form}" for form in ("json", "html")}
    for form, models in {"json": (DIGITS, PARTIAL), "html": (DIGITS,)}.items():
        assert main(["fit", *models, "--board", "all", "--format", form, "-o", str(paths[form])]) == 0
    rows = json.loads(paths["json"].read_text())["fits"]
    assert len(rows) == 2 * len(list_boards())
    assert all(row["fits"] for row in rows)
    page = paths["html"].read_text()
    assert all(row["board"] in page for row in rows)
    assert "default-src 'none'" in page


def test_a_model_that_fits_nowhere_is_judged_and_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    board = tmp_path / "small.yaml"
    board.write_text(SMALL.format(arena=1024, flash=0))
    assert main(["fit", DIGITS, "--board", str(board)]) == 3
    assert "digits.tflite fits none of these boards" in capsys.readouterr().err


def test_a_broken_model_is_told_for_every_board_and_the_other_model_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(b"<b>nonsense" * 9)
    assert main(["fit", DIGITS, str(broken), "--board", "himax-we2"]) == 3
    told = capsys.readouterr()
    assert "himax-we2: " in told.out
    assert "broken.tflite fits none" in told.err
    assert re.search(r"himax-we2 +yes", told.out)


def test_an_unknown_board_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", DIGITS, "--board", "himax"]) == 1
    assert "board: must be one of" in capsys.readouterr().err
