"""`schedule`: a command stream in, a `Trace` out. Times depend on shapes, addresses and the variant, never on values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from npu.hardware.variant import Port, Variant
from npu.isa.decode import Decoded
from npu.isa.operations import Operation
from sim.timing.bounds import find_bounds
from sim.timing.counters import count_events
from sim.timing.kernels import engine as e
from sim.timing.kernels import expand as k
from sim.timing.plan import Plan, Work, make_plan
from sim.timing.preparation import command_port, prepare, prepare_for
from sim.trace import Cause, Column, Events, TimedUnit, Totals, Trace

_MOMENTS = {Column.ISSUED: e.R_ISSUED, Column.START: e.R_START, Column.END: e.R_END}

_DURATIONS = {
    Column.MAC_ACTIVE: e.R_MAC_ACTIVE,
    Column.MAC_STALLED_BY_WEIGHTS: e.R_MAC_WEIGHTS,
    Column.MAC_STALLED_BY_IFM: e.R_MAC_IFM,
    Column.MAC_STALLED_BY_ACCUMULATOR: e.R_MAC_ACCUMULATOR,
    Column.OUTPUT_ACTIVE: e.R_OUTPUT_ACTIVE,
    Column.OUTPUT_STALLED_BY_MEMORY: e.R_OUTPUT_MEMORY,
    Column.OUTPUT_STALLED_BY_INPUT: e.R_OUTPUT_INPUT,
    Column.DECODER_ACTIVE: e.R_DECODER_ACTIVE,
    Column.DECODER_STALLED_BY_MEMORY: e.R_DECODER_MEMORY,
    Column.DECODER_STALLED_BY_MAC: e.R_DECODER_MAC,
    Column.IFM_FETCH_ACTIVE: e.R_IFM_ACTIVE,
    Column.DMA_ACTIVE: e.R_DMA_ACTIVE,
    Column.BLOCKDEP_STALL: e.R_BLOCKDEP,
    Column.PARSER_WAIT: e.R_WAIT,
    Column.MAC_IDLE: e.R_MAC_IDLE,
    Column.OUTPUT_IDLE: e.R_OUTPUT_IDLE,
    Column.DECODER_IDLE: e.R_DECODER_IDLE,
}


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
    table = _table(plan, variant, result, work.moved)
    return Trace(
        variant=variant.name,
        clock_hz=variant.system.clock_hz,
        kinds=plan.kinds,
        table=table,
        bounds=find_bounds(plan.operations, table),
        totals=_totals(table, variant, cycles),
        events=_events(plan, result, times) if with_events else None,
        pmu=count_events(table, plan.kinds, variant, cycles),
        tails=(round(tails[0]), round(tails[1]), round(tails[2])),
    )


def finish_time(plan: Plan, ports: NDArray[np.float64], scalars: NDArray[np.float64]) -> float:
    """When everything has finished, on ports (2, PORT_SCALARS) and a machine (ENGINE_SCALARS,) that need not be a variant's."""
    outputs = np.zeros((len(plan.operations), e.RESULT_COLUMNS)), np.zeros((0, e.TIME_COLUMNS)), np.zeros(3)
    return _run(plan, prepare(plan, ports, scalars), *outputs)


def _run(plan: Plan, work: Work, result: NDArray[np.float64], times: NDArray[np.float64], tails: NDArray[np.float64]) -> float:
    """When everything has finished; fills the arrays (see the engine's `run`)."""
    return float(e.run(plan.operations, work.links, work.ends, work.costs, work.ports, work.scalars, result, times, tails))


def _table(plan: Plan, variant: Variant, result: NDArray[np.float64], moved: NDArray[np.int64]) -> NDArray[np.int64]:
    table = np.zeros((len(plan.operations), len(Column)), np.int64)
    for column, source in _MOMENTS.items():
        table[:, column] = np.rint(result[:, source])
    # Durations are rounded in their running sum, so that the sum of a column is off by half a cycle at most.
    sums = np.rint(np.cumsum(result[:, list(_DURATIONS.values())], axis=0)).astype(np.int64)
    table[:, list(_DURATIONS)] = np.diff(sums, axis=0, prepend=0)
    table[:, Column.ELEMENT_BYTES] = plan.operations[:, k.IFM_BYTES]
    beat = variant.accelerator.axi_data_bytes
    command_column = Column.AXI0_READ_BYTES if command_port(variant) == 0 else Column.AXI1_READ_BYTES
    ports = (Column.AXI0_READ_BYTES, Column.AXI0_WRITE_BYTES, Column.AXI1_READ_BYTES, Column.AXI1_WRITE_BYTES)
    for index, column in enumerate(ports):
        table[:, column] = moved[:, index] * beat
    _add_purposes(plan, table, beat)
    weight_port = plan.operations[:, k.WEIGHT_PORT]
    for number, column in ((0, Column.AXI0_READ_BYTES), (1, Column.AXI1_READ_BYTES)):
        table[:, column] += np.where(weight_port == number, table[:, Column.WEIGHT_BYTES], 0)
    table[:, Column.COMMAND_BYTES] = plan.operations[:, k.WORDS] * 4
    table[:, command_column] += table[:, Column.COMMAND_BYTES]
    table[:, Column.DMA_BYTES] = plan.operations[:, k.DMA_BYTES]
    return table


def _add_purposes(plan: Plan, table: NDArray[np.int64], beat: int) -> None:
    """Fills the columns that are sums over the loads of an operation; loads are in the order of operations."""
    loads = plan.loads
    if not len(loads):
        return
    first = np.flatnonzero(np.diff(loads[:, k.L_OPERATION], prepend=-1))
    sums = np.add.reduceat(loads, first, axis=0)
    rows = loads[first, k.L_OPERATION]
    table[rows, Column.MACS] = sums[:, k.L_MACS]
    table[rows, Column.BLOCKS] = sums[:, k.L_LAST]
    table[rows, Column.IFM_BYTES] = (sums[:, k.L_IFM_BEATS] + sums[:, k.L_IFM2_BEATS]) * beat
    table[rows, Column.OFM_BYTES] = sums[:, k.L_OFM_BEATS] * beat
    table[rows, Column.WEIGHT_BYTES] = sums[:, k.L_STREAM_BYTES]


def _totals(table: NDArray[np.int64], variant: Variant, cycles: int) -> Totals:
    beat = variant.accelerator.axi_data_bytes
    sums = table.sum(axis=0)
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
            reads[name] = reads.get(name, 0) + int(sums[read])
            writes[name] = writes.get(name, 0) + int(sums[write])
    return Totals(
        total_cycles=cycles,
        npu_active_cycles=cycles,
        axi0_read_beats=-(-int(sums[Column.AXI0_READ_BYTES]) // beat),
        axi0_write_beats=-(-int(sums[Column.AXI0_WRITE_BYTES]) // beat),
        axi1_read_beats=-(-int(sums[Column.AXI1_READ_BYTES]) // beat),
        axi1_write_beats=-(-int(sums[Column.AXI1_WRITE_BYTES]) // beat),
        macs=int(sums[Column.MACS]),
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
