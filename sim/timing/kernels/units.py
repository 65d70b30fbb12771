"""What each unit of the machine does in its turn, and when the next turn of each can be.

`ops`, `fetches` and `blocks` are the rows of operations, of IFM block fetches and of OFM blocks, `head` and `ports` those of
the machine (`rows`); `parsed`, `array` and `block` are the next operation, fetch and block of parser, MAC array and output
unit. Everything here becomes part of the engine's loop.
"""

from __future__ import annotations

import numpy as np

from npu.machine.kernels.arithmetic import inlined
from npu.machine.kernels.rows import DMA
from sim.timing.kernels.ports import reserve
from sim.timing.kernels.prepare import chunk_bytes
from sim.timing.kernels.rows import RESULTS

_RESULT_COUNT = len(RESULTS)


@inlined
def can_fetch(fetches, number, parsed, array, block):  # type: ignore[no-untyped-def]
    """Whether the next fetch can have a time: parsed, a half of the buffer free, the blocks it waits for written."""
    fetch = fetches[number]
    return (fetch.operation < parsed) and (fetch.after_array < array) and (max(fetch.after_end, fetch.after_drain) < block)


@inlined
def fetch_time(ops, fetches, blocks, number, fetching, fetch_free, start_cycles):  # type: ignore[no-untyped-def]
    """When the next fetch can start, and how much of that BLOCKDEP holds it up.

    An operation other than the one that is `fetching` takes `start_cycles` more, once nothing else holds it up.
    """
    fetch = fetches[number]
    time = max(ops[fetch.operation].issued, fetch_free)
    if fetch.after_array >= 0:
        time = max(time, fetches[fetch.after_array].mac_end)
    if fetch.after_drain >= 0:
        time = max(time, blocks[fetch.after_drain].responded)
    held = 0.0
    if fetch.after_end >= 0:
        responded = blocks[fetch.after_end].responded
        held = max(responded - time, 0.0)
        time = max(time, responded)
    if fetch.operation != fetching:
        time += start_cycles
    return time, held


@inlined
def can_stream(fetches, number, parsed, array):  # type: ignore[no-untyped-def]
    """Whether the weights of the next fetch can have a time: parsed, room in the decoder's window."""
    return (fetches[number].operation < parsed) and (fetches[number].after_start < array)


@inlined
def stream_time(ops, fetches, number, stream_free):  # type: ignore[no-untyped-def]
    """When the weights of the next fetch can be asked for."""
    fetch = fetches[number]
    time = max(ops[fetch.operation].issued, stream_free)
    if fetch.after_start >= 0:
        time = max(time, fetches[fetch.after_start].mac_start)
    return time


@inlined
def array_time(fetches, blocks, number, mac_free):  # type: ignore[no-untyped-def]
    """When the MAC array can start on its next fetch."""
    fetch = fetches[number]
    time = max(mac_free, max(fetch.fetched, fetch.weights_start))
    if fetch.after_output >= 0:
        time = max(time, blocks[fetch.after_output].written)
    return time


@inlined
def can_parse(ops, number, kernel_done, transfer_done):  # type: ignore[no-untyped-def]
    """Whether what the parser's next operation waits for has finished."""
    return (ops[number].after_kernel <= kernel_done) and (ops[number].after_transfer <= transfer_done)


@inlined
def parser_time(ops, number, parser_free):  # type: ignore[no-untyped-def]
    """When the parser can go on."""
    op = ops[number]
    time = max(parser_free, op.commands_arrived)
    if op.after_kernel >= 0:
        time = max(time, ops[op.after_kernel].end)
    if op.after_transfer >= 0:
        time = max(time, ops[op.after_transfer].end)
    return time


@inlined
def clear(results, number):  # type: ignore[no-untyped-def]
    """Sets the results (any, columns) of an operation to 0."""
    for column in range(_RESULT_COUNT):
        results[number, column] = 0.0


@inlined
def ask_commands(ops, port, time, count, needed, asked, ahead, most):  # type: ignore[no-untyped-def]
    """(the first operation whose commands have not been asked for, the beats of commands that are ahead of the parser).

    The parser asks for the commands of operation `needed`, and for later ones as long as fewer than `most` beats are ahead.
    """
    while asked < count and (asked <= needed or ahead < most):
        op = ops[asked]
        beats = op.command_beats
        _, passed = reserve(port, port.read, time, op.command_port_cycles, beats)
        op.commands_arrived = passed + port.read.latency if beats > 0.0 else time
        ahead += beats
        asked += 1
    return asked, ahead


@inlined
def parse(op, time, parser_free):  # type: ignore[no-untyped-def]
    """When an operation, whose commands are there and whose results are 0, has been parsed."""
    done = time + op.command_cycles
    op.parser_wait = time - parser_free
    op.issued = done
    if op.kind > DMA:
        op.start, op.end = parser_free, done
    return done


@inlined
def shape_chunk(head, ports, op, chunk):  # type: ignore[no-untyped-def]
    """Notes what a chunk of a transfer costs, unless it is as large as the one before."""
    if chunk == head.chunk:
        return
    beats = np.ceil(chunk / head.engine.machine.beat_bytes)
    head.chunk, head.chunk_beats = chunk, beats
    if op.dma_from >= 0:
        port = ports[op.dma_from]
        bursts = np.ceil(chunk / port.burst_bytes)
        head.chunk_read_cycles = max(beats * port.beat_cycles, bursts * port.read.burst_cycles)
    if op.dma_to >= 0:
        port = ports[op.dma_to]
        bursts = np.ceil(chunk / port.burst_bytes)
        head.chunk_write_cycles = max(beats * port.beat_cycles, bursts * port.write.burst_cycles)


