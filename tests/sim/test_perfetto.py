"""Traces and counters of whole models: the format, and what must add up."""

from __future__ import annotations

import itertools
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from npu.api import time_model
from npu.graph.graph import Model
from npu.tflite.writer import write_model
from npu.toolchain.timing import TimedModel
from sim.pmu import EVENTS, NOT_MODELLED, UnitTime, unit_times
from sim.trace import TimedUnit, TraceColumn

from tests.support import single_ops
from tests.support.shared import shared_models
from tests.support.trace_format import check_nesting, check_trace

ROOT = Path(__file__).parents[2]


def _bytes(model: Model) -> bytes:
    return write_model(model)


MODELS: dict[str, bytes | Path] = {
    "digits": ROOT / "examples" / "digits.tflite",
    "wide_convolution": _bytes(single_ops.conv(ifm=(1, 20, 21, 24), out_channels=70)),
    "addition": _bytes(single_ops.binary("ADD", ((1, 12, 12, 40), (1, 12, 12, 40)))),
    "fully_connected": _bytes(single_ops.fully_connected()),
}
MODELS |= {
    name: path
    for name, path in shared_models().items()
    if name in ("mlperf_resnet8_int8", "rnnoise_int8", "person_detect_vela", "keyword_scrambled_8bit")
}
TARGETS = ("ethos-u55-128", "ethos-u65-512")
COMPILED = {"person_detect_vela"}
CASES = [(name, target) for name in MODELS for target in TARGETS if name not in COMPILED or target == TARGETS[0]]


@cache
def timed(name: str, target: str) -> TimedModel:
    source = MODELS[name]
    content = source.read_bytes() if isinstance(source, Path) else source
    return time_model(content, None if name in COMPILED else target, with_events=True)


@pytest.mark.parametrize(("name", "target"), CASES)
def test_a_trace_keeps_the_rules_of_its_format(name: str, target: str) -> None:
    check_trace(json.loads(json.dumps(timed(name, target).trace())))


def test_slices_touch_where_a_cycle_is_no_whole_number_of_nanoseconds() -> None:
    check_trace(json.loads(json.dumps(timed("digits", "examples/fast-flash").trace())))  # 400 MHz: 2.5 ns
    check_trace(json.loads(json.dumps(timed("wide_convolution", "examples/fast-flash").trace())))


@pytest.mark.parametrize(("name", "target"), CASES)
def test_counters_show_the_bytes_that_were_moved(name: str, target: str) -> None:
    model = timed(name, target)
    events = [item for item in model.trace()["traceEvents"] if item["ph"] == "C" and item["name"] == "AXI0 bytes per cycle"]
    clock = model.timeline.clock_hz / 1e6
    moved = sum(
        (after["ts"] - item["ts"]) * clock * (item["args"]["read"] + item["args"]["written"])
        for item, after in itertools.pairwise(events)
    )
    beats = sum(job.trace.totals.axi0_read_beats + job.trace.totals.axi0_write_beats for job in model.jobs)
    assert moved == pytest.approx(beats * model.variant.accelerator.axi_data_bytes, rel=0.02, abs=64)


def test_fast_memory_has_a_counter_where_it_is_a_memory_of_its_own() -> None:
    names = {
        target: {item["name"] for item in timed("digits", target).trace()["traceEvents"] if item["ph"] == "C"}
        for target in TARGETS
    }
    assert "fast memory in use" not in names["ethos-u55-128"]
    assert "fast memory in use" in names["ethos-u65-512"]


def test_a_trace_without_events_shows_operators_and_ports_alone() -> None:
    model = time_model(MODELS["addition"])
    entries = [entry for entry in model.trace()["traceEvents"] if entry["ph"] == "X"]
    assert set(model.names.values()) <= {entry["name"] for entry in entries}
    assert all("cause" not in entry["args"] for entry in entries)


def test_events_tell_the_bytes_that_were_moved() -> None:
    (job,) = timed("addition", TARGETS[0]).jobs
    events = job.trace.events
    assert events is not None
    for unit, column in ((TimedUnit.IFM_FETCH, TraceColumn.IFM_BYTES), (TimedUnit.OUTPUT, TraceColumn.OFM_BYTES)):
        assert events.bytes[events.unit == unit].sum() == job.trace.column(column).sum() > 0


def test_slices_that_cross_are_seen() -> None:
    check_nesting([(0, 10), (0, 4), (4, 10), (10, 12)])
    with pytest.raises(AssertionError):
        check_nesting([(0, 10), (5, 12)])


def test_every_event_of_the_driver_has_a_value_or_a_reason() -> None:
    report = timed("digits", TARGETS[0]).report_with_pmu().pmu
    assert report is not None
    assert set(report["total"]) | set(report["not_modelled"]) == {event.name for event in EVENTS}
    assert not set(report["total"]) & set(NOT_MODELLED)
    assert set(report["notes"]) <= set(report["total"])


@pytest.mark.parametrize(("name", "target"), CASES)
def test_counters_of_the_operators_add_up_to_the_totals(name: str, target: str) -> None:
    report = timed(name, target).report_with_pmu().pmu
    assert report is not None
    for event, total in report["total"].items():
        assert sum(counters[event] for counters in report["operators"].values()) == total, event
    for position, unit in enumerate(report["units"]):
        rows = [times[position] for times in report["operator_units"].values()]
        for part in ("active", "stalled", "idle", "elapsed"):
            assert sum(row[part] for row in rows) == unit[part], (unit["unit"], part)
        assert unit["elapsed"] == report["total"]["NPU_ACTIVE"]


@pytest.mark.parametrize(("name", "target"), CASES)
def test_a_unit_is_active_stalled_or_idle_up_to_the_end_of_its_work_for_each_operation(name: str, target: str) -> None:
    units = {"MAC array": TimedUnit.MAC, "output unit": TimedUnit.OUTPUT}
    for job in timed(name, target).jobs:
        events, count = job.trace.events, len(job.trace.kinds)
        assert events is not None
        times = unit_times(job.trace, np.arange(count))
        for position, (title, unit) in enumerate(units.items()):
            assert times[0][position].unit == title
            elapsed = np.cumsum([times[operation][position].elapsed for operation in range(count)])
            for operation in range(count - 1):
                ends = events.end[(events.operation == operation) & (events.unit == unit)]
                if ends.size:
                    assert abs(int(elapsed[operation]) - int(ends.max())) <= 4, (title, operation)  # rounded parts
            assert elapsed[-1] == job.trace.totals.npu_active_cycles


def test_time_of_a_unit_counts_for_the_operator_that_it_worked_for() -> None:
    (job,) = timed("wide_convolution", TARGETS[0]).jobs
    whole = unit_times(job.trace, np.zeros(len(job.trace.table), np.int64))[0]
    assert {item.unit for item in whole} == {"MAC array", "output unit", "weight decoder"}
    assert all(isinstance(item, UnitTime) and item.elapsed == job.trace.totals.npu_active_cycles for item in whole)
