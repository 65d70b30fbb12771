"""A better machine never takes longer for the same stream: more bandwidth, less latency, more MACs, more SHRAM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from npu.hardware.catalogue import load_variant
from npu.hardware.choice import Hardware
from npu.hardware.variant import Port, Variant
from npu.isa.operations import Operation
from npu.toolchain.session import Session
from npu.toolchain.timing import time_model
from sim.timing import schedule

from tests.sim.timing.test_pinned import DIGITS, STREAMS
from tests.support.shared import shared_models

SLACK = 1.002
"""A fifth of a percent is allowed: requests that come earlier may meet others that they did not meet before."""
TURN = 125
"""Cycles that it may cost on an adapter, whatever the share: a small stream has few requests to even that out. An address waits
no longer than this for the closed part of a window of the DRAM of Ethos-U65. docs/timing-model.md has what was found.
"""

LONGER = {
    ("a faster memory", "ethos-u55-256", "digits AXI1"): 107,
    ("a memory with less latency", "ethos-u65-256", "digits AXI1"): 30,
    ("less read latency", "ethos-u65-512", "digits AXI0"): 163,
    ("a memory with less latency", "ethos-u65-512", "digits AXI1"): 21,
}
"""Cycles that a stream takes longer by more than the share: docs/timing-model.md has them."""

TARGETS = ("ethos-u55-32", "ethos-u55-128", "ethos-u55-256", "ethos-u65-256", "ethos-u65-512")
Change = Callable[[Variant, float], Variant]


def on_adapter(port: Port, name: str) -> Change:
    def change(variant: Variant, value: float) -> Variant:
        adapter: Any = replace(variant.system.adapters[port], **{name: int(value)})
        return replace(variant, system=replace(variant.system, adapters={**variant.system.adapters, port: adapter}))

    return change


def on_memory(port: Port, name: str) -> Change:
    def change(variant: Variant, value: float) -> Variant:
        memory: Any = replace(variant.system.memories[port], **{name: value})
        memories = {**variant.system.memories, port: memory}
        return replace(variant, system=replace(variant.system, memories=memories, adapters={}))

    return change


LATENCIES = (600, 300, 200, 100, 64, 32, 16, 8, 0)
BETTER: dict[str, tuple[Callable[[Port, str], Change], str, tuple[float, ...]]] = {
    "a higher cap": (on_adapter, "beats_per_window", (10, 20, 50, 100, 200, 800, 4000, 16000)),
    "less read latency": (on_adapter, "read_latency_cycles", LATENCIES),
    "less write latency": (on_adapter, "write_latency_cycles", LATENCIES),
    "more outstanding reads": (on_adapter, "max_outstanding_reads", (1, 2, 4, 8, 16, 32)),
    "a faster memory": (on_memory, "clock_scale", (0.0625, 0.125, 0.25, 0.5, 1, 2, 4, 16)),
    "a memory with less latency": (on_memory, "read_latency_cycles", LATENCIES),
}


@cache
def streams(target: str) -> dict[str, tuple[Sequence[Operation], int]]:
    timed = time_model(DIGITS, Session(Hardware(target)))
    made = {name: (stream(), 500) for name, stream in STREAMS.items() if name != "nothing"}
    return made | {"digits": ([item.operation for item in timed.streams[0].decoded], 700)}


def cycles(stream: tuple[Sequence[Operation], int], variant: Variant) -> int:
    return schedule(stream[0], variant, stream_words=stream[1]).totals.npu_active_cycles


def assert_never_longer(found: Sequence[int], what: str, gap: int = 1) -> None:
    for number, later in enumerate(found[1:], 1):
        assert later <= max(SLACK * min(found[:number]), min(found[:number]) + gap), (what, found)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("better", BETTER)
def test_better_memories_never_cost_cycles(better: str, target: str) -> None:
    make, name, values = BETTER[better]
    variant = load_variant(target)
    for title, stream in streams(target).items():
        for port in (Port.AXI0, Port.AXI1):
            change = make(port, name)
            found = [cycles(stream, change(variant, value)) for value in values]
            what = f"{title} {port.name}"
            assert_never_longer(found, what, LONGER.get((better, target, what), TURN if make is on_adapter else 1))


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", sorted({"ad_medium_int8", "kws_micronet_m", "mcunet_vww_int8"} & set(shared_models())))
def test_better_memories_never_cost_a_network_cycles(name: str, target: str) -> None:
    timed, variant = time_model(shared_models()[name], Session(Hardware(target))), load_variant(target)
    stream = [item.operation for item in timed.streams[0].decoded], 700
    for title, (make, field, values) in BETTER.items():
        for port in (Port.AXI0, Port.AXI1):
            found = [cycles(stream, make(port, field)(variant, value)) for value in values]
            assert_never_longer(found, f"{title} {port.name}")


@pytest.mark.parametrize("system", [None, "Ethos_U55_High_End_Embedded_Ideal"])
def test_more_macs_never_cost_cycles(system: str | None) -> None:
    arrays = [load_variant(f"ethos-u55-{macs}", system=system) for macs in (32, 64, 128, 256)]
    for title, stream in streams("ethos-u55-32").items():
        assert_never_longer([cycles(stream, variant) for variant in arrays], title)


def test_more_shram_never_costs_cycles() -> None:
    variant = load_variant("ethos-u55-128")
    for title, stream in streams("ethos-u55-128").items():
        sizes = [cycles(stream, replace(variant, shram=replace(variant.shram, banks=banks))) for banks in (24, 32, 48)]
        assert_never_longer(sizes, title)
