"""How many bytes cross the memory ports when: the only place that spreads the traffic of a trace over time.

With the events of a trace, the bytes of an operation are spread over its input fetches, weight reads and output writes; without
them, evenly over its time. Transfers are spread evenly, commands over the cycles before they are handed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from npu.hardware.variant import Port
from sim.trace import PORT_BYTES, Cause, Column, Trace

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flow = tuple[Floats, Ints, Ints]
"""Bytes that flow evenly from a start to an end, in cycles."""


def command_port(trace: Trace) -> Port:
    """The port that the command stream is read through: what is neither kernel nor transfer reads nothing else."""
    others = (trace.column(Column.BLOCKS) == 0) & (trace.column(Column.DMA_BYTES) == 0)
    read = {port: int(trace.column(columns[0])[others].sum()) for port, columns in PORT_BYTES.items()}
    return Port.AXI0 if read[Port.AXI0] > read[Port.AXI1] else Port.AXI1


def port_rates(trace: Trace, edges: Floats) -> Mapping[Port, tuple[Floats, Floats]]:
    """Mean bytes per cycle, read and written, of each port in each interval of `edges` (cycles, ascending)."""
    stream = command_port(trace)
    return {
        port: (
            _rate(edges, *_reads(trace, read, has_commands=port is stream)),
            _rate(edges, *_flows(trace, trace.column(write), {Cause.OFM: np.ones(len(trace.table), np.bool_)})),
        )
        for port, (read, write) in PORT_BYTES.items()
    }


def _reads(trace: Trace, column: Column, *, has_commands: bool) -> Iterator[Flow]:
    """What a port reads. One that carries only the input, or only the weights, of an operation shows it in the sums."""
    commands = trace.column(Column.COMMAND_BYTES) * has_commands
    moved = trace.column(column) - commands
    inputs, weights = trace.column(Column.IFM_BYTES), trace.column(Column.WEIGHT_BYTES)
    is_input = moved == inputs
    is_weights = (moved == weights) & ~is_input
    yield from _flows(trace, moved, {Cause.IFM: ~is_weights, Cause.WEIGHTS: ~is_input})
    issued = trace.column(Column.ISSUED)
    before = np.concatenate([np.zeros(1, np.int64), issued])[: len(issued)]
    yield commands.astype(np.float64), np.maximum(before, issued - commands), issued


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
            flow = (bytes_moved, events.start[kept], events.end[kept])
            yield _in_turn(*flow) if kept is requests else flow
            left = left * (sums == 0)
    yield left, trace.column(Column.START), trace.column(Column.END)


def _in_turn(moved: Floats, start: Ints, end: Ints) -> Flow:
    """Requests take their turn on a port: one has passed when the next begins, though its data arrive a latency later."""
    order = np.argsort(start, kind="stable")
    moved, start, end = moved[order], start[order], end[order]
    following = np.append(start[1:], end[-1:])
    return moved, start, np.where(following > start, np.minimum(end, following), end)


def _rate(edges: Floats, *parts: Flow) -> Floats:
    """Mean bytes per cycle in each interval of `edges`, of pieces that each flow evenly from their start to their end."""
    moved, start, end = (np.concatenate(column) for column in zip(*parts, strict=True))
    start, end = start[moved > 0], end[moved > 0]
    end = np.maximum(end, start + 1)
    slopes = moved[moved > 0] / (end - start)
    times, changes = np.concatenate([start, end]), np.concatenate([slopes, -slopes])
    order = np.argsort(times, kind="stable")
    times, flow = times[order].astype(np.float64), np.cumsum(changes[order])
    passed = np.concatenate([np.zeros(1), np.cumsum(flow[:-1] * np.diff(times))])
    total = np.interp(edges, times, passed) if len(times) else np.zeros_like(edges)
    rate: Floats = np.maximum(np.diff(total) / np.diff(edges), 0.0)
    return rate
