"""What the event engine needs to know of a stream before it starts: costs of every load, and which work waits for which.

Nothing here depends on when things happen, so one preparation serves every run on the same ports and machine.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from npu.numerics.kernel import kernel
from sim.timing.kernels.expand import (
    BLOCKDEP,
    DMA,
    DMA_BYTES,
    DMA_FROM,
    DMA_TO,
    DMA_WAIT,
    ELEMENTWISE,
    IFM2_PORT,
    IFM_PORT,
    KERNEL_WAIT,
    KIND,
    L_FIRST,
    L_IFM2_BEATS,
    L_IFM_BEATS,
    L_IFM_BURSTS,
    L_LAST,
    L_OFM_BEATS,
    L_OFM_BURSTS,
    L_OPERATION,
    L_STREAM_BYTES,
    OFM_PORT,
    WAIT,
    WEIGHT_PORT,
    WORDS,
)
from sim.timing.kernels.ports import read_cycles, write_cycles
from sim.timing.kernels.rows import (
    B_LOAD,
    B_OPERATION,
    C_DECODE,
    C_IFM2_BEATS,
    C_IFM2_CYCLES,
    C_IFM_BEATS,
    C_IFM_CYCLES,
    C_MAC,
    C_OFM_BEATS,
    C_OFM_CYCLES,
    C_OUTPUT,
    C_STREAM_BEATS,
    C_STREAM_CYCLES,
    C_STREAM_DELAY,
    K_END,
    K_OPERATION,
    K_OUTPUT,
    K_ROOM,
    NOTHING,
    O_AFTER_KERNEL,
    O_AFTER_TRANSFER,
    O_BYTES,
    O_COMMAND_BEATS,
    O_COMMAND_CYCLES,
    O_COMMAND_PORT_CYCLES,
    O_FROM,
    O_IFM2_PORT,
    O_IFM_PORT,
    O_KIND,
    O_NEXT_TRANSFER,
    O_OFM_PORT,
    O_TO,
    O_WEIGHT_PORT,
    P_BURST_BYTES,
    P_READ_LATENCY,
)

# Scalars of the machine. E_DECODE_BYTES is per cycle and E_WEIGHT_WINDOW in bytes, all cores together; so is E_TAKE_CYCLES, the
# cycles in which the cores take in a beat of input or weights.
(
    E_COMMAND_CYCLES,
    E_START_CYCLES,
    E_KERNEL_QUEUE,
    E_DMA_QUEUE,
    E_DMA_SETUP,
    E_BEAT,
    E_DECODE_BYTES,
    E_WEIGHT_WINDOW,
    E_COMMAND_PORT,
    E_TAKE_CYCLES,
) = range(10)
ENGINE_SCALARS = 10

DMA_CHUNK_BYTES = 512
"""Granularity at which a transfer and the other users of a port take turns; a multiple of every burst length."""

_I = nb.int64
_ROW = nb.int64[::1]
_INTS = nb.int64[:, ::1]
_ROW_F = nb.float64[::1]
_FLOATS = nb.float64[:, ::1]


@kernel(nb.types.UniTuple(_I, 2)(*(_I,) * 6), error_model="numpy")
def parser_needs(kind, wait, kernels, transfers, kernel_queue, dma_queue):  # type: ignore[no-untyped-def]
    """The kernel and the transfer that must have finished before the parser goes on; below 0: none.

    `kernels` and `transfers` are counts of what has been issued.
    """
    nothing = np.int64(NOTHING)
    if kind <= ELEMENTWISE:
        return kernels - kernel_queue, nothing
    if kind == DMA:
        return nothing, transfers - dma_queue
    if kind == DMA_WAIT:
        return nothing, transfers - 1 - wait
    if kind == KERNEL_WAIT:
        return kernels - 1 - wait, nothing
    return kernels - 1, transfers - 1


@kernel(_I(_INTS, _ROW_F, _INTS), error_model="numpy")
def link_operations(ops, scalars, rows):  # type: ignore[no-untyped-def]
    """Fills the integers of the rows of operations (n, OPERATION_WORDS); the first transfer (n: there is none)."""
    count = ops.shape[0]
    kernels, transfers = np.empty(count, np.int64), np.empty(count, np.int64)
    kernel_count, transfer_count = np.int64(0), np.int64(0)
    kernel_queue, dma_queue = np.int64(scalars[E_KERNEL_QUEUE]), np.int64(scalars[E_DMA_QUEUE])
    for n in range(count):
        kind = ops[n, KIND]
        kernel_need, transfer_need = parser_needs(kind, ops[n, WAIT], kernel_count, transfer_count, kernel_queue, dma_queue)
        rows[n, O_KIND] = kind
        rows[n, O_AFTER_KERNEL] = kernels[kernel_need] if kernel_need >= 0 else NOTHING
        rows[n, O_AFTER_TRANSFER] = transfers[transfer_need] if transfer_need >= 0 else NOTHING
        rows[n, O_IFM_PORT], rows[n, O_IFM2_PORT] = ops[n, IFM_PORT], ops[n, IFM2_PORT]
        rows[n, O_OFM_PORT], rows[n, O_WEIGHT_PORT] = ops[n, OFM_PORT], ops[n, WEIGHT_PORT]
        rows[n, O_BYTES], rows[n, O_FROM], rows[n, O_TO] = ops[n, DMA_BYTES], ops[n, DMA_FROM], ops[n, DMA_TO]
        if kind <= ELEMENTWISE:
            kernels[kernel_count] = n
            kernel_count += 1
        elif kind == DMA:
            transfers[transfer_count] = n
            transfer_count += 1
    following = count
    for n in range(count - 1, -1, -1):
        rows[n, O_NEXT_TRANSFER] = following
        if ops[n, KIND] == DMA:
            following = n
    return following


@kernel(nb.void(_INTS, _FLOATS, _ROW_F, _FLOATS), error_model="numpy")
def cost_commands(ops, ports, scalars, rows):  # type: ignore[no-untyped-def]
    """Fills the costs of the commands of the rows of operations (n, OPERATION_WORDS)."""
    port = np.int64(scalars[E_COMMAND_PORT])
    for n in range(ops.shape[0]):
        beats = ops[n, WORDS] * 4.0 / scalars[E_BEAT]
        rows[n, O_COMMAND_BEATS] = beats
        rows[n, O_COMMAND_PORT_CYCLES] = read_cycles(ports, port, beats, ops[n, WORDS] * 4.0 / ports[port, P_BURST_BYTES], 0.0)
        rows[n, O_COMMAND_CYCLES] = scalars[E_COMMAND_CYCLES] * ops[n, WORDS]


@kernel(_I(_INTS, _I, _I, _I, _ROW, _ROW, _ROW), error_model="numpy")
def dependency(ops, n, block, q, previous, first_block, block_count):  # type: ignore[no-untyped-def]
    """The block that must have ended for BLOCKDEP: block i of `n` leaves at most BLOCKDEP - i blocks of `q` before it."""
    if q < 0:
        return NOTHING
    allowed = max(ops[n, BLOCKDEP] - (block - first_block[n]), 0)
    last = first_block[q] + block_count[q] - 1 - allowed
    if last >= first_block[q]:
        return last
    before = previous[q]
    return first_block[before] + block_count[before] - 1 if before >= 0 else NOTHING


@kernel(_I(_INTS, _INTS, _ROW_F, _INTS, _INTS), error_model="numpy")
def link_loads(ops, loads, scalars, links, ends):  # type: ignore[no-untyped-def]
    """Fills the integers of the rows of loads (m, LOAD_WORDS) and blocks (blocks + 1, BLOCK_WORDS); the number of blocks."""
    count = ops.shape[0]
    first_block = np.full(count, NOTHING, np.int64)
    block_count = np.zeros(count, np.int64)
    previous = np.full(count, NOTHING, np.int64)
    block = np.int64(-1)
    last = np.int64(-1)
    freed = 0
    waiting = np.int64(0)
    for i in range(loads.shape[0]):
        n = loads[i, L_OPERATION]
        if loads[i, L_FIRST]:
            block += 1
            block_count[n] += 1
        if first_block[n] < 0:
            first_block[n] = block
            previous[n] = last
            last = n
        links[i, K_OPERATION] = n
        links[i, K_OUTPUT] = block - 2 if loads[i, L_FIRST] and block >= 2 else NOTHING
        links[i, K_END] = NOTHING
        if loads[i, L_FIRST]:
            links[i, K_END] = dependency(ops, n, block, previous[n], previous, first_block, block_count)
        # The decoder asks ahead until its window is full: it waits for the newest load that must have started.
        waiting += loads[i, L_STREAM_BYTES] if i > 0 else 0
        while freed < i and waiting > scalars[E_WEIGHT_WINDOW]:
            freed += 1
            waiting -= loads[freed, L_STREAM_BYTES]
        links[i, K_ROOM] = freed - 1
        if loads[i, L_LAST]:
            ends[block, B_LOAD] = i
            ends[block, B_OPERATION] = n
    ends[block + 1, B_LOAD] = loads.shape[0]
    ends[block + 1, B_OPERATION] = NOTHING
    return block + 1


@kernel(nb.void(_INTS, _INTS, _FLOATS, _ROW_F, _FLOATS), error_model="numpy")
def cost_loads(ops, loads, ports, scalars, costs):  # type: ignore[no-untyped-def]
    """Fills the traffic and decoding costs of the rows of loads (m, LOAD_WORDS)."""
    beat, take = scalars[E_BEAT], scalars[E_TAKE_CYCLES]
    for i in range(loads.shape[0]):
        n = loads[i, L_OPERATION]
        beats = float(loads[i, L_IFM_BEATS])
        costs[i, C_IFM_BEATS] = beats
        costs[i, C_IFM_CYCLES] = read_cycles(ports, ops[n, IFM_PORT], beats, float(loads[i, L_IFM_BURSTS]), take)
        beats = float(loads[i, L_IFM2_BEATS])
        port = ops[n, IFM2_PORT]
        costs[i, C_IFM2_BEATS] = beats
        costs[i, C_IFM2_CYCLES] = read_cycles(ports, port, beats, np.ceil(beats * beat / ports[port, P_BURST_BYTES]), take)
        size = float(loads[i, L_STREAM_BYTES])
        port = ops[n, WEIGHT_PORT]
        costs[i, C_STREAM_BEATS] = size / beat
        costs[i, C_STREAM_CYCLES] = read_cycles(ports, port, size / beat, np.ceil(size / ports[port, P_BURST_BYTES]), take)
        # No more than the window can be in flight: one window per latency.
        costs[i, C_STREAM_DELAY] = size * ports[port, P_READ_LATENCY] / scalars[E_WEIGHT_WINDOW]
        costs[i, C_DECODE] = size / scalars[E_DECODE_BYTES]
        beats = float(loads[i, L_OFM_BEATS])
        costs[i, C_OFM_BEATS] = beats
        costs[i, C_OFM_CYCLES] = write_cycles(ports, ops[n, OFM_PORT], beats, float(loads[i, L_OFM_BURSTS]))


@kernel(_I(_I), error_model="numpy")
def chunk_bytes(size):  # type: ignore[no-untyped-def]
    """Bytes that a DMA transfer of `size` moves in one turn."""
    return max(DMA_CHUNK_BYTES, size >> 14)


@kernel(nb.void(_INTS, _INTS, _ROW_F, _INTS), error_model="numpy")
def count_beats(ops, loads, scalars, moved):  # type: ignore[no-untyped-def]
    """Adds to `moved` (n, 4) the beats of port 0 read and write, port 1 read and write; without weights and commands."""
    for i in range(loads.shape[0]):
        n = loads[i, L_OPERATION]
        moved[n, 2 * ops[n, IFM_PORT]] += loads[i, L_IFM_BEATS]
        moved[n, 2 * ops[n, IFM2_PORT]] += loads[i, L_IFM2_BEATS]
        moved[n, 2 * ops[n, OFM_PORT] + 1] += loads[i, L_OFM_BEATS]
    for n in range(ops.shape[0]):
        if ops[n, KIND] != DMA:
            continue
        chunk = chunk_bytes(ops[n, DMA_BYTES])
        whole = ops[n, DMA_BYTES] // chunk
        rest = ops[n, DMA_BYTES] - whole * chunk
        beats = whole * np.int64(np.ceil(chunk / scalars[E_BEAT])) + np.int64(np.ceil(rest / scalars[E_BEAT]))
        if ops[n, DMA_FROM] >= 0:
            moved[n, 2 * ops[n, DMA_FROM]] += beats
        if ops[n, DMA_TO] >= 0:
            moved[n, 2 * ops[n, DMA_TO] + 1] += beats


@kernel(nb.void(_INTS, _FLOATS, _FLOATS), error_model="numpy")
def count_work(loads, costs, busy):  # type: ignore[no-untyped-def]
    """Adds to `busy` (n, 3) the cycles that MAC array, output unit and weight decoder work for each operation."""
    for i in range(loads.shape[0]):
        n = loads[i, L_OPERATION]
        busy[n, 0] += costs[i, C_MAC]
        if loads[i, L_LAST]:
            busy[n, 1] += costs[i, C_OUTPUT]
        busy[n, 2] += costs[i, C_DECODE]
