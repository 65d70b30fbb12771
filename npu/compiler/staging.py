"""When the constants of a job are copied ahead of it: the only place that decides the order of transfers and kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from npu.compiler.allocate import LiveRange, Packer
from npu.compiler.jobs import Job
from npu.compiler.pace import COMMAND_BYTES
from npu.compiler.slicing import plane_blocks
from npu.compiler.weights import WeightSlice
from npu.machine.port_rates import PortRate
from npu.records import dataclass

_KEEP_FOR = 24
"""A staged slice that is used again within this many jobs stays where it is."""

_QUEUED_KERNELS = 2
"""Kernels ahead of a transfer that may not have ended, or not have started, when it is issued."""

_READING_SHARE = 0.5
"""Part of its cycles in which a kernel that reads constants in place keeps their port from copies."""

_ALIKE = 1.0625
"""Times its bytes that the largest slice of a step has at most to be one of as many channels."""

_COPY_MARGIN = 1.125
"""Time that a copy ahead is given, as a multiple of its own: those before it and the kernels meanwhile are only estimated."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """A staged slice: copied to `offset` before event `issue`, used from event `use` to `last`."""

    constants: WeightSlice
    offset: int
    issue: int
    use: int
    last: int


@dataclass(frozen=True, slots=True)
class StagingLimits:
    """Below how many bytes copies lie that are made as early as possible, and those that are due."""

    early: int
    late: int


@dataclass(frozen=True, slots=True)
class TransferPlan:
    """Transfers of one partition in order of issue, and when its last kernel ends by the estimate."""

    transfers: tuple[Transfer, ...] = ()
    cycles: float = 0.0


class _ConstantsPort:
    """What passes the port of the constants, by the estimate: copies, behind what a running kernel reads in place.

    `engine_free` is when the last copy has passed it, `ends` when each is there, `ready[event]` when that of a job is; `owed`
    are cycles of reading of the kernel that runs.
    """

    def __init__(self, port: PortRate) -> None:
        self.engine_free, self.ends, self.ready, self.owed = 0.0, [0.0] * port.copies, dict[int, float](), 0.0

    def copy(self, use: int, cycles: tuple[float, float], begin: float, start: float, end: float) -> None:
        """A copy for job `use`, not before `begin`; a kernel runs from `start` to `end`."""
        begin, (read, there) = max(self.engine_free, begin), cycles
        if self.owed and begin < end:
            begin += self.owed * (end - begin) / (end - start)
            self.owed = 0.0
        self.engine_free, self.ready[use] = begin + read, begin + there
        self.ends.append(begin + there)

    def shared(self, start: float) -> float:
        """Cycles for which copies that are under way keep the port from a kernel that starts then."""
        return min(self.owed, max(self.engine_free - start, 0.0))


class TransferPlanner:
    """Plans the transfers of one partition's staged slices. `jobs[i]` is event `start + i`.

    A transfer is issued as soon as the DMA engine is idle by the estimate, or has one place left if the next job needs it, and
    its buffer fits below the early limit; where it can only be issued late it may lie anywhere below the other, and with
    `is_ahead` also as early as it takes that no kernel waits. More would keep kernels: commands behind a transfer that the
    engine does not take wait. A slice that fits nowhere is not copied: its jobs read it in place. A buffer is taken one job
    before the issue, so that the kernel which may still run then is not waited for. Where the first kernel reads constants in
    place, these come before all copies: nothing runs that it could wait for meanwhile.
    """

    def __init__(self, jobs: Sequence[Job], start: int, port: PortRate) -> None:
        self._jobs, self._start, self._port = jobs, start, port
        self._uses = _uses(jobs)
        self._slots = _slots(jobs, self._uses)
        self._copy_cycles = [port.copy_cycles(use[0].bytes + COMMAND_BYTES) for use in self._uses]
        self._clock = list(accumulate((job.cycles for job in jobs), initial=0.0))

    def plan(self, packer: Packer, limits: StagingLimits, *, is_ahead: bool = False) -> TransferPlan:
        """The transfers, with buffers among those of the packer."""
        uses, jobs, start = self._uses, self._jobs, self._start
        rate, copies = self._port.read, self._port.copies
        if not uses:
            return TransferPlan((), self._clock[-1])
        latest = _latest_starts(uses, self._clock, self._port) if is_ahead else [math.inf] * len(uses)
        transfers: list[Transfer] = []
        kernel_free = previous_start = 0.0
        pending, end, left, traffic = 0, len(uses), set[tuple[tuple[int, int], ...]](), _ConstantsPort(self._port)
        for event, job in enumerate(jobs):
            while pending < end:
                constants, use, last = uses[pending]
                is_due = use == event
                taken_until = traffic.ends[-copies if use <= event + 1 else -1]
                if not is_due and (taken_until > kernel_free or (event == 0 and _reads_in_place(job))):
                    break
                is_needed = is_due or (latest[pending] <= self._clock[event + 1] and not _is_port_taken(jobs, event, rate))
                sizes = (limits.early, limits.late) if is_needed else (limits.early,)
                offset, begin = _place(packer, self._slots[pending], start + event, start + last, sizes), previous_start
                if offset is None and is_needed:
                    offset = packer.place(LiveRange(constants.bytes, start + event, start + last), limits.late)
                    begin = kernel_free
                if offset is None and not is_due:
                    break
                if offset is None:
                    left.add(constants.pieces)
                else:
                    left.discard(constants.pieces)
                    traffic.copy(use, self._copy_cycles[pending], begin, previous_start, kernel_free)
                    transfers.append(Transfer(constants, offset, start + event, start + use, start + last))
                pending += 1
            previous_start = max(kernel_free, traffic.ready.get(event, 0.0))
            is_left = left and job.constants is not None and job.constants.pieces in left
            cycles = _cycles_in_place(job, self._port.weights) if is_left else job.cycles
            traffic.owed = _read_bytes(job) / rate if is_left or _reads_in_place(job) else 0.0
            kernel_free = previous_start + max(cycles, traffic.owed + traffic.shared(previous_start))
        return TransferPlan(tuple(transfers), kernel_free)


def _cycles_in_place(job: Job, rate: float) -> float:
    """Cycles of a job that reads constants in place that were to be copied."""
    return max(job.cycles, job.cycles_if_left, _read_bytes(job) / rate)


def _read_bytes(job: Job) -> int:
    """What a job reads of constants in place: all again for every block of the plane."""
    assert job.constants is not None
    return job.constants.bytes * plane_blocks(job.step.ofm.shape, job.choice)


def _reads_in_place(job: Job) -> bool:
    return job.constants is not None and not job.is_staged


def _is_port_taken(jobs: Sequence[Job], event: int, rate: float) -> bool:
    """Whether the job before which a copy would be issued, or one that may still run then, reads constants in place."""
    return any(
        job.constants is not None and not job.is_staged and job.constants.bytes > _READING_SHARE * job.cycles * rate
        for job in jobs[max(event - _QUEUED_KERNELS, 0) : event + 1]
    )


def _latest_starts(uses: Sequence[tuple[WeightSlice, int, int]], clock: Sequence[float], port: PortRate) -> list[float]:
    """When each copy must begin so that no kernel waits for it or for one behind it; `clock[i]` is when job i would start."""
    starts, following = [], math.inf
    for constants, use, _ in reversed(uses):
        copied = _COPY_MARGIN * (constants.bytes + COMMAND_BYTES) / port.copy + port.read_latency
        following = min(following, clock[use]) - copied
        starts.append(following)
    return starts[::-1]


def _place(packer: Packer, slot: tuple[int, int], issue: int, last: int, limits: Sequence[int]) -> int | None:
    """Offset of a buffer that is live from one event before `issue`, below the first of the limits that allows one."""
    for size in dict.fromkeys(slot):
        for limit in limits:
            offset = packer.place(LiveRange(size, max(issue - 1, 0), last), limit)
            if offset is not None:
                return offset
    return None


def _slots(jobs: Sequence[Job], uses: Sequence[tuple[WeightSlice, int, int]]) -> list[tuple[int, int]]:
    """Bytes of a buffer for each use, so that another slice of the step can follow it there, and what it takes alone.

    Slices of as many channels are encoded to about as many bytes: in the place of one that is a little smaller the next one
    would find no room, and wait for the kernel before it.
    """
    largest: dict[int, int] = {}
    for constants, first, _ in uses:
        step = id(jobs[first].step)
        largest[step] = max(largest.get(step, 0), constants.bytes)
    slots = []
    for constants, first, _ in uses:
        most = largest[id(jobs[first].step)]
        slots.append((most if most <= constants.bytes * _ALIKE else constants.bytes, constants.bytes))
    return slots


def _uses(jobs: Sequence[Job]) -> list[tuple[WeightSlice, int, int]]:
    """Slice, first and last job of every stay of a staged slice, by first job."""
    stays: list[list[int]] = []
    slices: list[WeightSlice] = []
    latest: dict[tuple[tuple[int, int], ...], int] = {}
    for index, job in enumerate(jobs):
        if job.constants is None or not job.is_staged:
            continue
        stay = latest.get(job.constants.pieces)
        if stay is not None and index - stays[stay][1] <= _KEEP_FOR:
            stays[stay][1] = index
            continue
        latest[job.constants.pieces] = len(stays)
        stays.append([index, index])
        slices.append(job.constants)
    return [(constants, first, last) for constants, (first, last) in zip(slices, stays, strict=True)]
