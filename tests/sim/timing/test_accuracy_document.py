"""The error bands in the descriptions of targets are those of the generated document."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from npu.hardware.catalogue import list_variants, load_variant

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("target", list_variants())
def test_the_band_of_a_target_is_the_row_of_the_document(target: str) -> None:
    text = (ROOT / "docs" / "timing-accuracy.md").read_text()
    row = re.search(rf"^\| {target} \| (\d+) \| ([\d.]+) % \| ([\d.]+) % \|", text, re.MULTILINE)
    assert row is not None
    accuracy = load_variant(target).accuracy
    assert accuracy is not None
    figures = (accuracy.measurements, accuracy.mean_error_percent, accuracy.worst_error_percent)
    assert figures == (int(row[1]), float(row[2]), float(row[3]))


def test_a_band_holds_for_the_measured_system_only() -> None:
    assert load_variant("ethos-u55-128").known_accuracy is not None
    assert load_variant("ethos-u55-128", system="Deep_Embedded").known_accuracy is None
    assert load_variant("ethos-u55-128", memory_mode="Sram_Only").known_accuracy is None


def test_a_band_is_not_inherited(tmp_path: Path) -> None:
    path = tmp_path / "board.yaml"
    path.write_text("extends: ethos-u55-128\n")
    assert load_variant(path).accuracy is None
