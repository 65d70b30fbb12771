"""What the event engine needs to know of a stream before it starts: costs of every fetch, and which work waits for which.

Nothing here depends on when things happen, so one preparation serves every run on the same ports and machine.
"""

from __future__ import annotations

import numpy as np

from npu.machine.kernels.arithmetic import ceil_div, inlined
from npu.machine.kernels.blocks import ifm_buffers
from npu.machine.kernels.costs import cost_fetch
from npu.machine.kernels.ports import read_cycles
from npu.machine.kernels.rows import DMA, DMA_WAIT, ELEMENTWISE, FETCHES, KERNEL_WAIT, OPERATIONS, PORTS, integers
from npu.machine.rules import BUFFER_HALVES
from npu.native import types as ty
from npu.native.kernel import kernel
from sim.timing.kernels.rows import ENGINES, NOTHING, TIMED_BLOCKS, TIMED_FETCHES, TIMED_OPERATIONS

LINK = np.dtype(
    integers(
        *("kernel", "transfer"),  # row i: the i-th kernel and the i-th transfer among the operations
        *("first_block", "block_count", "previous"),  # row n: of operation n, and the kernel before it, or NOTHING
    )
)
"""What is known while the work of the operations is linked; as many rows as operations."""
LINKS = ty.record(LINK)[::1]

TRAFFIC = np.dtype(
    integers(
        *("macs", "blocks", "element_bytes"),
        *("axi0_read_bytes", "axi0_write_bytes", "axi1_read_bytes", "axi1_write_bytes"),
        *("ifm_bytes", "ofm_bytes", "weight_bytes", "dma_bytes", "command_bytes"),  # the same bytes again, by purpose
    )
)
"""What an operation moves and multiplies, by the names of the trace's columns."""
TRAFFICS = ty.record(TRAFFIC)[::1]

DMA_CHUNK_BYTES = 512
"""Granularity at which a transfer and the other users of a port take turns; a multiple of every burst length."""


@inlined
def parser_needs(kind, outstanding, kernels, transfers, engine):  # type: ignore[no-untyped-def]
    """The kernel and the transfer that must have finished before the parser goes on; below 0: none.

    `kernels` and `transfers` are counts of what has been issued.
    """
    nothing = np.int64(NOTHING)
    if kind <= ELEMENTWISE:
        return kernels - engine.kernel_queue, nothing
    if kind == DMA:
        return nothing, transfers - engine.dma_queue
    if kind == DMA_WAIT:
        return nothing, transfers - 1 - outstanding
    if kind == KERNEL_WAIT:
        return kernels - 1 - outstanding, nothing
    return kernels - 1, transfers - 1


@kernel(ty.int64(OPERATIONS, ENGINES, LINKS, TIMED_OPERATIONS), error_model="numpy")
def link_operations(ops, engines, links, timed):  # type: ignore[no-untyped-def]
    """Fills the integers of the rows of operations; the first transfer (the number of operations: there is none)."""
    count, engine = ops.shape[0], engines[0]
    kernel_count, transfer_count = np.int64(0), np.int64(0)
    for n in range(count):
        op, row = ops[n], timed[n]
        kernel_need, transfer_need = parser_needs(op.kind, op.outstanding, kernel_count, transfer_count, engine)
        row.kind = op.kind
        row.after_kernel = links[kernel_need].kernel if kernel_need >= 0 else NOTHING
        row.after_transfer = links[transfer_need].transfer if transfer_need >= 0 else NOTHING
        row.ifm_port, row.ifm2_port, row.ofm_port, row.weight_port = op.ifm.port, op.ifm2.port, op.ofm.port, op.weight_port
        row.dma_bytes, row.dma_from, row.dma_to = op.dma_bytes, op.dma_from, op.dma_to
        if op.kind <= ELEMENTWISE:
            links[kernel_count].kernel = n
            kernel_count += 1
        elif op.kind == DMA:
            links[transfer_count].transfer = n
            transfer_count += 1
    following = count
    for n in range(count - 1, -1, -1):
        timed[n].next_transfer = following
        if ops[n].kind == DMA:
            following = n
    return following


@kernel(ty.void(OPERATIONS, PORTS, ENGINES, TIMED_OPERATIONS), error_model="numpy")
def cost_commands(ops, ports, engines, timed):  # type: ignore[no-untyped-def]
    """Fills the costs of the commands of the rows of operations."""
    engine = engines[0]
    port = ports[engine.command_port]
    for n in range(ops.shape[0]):
        size = ops[n].command_words * 4.0
        timed[n].command_beats = size / engine.machine.beat_bytes
        timed[n].command_port_cycles = read_cycles(port, size / engine.machine.beat_bytes, size / port.burst_bytes, 0.0)
        timed[n].command_cycles = engine.command_cycles_per_word * ops[n].command_words


@inlined
def dependency(links, n, block, blockdep):  # type: ignore[no-untyped-def]
    """The block that must have ended for BLOCKDEP: block i of kernel `n` leaves at most BLOCKDEP - i of the kernel before."""
    if links[n].previous < 0:
        return np.int64(NOTHING)
    one = links[links[n].previous]
    last = one.first_block + one.block_count - 1 - max(blockdep - (block - links[n].first_block), 0)
    if last >= one.first_block:
        return last
    if one.previous < 0:
        return np.int64(NOTHING)
    return links[one.previous].first_block + links[one.previous].block_count - 1


@inlined
def is_laid_out_anew(one, other):  # type: ignore[no-untyped-def]
    """Whether SHRAM is divided otherwise for an operation than for the one before."""
    return one.ifm_end != other.ifm_end or one.accumulator_start != other.accumulator_start


