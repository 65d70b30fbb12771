"""Energy: what is published, times what is counted; nothing without a source."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import npu
from npu.errors import ConfigError
from npu.explore.point import npu_energy
from npu.hardware import energy
from npu.hardware.energy import energy_of, load_energy_table
from npu.hardware.shipped import configs_folder


def test_every_range_has_a_source() -> None:
    document = yaml.safe_load((configs_folder() / energy.FILE).read_text())
    for row in (document["mac_pj"], *document["byte_pj"].values()):
        assert "Horowitz" in row["source"]  # the high end of all
        assert "ZigZag" in row["source"] or "Micron" in row["source"]  # the low end
        assert row["low"] <= row["high"]


def test_macs_and_bytes_are_counted_at_both_ends() -> None:
    found = energy_of(1_000_000, {"sram": 1000, "flash": 7}, load_energy_table())
    assert found.low_mj == pytest.approx((1e6 * 0.04 + 1000 * 0.909) * 1e-9)
    assert found.high_mj == pytest.approx((1e6 * 0.3 + 1000 * 12.5) * 1e-9)
    assert (found.dominant, found.unknown) == ("MAC", ("flash",))
    assert energy_of(10, {"sram": 1000}, load_energy_table()).dominant == "sram"


def test_the_energy_of_a_run_is_of_its_macs_and_traffic() -> None:
    report = npu.time_model("examples/digits_partial.tflite").report
    on_npu = [row for row in report.operators if row.placement == "npu"]
    sram = sum(row.bytes["sram"].read + row.bytes["sram"].write for row in on_npu)
    expected = sum(row.macs for row in on_npu) * 0.3e-9 + sram * 12.5e-9
    assert npu_energy(report).high_mj == pytest.approx(expected)


def test_a_table_with_a_mistake_is_refused(tmp_path: Path) -> None:
    (tmp_path / "energy").mkdir()
    (tmp_path / energy.FILE).write_text("mac_pj: {low: 1, hihg: 2}\nbyte_pj: {}\n")
    with pytest.raises(ConfigError, match="hihg: is no known key"):
        load_energy_table(tmp_path)
