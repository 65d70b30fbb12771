"""The whole inference on one row of time: written-out cycles of jobs, CPU operators and what lies between them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npu.isa.operations import Block, Stop
from sim.arena import arena_use
from sim.perfetto import CPU_TRACK, OPERATION_TRACK, inference_trace
from sim.pmu import pmu_report, unit_times
from sim.timeline import COPY_IN, COPY_OUT, Copy, CpuTask, TimedJob, build_timeline
from sim.timing import schedule

from tests.support.timing import convolution, copy_operation, feature_map, round_variant, transfer

BLOCK = Block(4, 4, 16)


def board(**cpu):  # type: ignore[no-untyped-def]
    """A machine of 1 MHz with a CPU of 2 MHz: two CPU cycles are one of the timeline."""
    variant = round_variant()
    values = {
        "clock_hz": 2_000_000,
        "job_start_cycles": 100,
        "interrupt_cycles": 40,
        "copy_cycles_per_byte": 0.5,
        "cache_line_bytes": 32,
        "cache_cycles_per_line": 4.0,
    }
    return replace(variant, cpu=replace(variant.cpu, **(values | cpu)))


def job(variant, **fields):  # type: ignore[no-untyped-def]
    stream = [convolution(4, 4, 16, 32, BLOCK), convolution(4, 4, 16, 32, BLOCK, blockdep=0), Stop()]
    return TimedJob(schedule(stream, variant, stream_words=0, with_events=True), (0, 2, -1), **fields)


def test_segments_follow_each_other_with_the_work_around_a_job() -> None:
    variant = board()
    tasks = [Copy(COPY_IN, 400), job(variant, input_bytes=65, output_bytes=32), CpuTask(3, 50), Copy(COPY_OUT, 8)]
    timeline = build_timeline(tasks, variant)
    shown = [(segment.device, segment.operator, segment.cycles) for segment in timeline.segments if segment.cycles]
    # 65 bytes are three lines of 4 cycles, 12 CPU cycles, 6 of the timeline.
    assert shown == [
        ("cpu", COPY_IN, 100),
        ("cpu", -3, 6),
        ("cpu", -1, 50),
        ("npu", 0, 384),
        ("npu", 2, 384),
        ("cpu", -2, 20),
        ("cpu", -4, 2),
        ("cpu", 3, 25),
        ("cpu", COPY_OUT, 2),
    ]
    assert timeline.overheads() == {
        "copy in": 100, "cache clean": 6, "job start": 50, "interrupt": 20, "cache invalidate": 2, "copy out": 2,
    }  # fmt: skip
    assert timeline.total_cycles == timeline.cycles_of("npu") + timeline.cycles_of("cpu") == 973


def test_a_core_without_a_cache_needs_no_maintenance() -> None:
    variant = board(cache_line_bytes=0)
    timeline = build_timeline([job(variant, input_bytes=1000)], variant)
    assert set(timeline.overheads()) == {"job start", "interrupt"}


def test_units_are_active_stalled_or_idle_at_any_time() -> None:
    trace = job(board()).trace
    times = unit_times(trace, np.zeros(len(trace.table), np.int64))[0]
    for unit in times:
        assert unit.elapsed == trace.totals.npu_active_cycles == 768
        assert min(unit.active, unit.stalled, unit.idle) >= 0
    # Each convolution fetches for 64 cycles, multiplies for 64 and writes for 256; nothing overlaps.
    array, output, _ = times
    assert (array.active, array.stalled, array.idle) == (128, 128, 512)
    assert (output.active, output.stalled) == (512, 256)


def test_counters_of_operators_add_up_to_the_totals() -> None:
    variant = board()
    task = job(variant)
    report = pmu_report([task])
    assert report["events"]["MAC_ACTIVE"] == {"driver_id": 6, "code": 0x30}
    assert set(report["operators"]) == {"0", "2"}
    for name in ("MAC_ACTIVE", "AO_ACTIVE", "NPU_ACTIVE", "AXI0_RD_DATA_BEAT_RECEIVED", "MAC_STALLED_BY_IB"):
        assert sum(item[name] for item in report["operators"].values()) == report["total"][name], name


def test_the_arena_is_in_use_from_a_write_to_the_last_read() -> None:
    first, second = feature_map(4, 4, 16), replace(feature_map(4, 4, 16), addresses=(256, 0, 0, 0))
    third = replace(second, addresses=(512, 0, 0, 0))
    stream = [
        copy_operation(4, 4, 16, BLOCK, ifm=first, ofm=second),
        copy_operation(4, 4, 16, BLOCK, ifm=second, ofm=third),
        transfer(256, source=0, destination=1),
        Stop(),
    ]
    assert arena_use(stream, 2).tolist() == [0, 0, 0, 0]
    # The transfer leaves 256 bytes at 0; before it wrote them they are in use only by the first operation.
    assert arena_use(stream).tolist() == [512, 512, 512, 512]


def test_the_trace_names_operators_and_keeps_the_order_of_time() -> None:
    variant = board()
    tasks = [Copy(COPY_IN, 400), job(variant), CpuTask(3, 50), job(variant)]
    jobs = [task for task in tasks if isinstance(task, TimedJob)]
    timeline = build_timeline(tasks, variant)
    names = {0: "0 CONV_2D a", 2: "2 CONV_2D b", 3: "3 CUSTOM c"}
    trace = inference_trace(timeline, jobs, names, {"arena in use": [np.full(3, 96, np.int64)] * 2})
    slices = [entry for entry in trace["traceEvents"] if entry["ph"] == "X"]
    assert [entry["name"] for entry in slices if entry["tid"] == OPERATION_TRACK] == [names[0], names[2]] * 2
    on_cpu = [entry["name"] for entry in slices if entry["tid"] == CPU_TRACK]
    assert on_cpu == ["copy in", "job start", "interrupt", names[3], "job start", "interrupt"]
    ends = [entry["ts"] + entry["dur"] for entry in slices]
    assert max(ends) == pytest.approx(timeline.total_cycles)
    assert {entry["args"]["bytes"] for entry in trace["traceEvents"] if entry["name"] == "arena in use"} == {0, 96}
    tracks: dict[int, float] = {}
    for entry in sorted(slices, key=lambda item: item["ts"]):
        assert entry["ts"] >= tracks.get(entry["tid"], 0.0) - 1e-9
        tracks[entry["tid"]] = entry["ts"] + entry["dur"]
