"""`npu fix` as people call it."""

from __future__ import annotations

from pathlib import Path

import pytest

from npu.cli.main import main
from npu.tflite.reader import read_model

from tests.npu.fixes.test_fixes import FIXES, KEPT, assert_same_results


def test_fix_writes_the_model_and_says_what_it_gained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = FIXES["int16 through float"][0]
    source, target = tmp_path / "in.tflite", tmp_path / "out.tflite"
    source.write_bytes(content)
    assert main(["fix", str(source), "-o", str(target)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "QUANTIZE 't3': removed: gives back what went in"
    assert "2 changes; on the NPU 0 of 4 operators before, 2 of 2 now;" in lines[2]
    assert_same_results(content, read_model(target))


def test_a_model_without_anything_to_fix_is_written_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "in.tflite", tmp_path / "out.tflite"
    assert main(["fix", str(_fixed(source)), "-o", str(target)]) == 0
    assert capsys.readouterr().out == f"nothing to fix; {target} is in.tflite as it was\n"


def _fixed(path: Path) -> Path:
    path.write_bytes(KEPT["pool that the NPU takes"])
    return path
