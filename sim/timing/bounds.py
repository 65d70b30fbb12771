"""What bounds an operation: the unit or port with the most work, or what the units wait for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from npu.machine.kernels import rows as r
from sim.timing.kernels.prepare import cost_fetches
from sim.timing.kernels.rows import TIMED_FETCH
from sim.timing.stream_rows import StreamRows
from sim.trace import Bound, TraceColumn

_BUSY = (Bound.MAC, Bound.OUTPUT, Bound.WEIGHT_DECODE, Bound.IFM_READ, Bound.WEIGHT_READ, Bound.OFM_WRITE)
"""What has work of its own, in the order of `_work`; the first of equals counts."""
_ORDER = (*_BUSY, Bound.LATENCY, Bound.DMA, Bound.WAIT, Bound.ISSUE, Bound.NONE)
_PLACE = {bound: place for place, bound in enumerate(_ORDER)}
_STALLS = {
    TraceColumn.MAC_STALLED_BY_IFM: Bound.IFM_READ,
    TraceColumn.MAC_STALLED_BY_WEIGHTS: Bound.WEIGHT_READ,
    TraceColumn.OUTPUT_STALLED_BY_MEMORY: Bound.OFM_WRITE,
}
"""Which bound a unit's wait stands for."""


def find_bounds(stream: StreamRows, table: NDArray[np.int64], ports: NDArray[Any], engines: NDArray[Any]) -> tuple[Bound, ...]:
    """One bound per operation of the stream, from the trace's table (n, len(Column)).

    It is the unit or port with the most work, on two PORT rows and the one ENGINE row: input and weights
    that share a port count together. Where nothing is busy for half of the time that an operation takes, it is what its units
    wait for longest, or the latency.
    """
    kind = stream.operations["kind"]
    work = _work(stream, table, ports, engines)
    most = work.max(axis=1, initial=0)
    argmax = work.argmax(axis=1)
    is_short = most * 2 < table[:, TraceColumn.END] - table[:, TraceColumn.START]
    argmax[is_short] = _longest_wait(table)[is_short]
    argmax[_parsed_alone(table) > most] = _PLACE[Bound.ISSUE]
    argmax[kind > r.ELEMENTWISE] = _PLACE[Bound.NONE]
    argmax[kind == r.DMA] = _PLACE[Bound.DMA]
    argmax[(kind == r.DMA_WAIT) | (kind == r.KERNEL_WAIT)] = _PLACE[Bound.WAIT]
    return tuple(_ORDER[place] for place in argmax.tolist())


def _work(stream: StreamRows, table: NDArray[np.int64], ports: NDArray[Any], engines: NDArray[Any]) -> NDArray[np.float64]:
    """Cycles (n, len(_BUSY)) that each of `_BUSY` needs at least."""
    input_port, weight_port, output_port = _ports_of(stream)
    reading_inputs, reading_weights, writing = _turns(stream, ports, engines)
    together = reading_inputs + reading_weights
    reading = np.where(input_port == weight_port, together, np.maximum(reading_inputs, reading_weights))
    # The cap of an adapter admits reads and writes together.
    crossing = np.zeros((len(table), len(ports)))
    for port, column in (
        (input_port, TraceColumn.IFM_BYTES),
        (weight_port, TraceColumn.WEIGHT_BYTES),
        (output_port, TraceColumn.OFM_BYTES),
    ):
        crossing[np.arange(len(table)), port] += table[:, column]
    reading = np.maximum(reading, (crossing * ports["cap_beat_cycles"] / stream.beat_bytes).max(axis=1))
    is_input = reading_inputs >= reading_weights
    units = (table[:, column] for column in (TraceColumn.MAC_ACTIVE, TraceColumn.OUTPUT_ACTIVE, TraceColumn.DECODER_ACTIVE))
    return np.stack([*units, reading * is_input, reading * ~is_input, writing], axis=1)


def _turns(stream: StreamRows, ports: NDArray[Any], engines: NDArray[Any]) -> NDArray[np.float64]:
    """Cycles (3, n) that input, weights and output of each operation take of their ports, as long as their bursts are."""
    fetches = np.zeros(len(stream.fetches), TIMED_FETCH)
    cost_fetches(stream.operations, stream.fetches, ports, engines, fetches)
    # Below 0: the slots take them, not the data.
    inputs = np.abs(fetches["ifm_cycles"]) + np.abs(fetches["ifm2_cycles"])
    weights = np.maximum(np.abs(fetches["stream_cycles"]), fetches["stream_delay"])
    count, operation = len(stream.operations), stream.fetches["operation"]
    parts = (inputs, weights, np.abs(fetches["ofm_cycles"]))
    return np.stack([np.bincount(operation, part, minlength=count) for part in parts])


def _ports_of(stream: StreamRows) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Port numbers (n,) of input, weights and output."""
    rows = stream.operations
    return rows["ifm"]["port"], rows["weight_port"], rows["ofm"]["port"]


def _longest_wait(table: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places (n,) in `_ORDER` of what the units wait for longest, of the latency where they wait for no traffic."""
    stalls = table[:, list(_STALLS)]
    places = np.array([_PLACE[bound] for bound in (*_STALLS.values(), Bound.LATENCY)])
    longest: NDArray[np.int64] = places[np.where(stalls.any(axis=1), stalls.argmax(axis=1), len(_STALLS))]
    return longest


def _parsed_alone(table: NDArray[np.int64]) -> NDArray[np.int64]:
    """Cycles (n,) for which the parser works on an operation after all before it have ended."""
    parsing = np.diff(table[:, TraceColumn.ISSUED], prepend=0) - table[:, TraceColumn.PARSER_WAIT]
    ended = np.concatenate([np.zeros(1, np.int64), np.maximum.accumulate(table[:, TraceColumn.END])])[: len(table)]
    alone: NDArray[np.int64] = np.minimum(parsing, table[:, TraceColumn.START] - ended)
    return alone