@inlined
def move_chunk(head, ports, op, time):  # type: ignore[no-untyped-def]
    """When the ports have passed the chunk of a transfer that they are asked for at `time`; notes when it has arrived."""
    passed, arrived, beats = time, time, head.chunk_beats
    if op.dma_from >= 0:
        port = ports[op.dma_from]
        _, end = reserve(port, port.read, time, head.chunk_read_cycles, beats)
        passed = max(passed, end)
        arrived = max(arrived, end) + port.read.latency
    if op.dma_to >= 0:
        port = ports[op.dma_to]
        _, end = reserve(port, port.write, time, head.chunk_write_cycles, beats)
        passed = max(passed, end)
        arrived = max(arrived, end) + port.write.latency
    head.arrived = max(head.arrived, arrived)
    return passed


@inlined
def move(head, ports, op, time, parser_at, others):  # type: ignore[no-untyped-def]
    """When the ports have passed one chunk of a transfer, and all that follow it before another unit's turn."""
    whole = float(chunk_bytes(op.dma_bytes))
    if head.left <= 0.0:
        head.left, head.arrived, head.chunk = float(op.dma_bytes), time, -1.0
        op.start = time
    while True:
        chunk = min(head.left, whole)
        shape_chunk(head, ports, op, chunk)
        time = move_chunk(head, ports, op, time)
        head.left -= chunk
        if head.engine.dma_window_bytes > 0.0 and op.dma_from >= 0:
            moved = float(op.dma_bytes) - head.left
            time = max(time, op.start + moved * ports[op.dma_from].read.latency / head.engine.dma_window_bytes)
        if head.left <= 0.0 or time >= parser_at or time > others:
            break
    if head.left <= 0.0:
        head.arrived = max(head.arrived, time)
        op.end = head.arrived
        op.dma_active = head.arrived - op.start
    return time


@inlined
def begin_operation(ops, fetches, number, fetching, time):  # type: ignore[no-untyped-def]
    """The operation of a fetch that starts at `time`: the start of that operation unless it is `fetching` already."""
    n = fetches[number].operation
    if n != fetching:
        ops[n].start = time
    return n


@inlined
def fetch_input(op, fetch, ports, time, held, fetch_free):  # type: ignore[no-untyped-def]
    """(begin, end, when the fetch unit is free) of a fetch, of both inputs at the same time."""
    op.blockdep_stall += held
    begin, end = time, time
    if fetch.ifm_beats > 0.0:
        port = ports[op.ifm_port]
        begin, fetch_free = reserve(port, port.read, time, fetch.ifm_cycles, fetch.ifm_beats)
        end = fetch_free + port.read.latency
    if fetch.ifm2_beats > 0.0:
        port = ports[op.ifm2_port]
        _, passed = reserve(port, port.read, time, fetch.ifm2_cycles, fetch.ifm2_beats)
        fetch_free = max(fetch_free, passed)
        end = max(end, passed + port.read.latency)
    fetch.fetched = end
    op.ifm_fetch_active += max(0.0, fetch_free - begin)
    return begin, end, fetch_free


@inlined
def stream_weights(op, fetch, port, time, stream_free):  # type: ignore[no-untyped-def]
    """(begin, end, when the decoder is free) of the weights of a fetch."""
    begin, passed = reserve(port, port.read, time, fetch.stream_cycles, fetch.stream_beats)
    latency, decoding = port.read.latency, fetch.decode_cycles
    arrived = max(passed + latency, time + fetch.stream_delay + latency)
    end = max(arrived, begin + latency + decoding)
    fetch.weights_start = begin + latency
    fetch.weights_end = end
    stalled = max(0.0, time - max(stream_free, op.issued))
    free = max(passed, end - latency)
    op.decoder_stalled_by_mac += stalled
    op.decoder_idle += time - stream_free - stalled
    op.decoder_stalled_by_memory += max(0.0, free - time - decoding)
    return begin, end, free


@inlined
def multiply(op, fetch, time, mac_free):  # type: ignore[no-untyped-def]
    """When the MAC array, which starts on a fetch at `time`, has done it."""
    busy = fetch.mac_cycles
    end = max(time + busy, fetch.weights_end)
    fetch.mac_start = time
    fetch.mac_end = end
    op.mac_idle += time - mac_free
    if busy > 0.0:
        # Before the operation has started the array is idle, not stalled.
        gap = time - max(mac_free, op.start)
        if gap > 0.0:
            op.mac_idle -= gap
            if fetch.fetched >= time:
                op.mac_stalled_by_ifm += gap
            elif fetch.weights_start >= time:
                op.mac_stalled_by_weights += gap
            else:
                op.mac_stalled_by_accumulator += gap
        op.mac_stalled_by_weights += end - time - busy
    return end


@inlined
def write_output(ops, fetches, blocks, ports, number, time, output_free):  # type: ignore[no-untyped-def]
    """When the output unit, which starts a block at `time`, has written its data."""
    block = blocks[number]
    op, fetch = ops[block.operation], fetches[block.last_fetch]
    port = ports[op.ofm_port]
    _, passed = reserve(port, port.write, time, fetch.ofm_cycles, fetch.ofm_beats)
    busy = fetch.output_cycles
    end = max(time + busy, passed)
    waited = max(0.0, time - max(output_free, op.start))
    op.output_stalled_by_input += waited
    op.output_idle += time - output_free - waited
    op.output_stalled_by_memory += end - time - busy
    block.written = end
    block.responded = end + port.write.latency
    if blocks[number + 1].operation != block.operation:
        op.end = block.responded
    return end
