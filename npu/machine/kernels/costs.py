"""What IFM block fetches and OFM blocks cost every unit and port."""

from __future__ import annotations

import numpy as np

from npu.machine.kernels.arithmetic import inlined
from npu.machine.kernels.blocks import expand_block
from npu.machine.kernels.ports import read_cycles, write_cycles
from npu.machine.kernels.rows import (
    BLOCK_COST_ROW,
    BLOCK_COSTS,
    FETCHES,
    MACHINE_ROW,
    MACHINES,
    OPERATION_ROW,
    OPERATIONS,
    PORTS,
)
from npu.native import types as ty
from npu.native.kernel import kernel


@inlined
def cost_fetch(row, fetch, op, ports, machine):  # type: ignore[no-untyped-def]
    """Fills the COSTS of a fetch."""
    beat, take = float(machine.beat_bytes), machine.take_cycles
    row.ifm_beats = fetch.ifm_beats
    row.ifm_cycles = read_cycles(ports[op.ifm.port], float(fetch.ifm_beats), float(fetch.ifm_bursts), take)
    beats, port = float(fetch.ifm2_beats), ports[op.ifm2.port]
    row.ifm2_beats = beats
    row.ifm2_cycles = read_cycles(port, beats, np.ceil(beats * beat / port.burst_bytes), take)
    size, port = float(fetch.stream_bytes), ports[op.weight_port]
    row.stream_beats = size / beat
    row.stream_cycles = read_cycles(port, size / beat, np.ceil(size / port.burst_bytes), take)
    # No more than the window can be in flight: one window per latency.
    row.stream_delay = size * port.read.latency / machine.weight_window_bytes
    row.decode_cycles = size / machine.decode_bytes_per_cycle
    row.mac_cycles, row.output_cycles = fetch.mac_cycles, fetch.output_cycles
    if machine.scale_window_bytes > 0.0:
        row.output_cycles = max(row.output_cycles, fetch.scale_bytes * port.read.latency / machine.scale_window_bytes)
    row.ofm_beats = fetch.ofm_beats
    row.ofm_cycles = write_cycles(ports[op.ofm.port], float(fetch.ofm_beats), float(fetch.ofm_bursts))


@kernel(
    ty.void(BLOCK_COST_ROW, OPERATION_ROW, MACHINE_ROW, PORTS, ty.int64, ty.int64, ty.int64, FETCHES, BLOCK_COST_ROW),
    error_model="numpy",
)
def cost_block(cost, op, machine, ports, y, x, z, fetches, scratch):  # type: ignore[no-untyped-def]
    """Fills the cost of the OFM block that begins at these elements; `fetches` has room for those of the block."""
    count = expand_block(0, op, machine, y, x, z, 0, fetches)
    cost.fetches = count
    cost.ifm_beats = cost.ifm_cycles = cost.ifm2_beats = cost.ifm2_cycles = 0.0
    cost.stream_beats = cost.stream_cycles = cost.stream_delay = cost.decode_cycles = 0.0
    cost.mac_cycles = cost.output_cycles = cost.ofm_beats = cost.ofm_cycles = 0.0
    for i in range(count):
        cost_fetch(scratch, fetches[i], op, ports, machine)
        cost.ifm_beats += scratch.ifm_beats
        cost.ifm_cycles += abs(scratch.ifm_cycles)
        cost.ifm2_beats += scratch.ifm2_beats
        cost.ifm2_cycles += abs(scratch.ifm2_cycles)
        cost.stream_beats += scratch.stream_beats
        cost.stream_cycles += abs(scratch.stream_cycles)
        cost.stream_delay += scratch.stream_delay
        cost.decode_cycles += scratch.decode_cycles
        cost.mac_cycles += scratch.mac_cycles
        cost.output_cycles += scratch.output_cycles
        cost.ofm_beats += scratch.ofm_beats
        cost.ofm_cycles += abs(scratch.ofm_cycles)


@kernel(ty.void(OPERATIONS, MACHINES, PORTS, ty.int64[:, ::1], FETCHES, BLOCK_COSTS), error_model="numpy")
def cost_blocks(operations, machines, ports, places, fetches, costs):  # type: ignore[no-untyped-def]
    """Fills the costs of the blocks of the one operation that begin at `places` (n, 3); `costs` has a row more for work."""
    op, machine, scratch = operations[0], machines[0], costs[places.shape[0]]
    for i in range(places.shape[0]):
        cost_block(costs[i], op, machine, ports, places[i, 0], places[i, 1], places[i, 2], fetches, scratch)