@kernel(ty.int64(OPERATIONS, FETCHES, ENGINES, LINKS, TIMED_FETCHES, TIMED_BLOCKS), error_model="numpy")
def link_fetches(ops, fetches, engines, links, timed, blocks):  # type: ignore[no-untyped-def]
    """Fills the integers of the rows of fetches and of blocks, one more than there are; the number of blocks."""
    block, last, freed, waiting, buffers = np.int64(-1), np.int64(NOTHING), np.int64(0), np.int64(0), np.int64(0)
    for i in range(fetches.shape[0]):
        fetch, row = fetches[i], timed[i]
        n = fetch.operation
        row.operation, row.after_output, row.after_end, row.after_drain = n, NOTHING, NOTHING, NOTHING
        if fetch.is_first:
            block += 1
            if n != last:
                buffers = ifm_buffers(ops[n], engines[0].machine)
                if last != NOTHING and (engines[0].always_drains or is_laid_out_anew(ops[last], ops[n])):
                    row.after_drain = block - 1
                links[n].first_block, links[n].block_count, links[n].previous = block, 0, last
                last = n
            links[n].block_count += 1
            row.after_output = max(block - BUFFER_HALVES, np.int64(NOTHING))
            row.after_end = dependency(links, n, block, ops[n].blockdep)
        row.after_array = max(i - buffers, np.int64(NOTHING))
        # The decoder asks ahead until its window is full: it waits for the newest fetch that must have started.
        waiting += fetch.stream_bytes if i > 0 else 0
        while freed < i and waiting > engines[0].machine.weight_window_bytes:
            freed += 1
            waiting -= fetches[freed].stream_bytes
        row.after_start = freed - 1
        if fetch.is_last:
            blocks[block].last_fetch = i
            blocks[block].operation = n
    blocks[block + 1].last_fetch = fetches.shape[0]
    blocks[block + 1].operation = NOTHING
    return block + 1


@kernel(ty.void(OPERATIONS, FETCHES, PORTS, ENGINES, TIMED_FETCHES), error_model="numpy")
def cost_fetches(ops, fetches, ports, engines, timed):  # type: ignore[no-untyped-def]
    """Fills what units and ports take for the fetches."""
    for i in range(fetches.shape[0]):
        cost_fetch(timed[i], fetches[i], ops[fetches[i].operation], ports, engines[0].machine)


@inlined
def chunk_bytes(size):  # type: ignore[no-untyped-def]
    """Bytes that a DMA transfer of `size` moves in one turn."""
    return max(DMA_CHUNK_BYTES, size >> 14)


@inlined
def add_read(traffic, port, size):  # type: ignore[no-untyped-def]
    """Counts bytes that are read through a port."""
    if port == 0:
        traffic.axi0_read_bytes += size
    else:
        traffic.axi1_read_bytes += size


@inlined
def add_write(traffic, port, size):  # type: ignore[no-untyped-def]
    """Counts bytes that are written through a port."""
    if port == 0:
        traffic.axi0_write_bytes += size
    else:
        traffic.axi1_write_bytes += size


@kernel(ty.void(OPERATIONS, FETCHES, ENGINES, TRAFFICS), error_model="numpy")
def count_traffic(ops, fetches, engines, traffics):  # type: ignore[no-untyped-def]
    """Fills a row of zeros per operation: whole beats, but of weights and commands the bytes that are used."""
    beat, command_port = np.int64(engines[0].machine.beat_bytes), engines[0].command_port
    for i in range(fetches.shape[0]):
        fetch = fetches[i]
        op, row = ops[fetch.operation], traffics[fetch.operation]
        row.macs += fetch.macs
        row.blocks += fetch.is_last
        row.weight_bytes += fetch.stream_bytes
        row.ifm_bytes += (fetch.ifm_beats + fetch.ifm2_beats) * beat
        row.ofm_bytes += fetch.ofm_beats * beat
        add_read(row, op.ifm.port, fetch.ifm_beats * beat)
        add_read(row, op.ifm2.port, fetch.ifm2_beats * beat)
        add_read(row, op.weight_port, fetch.stream_bytes)
        add_write(row, op.ofm.port, fetch.ofm_beats * beat)
    for n in range(ops.shape[0]):
        op, row = ops[n], traffics[n]
        row.element_bytes, row.dma_bytes, row.command_bytes = op.ifm.element_bytes, op.dma_bytes, op.command_words * 4
        add_read(row, command_port, row.command_bytes)
        if op.kind != DMA:
            continue
        chunk = chunk_bytes(op.dma_bytes)
        whole = op.dma_bytes // chunk
        moved = (whole * ceil_div(chunk, beat) + ceil_div(op.dma_bytes - whole * chunk, beat)) * beat
        if op.dma_from >= 0:
            add_read(row, op.dma_from, moved)
        if op.dma_to >= 0:
            add_write(row, op.dma_to, moved)


@kernel(ty.void(TIMED_FETCHES, ty.float64[:, ::1]), error_model="numpy")
def count_work(fetches, busy):  # type: ignore[no-untyped-def]
    """Adds to `busy` (n, 3) the cycles that MAC array, output unit and weight decoder work for each operation."""
    for i in range(fetches.shape[0]):
        fetch, n = fetches[i], fetches[i].operation
        busy[n, 0] += fetch.mac_cycles
        busy[n, 1] += fetch.output_cycles
        busy[n, 2] += fetch.decode_cycles
