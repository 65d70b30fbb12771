"""The error bands that reports print are those of the generated document."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from npu.compiler.targets import compiler_targets
from npu.hardware.accuracy import accuracy_of
from npu.hardware.catalogue import load_variant

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("target", compiler_targets())
def test_the_band_of_a_target_is_the_row_of_the_document(target: str) -> None:
    text = (ROOT / "docs" / "timing-accuracy.md").read_text()
    row = re.search(rf"^\| {target} \| (\d+) \| ([\d.]+) % \| ([\d.]+) % \|$", text, re.MULTILINE)
    assert row is not None
    band = accuracy_of(load_variant(target), {"convolution": 1.0})
    assert band is not None
    assert (band.measurements, band.mean_error_percent, band.worst_error_percent) == (int(row[1]), float(row[2]), float(row[3]))
    assert band.unmeasured == ()


def test_other_memories_double_the_band_and_are_named() -> None:
    usual, other = (accuracy_of(load_variant("ethos-u55-128", system=name), {}) for name in (None, "Deep_Embedded"))
    assert usual is not None
    assert other is not None
    assert other.worst_error_percent == pytest.approx(2 * usual.worst_error_percent)
    assert other.unmeasured == ("the memories of Ethos_U55_Deep_Embedded",)
    ideal = accuracy_of(load_variant("ethos-u55-128", system="Ethos_U55_High_End_Embedded_Ideal"), {})
    assert ideal is not None
    assert ideal.unmeasured == ()


def test_kinds_without_a_measurement_widen_the_band_by_half_of_their_share() -> None:
    variant = load_variant("ethos-u65-256")
    known, other = (accuracy_of(variant, {"convolution": 0.7, kind: 0.3}) for kind in ("ADD", "CLZ"))
    assert known is not None
    assert other is not None
    assert other.mean_error_percent == pytest.approx(known.mean_error_percent + 7.5)
    assert other.worst_error_percent == pytest.approx(known.worst_error_percent + 15)
    assert other.unmeasured == ("CLZ (30% of the cycles)",)
    assert accuracy_of(variant, {"CLZ": 0.001}) == accuracy_of(variant, {})


def test_a_band_is_of_the_shipped_product_only(tmp_path: Path) -> None:
    path = tmp_path / "ethos-u55-128.yaml"
    path.write_text("extends: ethos-u55-128\ntiming: {operation_overhead_cycles: 0}\n")
    assert accuracy_of(load_variant(path), {}) is None
