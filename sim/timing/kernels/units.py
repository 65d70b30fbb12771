"""What each unit of the machine does in its turn, and when the next turn of each can be.

The tables are those of `rows`: `links`, `ends` and `ops` are the integers of loads, blocks and operations, `costs`, `written`
and `result` the floats of the same rows. Everything here becomes part of the engine's loop.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from sim.timing.kernels.expand import DMA
from sim.timing.kernels.ports import claim
from sim.timing.kernels.rows import (
    B_DATA,
    B_LOAD,
    B_OPERATION,
    B_RESPONSE,
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
    FIRST_RESULT,
    H_BEAT,
    K_END,
    K_OPERATION,
    K_OUTPUT,
    K_ROOM,
    M_COMMANDS,
    M_FETCHED,
    M_MAC_END,
    M_MAC_START,
    M_STREAM_END,
    M_STREAM_START,
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
    O_OFM_PORT,
    O_TO,
    O_WEIGHT_PORT,
    P_BEAT_CYCLES,
    P_BURST_BYTES,
    P_READ_BURST_CYCLES,
    P_READ_LATENCY,
    P_WRITE_BURST_CYCLES,
    P_WRITE_LATENCY,
    R_BLOCKDEP,
    R_DECODER_IDLE,
    R_DECODER_MAC,
    R_DECODER_MEMORY,
    R_DMA_ACTIVE,
    R_END,
    R_IFM_ACTIVE,
    R_ISSUED,
    R_MAC_ACCUMULATOR,
    R_MAC_IDLE,
    R_MAC_IFM,
    R_MAC_WEIGHTS,
    R_OUTPUT_IDLE,
    R_OUTPUT_INPUT,
    R_OUTPUT_MEMORY,
    R_START,
    R_WAIT,
    RESULT_COLUMNS,
    S_READ_FREE,
    S_WRITE_FREE,
    X_ARRIVED,
    X_BEATS,
    X_CHUNK,
    X_LEFT,
    X_READ_CYCLES,
    X_WRITE_CYCLES,
)
from sim.timing.kernels.work import chunk_bytes

inlined = nb.njit(inline="always", error_model="numpy")
"""A function that becomes part of its caller: as a call of its own it would take longer than what it does."""


@inlined
def can_fetch(links, fetch, parsed, array, block):  # type: ignore[no-untyped-def]
    """Whether the next fetch can have a time: parsed, a half of the buffer free, the blocks it waits for written."""
    return (links[fetch, K_OPERATION] < parsed) and (fetch - 2 < array) and (links[fetch, K_END] < block)


@inlined
def fetch_time(links, costs, result, written, fetch, fetching, fetch_free, overhead):  # type: ignore[no-untyped-def]
    """When the next fetch can start, and how much of that BLOCKDEP holds it up.

    An operation other than the one that is `fetching` takes `overhead` more, once nothing else holds it up.
    """
    time = max(result[links[fetch, K_OPERATION], R_ISSUED], fetch_free)
    if fetch >= 2:
        time = max(time, costs[fetch - 2, M_MAC_END])
    wanted = links[fetch, K_END]
    held = 0.0
    if wanted >= 0:
        held = max(written[wanted, B_RESPONSE] - time, 0.0)
        time = max(time, written[wanted, B_RESPONSE])
    if links[fetch, K_OPERATION] != fetching:
        time += overhead
    return time, held


@inlined
def can_stream(links, stream, parsed, array):  # type: ignore[no-untyped-def]
    """Whether the next weights can have a time: parsed, room in the decoder's window."""
    return (links[stream, K_OPERATION] < parsed) and (links[stream, K_ROOM] < array)


@inlined
def stream_time(links, costs, result, stream, stream_free):  # type: ignore[no-untyped-def]
    """When the next weights can be asked for."""
    time = max(result[links[stream, K_OPERATION], R_ISSUED], stream_free)
    room = links[stream, K_ROOM]
    if room >= 0:
        time = max(time, costs[room, M_MAC_START])
    return time


@inlined
def array_time(links, costs, written, array, mac_free):  # type: ignore[no-untyped-def]
    """When the MAC array can start its next load."""
    time = max(mac_free, max(costs[array, M_FETCHED], costs[array, M_STREAM_START]))
    output = links[array, K_OUTPUT]
    if output >= 0:
        time = max(time, written[output, B_DATA])
    return time


@inlined
def can_parse(ops, parsed, kernel_done, transfer_done):  # type: ignore[no-untyped-def]
    """Whether what the parser's next operation waits for has finished."""
    return (ops[parsed, O_AFTER_KERNEL] <= kernel_done) and (ops[parsed, O_AFTER_TRANSFER] <= transfer_done)


@inlined
def parser_time(ops, result, parsed, parser_free):  # type: ignore[no-untyped-def]
    """When the parser can go on."""
    time = max(parser_free, result[parsed, M_COMMANDS])
    if ops[parsed, O_AFTER_KERNEL] >= 0:
        time = max(time, result[ops[parsed, O_AFTER_KERNEL], R_END])
    if ops[parsed, O_AFTER_TRANSFER] >= 0:
        time = max(time, result[ops[parsed, O_AFTER_TRANSFER], R_END])
    return time


