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
    IFM2_PORT,
    IFM_PORT,
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
    WEIGHT_PORT,
)
from sim.timing.kernels.ports import P_BURST_BYTES, P_READ_LATENCY, read_cycles, write_cycles

# Scalars of the machine. E_DECODE_BYTES is per cycle and E_WEIGHT_WINDOW in bytes, all cores together.
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
) = range(9)
ENGINE_SCALARS = 9

DMA_CHUNK_BYTES = 512
"""Granularity at which a transfer and the other users of a port take turns; a multiple of every burst length."""

# Costs of a load: beats and cycles of its reads and its write on their ports, the least time that its weights are on their way
# beyond one latency, and the cycles of decoder, MAC array and output unit (the last and the write: of the block it ends).
(
    C_IFM_BEATS,
    C_IFM_CYCLES,
    C_IFM2_BEATS,
    C_IFM2_CYCLES,
    C_STREAM_BEATS,
    C_STREAM_CYCLES,
    C_STREAM_DELAY,
    C_DECODE,
    C_MAC,
    C_OUTPUT,
    C_OFM_BEATS,
    C_OFM_CYCLES,
) = range(12)
COST_COLUMNS = 12

# Links of a load: its operation and block; the blocks whose output and whose end it waits for (accumulators and BLOCKDEP);
# the load that the MAC array must have started before the decoder has room. NOTHING: it does not wait.
K_OPERATION, K_BLOCK, K_OUTPUT, K_END, K_ROOM = range(5)
LINK_COLUMNS = 5
NOTHING = -1

_I = nb.int64
_ROW = nb.int64[::1]
_INTS = nb.int64[:, ::1]
_ROW_F = nb.float64[::1]
_FLOATS = nb.float64[:, ::1]


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
    """Fills the links (m, LINK_COLUMNS) and the `ends` (m + 1, 2): last load and operation of every block; block count.

    Behind the last block stand m and NOTHING.
    """
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
        links[i, K_BLOCK] = block
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
            ends[block, 0] = i
            ends[block, 1] = n
    ends[block + 1, 0] = loads.shape[0]
    ends[block + 1, 1] = NOTHING
    return block + 1


@kernel(nb.void(_INTS, _INTS, _FLOATS, _ROW_F, _FLOATS), error_model="numpy")
def cost_loads(ops, loads, ports, scalars, costs):  # type: ignore[no-untyped-def]
    """Fills the traffic and decoding columns of the costs (m, COST_COLUMNS)."""
    beat = scalars[E_BEAT]
    for i in range(loads.shape[0]):
        n = loads[i, L_OPERATION]
        beats = float(loads[i, L_IFM_BEATS])
        costs[i, C_IFM_BEATS] = beats
        costs[i, C_IFM_CYCLES] = read_cycles(ports, ops[n, IFM_PORT], beats, float(loads[i, L_IFM_BURSTS]))
        beats = float(loads[i, L_IFM2_BEATS])
        port = ops[n, IFM2_PORT]
        costs[i, C_IFM2_BEATS] = beats
        costs[i, C_IFM2_CYCLES] = read_cycles(ports, port, beats, np.ceil(beats * beat / ports[port, P_BURST_BYTES]))
        size = float(loads[i, L_STREAM_BYTES])
        port = ops[n, WEIGHT_PORT]
        costs[i, C_STREAM_BEATS] = size / beat
        costs[i, C_STREAM_CYCLES] = read_cycles(ports, port, size / beat, np.ceil(size / ports[port, P_BURST_BYTES]))
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
