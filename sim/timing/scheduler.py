"""`schedule`: a command stream in, a `Trace` out. Times depend on shapes, addresses and the variant, never on values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from npu.hardware.variant import Port, Variant
from npu.isa.decode import Decoded
from npu.isa.operations import Operation
from sim.timing.bounds import find_bounds
from sim.timing.counters import count_events
from sim.timing.kernels import engine as e
from sim.timing.kernels import expand as k
from sim.timing.kernels.rounding import round_cycles
from sim.timing.plan import Plan, Work, make_plan
from sim.timing.preparation import prepare, prepare_for
from sim.trace import Cause, Column, Events, TimedUnit, Totals, Trace

_MOMENTS = 3
_COLUMNS = np.array(
    [
        Column.ISSUED,
        Column.START,
        Column.END,
        Column.MAC_ACTIVE,
        Column.MAC_STALLED_BY_WEIGHTS,
        Column.MAC_STALLED_BY_IFM,
        Column.MAC_STALLED_BY_ACCUMULATOR,
        Column.OUTPUT_ACTIVE,
        Column.OUTPUT_STALLED_BY_MEMORY,
        Column.OUTPUT_STALLED_BY_INPUT,
        Column.DECODER_ACTIVE,
        Column.DECODER_STALLED_BY_MEMORY,
        Column.DECODER_STALLED_BY_MAC,
        Column.IFM_FETCH_ACTIVE,
        Column.DMA_ACTIVE,
        Column.BLOCKDEP_STALL,
        Column.PARSER_WAIT,
        Column.MAC_IDLE,
        Column.OUTPUT_IDLE,
        Column.DECODER_IDLE,
    ],
    np.int64,
)
"""Columns of the trace in the order of the engine's result: the moments, then durations."""


def schedule(
    operations: Sequence[Operation] | Sequence[Decoded], variant: Variant, *, stream_words: int, with_events: bool = False
) -> Trace:
    """The trace of a stream of `stream_words` command words on `variant`, from records or from what `decode` gives.

    `with_events` adds the busy intervals of the units, for a timeline. Raises SimulationError for a stream whose blocks
    are too many to follow.
    """
    plain = [item.operation if isinstance(item, Decoded) else item for item in operations]
    return run_plan(make_plan(plain, variant, stream_words=stream_words), variant, with_events=with_events)


def run_plan(plan: Plan, variant: Variant, *, with_events: bool = False) -> Trace:
    """The trace of a plan made for `variant`."""
    work = prepare_for(plan, variant)
    result = np.zeros((len(plan.operations), e.RESULT_COLUMNS), np.float64)
    times = np.zeros((len(plan.loads) if with_events else 0, e.TIME_COLUMNS), np.float64)
    tails = np.zeros(3, np.float64)
    finish = _run(plan, work, result, times, tails)
    cycles = round(finish)
    table = work.known.copy()
    round_cycles(result, _COLUMNS, _MOMENTS, table)
    return Trace(
        variant=variant.name,
        clock_hz=variant.system.clock_hz,
        kinds=plan.kinds,
        table=table,
        totals=_totals(work.sums, variant, cycles),
        events=_events(plan, result, times) if with_events else None,
        tails=(round(tails[0]), round(tails[1]), round(tails[2])),
        find_bounds=partial(find_bounds, plan.operations, table),
        count_events=partial(count_events, table, plan.kinds, variant, cycles),
    )


def finish_time(plan: Plan, ports: NDArray[np.float64], scalars: NDArray[np.float64]) -> float:
    """When everything has finished, on ports (2, PORT_SCALARS) and a machine (ENGINE_SCALARS,) that need not be a variant's."""
    outputs = np.zeros((len(plan.operations), e.RESULT_COLUMNS)), np.zeros((0, e.TIME_COLUMNS)), np.zeros(3)
    return _run(plan, prepare(plan, ports, scalars), *outputs)


def _run(plan: Plan, work: Work, result: NDArray[np.float64], times: NDArray[np.float64], tails: NDArray[np.float64]) -> float:
    """When everything has finished; fills the arrays (see the engine's `run`)."""
    return float(e.run(plan.operations, work.links, work.ends, work.costs, work.ports, work.scalars, result, times, tails))


