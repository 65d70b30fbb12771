"""Traces in the Chrome trace-event format, which Perfetto opens: JSON object with `traceEvents`, times in microseconds.

One track (thread) per unit and per memory port under one process; operations as complete events ("X"), bandwidth of each
port as counter events ("C"). NPU jobs follow one another on the same tracks, the CPU has its own; operators have the names of
the source model.

Start and end of a slice are rounded to whole nanoseconds, the resolution of the viewers, so that neighbours on a track touch
and never overlap. Numbers of tracks start at 1: Perfetto takes thread 0 for the idle task of its own process. A counter has
one value at a time and ends with 0, because viewers hold the last value to the end of the trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npu.hardware.variant import Port
from sim.bandwidth import command_port, port_rates
from sim.timeline import OVERHEAD_NAMES, Segment, TimedJob, Timeline
from sim.trace import PORT_BYTES, Cause, Events, TimedUnit, Trace, TraceColumn

PROCESS = 1000
"""No track has this number: Perfetto calls the thread that has its process's number the main thread."""
FIRST_UNIT_TRACK = 1
"""Track of `TimedUnit(0)`; those of the other units follow."""
OPERATION_TRACK = 100
CPU_TRACK = 101
COUNTER_WINDOWS = 500
"""Number of intervals into which the bandwidth counters divide the job."""

_UNIT_NAMES = {
    TimedUnit.PARSER: "command parser",
    TimedUnit.DMA: "DMA",
    TimedUnit.WEIGHT_DECODER: "weight decoder",
    TimedUnit.IFM_FETCH: "IFM fetch",
    TimedUnit.MAC: "MAC array",
    TimedUnit.OUTPUT: "output unit",
    TimedUnit.AXI0: "AXI0",
    TimedUnit.AXI1: "AXI1",
}


def inference_trace(
    timeline: Timeline, jobs: Sequence[TimedJob], names: Mapping[int, str], memory: Mapping[str, Sequence[NDArray[np.int64]]]
) -> dict[str, Any]:
    """A whole inference: `jobs` in the order of the timeline, made with events.

    `names` gives what to call the source operators, `memory` by the name of a counter for each job the bytes in use during
    each of its operations.
    """
    first = jobs[0].trace if jobs else None
    microseconds = 1e6 / timeline.clock_hz
    entries = _process("CPU") if first is None else _metadata(first)
    entries += _track(CPU_TRACK, "CPU", -2)
    entries += _segment_slices(timeline, names, microseconds)
    for number, job in enumerate(jobs):
        start = next((segment.start for segment in timeline.segments if segment.device == "npu" and segment.job == number), 0)
        named = tuple(names.get(operator, kind) for operator, kind in zip(job.operator_of, job.trace.kinds, strict=True))
        entries += _job_entries(
            job.trace, named, {memory_name: use[number] for memory_name, use in memory.items()}, microseconds, start
        )
    return {
        "traceEvents": entries,
        "displayTimeUnit": "ns",
        "otherData": {"variant": first.variant if first else "", "clock_hz": str(timeline.clock_hz)},
    }


def _job_entries(
    trace: Trace, names: tuple[str, ...], memory: Mapping[str, NDArray[np.int64]], scale: float, start: int
) -> list[dict[str, Any]]:
    """Everything of one job, `start` cycles after the beginning of the inference."""
    entries = _waits(trace, scale) + _port_slices(trace, scale, names)
    if trace.events is not None:
        entries += _unit_slices(trace.events, scale, names)
    entries += _bandwidth(trace, scale)
    begins = np.maximum.accumulate(trace.column(TraceColumn.START))
    for name, use in memory.items():
        # Of operations that start together the last one counts.
        used = dict(zip(begins.tolist(), use.tolist(), strict=True)) | {trace.totals.total_cycles: 0}
        entries += [_counter(name, cycle * scale, {"bytes": value}) for cycle, value in used.items()]
    moved = _nanoseconds(start * scale)
    return [entry | {"ts": (_nanoseconds(entry["ts"]) + moved) / 1000} for entry in entries]


def _segment_slices(timeline: Timeline, names: Mapping[int, str], scale: float) -> list[dict[str, Any]]:
    """Operators on the track of the CPU or of the NPU's operations; neighbours of one operator are one slice."""
    merged: list[Segment] = []
    for segment in timeline.segments:
        last = merged[-1] if merged else None
        if last is not None and (last.device, last.operator, last.job) == (segment.device, segment.operator, segment.job):
            merged[-1] = Segment(last.device, last.operator, last.start, segment.end, last.job)
        elif segment.cycles:
            merged.append(segment)
    entries = []
    for segment in merged:
        name = OVERHEAD_NAMES.get(segment.operator) or names.get(segment.operator, f"operator {segment.operator}")
        track = OPERATION_TRACK if segment.device == "npu" else CPU_TRACK
        arguments: dict[str, Any] = {"cycles": segment.cycles}
        if segment.operator >= 0:
            time = timeline.operators[segment.operator]
            arguments |= {"operator": segment.operator, "bound_by": time.bound_by}
        entries.append(_slice(name, track, segment.start * scale, segment.end * scale, arguments))
    return entries


