"""NPU jobs and CPU operators on one timeline: who keeps the machine busy, and for how long.

The NPU and the CPU take turns, as in the usual single-threaded runtime: a job starts when the operator before it has ended.
Times are cycles of the NPU clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from npu.hardware.variant import Port, Variant
from sim.trace import Column, Trace

JOB_START = -1
"""Operator number of the time that the CPU needs to start a job and to take its interrupt."""


@dataclass(frozen=True, slots=True)
class Job:
    """One `ethos-u` operator: its trace, and for each operation of its stream the operator that it works for.

    Operations of no operator (the end of the stream) are counted for the last operator before them.
    """

    trace: Trace
    operator_of: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CpuTask:
    """One operator on the CPU, in cycles of the CPU's clock."""

    operator: int
    cycles: int


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of the timeline that belongs to one operator, [start, end)."""

    device: str
    operator: int
    start: int
    end: int

    @property
    def cycles(self) -> int:
        return self.end - self.start


@dataclass(slots=True)
class OperatorTime:
    """What one operator took: cycles of the timeline, and bytes read and written per memory name."""

    cycles: int = 0
    bound_by: str | None = None
    read_bytes: dict[str, int] = field(default_factory=dict)
    write_bytes: dict[str, int] = field(default_factory=dict)
    _longest: int = -1

    def add(self, cycles: int, bound_by: str) -> None:
        """Count `cycles` more; the operator is bound by what its longest part is bound by."""
        self.cycles += cycles
        if cycles > self._longest:
            self._longest, self.bound_by = cycles, bound_by


@dataclass(frozen=True, slots=True)
class Timeline:
    """The whole inference: segments in order of time, and the sums per operator."""

    segments: tuple[Segment, ...]
    operators: Mapping[int, OperatorTime]

    @property
    def total_cycles(self) -> int:
        return self.segments[-1].end if self.segments else 0

    def cycles_of(self, device: str) -> int:
        """Cycles that `device` ("npu" or "cpu") was at work."""
        return sum(segment.cycles for segment in self.segments if segment.device == device)


def build_timeline(tasks: Sequence[Job | CpuTask], variant: Variant) -> Timeline:
    """Lay `tasks` end to end. The time of overlapping operations of a job goes to the one that ends first."""
    ratio = variant.system.clock_hz / variant.cpu.clock_hz
    segments: list[Segment] = []
    operators: dict[int, OperatorTime] = {}
    now = 0
    for task in tasks:
        if isinstance(task, CpuTask):
            now = _append(segments, "cpu", task.operator, now, round(task.cycles * ratio))
            operators.setdefault(task.operator, OperatorTime()).add(segments[-1].cycles, "CPU")
            continue
        now = _append(segments, "cpu", JOB_START, now, round(variant.cpu.job_start_cycles * ratio))
        for operator, cycles, bound_by in _shares(task):
            now = _append(segments, "npu", operator, now, cycles)
            operators.setdefault(operator, OperatorTime()).add(cycles, bound_by)
        _add_bytes(operators, task, variant)
    return Timeline(tuple(segments), operators)


def _append(segments: list[Segment], device: str, operator: int, start: int, cycles: int) -> int:
    segments.append(Segment(device, operator, start, start + cycles))
    return start + cycles


def _shares(job: Job) -> list[tuple[int, int, str]]:
    """(operator, cycles, bound) in stream order; the cycles sum to the job's active time."""
    ends = job.trace.column(Column.END).tolist()
    shares: list[tuple[int, int, str]] = []
    reached, operator = 0, 0
    last = len(ends) - 1
    for index, end in enumerate(ends):
        if job.operator_of[index] >= 0:
            operator = job.operator_of[index]
        if index == last:
            end = max(end, job.trace.totals.npu_active_cycles)
        shares.append((operator, max(0, end - reached), job.trace.bounds[index].value))
        reached = max(reached, end)
    return shares


def _add_bytes(operators: dict[int, OperatorTime], job: Job, variant: Variant) -> None:
    columns = (
        (Port.AXI0, Column.AXI0_READ_BYTES, Column.AXI0_WRITE_BYTES),
        (Port.AXI1, Column.AXI1_READ_BYTES, Column.AXI1_WRITE_BYTES),
    )
    for port, read_column, write_column in columns:
        memory = variant.system.memories[port].name
        reads = job.trace.column(read_column).tolist()
        writes = job.trace.column(write_column).tolist()
        operator = 0
        for index, (read, write) in enumerate(zip(reads, writes, strict=True)):
            operator = job.operator_of[index] if job.operator_of[index] >= 0 else operator
            if read or write:
                time = operators.setdefault(operator, OperatorTime())
                time.read_bytes[memory] = time.read_bytes.get(memory, 0) + read
                time.write_bytes[memory] = time.write_bytes.get(memory, 0) + write
