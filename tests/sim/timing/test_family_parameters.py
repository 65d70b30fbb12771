"""A family of NPUs brings its own parameters of timing: nothing calibrated is outside of its description."""

from __future__ import annotations

from pathlib import Path

from benchmarks.calibration import CONSTANTS
from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Variant
from sim.timing import schedule

from tests.sim.timing.test_pinned import STREAMS

SIBLING = """
extends: ethos-u65-512
name: sibling
timing:
  source:
    operation_overhead_cycles: invented for a test
  operation_overhead_cycles: 40
  port_beat_cycles: 1.0
  weight_switch_cycles: 0
  core_input_bytes_per_cycle: 16
  weight_decode_bits_per_cycle: 96
  nhwc_operand_factor: 1.0
  burst_hold_fraction: 0.8
  weight_window_bytes: 2048
  max_burst_bytes: 256
"""


def cycles(variant: Variant) -> int:
    return schedule(STREAMS["layers"](), variant, stream_words=500).totals.npu_active_cycles


def test_a_sibling_of_a_family_is_timed_with_its_own_parameters(tmp_path: Path) -> None:
    path = tmp_path / "sibling.yaml"
    path.write_text(SIBLING)
    usual = load_variant("ethos-u65-512")
    before = cycles(usual)
    sibling = load_variant(path)
    for name in (*CONSTANTS, "max_burst_bytes"):
        assert getattr(sibling.timing, name) != getattr(usual.timing, name), name
    assert cycles(sibling) != before
    assert cycles(usual) == before


def test_the_shipped_families_share_all_but_the_longest_burst() -> None:
    first, second = load_variant("ethos-u55-256").timing, load_variant("ethos-u65-256").timing
    assert [getattr(first, name) for name in CONSTANTS] == [getattr(second, name) for name in CONSTANTS]
    assert (first.max_burst_bytes, second.max_burst_bytes) == (64, 128)
