"""NPU jobs and CPU operators on one timeline: who keeps the machine busy, and for how long.

The NPU and the CPU take turns, as in the usual single-threaded runtime: a job starts when the operator before it has ended.
Around a job the CPU cleans the cache lines of its inputs, starts it, takes its interrupt and invalidates the cache lines of
its outputs. Times are cycles of the NPU clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from npu.hardware.variant import Cpu, Variant
from npu.records import dataclass
from npu.tabular import Record, Tabular
from sim.overlap import find_spans
from sim.trace import PORT_BYTES, Trace, TraceColumn

JOB_START, INTERRUPT, CACHE_CLEAN, CACHE_INVALIDATE, COPY_IN, COPY_OUT = range(-1, -7, -1)
"""Operator numbers of the time that the CPU spends around operators."""

OVERHEAD_NAMES: Mapping[int, str] = {
    JOB_START: "job start",
    INTERRUPT: "interrupt",
    CACHE_CLEAN: "cache clean",
    CACHE_INVALIDATE: "cache invalidate",
    COPY_IN: "copy in",
    COPY_OUT: "copy out",
}


@dataclass(frozen=True, slots=True)
class TimedJob:
    """One `ethos-u` operator: its trace, and for each operation of its stream the operator that it works for.

    Operations of no operator (the end of the stream) are counted for the last operator before them. `input_bytes` and
    `output_bytes` are the maps that the job exchanges with the CPU.
    """

    trace: Trace
    operator_of: tuple[int, ...]
    input_bytes: int = 0
    output_bytes: int = 0


@dataclass(frozen=True, slots=True)
class CpuTask:
    """One operator on the CPU, in cycles of the CPU's clock."""

    operator: int
    cycles: int


@dataclass(frozen=True, slots=True)
class Called:
    """What all executions of the subgraphs take that an operator on the CPU executes, in cycles of the NPU's clock."""

    operator: int
    npu_cycles: int
    cpu_cycles: int


@dataclass(frozen=True, slots=True)
class Copy:
    """The application's copy of the model's inputs or outputs; `direction` is COPY_IN or COPY_OUT."""

    direction: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of the timeline that belongs to one operator, [start, end).

    `operator` is negative for what the CPU does around operators (`OVERHEAD_NAMES`); `job` is the number of the NPU job that
    the segment belongs to, -1 if none.
    """

    device: str
    operator: int
    start: int
    end: int
    job: int = -1

    @property
    def cycles(self) -> int:
        return self.end - self.start


@dataclass(slots=True)
class OperatorTime:
    """What one operator took: cycles of the timeline, and bytes read and written per memory name.

    `span_cycles` is how long it is at work itself, overlapped or not; `hidden_behind` the operator that nearly all of that
    counts for.
    """

    cycles: int = 0
    bound_by: str | None = None
    span_cycles: int = 0
    hidden_behind: int | None = None
    read_bytes: dict[str, int] = field(default_factory=dict)
    write_bytes: dict[str, int] = field(default_factory=dict)
    _longest: int = -1

    def add(self, cycles: int, bound_by: str) -> None:
        """Count `cycles` more; the operator is bound by what its longest part is bound by."""
        self.cycles += cycles
        if cycles > self._longest:
            self._longest, self.bound_by = cycles, bound_by


@dataclass(frozen=True, slots=True)
class Timeline(Tabular):
    """The whole inference: segments in order of time, and the sums per operator."""

    segments: tuple[Segment, ...]
    operators: Mapping[int, OperatorTime]
    clock_hz: int = 1

    def records(self) -> list[Record]:
        """One row for each stretch of time; what the CPU does around operators has a name of its own and no operator."""
        return [
            {
                "device": segment.device,
                "operator": segment.operator if segment.operator >= 0 else None,
                "what": OVERHEAD_NAMES.get(segment.operator, "operator"),
                "job": segment.job if segment.job >= 0 else None,
                "start": segment.start,
                "end": segment.end,
                "cycles": segment.cycles,
            }
            for segment in self.segments
        ]

    def headline(self) -> str:
        """How long the inference takes."""
        return f"{self.total_cycles:,} cycles, {1e3 * self.total_cycles / self.clock_hz:.3g} ms"

    @property
    def total_cycles(self) -> int:
        return self.segments[-1].end if self.segments else 0

    def cycles_of(self, device: str) -> int:
        """Cycles that `device` ("npu" or "cpu") was at work."""
        return sum(segment.cycles for segment in self.segments if segment.device == device)

    def overheads(self) -> dict[str, int]:
        """Cycles of each kind of work around operators, by the names of `OVERHEAD_NAMES`; kinds that took none are left out."""
        sums: dict[str, int] = {}
        for segment in self.segments:
            if segment.operator < 0 and segment.cycles:
                name = OVERHEAD_NAMES[segment.operator]
                sums[name] = sums.get(name, 0) + segment.cycles
        return sums


def build_timeline(tasks: Sequence[TimedJob | CpuTask | Called | Copy], variant: Variant) -> Timeline:
    """Lay `tasks` end to end. The time of overlapping operations of a job goes to the one that ends first."""
    ratio = variant.system.clock_hz / variant.cpu.clock_hz
    row = _TimelineRow(variant)
    operators: dict[int, OperatorTime] = {}
    jobs = 0
    for task in tasks:
        if isinstance(task, Copy):
            row.append("cpu", task.direction, copy_overhead(task.bytes, variant))
        elif isinstance(task, CpuTask):
            cycles = round(task.cycles * ratio)
            row.append("cpu", task.operator, cycles)
            time = operators.setdefault(task.operator, OperatorTime())
            time.add(cycles, "CPU")
            time.span_cycles += cycles
        elif isinstance(task, Called):
            for device, cycles in (("cpu", task.cpu_cycles), ("npu", task.npu_cycles)):
                row.append(device, task.operator, cycles)
            time = operators.setdefault(task.operator, OperatorTime())
            time.add(task.npu_cycles + task.cpu_cycles, "subgraph")
            time.span_cycles += task.npu_cycles + task.cpu_cycles
        else:
            _add_job(row, operators, task, jobs)
            _add_bytes(operators, task, variant)
            jobs += 1
    return Timeline(tuple(row.segments), operators, variant.system.clock_hz)


@dataclass(slots=True)
class _TimelineRow:
    """Segments under construction, one behind the other."""

    variant: Variant
    segments: list[Segment] = field(default_factory=list)

    def append(self, device: str, operator: int, cycles: int, job: int = -1) -> None:
        start = self.segments[-1].end if self.segments else 0
        self.segments.append(Segment(device, operator, start, start + cycles, job))


def _add_job(row: _TimelineRow, operators: dict[int, OperatorTime], job: TimedJob, number: int) -> None:
    around = job_overhead(job.input_bytes, job.output_bytes, row.variant)
    for part in (CACHE_CLEAN, JOB_START):
        row.append("cpu", part, around[part], number)
    for operator, cycles, bound_by in _shares(job):
        if cycles:
            row.append("npu", operator, cycles, number)
        operators.setdefault(operator, OperatorTime()).add(cycles, bound_by)
    for operator, span in find_spans(job.trace, owners_of(job)).items():
        operators[operator].span_cycles += span.cycles
        operators[operator].hidden_behind = span.behind
    for part in (INTERRUPT, CACHE_INVALIDATE):
        row.append("cpu", part, around[part], number)


def job_overhead(input_bytes: int, output_bytes: int, variant: Variant) -> dict[int, int]:
    cpu, ratio = variant.cpu, variant.system.clock_hz / variant.cpu.clock_hz
    cycles = {
        CACHE_CLEAN: _cache_cycles(input_bytes, cpu),
        JOB_START: cpu.job_start_cycles,
        INTERRUPT: cpu.interrupt_cycles,
        CACHE_INVALIDATE: _cache_cycles(output_bytes, cpu),
    }
    return {part: round(count * ratio) for part, count in cycles.items()}


def copy_overhead(size: int, variant: Variant) -> int:
    """Cycles of the application's copy of `size` bytes of inputs or outputs."""
    return round(size * variant.cpu.copy_cycles_per_byte * (variant.system.clock_hz / variant.cpu.clock_hz))


