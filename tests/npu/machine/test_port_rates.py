"""The rates of ports that the compiler plans with, worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from npu.hardware.loader import read_variant
from npu.hardware.variant import Port
from npu.machine.port_rates import port_rate

NO_ADAPTERS = "system: {adapters: {}}\n"
CASES = {
    # 8 bytes a beat at scale 1; the adapter's 8 bursts of 32 bytes are under way for 32 cycles and half of their 4 beats.
    "shipped_sram": ("", Port.AXI0, (32 / (34 / 8), 32 / (34 / 8), 32, 32)),
    # 50 beats in 400 cycles.
    "shipped_flash": ("", Port.AXI1, (1.0, 1.0, 64, 0)),
    # The memory's own 4 bursts of 32 bytes in 32 cycles and half of their 4 beats.
    "bound_by_slots": (NO_ADAPTERS, Port.AXI0, (32 / (34 / 4), 32 / (34 / 4), 32, 32)),
    "more_bandwidth_that_slots_do_not_reach": (
        "system: {adapters: {}, memories: {axi0: {clock_scale: 16}}}\n",
        Port.AXI0,
        (32 / (32.125 / 4), 32 / (32.125 / 4), 32, 32),
    ),
    "no_latency": ("system: High_End_Embedded_Ideal\n", Port.AXI0, (8.0, 8.0, 0, 0)),
    "memory_behind_an_adapter": (
        "system: {memories: {axi0: {clock_scale: 2, read_latency_cycles: 9}}}\n",
        Port.AXI0,
        (32 / (34 / 8), 32 / (34 / 8), 32, 32),
    ),
    "slower_adapter": (
        "system: {adapters: {axi0: {read_latency_cycles: 256}}}\n",
        Port.AXI0,
        (32 / (258 / 8), 32 / (34 / 8), 256, 32),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_port_sustains_its_beats_its_slots_or_its_cap(case: str, tmp_path: Path) -> None:
    text, port, expected = CASES[case]
    path = tmp_path / "board.yaml"
    path.write_text(f"extends: ethos-u55-128\n{text}")
    rate = port_rate(read_variant(path), port)
    assert (rate.read, rate.write, rate.read_latency, rate.write_latency) == expected