def _totals(sums: Sequence[int], variant: Variant, cycles: int) -> Totals:
    beat = variant.accelerator.axi_data_bytes
    memories = variant.system.memories
    reads: dict[str, int] = {}
    writes: dict[str, int] = {}
    ports = {
        Port.AXI0: (Column.AXI0_READ_BYTES, Column.AXI0_WRITE_BYTES),
        Port.AXI1: (Column.AXI1_READ_BYTES, Column.AXI1_WRITE_BYTES),
    }
    for port, (read, write) in ports.items():
        if port in memories:
            name = memories[port].name
            reads[name] = reads.get(name, 0) + sums[read]
            writes[name] = writes.get(name, 0) + sums[write]
    return Totals(
        total_cycles=cycles,
        npu_active_cycles=cycles,
        axi0_read_beats=-(-sums[Column.AXI0_READ_BYTES] // beat),
        axi0_write_beats=-(-sums[Column.AXI0_WRITE_BYTES] // beat),
        axi1_read_beats=-(-sums[Column.AXI1_READ_BYTES] // beat),
        axi1_write_beats=-(-sums[Column.AXI1_WRITE_BYTES] // beat),
        macs=sums[Column.MACS],
        memory_read_bytes=reads,
        memory_write_bytes=writes,
    )


def _events(plan: Plan, result: NDArray[np.float64], times: NDArray[np.float64]) -> Events:
    """Busy intervals of every unit, from the times of the loads and of the transfers."""
    loads = plan.loads
    operation = loads[:, k.L_OPERATION]
    read = (loads[:, k.L_IFM_BEATS] + loads[:, k.L_IFM2_BEATS]) * plan.beat_bytes
    written = np.where(loads[:, k.L_LAST] == 1, loads[:, k.L_OFM_BEATS], 0) * plan.beat_bytes
    parts = [
        (operation, TimedUnit.IFM_FETCH, times[:, e.T_IFM_START], times[:, e.T_IFM_END], read, Cause.IFM),
        (operation, TimedUnit.WEIGHT_DECODER, times[:, e.T_STREAM_START], times[:, e.T_STREAM_END],
         loads[:, k.L_STREAM_BYTES], Cause.WEIGHTS),
        (operation, TimedUnit.MAC, times[:, e.T_MAC_START], times[:, e.T_MAC_END], np.zeros_like(read), Cause.KERNEL),
        (operation, TimedUnit.OUTPUT, times[:, e.T_OUTPUT_START], times[:, e.T_OUTPUT_END], written, Cause.OFM),
    ]  # fmt: skip
    transfers = np.flatnonzero(plan.operations[:, k.KIND] == k.DMA)
    moved = plan.operations[transfers, k.DMA_BYTES]
    parts.append((transfers, TimedUnit.DMA, result[transfers, e.R_START], result[transfers, e.R_END], moved, Cause.DMA_READ))
    return _join(parts)


def _join(
    parts: list[tuple[NDArray[np.int64], TimedUnit, NDArray[np.float64], NDArray[np.float64], NDArray[np.int64], Cause]],
) -> Events:
    starts = [np.rint(part[2]).astype(np.int64) for part in parts]
    ends = [np.rint(part[3]).astype(np.int64) for part in parts]
    keep = [end > start for start, end in zip(starts, ends, strict=True)]
    return Events(
        operation=np.concatenate([part[0][mask].astype(np.int64) for part, mask in zip(parts, keep, strict=True)]),
        unit=np.concatenate([np.full(int(mask.sum()), part[1], np.int64) for part, mask in zip(parts, keep, strict=True)]),
        start=np.concatenate([start[mask] for start, mask in zip(starts, keep, strict=True)]),
        end=np.concatenate([end[mask] for end, mask in zip(ends, keep, strict=True)]),
        bytes=np.concatenate([part[4][mask].astype(np.int64) for part, mask in zip(parts, keep, strict=True)]),
        cause=np.concatenate([np.full(int(mask.sum()), part[5], np.int64) for part, mask in zip(parts, keep, strict=True)]),
    )
