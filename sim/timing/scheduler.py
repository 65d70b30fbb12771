"""`schedule`: a command stream in, a `Trace` out. Times depend on shapes, addresses and the variant, never on values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npu.hardware.variant import Variant
from npu.isa.decoded import Decoded
from npu.isa.operations import Operation
from npu.machine.kernels.rows import DMA
from npu.machine.parameters import port_rows
from sim.timing.bounds import find_bounds
from sim.timing.counters import operation_events
from sim.timing.kernels import rows as r
from sim.timing.kernels.engine import run
from sim.timing.preparation import engine_rows, prepare, prepare_for
from sim.timing.stream_rows import StreamRows, stream_rows
from sim.trace import Bound, Cause, Events, JobTotals, TimedUnit, Trace, TraceColumn

_NO_TIMES = np.zeros(0, r.TIMES)
_NO_COLUMNS = np.zeros(0, np.int64)
_NO_TABLE = np.zeros((0, len(TraceColumn)), np.int64)
_COLUMNS = np.array([TraceColumn[name.upper()] for name in r.RESULTS], np.int64)
"""Columns of the trace in the order of the engine's result."""


def schedule(
    operations: Sequence[Operation] | Sequence[Decoded], variant: Variant, *, stream_words: int, with_events: bool = False
) -> Trace:
    """The trace of a stream of `stream_words` command words on `variant`, from records or from what `decode` gives.

    `with_events` adds the busy intervals of the units, for a timeline. Raises SimulationError for a stream whose blocks
    are too many to follow.
    """
    plain = [operation.operation if isinstance(operation, Decoded) else operation for operation in operations]
    return time_rows(stream_rows(plain, variant, stream_words=stream_words), variant, with_events=with_events)


def time_rows(stream: StreamRows, variant: Variant, *, with_events: bool = False) -> Trace:
    """The trace of a stream made for `variant`."""
    prepared, known = prepare_for(stream, variant)
    times = np.zeros(len(stream.fetches), r.TIMES) if with_events else _NO_TIMES
    table = prepared.known.copy()
    finish, mac_end, output_end, decoder_end = run(prepared.memory, times, _COLUMNS, table)
    cycles = round(finish)
    return Trace(
        variant=variant.name,
        clock_hz=variant.system.clock_hz,
        beat_bytes=variant.accelerator.axi_data_bytes,
        kinds=stream.kinds,
        table=table,
        totals=_totals(known, cycles),
        events=_events(stream, table, times) if with_events else None,
        tails=(round(finish - mac_end), round(finish - output_end), round(finish - decoder_end)),
        find_bounds=partial(_bounds, stream, table, variant),
        find_events=partial(operation_events, table, stream.kinds, variant),
    )


def _bounds(stream: StreamRows, table: NDArray[np.int64], variant: Variant) -> tuple[Bound, ...]:
    return find_bounds(stream, table, port_rows(variant), engine_rows(variant))


def finish_time(stream: StreamRows, ports: NDArray[Any], engines: NDArray[Any]) -> float:
    """When everything has finished, on two PORT rows and the one ENGINE row, which need not be a variant's."""
    return float(run(prepare(stream, ports, engines).memory, _NO_TIMES, _NO_COLUMNS, _NO_TABLE)[0])


def _totals(known: JobTotals, cycles: int) -> JobTotals:
    return JobTotals(
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


def _events(stream: StreamRows, table: NDArray[np.int64], times: NDArray[Any]) -> Events:
    """Busy intervals of every unit, from the times of the fetches and of the transfers."""
    fetches = stream.fetches
    operation = fetches["operation"]
    read = (fetches["ifm_beats"] + fetches["ifm2_beats"]) * stream.beat_bytes
    written = fetches["ofm_beats"] * stream.beat_bytes
    parts = [
        (operation, TimedUnit.IFM_FETCH, times["ifm_start"], times["ifm_end"], read, Cause.IFM),
        (operation, TimedUnit.WEIGHT_DECODER, times["weights_start"], times["weights_end"],
         fetches["stream_bytes"], Cause.WEIGHTS),
        (operation, TimedUnit.MAC, times["mac_start"], times["mac_end"], np.zeros_like(read), Cause.KERNEL),
        (operation, TimedUnit.OUTPUT, times["output_start"], times["output_end"], written, Cause.OFM),
    ]  # fmt: skip
    transfers = np.flatnonzero(stream.operations["kind"] == DMA)
    moved = stream.operations["dma_bytes"][transfers]
    starts, ends = table[transfers, TraceColumn.START].astype(np.float64), table[transfers, TraceColumn.END].astype(np.float64)
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
