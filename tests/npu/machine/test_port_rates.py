"""The rates of ports that the compiler plans with, worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from npu.hardware.catalogue import load_variant
from npu.hardware.loader import read_variant
from npu.hardware.variant import Port
from npu.machine.port_rates import port_rate

NO_ADAPTERS = "system: {adapters: {}}\n"
BEAT = 8 / 1.08
"""Bytes per cycle of a direction: 8 bytes a beat, which takes 1.08 cycles even with ideal memory."""
CASES = {
    "shipped_sram": ("", Port.AXI0, (BEAT, BEAT, 32)),
    # 50 beats in 400 cycles, as whole bursts of 8: 7 bursts.
    "shipped_flash": ("", Port.AXI1, (8 * 56 / 400, 8 * 56 / 400, 64)),
    # The memory's own 4 bursts of 32 bytes in 32 cycles and half of their 4 beats.
    "bound_by_slots": (NO_ADAPTERS, Port.AXI0, (32 / (34.16 / 4), 32 / (34.16 / 4), 32)),
    "more_bandwidth_that_slots_do_not_reach": (
        "system: {adapters: {}, memories: {axi0: {clock_scale: 16}}}\n",
        Port.AXI0,
        (32 / (32.135 / 4), 32 / (32.135 / 4), 32),
    ),
    "no_latency": ("system: High_End_Embedded_Ideal\n", Port.AXI0, (BEAT, BEAT, 0)),
    "memory_behind_an_adapter": (
        "system: {memories: {axi0: {clock_scale: 2, read_latency_cycles: 9}}}\n",
        Port.AXI0,
        (BEAT, BEAT, 32),
    ),
    # 8 slots are held for 256 cycles and half of 4 beats: 16 rounds of them begin in the 3,999 cycles that are open.
    "slower_adapter": (
        "system: {adapters: {axi0: {read_latency_cycles: 256}}}\n",
        Port.AXI0,
        (32 * 16 * 8 / 3999, BEAT, 256),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_port_sustains_its_beats_its_slots_or_its_cap(case: str, tmp_path: Path) -> None:
    text, port, expected = CASES[case]
    path = tmp_path / "board.yaml"
    path.write_text(f"extends: ethos-u55-128\ntiming: {{burst_hold_fraction: 0.5, port_beat_cycles: 1.08}}\n{text}")
    rate = port_rate(read_variant(path), port)
    assert (rate.read, rate.write, rate.read_latency) == pytest.approx(expected)


@pytest.mark.parametrize(("window", "bytes_per_cycle"), [(1280, 8 * 56 / 400), (32, 32 / 64)])
def test_weights_come_as_fast_as_the_port_or_a_window_for_each_latency(
    window: int, bytes_per_cycle: float, tmp_path: Path
) -> None:
    path = tmp_path / "board.yaml"
    path.write_text(f"extends: ethos-u55-128\ntiming: {{weight_window_bytes: {window}}}\n")
    assert port_rate(read_variant(path), Port.AXI1).weights == pytest.approx(bytes_per_cycle)


def test_a_copy_passes_the_engine_while_the_latency_of_another_one_does() -> None:
    """Where two copies may be unfinished: 500 cycles of latency pass once for each, but in pairs."""
    alone, paired = (port_rate(load_variant(target), Port.AXI1) for target in ("ethos-u55-128", "ethos-u65-256"))
    large, small = 4096, 16
    for rate, size in ((alone, large), (alone, small)):
        there = size / rate.read + rate.read_latency
        assert rate.copy_cycles(size) == (there, there)
    assert paired.copy_cycles(large) == (large / paired.read, large / paired.read + 500)
    assert paired.copy_cycles(small) == ((small / paired.read + 500) / 2, small / paired.read + 500)
