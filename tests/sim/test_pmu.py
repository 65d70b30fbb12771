"""Performance counters: the driver's names and numbers, and times that add up."""

from __future__ import annotations

import numpy as np
import pytest

from npu.hardware.catalogue import load_variant
from npu.isa.operations import Block, DmaWait, KernelWait, Stop
from sim.pmu import EVENTS, unit_times
from sim.timing import schedule
from sim.trace import Trace

from tests.support.timing import addition, convolution, transfer

SMALL = Block(4, 4, 16)
STREAM = (
    transfer(4096),
    DmaWait(0),
    convolution(16, 16, 32, 64, SMALL, stream_bytes=2000),
    transfer(4096),
    addition(16, 16, 32, Block(8, 8, 32), blockdep=1),
    KernelWait(0),
    Stop(),
)


def make_trace(name: str = "ethos-u55-128") -> Trace:
    return schedule(STREAM, load_variant(name), stream_words=120)


def test_numbers_of_events_are_those_of_the_driver_header() -> None:
    by_name = {event.name: event for event in EVENTS}
    assert len(by_name) == len(EVENTS) == len({event.code for event in EVENTS})
    quoted = {"CYCLE": 0x11, "NPU_ACTIVE": 0x23, "MAC_STALLED_BY_IB": 0x37, "AO_STALLED_BY_IB": 0x48, "WD_STALLED_BY_WS": 0x52}
    quoted |= {
        "AXI0_RD_DATA_BEAT_RECEIVED": 0x82,
        "AXI0_ENABLED_CYCLES": 0x8C,
        "AXI1_RD_DATA_BEAT_RECEIVED": 0x182,
        "ECC_SB1": 0x1B1,
    }
    assert {name: by_name[name].code for name in quoted} == quoted
    assert by_name["NO_EVENT"].driver_id == 0
    assert by_name["NPU_ACTIVE"].driver_id == 5


def test_every_modelled_counter_is_an_event_of_the_driver() -> None:
    trace = make_trace()
    assert set(trace.pmu) <= {event.name for event in EVENTS}


@pytest.mark.parametrize("name", ["ethos-u55-32", "ethos-u55-256", "ethos-u65-256", "ethos-u65-512"])
def test_active_stalled_and_idle_add_up_to_the_elapsed_time(name: str) -> None:
    trace = make_trace(name)
    for times in unit_times(trace, np.zeros(len(trace.table), np.int64))[0]:
        assert times.elapsed == trace.totals.npu_active_cycles
        assert times.active >= 0
        assert times.stalled >= 0
        assert times.idle >= -2, times


def test_counters_of_the_ports_are_the_totals() -> None:
    trace = make_trace()
    assert trace.pmu["AXI0_RD_DATA_BEAT_RECEIVED"] == trace.totals.axi0_read_beats
    assert trace.pmu["AXI0_WR_DATA_BEAT_WRITTEN"] == trace.totals.axi0_write_beats
    assert trace.pmu["AXI1_RD_DATA_BEAT_RECEIVED"] == trace.totals.axi1_read_beats
