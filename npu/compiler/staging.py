"""When the constants of a job are copied ahead of it: the only place that decides the order of transfers and kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npu.compiler.allocate import round_up
from npu.compiler.schedule import Job
from npu.compiler.weights import WeightSlice
from npu.hardware.variant import Variant

_KEEP_FOR = 24
"""A staged slice that is used again within this many jobs stays where it is."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """A staged slice: copied before event `issue`, used from event `use` to `last`; its buffer is live from `live`."""

    constants: WeightSlice
    issue: int
    live: int
    use: int
    last: int


def plan_transfers(
    jobs: Sequence[Job], start: int, live: Sequence[int], limit: int, variant: Variant
) -> list[Transfer]:
    """Transfers of one partition's staged slices in order of issue. `jobs[i]` is event `start + i`.

    `live[i]` are the bytes that other buffers take at job i in the memory that slices are copied to. A transfer is issued as
    early as the DMA engine is idle by the estimate, and as the sum of live bytes stays within `limit`; where even a late
    transfer exceeds it, the limit is exceeded. Its buffer is taken one job before the issue, so that the kernel which may
    still run then does not have to be waited for.
    """
    uses = _uses(jobs)
    used = list(live)
    limit = max(limit, _least_peak(uses, used))
    rate, latency = _copy_speed(variant)
    transfers: list[Transfer] = []
    kernel_free = engine_free = previous_start = 0.0
    pending = 0
    for event, job in enumerate(jobs):
        ready = 0.0
        while pending < len(uses):
            constants, use, last = uses[pending]
            size = round_up(constants.bytes)
            first = max(event - 1, 0)
            fits = all(used[i] + size <= limit for i in range(first, last + 1))
            if use != event and (engine_free > kernel_free or not fits):
                break
            for i in range(first, last + 1):
                used[i] += size
            engine_free = max(engine_free, previous_start) + constants.bytes / rate + latency
            transfers.append(Transfer(constants, start + event, start + first, start + use, start + last))
            pending += 1
        if job.is_staged:
            ready = engine_free if pending and uses[pending - 1][1] <= event else 0.0
        previous_start = max(kernel_free, ready)
        kernel_free = previous_start + job.cycles
    return transfers


def _uses(jobs: Sequence[Job]) -> list[tuple[WeightSlice, int, int]]:
    """Slice, first and last job of every stay of a staged slice, by first job."""
    stays: list[list[int]] = []
    slices: list[WeightSlice] = []
    latest: dict[int, int] = {}
    for index, job in enumerate(jobs):
        if job.constants is None or not job.is_staged:
            continue
        stay = latest.get(job.constants.offset)
        if stay is not None and index - stays[stay][1] <= _KEEP_FOR:
            stays[stay][1] = index
            continue
        latest[job.constants.offset] = len(stays)
        stays.append([index, index])
        slices.append(job.constants)
    return [(constants, first, last) for constants, (first, last) in zip(slices, stays, strict=True)]


def _least_peak(uses: Sequence[tuple[WeightSlice, int, int]], live: Sequence[int]) -> int:
    """Peak when every slice is copied as late as possible, one job ahead."""
    used = list(live)
    for constants, first, last in uses:
        for index in range(max(first - 1, 0), last + 1):
            used[index] += round_up(constants.bytes)
    return max(used, default=0)


def _copy_speed(variant: Variant) -> tuple[float, float]:
    """Bytes per cycle and latency in cycles of a copy from the constants' memory."""
    memory = variant.system.memories[variant.memory_mode.constants]
    return variant.accelerator.axi_data_bytes * memory.clock_scale, float(memory.read_latency_cycles)
