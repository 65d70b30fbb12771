"""What bounds an operation: the unit or port with the most work, or what the units wait for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sim.timing.kernels import expand as k
from sim.timing.kernels import rows as p
from sim.trace import Bound, Column

_BUSY = (Bound.MAC, Bound.OUTPUT, Bound.WEIGHT_DECODE, Bound.IFM_READ, Bound.WEIGHT_READ, Bound.OFM_WRITE)
"""What has work of its own, in the order of `_work`; the first of equals counts."""
_ORDER = (*_BUSY, Bound.LATENCY, Bound.DMA, Bound.WAIT, Bound.ISSUE, Bound.NONE)
_PLACE = {bound: place for place, bound in enumerate(_ORDER)}
_STALLS = {
    Column.MAC_STALLED_BY_IFM: Bound.IFM_READ,
    Column.MAC_STALLED_BY_WEIGHTS: Bound.WEIGHT_READ,
    Column.OUTPUT_STALLED_BY_MEMORY: Bound.OFM_WRITE,
}
"""Which bound a unit's wait stands for."""


def find_bounds(
    operations: NDArray[np.int64], table: NDArray[np.int64], ports: NDArray[np.float64], beat_bytes: int
) -> tuple[Bound, ...]:
    """One bound per operation of the plan's table (n, OPERATION_COLUMNS), from the trace's table (n, len(Column)).

    It is the unit or port with the most work, on ports (2, PORT_SCALARS): input and weights that share a port count together.
    Where nothing is busy for half of the time that an operation takes, it is what its units wait for longest, or the latency.
    """
    kind = operations[:, k.KIND]
    work = _work(operations, table, ports, beat_bytes)
    most = work.max(axis=1, initial=0)
    found = work.argmax(axis=1)
    is_short = most * 2 < table[:, Column.END] - table[:, Column.START]
    found[is_short] = _longest_wait(table)[is_short]
    found[_parsed_alone(table) > most] = _PLACE[Bound.ISSUE]
    found[kind > k.ELEMENTWISE] = _PLACE[Bound.NONE]
    found[kind == k.DMA] = _PLACE[Bound.DMA]
    found[(kind == k.DMA_WAIT) | (kind == k.KERNEL_WAIT)] = _PLACE[Bound.WAIT]
    return tuple(_ORDER[place] for place in found.tolist())


def _work(
    operations: NDArray[np.int64], table: NDArray[np.int64], ports: NDArray[np.float64], beat_bytes: int
) -> NDArray[np.float64]:
    """Cycles (n, len(_BUSY)) that each of `_BUSY` needs at least."""
    inputs, weights, outputs = (table[:, column] for column in (Column.IFM_BYTES, Column.WEIGHT_BYTES, Column.OFM_BYTES))
    input_port, weight_port, output_port = (operations[:, at] for at in (k.IFM_PORT, k.WEIGHT_PORT, k.OFM_PORT))
    reads, writes = (_cycles_per_byte(ports, at, beat_bytes) for at in (p.P_READ_BURST_CYCLES, p.P_WRITE_BURST_CYCLES))
    reading_inputs, reading_weights = inputs * reads[input_port], weights * reads[weight_port]
    together = reading_inputs + reading_weights
    reading = np.where(input_port == weight_port, together, np.maximum(reading_inputs, reading_weights))
    # The windows of an adapter admit reads and writes together.
    crossing = np.zeros((len(table), len(ports)))
    for port, moved in ((input_port, inputs), (weight_port, weights), (output_port, outputs)):
        crossing[np.arange(len(table)), port] += moved
    reading = np.maximum(reading, (crossing * _window_cycles_per_byte(ports, beat_bytes)).max(axis=1))
    is_input = reading_inputs >= reading_weights
    units = (table[:, column] for column in (Column.MAC_ACTIVE, Column.OUTPUT_ACTIVE, Column.DECODER_ACTIVE))
    return np.stack([*units, reading * is_input, reading * ~is_input, outputs * writes[output_port]], axis=1)


def _longest_wait(table: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places (n,) in `_ORDER` of what the units wait for longest, of the latency where they wait for no traffic."""
    stalls = table[:, list(_STALLS)]
    places = np.array([_PLACE[bound] for bound in (*_STALLS.values(), Bound.LATENCY)])
    longest: NDArray[np.int64] = places[np.where(stalls.any(axis=1), stalls.argmax(axis=1), len(_STALLS))]
    return longest


def _parsed_alone(table: NDArray[np.int64]) -> NDArray[np.int64]:
    """Cycles (n,) for which the parser works on an operation after all before it have ended."""
    parsing = np.diff(table[:, Column.ISSUED], prepend=0) - table[:, Column.PARSER_WAIT]
    ended = np.concatenate([np.zeros(1, np.int64), np.maximum.accumulate(table[:, Column.END])])[: len(table)]
    alone: NDArray[np.int64] = np.minimum(parsing, table[:, Column.START] - ended)
    return alone


def _cycles_per_byte(ports: NDArray[np.float64], burst_cycles: int, beat_bytes: int) -> NDArray[np.float64]:
    """Cycles per byte (2,) of bursts in turn on each port."""
    rate: NDArray[np.float64] = np.maximum(
        ports[:, p.P_BEAT_CYCLES] / beat_bytes, ports[:, burst_cycles] / ports[:, p.P_BURST_BYTES]
    )
    return rate


def _window_cycles_per_byte(ports: NDArray[np.float64], beat_bytes: int) -> NDArray[np.float64]:
    """Cycles per byte (2,) that the windows of each port admit, both ways together; 0 where there are none."""
    cap = ports[:, p.P_CAP] * beat_bytes
    return np.divide(ports[:, p.P_WINDOW], cap, out=np.zeros(2), where=cap > 0)
