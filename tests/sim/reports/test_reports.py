"""Reports are pure functions of a trace: rows, dictionaries, counters and the Chrome trace format."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict

import pytest

from npu.hardware.loader import load_variant
from npu.isa.operations import Block, DmaWait, KernelWait, Stop
from sim.reports.perfetto import PROCESS, chrome_trace
from sim.reports.pmu import EVENTS, pmu_rows, unit_times
from sim.reports.table import HEADER, operation_rows, trace_dict
from sim.timing import schedule
from sim.trace import Column, TimedUnit, Trace

from tests.support.timing import addition, convolution, round_variant, transfer

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


def make_trace(name: str = "ethos-u55-128", *, with_events: bool = True) -> Trace:
    return schedule(STREAM, load_variant(name), stream_words=120, with_events=with_events)


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
    assert set(trace.pmu) == {row.event.name for row in pmu_rows(trace)}


@pytest.mark.parametrize("name", ["ethos-u55-32", "ethos-u55-256", "ethos-u65-256", "ethos-u65-512"])
def test_active_stalled_and_idle_add_up_to_the_elapsed_time(name: str) -> None:
    trace = make_trace(name)
    for times in unit_times(trace):
        assert times.elapsed == trace.totals.npu_active_cycles
        assert times.active >= 0
        assert times.stalled >= 0
        assert times.idle >= -2, times


def test_counters_of_the_ports_are_the_totals() -> None:
    trace = make_trace()
    assert trace.pmu["AXI0_RD_DATA_BEAT_RECEIVED"] == trace.totals.axi0_read_beats
    assert trace.pmu["AXI0_WR_DATA_BEAT_WRITTEN"] == trace.totals.axi0_write_beats
    assert trace.pmu["AXI1_RD_DATA_BEAT_RECEIVED"] == trace.totals.axi1_read_beats


def test_rows_have_a_cell_for_every_title_and_leave_waits_out() -> None:
    rows = operation_rows(make_trace(), macs_per_cycle=128)
    assert [row[1] for row in rows] == ["dma", "conv", "dma", "elementwise"]
    assert all(len(row) == len(HEADER) for row in rows)
    everything = operation_rows(make_trace(), macs_per_cycle=128, with_waits=True)
    assert len(everything) == len(STREAM)


def test_a_row_says_what_the_operation_did() -> None:
    trace = schedule([convolution(4, 4, 16, 32, SMALL)], round_variant(), stream_words=0)
    # 384 cycles: 64 of the MAC array, 256 of the output unit; 8192 products are 64 cycles of 128.
    assert operation_rows(trace, macs_per_cycle=128) == [("0", "conv", "0", "384", "17%", "67%", "17%", "output", "512", "256")]


def test_the_dictionary_survives_json_and_sums_to_its_totals() -> None:
    data = json.loads(json.dumps(trace_dict(make_trace())))
    totals = data["totals"]
    assert totals["macs"] == sum(operation["macs"] for operation in data["operations"]) == 16 * 16 * 32 * 64
    assert totals["axi0_write_beats"] * 8 == sum(operation["axi0_write_bytes"] for operation in data["operations"])
    assert totals["time_ms"] == pytest.approx(totals["total_cycles"] / 500e6 * 1e3)


def test_chrome_trace_has_a_named_track_for_every_slice_and_slices_do_not_overlap() -> None:
    trace = make_trace()
    data = json.loads(json.dumps(chrome_trace(trace)))
    entries = data["traceEvents"]
    named = {entry["tid"] for entry in entries if entry["ph"] == "M" and entry["name"] == "thread_name"}
    tracks = defaultdict(list)
    for entry in entries:
        assert entry["ph"] in {"M", "X", "C"}
        assert entry["pid"] == PROCESS
        if entry["ph"] == "X":
            assert entry["dur"] > 0
            tracks[entry["tid"]].append((entry["ts"], entry["ts"] + entry["dur"]))
    assert set(tracks) <= named
    for spans in tracks.values():
        spans.sort()
        assert all(first[1] <= second[0] + 1e-9 for first, second in itertools.pairwise(spans))
    microseconds = trace.totals.total_cycles / 500
    assert max(span[1] for spans in tracks.values() for span in spans) <= microseconds + 0.01


def test_bandwidth_counters_integrate_to_the_bytes_moved() -> None:
    trace = make_trace()
    counters = [e for e in chrome_trace(trace)["traceEvents"] if e["ph"] == "C" and e["name"].startswith("AXI0")]
    step = trace.totals.total_cycles / len(counters)
    read = sum(entry["args"]["read"] for entry in counters) * step
    assert read == pytest.approx(trace.totals.axi0_read_beats * 8, rel=0.01)


def test_a_trace_without_events_still_makes_a_timeline() -> None:
    names = {entry["name"] for entry in chrome_trace(make_trace(with_events=False))["traceEvents"]}
    assert "conv 2" in names


def test_slices_tell_the_bytes_that_they_moved() -> None:
    trace = make_trace()
    assert trace.events is not None
    for unit, column in ((TimedUnit.IFM_FETCH, Column.IFM_BYTES), (TimedUnit.OUTPUT, Column.OFM_BYTES)):
        assert trace.events.bytes[trace.events.unit == unit].sum() == trace.column(column).sum() > 0