@inlined
def note(times, load, column, start, end):  # type: ignore[no-untyped-def]
    """Notes when a unit worked on a load, in `column` and the next, if times are asked for."""
    if times.shape[0] > 0:
        times[load, column] = start
        times[load, column + 1] = end


@inlined
def clear(result, n):  # type: ignore[no-untyped-def]
    """Sets the results of operation `n` to 0."""
    for column in range(FIRST_RESULT, FIRST_RESULT + RESULT_COLUMNS):
        result[n, column] = 0.0


@inlined
def ask_commands(result, ports, port, time, count, needed, asked, ahead, most):  # type: ignore[no-untyped-def]
    """(the first operation whose commands have not been asked for, the beats of commands that are ahead of the parser).

    The parser asks for the commands of operation `needed`, and for later ones as long as fewer than `most` beats are ahead.
    """
    while asked < count and (asked <= needed or ahead < most):
        beats = result[asked, O_COMMAND_BEATS]
        _, passed = claim(ports, port, S_READ_FREE, time, result[asked, O_COMMAND_PORT_CYCLES], beats)
        result[asked, M_COMMANDS] = passed + ports[port, P_READ_LATENCY] if beats > 0.0 else time
        ahead += beats
        asked += 1
    return asked, ahead


@inlined
def parse(ops, result, n, time, parser_free):  # type: ignore[no-untyped-def]
    """When operation `n`, whose commands are there, has been parsed."""
    clear(result, n)
    done = time + result[n, O_COMMAND_CYCLES]
    result[n, R_WAIT] = time - parser_free
    result[n, R_ISSUED] = done
    if ops[n, O_KIND] > DMA:
        result[n, R_START], result[n, R_END] = parser_free, done
    return done


@inlined
def shape_chunk(head, ops, ports, n, chunk):  # type: ignore[no-untyped-def]
    """Notes what a chunk of transfer `n` costs, unless it is as large as the one before."""
    if chunk == head[X_CHUNK, 0]:
        return
    beats = np.ceil(chunk / head[H_BEAT, 0])
    head[X_CHUNK, 0], head[X_BEATS, 0] = chunk, beats
    port = ops[n, O_FROM]
    if port >= 0:
        bursts = np.ceil(chunk / ports[port, P_BURST_BYTES])
        head[X_READ_CYCLES, 0] = max(beats * ports[port, P_BEAT_CYCLES], bursts * ports[port, P_READ_BURST_CYCLES])
    port = ops[n, O_TO]
    if port >= 0:
        bursts = np.ceil(chunk / ports[port, P_BURST_BYTES])
        head[X_WRITE_CYCLES, 0] = max(beats * ports[port, P_BEAT_CYCLES], bursts * ports[port, P_WRITE_BURST_CYCLES])


@inlined
def move_chunk(head, ops, ports, n, time):  # type: ignore[no-untyped-def]
    """When the ports have passed the chunk of transfer `n` that they are asked for at `time`; notes when it has arrived."""
    passed, arrived, beats = time, time, head[X_BEATS, 0]
    port = ops[n, O_FROM]
    if port >= 0:
        _, end = claim(ports, port, S_READ_FREE, time, head[X_READ_CYCLES, 0], beats)
        passed = max(passed, end)
        arrived = max(arrived, end) + ports[port, P_READ_LATENCY]
    port = ops[n, O_TO]
    if port >= 0:
        _, end = claim(ports, port, S_WRITE_FREE, time, head[X_WRITE_CYCLES, 0], beats)
        passed = max(passed, end)
        arrived = max(arrived, end) + ports[port, P_WRITE_LATENCY]
    head[X_ARRIVED, 0] = max(head[X_ARRIVED, 0], arrived)
    return passed


@inlined
def move(head, ops, result, ports, n, time, parser_at, others):  # type: ignore[no-untyped-def]
    """When the ports have passed one chunk of transfer `n`, and all that follow it before another unit's turn."""
    whole = float(chunk_bytes(ops[n, O_BYTES]))
    if head[X_LEFT, 0] <= 0.0:
        head[X_LEFT, 0], head[X_ARRIVED, 0], head[X_CHUNK, 0] = float(ops[n, O_BYTES]), time, -1.0
        result[n, R_START] = time
    while True:
        chunk = min(head[X_LEFT, 0], whole)
        shape_chunk(head, ops, ports, n, chunk)
        time = move_chunk(head, ops, ports, n, time)
        head[X_LEFT, 0] -= chunk
        if head[X_LEFT, 0] <= 0.0 or time >= parser_at or time > others:
            break
    if head[X_LEFT, 0] <= 0.0:
        result[n, R_END] = head[X_ARRIVED, 0]
        result[n, R_DMA_ACTIVE] = head[X_ARRIVED, 0] - result[n, R_START]
    return time