def _track(number: int, name: str, order: int) -> list[dict[str, Any]]:
    return [
        {"ph": "M", "name": "thread_name", "pid": PROCESS, "tid": number, "args": {"name": name}},
        {"ph": "M", "name": "thread_sort_index", "pid": PROCESS, "tid": number, "args": {"sort_index": order}},
    ]


def _process(name: str) -> list[dict[str, Any]]:
    return [{"ph": "M", "name": "process_name", "pid": PROCESS, "tid": CPU_TRACK, "args": {"name": name}}]


def _metadata(trace: Trace) -> list[dict[str, Any]]:
    names = {OPERATION_TRACK: "operations"} | {unit_track(unit): name for unit, name in _UNIT_NAMES.items()}
    entries = _process(f"NPU {trace.variant}")
    for track, name in names.items():
        entries += _track(track, name, -1 if track == OPERATION_TRACK else track)
    return entries


def unit_track(unit: int) -> int:
    """Number of the track of a `TimedUnit`."""
    return FIRST_UNIT_TRACK + int(unit)


def _nanoseconds(microseconds: float) -> int:
    return round(microseconds * 1000)


def _slice(name: str, track: int, start: float, end: float, arguments: dict[str, Any]) -> dict[str, Any]:
    """A slice from `start` to `end`, microseconds; both are rounded to nanoseconds, the same time always to the same one."""
    begin, until = _nanoseconds(start), _nanoseconds(end)
    times = {"ts": begin / 1000, "dur": (until - begin) / 1000}
    return {"ph": "X", "name": name, "cat": "npu", "pid": PROCESS, "tid": track, **times, "args": arguments}


def _counter(name: str, time: float, values: Mapping[str, float]) -> dict[str, Any]:
    """The values of a counter from `time` on, microseconds. Counters belong to a process, not to a track."""
    return {"ph": "C", "name": name, "cat": "npu", "pid": PROCESS, "ts": _nanoseconds(time) / 1000, "args": dict(values)}


def _waits(trace: Trace, scale: float) -> list[dict[str, Any]]:
    """Waits on the parser's track."""
    times = zip(trace.kinds, trace.column(TraceColumn.START).tolist(), trace.column(TraceColumn.END).tolist(), strict=True)
    return [
        _slice(kind, unit_track(TimedUnit.PARSER), start * scale, end * scale, {"operation": index})
        for index, (kind, start, end) in enumerate(times)
        if kind in ("dma wait", "kernel wait") and end > start
    ]


def _port_slices(trace: Trace, scale: float, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """On each port's track the operations that used it, cut so that slices of one track do not overlap."""
    entries = []
    stream = command_port(trace)
    for unit, port in ((TimedUnit.AXI0, Port.AXI0), (TimedUnit.AXI1, Port.AXI1)):
        read_column, write_column = PORT_BYTES[port]
        reached = 0
        for name, row in zip(names, trace.table.tolist(), strict=True):
            commands = row[TraceColumn.COMMAND_BYTES] if port is stream else 0
            read, written = row[read_column] - commands, row[write_column]
            start, end = max(row[TraceColumn.START], reached), row[TraceColumn.END]
            if read + written <= 0 or end <= start:
                continue
            reached = end
            arguments = {"read_bytes": read, "written_bytes": written}
            entries.append(_slice(name, unit_track(unit), start * scale, end * scale, arguments))
    return entries


def _unit_slices(events: Events, scale: float, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Busy intervals of the units; an interval that starts before the last one of its unit has ended is cut."""
    order = np.lexsort((events.start, events.unit))
    columns = (events.operation, events.unit, events.start, events.end, events.bytes, events.cause)
    entries = []
    unit_before, reached = -1, 0
    for row in np.stack(columns, axis=1)[order].tolist():
        operation, unit, start, end, moved, cause = row
        if unit != unit_before:
            unit_before, reached = unit, 0
        start = max(start, reached)
        if end <= start:
            continue
        reached = end
        arguments = {"cause": Cause(cause).name.lower(), "bytes": moved}
        entries.append(_slice(names[operation], unit_track(unit), start * scale, end * scale, arguments))
    return entries


def _bandwidth(trace: Trace, scale: float) -> list[dict[str, Any]]:
    """Bytes per cycle of each port."""
    total = trace.totals.total_cycles
    if total <= 0:
        return []
    edges = np.linspace(0, total, min(COUNTER_WINDOWS, total) + 1)
    entries = []
    for port, (read, written) in port_rates(trace, edges).items():
        name = f"{port.name} bytes per cycle"
        for edge, *rates in zip(edges[:-1].tolist(), read.tolist(), written.tolist(), strict=True):
            values = {"read": round(rates[0], 3), "written": round(rates[1], 3)}
            entries.append(_counter(name, edge * scale, values))
        entries.append(_counter(name, total * scale, {"read": 0.0, "written": 0.0}))
    return entries
