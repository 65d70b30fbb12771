"""Boards: every number says where it comes from, and a board is a target like any other."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import npu
from npu.cli.main import main
from npu.errors import ConfigError
from npu.hardware.catalogue import list_boards, load_board, load_variant
from npu.hardware.choice import Hardware
from npu.hardware.shipped import BOARDS_FOLDER, configs_folder

from tests.support.boards_page import COMMENTS, PAGE, boards_page, said

DIGITS = "examples/digits.tflite"


def test_the_page_is_checked_in_as_generated() -> None:
    assert PAGE.read_text(encoding="utf-8") == boards_page(), "run: make docs"


@pytest.mark.parametrize("name", list_boards())
def test_every_number_of_a_board_has_a_source_or_the_reason_why_it_is_assumed(name: str) -> None:
    document = yaml.safe_load((configs_folder() / BOARDS_FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    assert [key for key, _, kind, text in said(document) if kind not in COMMENTS or not text] == []


@pytest.mark.parametrize("name", list_boards())
def test_a_board_is_a_target(name: str) -> None:
    variant = load_variant(f"boards/{name}")
    assert variant.name == name
    timed = npu.time_model(DIGITS, f"boards/{name}")
    assert timed.report.target == name
    assert timed.report.clock_hz == variant.system.clock_hz


def test_the_option_means_the_target(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", DIGITS, "--timing-only", "--board", "himax-we2"]) == 0
    by_option = capsys.readouterr().out
    assert main(["run", DIGITS, "--timing-only", "--target", "boards/himax-we2"]) == 0
    assert capsys.readouterr().out == by_option
    assert "at 400 MHz" in by_option


def test_an_unknown_board_is_refused_with_what_is_near(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", DIGITS, "--board", "himax-we3"]) == 1
    assert "board: must be one of alif-ensemble" in (message := capsys.readouterr().err)
    assert "did you mean 'himax-we2'?" in message


def test_board_and_target_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["check", DIGITS, "--board", "himax-we2", "--target", "ethos-u55-32"])
    assert caught.value.code == 2
    assert "not allowed with argument" in capsys.readouterr().err


def test_a_description_may_start_from_a_board_and_keeps_the_origins_of_its_values(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("extends: boards/himax-we2\nsystem: {clock_hz: 200000000}\n")
    description = Hardware(config=path).describe()
    assert description.where(("system", "clock_hz")).startswith(str(path))
    assert "himax-we2.yaml" in description.where(("memory_mode", "arena_cache_bytes"))
    assert load_variant(path).system.clock_hz == 200_000_000


def test_a_mistake_in_the_section_of_a_board_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("extends: ethos-u55-128\nboard:\n  title: Mine\n  vendor: Me\n  pages: x\n")
    with pytest.raises(ConfigError, match=r"mine.yaml:5: board.pages: is no known key \(did you mean 'page'\?\)"):
        load_variant(path)


def test_a_target_without_the_section_is_no_board() -> None:
    with pytest.raises(ConfigError, match="must have a section 'board'"):
        load_board("configs/ethos-u55-128.yaml")


def test_the_list_of_configurations_names_every_board(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["configs"]) == 0
    listed = " ".join(capsys.readouterr().out.split())
    assert all(name in listed for name in list_boards())
