"""`schedule`: a command stream in, a `Trace` out. Times depend on shapes, addresses and the variant, never on values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from npu.hardware.variant import Variant
from npu.isa.decode import Decoded
from npu.isa.operations import Operation
from sim.timing.bounds import find_bounds
from sim.timing.counters import count_events
from sim.timing.kernels import expand as k
from sim.timing.kernels import rows as r
from sim.timing.kernels.engine import run
from sim.timing.plan import Plan, make_plan
from sim.timing.ports import port_scalars
from sim.timing.preparation import engine_scalars, prepare, prepare_for
from sim.trace import Bound, Cause, Column, Events, TimedUnit, Totals, Trace

_NO_TIMES = np.zeros((0, r.TIME_COLUMNS), np.float64)
_NO_COLUMNS = np.zeros(0, np.int64)
_NO_TABLE = np.zeros((0, len(Column)), np.int64)
_COLUMNS = np.array(
    [
        Column.ISSUED,
        Column.START,
        Column.END,
        Column.MAC_STALLED_BY_WEIGHTS,
        Column.MAC_STALLED_BY_IFM,
        Column.MAC_STALLED_BY_ACCUMULATOR,
        Column.OUTPUT_STALLED_BY_MEMORY,
        Column.OUTPUT_STALLED_BY_INPUT,
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
"""Columns of the trace in the order of the engine's result."""


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
    work, known = prepare_for(plan, variant)
    times = np.zeros((len(plan.loads), r.TIME_COLUMNS), np.float64) if with_events else _NO_TIMES
    table = work.known.copy()
    finish, mac_end, output_end, decoder_end = run(work.words, times, _COLUMNS, table)
    cycles = round(finish)
    return Trace(
        variant=variant.name,
        clock_hz=variant.system.clock_hz,
        beat_bytes=variant.accelerator.axi_data_bytes,
        kinds=plan.kinds,
        table=table,
        totals=_totals(known, cycles),
        events=_events(plan, table, times) if with_events else None,
        tails=(round(finish - mac_end), round(finish - output_end), round(finish - decoder_end)),
        find_bounds=partial(_bounds, plan, table, variant),
        count_events=partial(count_events, table, plan.kinds, variant, cycles),
    )


def _bounds(plan: Plan, table: NDArray[np.int64], variant: Variant) -> tuple[Bound, ...]:
    return find_bounds(plan, table, port_scalars(variant), engine_scalars(variant))


def finish_time(plan: Plan, ports: NDArray[np.float64], scalars: NDArray[np.float64]) -> float:
    """When everything has finished, on ports (2, PORT_SCALARS) and a machine (ENGINE_SCALARS,) that need not be a variant's."""
    return float(run(prepare(plan, ports, scalars).words, _NO_TIMES, _NO_COLUMNS, _NO_TABLE)[0])


def _totals(known: Totals, cycles: int) -> Totals:
    return Totals(
        cycles,
        cycles,
        known.axi0_read_beats,
        known.axi0_write_beats,
        known.axi1_read_beats,
        known.axi1_write_beats,
        known.macs,
        dict(known.memory_read_bytes),
        dict(known.memory_write_bytes),
    )


def _events(plan: Plan, table: NDArray[np.int64], times: NDArray[np.float64]) -> Events:
    """Busy intervals of every unit, from the times of the loads and of the transfers."""
    loads = plan.loads
    operation = loads[:, k.L_OPERATION]
    read = (loads[:, k.L_IFM_BEATS] + loads[:, k.L_IFM2_BEATS]) * plan.beat_bytes
    written = np.where(loads[:, k.L_LAST] == 1, loads[:, k.L_OFM_BEATS], 0) * plan.beat_bytes
    parts = [
        (operation, TimedUnit.IFM_FETCH, times[:, r.T_IFM_START], times[:, r.T_IFM_END], read, Cause.IFM),
        (operation, TimedUnit.WEIGHT_DECODER, times[:, r.T_STREAM_START], times[:, r.T_STREAM_END],
         loads[:, k.L_STREAM_BYTES], Cause.WEIGHTS),
        (operation, TimedUnit.MAC, times[:, r.T_MAC_START], times[:, r.T_MAC_END], np.zeros_like(read), Cause.KERNEL),
        (operation, TimedUnit.OUTPUT, times[:, r.T_OUTPUT_START], times[:, r.T_OUTPUT_END], written, Cause.OFM),
    ]  # fmt: skip
    transfers = np.flatnonzero(plan.operations[:, k.KIND] == k.DMA)
    moved = plan.operations[transfers, k.DMA_BYTES]
    starts, ends = table[transfers, Column.START].astype(np.float64), table[transfers, Column.END].astype(np.float64)
    parts.append((transfers, TimedUnit.DMA, starts, ends, moved, Cause.DMA_READ))
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
