"""What reaches the terminal."""

from __future__ import annotations

import pytest

from npu.rendering import terminal
from npu.rendering.console import findings_text
from sim.verify.verifier import Finding

TEXT = "a\x1b[31mb\x1b[0m\x1b]0;title\x07\tc\r\n\x9b1m\u202e\udcff"


def test_a_pipe_gets_no_steering_characters(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.say(TEXT)
    assert capsys.readouterr().out == "a\\x1b[31mb\\x1b[0m\\x1b]0;title\\x07\tc\\r\n\\x9b1m\\u202e\\udcff"


def test_a_terminal_that_shows_colours_gets_those_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "is_coloured", lambda: True)
    terminal.say(TEXT)
    assert capsys.readouterr().out == "a\x1b[31mb\x1b[0m\\x1b]0;title\\x07\tc\\r\n\\x9b1m\\u202e\\udcff"


@pytest.mark.parametrize(("columns", "width"), [("1", 40), ("39", 40), ("100", 100)])
def test_nothing_is_laid_out_for_fewer_than_40_columns(columns: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert terminal.width_for(None) == width


def test_a_tensor_whose_name_looks_like_markup_is_shown_as_it_is() -> None:
    finding = Finding("BOUNDS", 3, 7, "Pooling", "reads outside", tensors=("[/red]a[bold]",))
    assert "[/red]a[bold]" in findings_text("f.tflite", [(0, finding)], 100)
