"""The example of docs/inspection.md runs and shows what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npu.isa.decode import decode
from sim.verify.verifier import RULES

from tests.naive.operations import run_operation

ROOT = Path(__file__).parents[2]


def samples() -> list[str]:
    """The samples of the page: stepping through a file, and a stream written by hand."""
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "inspection.md").read_text(encoding="utf-8"), re.DOTALL)


def test_the_stream_written_by_hand_is_sound_and_copies_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    _, example = samples()
    found: dict[str, Any] = {}
    exec(example, found)
    assert found["arena"].tolist() == [0] * 64 + list(range(16, 48)) + [0] * 32
    assert found["findings"] == []
    assert capsys.readouterr().out.startswith("[] ")


def test_the_example_steps_to_the_result_of_the_first_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    example, _ = samples()
    found: dict[str, Any] = {}
    exec(example, found)
    operation, memory = found["first"].operation, found["memory"]
    assert found["result"].shape == (operation.ofm.height, operation.ofm.width, operation.ofm.depth)
    assert found["machine"].next_operation.command_index > found["first"].command_index
    before = found["NpuMemory"]({0: found["constants"], 1: np.zeros_like(found["arena"])}, memory.variant)
    for decoded in decode(found["job"].payload.words, memory.variant):
        run_operation(decoded.operation, before)
        if decoded.command_index == found["first"].command_index:
            break
    np.testing.assert_array_equal(found["machine"].feature_map(operation.ofm, before), found["result"])


def test_the_page_lists_the_rules_of_the_verifier() -> None:
    page = (ROOT / "docs" / "inspection.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([A-Z-]+)` \| (.*) \|$", page, re.MULTILINE) == list(RULES.items())
