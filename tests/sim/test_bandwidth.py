"""Bytes per cycle of the ports over time: never more than a port carries, always as many as crossed it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from npu.api import time_model
from npu.hardware.variant import Port
from npu.toolchain.timing import TimedModel
from sim.bandwidth import command_port, port_rates
from sim.trace import PORT_BYTES

from tests.support.shared import shared_models

ROOT = Path(__file__).parents[2]
MODELS = {name: ROOT / "examples" / f"{name}.tflite" for name in ("digits", "digits_partial")}
MODELS |= {name: path for name, path in shared_models().items() if name in ("mlperf_resnet8_int8", "person_detect_int8")}
CASES = [
    (name, target, mode)
    for name in MODELS
    for target, mode in (("ethos-u55-128", None), ("ethos-u55-256", "Sram_Only"), ("ethos-u65-512", None))
]


@cache
def timed(name: str, target: str, mode: str | None, *, with_events: bool = True) -> TimedModel:
    return time_model(MODELS[name], target, memory_mode=mode, with_events=with_events)


@pytest.mark.parametrize("windows", [7, 100, 500])
@pytest.mark.parametrize(("name", "target", "mode"), CASES)
def test_no_port_carries_more_than_a_beat_a_cycle_each_way(name: str, target: str, mode: str | None, windows: int) -> None:
    model = timed(name, target, mode)
    for job in model.jobs:
        edges = np.linspace(0, job.trace.totals.total_cycles, windows + 1)
        for read, written in port_rates(job.trace, edges).values():
            assert max(read.max(), written.max()) <= model.variant.accelerator.axi_data_bytes * (1 + 1e-9)


@pytest.mark.parametrize("with_events", [True, False])
@pytest.mark.parametrize(("name", "target", "mode"), CASES)
def test_what_flows_is_what_crossed_the_port(name: str, target: str, mode: str | None, with_events: bool) -> None:
    for job in timed(name, target, mode, with_events=with_events).jobs:
        edges = np.linspace(0, job.trace.totals.total_cycles, 101)
        for port, rates in port_rates(job.trace, edges).items():
            for rate, column in zip(rates, PORT_BYTES[port], strict=True):
                moved = job.trace.column(column).sum()
                assert (rate * np.diff(edges)).sum() == pytest.approx(moved, rel=1e-6, abs=4)


def test_commands_come_over_the_port_of_the_constants() -> None:
    assert {command_port(job.trace) for job in timed("digits", "ethos-u55-128", None).jobs} == {Port.AXI1}
    assert {command_port(job.trace) for job in timed("digits", "ethos-u55-256", "Sram_Only").jobs} == {Port.AXI0}
