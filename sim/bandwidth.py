"""How many bytes cross the memory ports when: the only place that spreads the traffic of a trace over time.

With the events of a trace, the bytes of an operation are spread over its input fetches, weight reads and output writes; without
them, evenly over its time. Transfers are spread evenly, commands over a cycle per byte before they are handed over: they are
fetched ahead, also while the parser waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from npu.hardware.variant import Port
from npu.numerics.arrays import Floats, Ints
from sim.trace import PORT_BYTES, Cause, Trace, TraceColumn

Flow = tuple[Floats, Ints, Ints]
"""Bytes that flow evenly from a start to an end, in cycles."""


def command_port(trace: Trace) -> Port:
    """The port that the command stream is read through: what is neither kernel nor transfer reads nothing else."""
    others = (trace.column(TraceColumn.BLOCKS) == 0) & (trace.column(TraceColumn.DMA_BYTES) == 0)
    read = {port: int(trace.column(columns[0])[others].sum()) for port, columns in PORT_BYTES.items()}
    return Port.AXI0 if read[Port.AXI0] > read[Port.AXI1] else Port.AXI1


def port_rates(trace: Trace, edges: Floats) -> Mapping[Port, tuple[Floats, Floats]]:
    """Mean bytes per cycle, read and written, of each port in each interval of `edges` (cycles, ascending)."""
    stream = command_port(trace)
    return {
        port: (
            _rate(trace, edges, *_reads(trace, read, has_commands=port is stream)),
            _rate(trace, edges, *_flows(trace, trace.column(write), {Cause.OFM: np.ones(len(trace.table), np.bool_)})),
        )
        for port, (read, write) in PORT_BYTES.items()
    }


def _reads(trace: Trace, column: TraceColumn, *, has_commands: bool) -> Iterator[Flow]:
    """What a port reads. One that carries only the input, or only the weights, of an operation shows it in the sums."""
    commands = trace.column(TraceColumn.COMMAND_BYTES) * has_commands
    moved = trace.column(column) - commands
    inputs, weights = trace.column(TraceColumn.IFM_BYTES), trace.column(TraceColumn.WEIGHT_BYTES)
    is_input = moved == inputs
    is_weights = (moved == weights) & ~is_input
    yield from _flows(trace, moved, {Cause.IFM: ~is_weights, Cause.WEIGHTS: ~is_input})
    issued = trace.column(TraceColumn.ISSUED)
    yield commands.astype(np.float64), np.maximum(issued - commands, 0), issued


def _flows(trace: Trace, moved: Ints, causes: Mapping[Cause, NDArray[np.bool_]]) -> Iterator[Flow]:
    """The bytes that each operation moves one way over a port, in proportion to its events there, or else over its time.

    `causes` tells the operations whose events of a cause use the port that way; transfers always do.
    """
    left = moved.astype(np.float64)
    events = trace.events
    if events is not None:
        operation = events.operation
        chosen = (events.bytes > 0) & (left[operation] > 0)
        serves = sum(((events.cause == cause) & uses[operation] for cause, uses in causes.items()), np.zeros_like(chosen))
        requests, transfers = chosen & serves, chosen & (events.cause == Cause.DMA_READ)
        for kept in (requests, transfers):
            sums = np.bincount(operation[kept], events.bytes[kept], minlength=len(left))
            share = np.divide(left, sums, out=np.zeros_like(left), where=sums > 0)
            bytes_moved: Floats = events.bytes[kept].astype(np.float64) * share[operation[kept]]
            yield bytes_moved, events.start[kept], events.end[kept]
            left = left * (sums == 0)
    yield left, trace.column(TraceColumn.START), trace.column(TraceColumn.END)


def _rate(trace: Trace, edges: Floats, *parts: Flow) -> Floats:
    """Mean bytes per cycle in each interval of `edges`, of pieces that flow evenly from their start to their end.

    What is more than a beat per cycle waits: pieces overlap on the port, and their times are whole cycles.
    """
    moved, start, end = (np.concatenate(column) for column in zip(*parts, strict=True))
    if not moved.any():
        return np.zeros(len(edges) - 1)
    start, end = start[moved > 0], end[moved > 0]
    end = np.maximum(end, start + 1)
    slopes = moved[moved > 0] / (end - start)
    times, changes = np.concatenate([start, end]), np.concatenate([slopes, -slopes])
    order = np.argsort(times, kind="stable")
    times, flow = times[order].astype(np.float64), np.cumsum(changes[order])
    asked = np.concatenate([np.zeros(1), np.cumsum(flow[:-1] * np.diff(times))])
    # No more has passed by a time than was asked for by any earlier time, and a beat per cycle since.
    room = np.minimum.accumulate(asked - trace.beat_bytes * times)
    last = np.maximum(np.searchsorted(times, edges, side="right") - 1, 0)
    passed = np.minimum(np.interp(edges, times, asked), np.maximum(room[last] + trace.beat_bytes * edges, 0.0))
    rate: Floats = np.maximum(np.diff(passed) / np.diff(edges), 0.0)
    return rate
