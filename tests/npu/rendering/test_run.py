"""What the text of a run says of models that the NPU does not take."""

from __future__ import annotations

from pathlib import Path

import pytest

from npu.cli.main import main

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_a_run_without_work_for_the_npu_states_no_error_of_its_cycles(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(EXAMPLES / "digits.tflite"), "--timing-only", "--profile", "xnnpack"]) == 0
    text = capsys.readouterr().out
    assert "NPU 0" in text
    assert "of NPU cycles" not in text
    assert "beats" not in text


@pytest.mark.parametrize(("model", "is_said"), [("digits", False), ("digits_partial", True)])
def test_a_run_with_operators_left_out_by_the_rules_says_who_knows_why(
    model: str, is_said: bool, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["run", str(EXAMPLES / f"{model}.tflite"), "--timing-only"]) == 0
    assert ("npu check says why" in capsys.readouterr().out) is is_said
    assert main(["compile", str(EXAMPLES / f"{model}.tflite"), "-o", str(tmp_path / "out.tflite")]) == 0
    assert ("npu check says why" in capsys.readouterr().out) is is_said