@inlined
def begin_operation(links, result, fetch, fetching, time):  # type: ignore[no-untyped-def]
    """The operation of a load that is fetched at `time`: the start of that operation unless it is `fetching` already."""
    n = links[fetch, K_OPERATION]
    if n != fetching:
        result[n, R_START] = time
    return n


@inlined
def fetch_input(ops, links, costs, result, ports, fetch, time, held, fetch_free):  # type: ignore[no-untyped-def]
    """(begin, end, when the fetch unit is free) of a load's input, or of both inputs at the same time."""
    n = links[fetch, K_OPERATION]
    result[n, R_BLOCKDEP] += held
    begin, end = time, time
    if costs[fetch, C_IFM_BEATS] > 0.0:
        port = ops[n, O_IFM_PORT]
        begin, fetch_free = claim(ports, port, S_READ_FREE, time, costs[fetch, C_IFM_CYCLES], costs[fetch, C_IFM_BEATS])
        end = fetch_free + ports[port, P_READ_LATENCY]
    if costs[fetch, C_IFM2_BEATS] > 0.0:
        port = ops[n, O_IFM2_PORT]
        _, passed = claim(ports, port, S_READ_FREE, time, costs[fetch, C_IFM2_CYCLES], costs[fetch, C_IFM2_BEATS])
        fetch_free = max(fetch_free, passed)
        end = max(end, passed + ports[port, P_READ_LATENCY])
    costs[fetch, M_FETCHED] = end
    result[n, R_IFM_ACTIVE] += max(0.0, fetch_free - begin)
    return begin, end, fetch_free


@inlined
def stream_weights(ops, links, costs, result, ports, stream, time, stream_free):  # type: ignore[no-untyped-def]
    """(begin, end, when the decoder is free) of a load's weights."""
    n = links[stream, K_OPERATION]
    port = ops[n, O_WEIGHT_PORT]
    begin, passed = claim(ports, port, S_READ_FREE, time, costs[stream, C_STREAM_CYCLES], costs[stream, C_STREAM_BEATS])
    latency, decoding = ports[port, P_READ_LATENCY], costs[stream, C_DECODE]
    arrived = max(passed + latency, time + costs[stream, C_STREAM_DELAY] + latency)
    end = max(arrived, begin + latency + decoding)
    costs[stream, M_STREAM_START] = begin + latency
    costs[stream, M_STREAM_END] = end
    stalled = max(0.0, time - max(stream_free, result[n, R_ISSUED]))
    free = max(passed, end - latency)
    result[n, R_DECODER_MAC] += stalled
    result[n, R_DECODER_IDLE] += time - stream_free - stalled
    result[n, R_DECODER_MEMORY] += max(0.0, free - time - decoding)
    return begin, end, free


@inlined
def multiply(links, costs, result, array, time, mac_free):  # type: ignore[no-untyped-def]
    """When the MAC array, which starts a load at `time`, has done it."""
    n = links[array, K_OPERATION]
    busy = costs[array, C_MAC]
    end = max(time + busy, costs[array, M_STREAM_END])
    costs[array, M_MAC_START] = time
    costs[array, M_MAC_END] = end
    result[n, R_MAC_IDLE] += time - mac_free
    if busy > 0.0:
        # Before the operation has started the array is idle, not stalled.
        gap = time - max(mac_free, result[n, R_START])
        if gap > 0.0:
            result[n, R_MAC_IDLE] -= gap
            if costs[array, M_FETCHED] >= time:
                result[n, R_MAC_IFM] += gap
            elif costs[array, M_STREAM_START] >= time:
                result[n, R_MAC_WEIGHTS] += gap
            else:
                result[n, R_MAC_ACCUMULATOR] += gap
        result[n, R_MAC_WEIGHTS] += end - time - busy
    return end


@inlined
def write_output(ops, ends, costs, result, written, ports, block, time, output_free):  # type: ignore[no-untyped-def]
    """When the output unit, which starts a block at `time`, has written its data."""
    output, n = ends[block, B_LOAD], ends[block, B_OPERATION]
    port = ops[n, O_OFM_PORT]
    _, passed = claim(ports, port, S_WRITE_FREE, time, costs[output, C_OFM_CYCLES], costs[output, C_OFM_BEATS])
    busy = costs[output, C_OUTPUT]
    end = max(time + busy, passed)
    waited = max(0.0, time - max(output_free, result[n, R_START]))
    result[n, R_OUTPUT_INPUT] += waited
    result[n, R_OUTPUT_IDLE] += time - output_free - waited
    result[n, R_OUTPUT_MEMORY] += end - time - busy
    written[block, B_DATA] = end
    written[block, B_RESPONSE] = end + ports[port, P_WRITE_LATENCY]
    if ends[block + 1, B_OPERATION] != n:
        result[n, R_END] = written[block, B_RESPONSE]
    return end