def _cache_cycles(size: int, cpu: Cpu) -> float:
    """CPU cycles of cleaning or invalidating `size` bytes; none on a core without a data cache."""
    return -(-size // cpu.cache_line_bytes) * cpu.cache_cycles_per_line if cpu.cache_line_bytes else 0.0


def _shares(job: TimedJob) -> list[tuple[int, int, str]]:
    """(operator, cycles, bound) in stream order; the cycles sum to the job's active time."""
    ends = job.trace.column(TraceColumn.END).tolist()
    if ends:
        ends[-1] = max(ends[-1], job.trace.totals.npu_active_cycles)
    shares: list[tuple[int, int, str]] = []
    reached = 0
    for operator, end, bound in zip(owners_of(job).tolist(), ends, job.trace.bounds, strict=True):
        shares.append((operator, max(0, end - reached), bound.value))
        reached = max(reached, end)
    return shares


def cycles_of_job(job: TimedJob) -> dict[int, int]:
    """Cycles of each operator within one job; they sum to the job's active time."""
    cycles: dict[int, int] = {}
    for operator, share, _ in _shares(job):
        cycles[operator] = cycles.get(operator, 0) + share
    return cycles


def _add_bytes(operators: dict[int, OperatorTime], job: TimedJob, variant: Variant) -> None:
    owners = owners_of(job)
    for port, behind in variant.system.memories.items():
        memory = behind.name
        sums = np.zeros((int(owners.max(initial=0)) + 1, 2), np.int64)
        np.add.at(sums, owners, job.trace.table[:, list(PORT_BYTES[port])])
        for operator in np.flatnonzero(sums.any(axis=1)).tolist():
            time = operators.setdefault(operator, OperatorTime())
            read, written = sums[operator].tolist()
            time.read_bytes[memory] = time.read_bytes.get(memory, 0) + read
            time.write_bytes[memory] = time.write_bytes.get(memory, 0) + written


def owners_of(job: TimedJob) -> NDArray[np.int64]:
    """The operator of each operation, shape (operations,); operations of none count for the last operator before them."""
    owners, operator = [], 0
    for own in job.operator_of:
        operator = own if own >= 0 else operator
        owners.append(operator)
    return np.array(owners, np.int64)
