"""The event engine: parser, DMA, IFM fetch, weight decoder, MAC array and output unit over two shared memory ports.

Every unit is an agent with one next action and the earliest time at which it can start; the engine always performs the
earliest action of all, so requests reach the ports in the order of time and contention needs no special case. Buffers are
counters: a unit waits until the piece of work that frees its buffer has finished. Times are cycles as 64-bit floats.
Actions that ask nothing of a port are performed as soon as their time is known: no other action can come between.

The IFM buffer and the accumulators are double buffers. An action of the MAC array is one load, one of the output unit one
block, one of the DMA engine one chunk.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from npu.numerics.kernel import kernel
from sim.timing.kernels.expand import (
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
    OFM_PORT,
    WAIT,
    WEIGHT_PORT,
    WORDS,
)
from sim.timing.kernels.ports import (
    FAR,
    P_BURST_BYTES,
    P_READ_LATENCY,
    P_WRITE_LATENCY,
    S_CAP,
    S_CLOSES,
    S_END,
    S_READ_FREE,
    S_START,
    S_USED,
    S_WRITE_FREE,
    STATE_COLUMNS,
    admit,
    open_ports,
    read,
    read_cycles,
    write,
    write_cycles,
)
from sim.timing.kernels.work import (
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
    E_BEAT,
    E_COMMAND_CYCLES,
    E_COMMAND_PORT,
    E_DMA_QUEUE,
    E_DMA_SETUP,
    E_KERNEL_QUEUE,
    E_START_CYCLES,
    K_END,
    K_OPERATION,
    K_OUTPUT,
    K_ROOM,
    chunk_bytes,
)

# Columns of the result per operation, cycles. From R_MAC_ACTIVE on: durations, in the order of `sim.timing.scheduler`.
(
    R_ISSUED,
    R_START,
    R_END,
    R_MAC_ACTIVE,
    R_MAC_WEIGHTS,
    R_MAC_IFM,
    R_MAC_ACCUMULATOR,
    R_OUTPUT_ACTIVE,
    R_OUTPUT_MEMORY,
    R_OUTPUT_INPUT,
    R_DECODER_ACTIVE,
    R_DECODER_MEMORY,
    R_DECODER_MAC,
    R_IFM_ACTIVE,
    R_DMA_ACTIVE,
    R_BLOCKDEP,
    R_WAIT,
    R_MAC_IDLE,
    R_OUTPUT_IDLE,
    R_DECODER_IDLE,
) = range(20)
RESULT_COLUMNS = 20

# Columns of the times of a load.
T_IFM_START, T_IFM_END, T_STREAM_START, T_STREAM_END, T_MAC_START, T_MAC_END, T_OUTPUT_START, T_OUTPUT_END = range(8)
TIME_COLUMNS = 8

_I = nb.int64
_F = nb.float64
_INTS = nb.int64[::1]
_FLOATS = nb.float64[::1]
_INT_TABLE = nb.int64[:, ::1]
_FLOAT_TABLE = nb.float64[:, ::1]


@kernel(_F(_INT_TABLE, _I, _F, _FLOATS, *(_INTS,) * 3, _FLOATS), error_model="numpy")
def parser_ready(ops, p, free, scalars, kernels, transfers, counts, finished):  # type: ignore[no-untyped-def]
    """When the parser can perform its next operation; counts = (kernels issued, transfers issued)."""
    kind = ops[p, KIND]
    kernel_need = np.int64(-1)
    transfer_need = np.int64(-1)
    if kind <= ELEMENTWISE:
        kernel_need = counts[0] - np.int64(scalars[E_KERNEL_QUEUE])
    elif kind == DMA:
        transfer_need = counts[1] - np.int64(scalars[E_DMA_QUEUE])
    elif kind == DMA_WAIT:
        transfer_need = counts[1] - 1 - ops[p, WAIT]
    elif kind == KERNEL_WAIT:
        kernel_need = counts[0] - 1 - ops[p, WAIT]
    else:
        kernel_need = counts[0] - 1
        transfer_need = counts[1] - 1
    time = free
    if kernel_need >= 0:
        time = max(time, finished[kernels[kernel_need]])
    if transfer_need >= 0:
        time = max(time, finished[transfers[transfer_need]])
    return time


@kernel(
    _F(_INT_TABLE, _I, _F, _F, _FLOATS, _FLOAT_TABLE, _FLOAT_TABLE, *(_INTS,) * 3, _FLOATS, _FLOAT_TABLE), error_model="numpy"
)
def parse(ops, n, time, free, scalars, ports, state, kernels, transfers, counts, issued, result):  # type: ignore[no-untyped-def]
    """Hands over operation `n` at `time` to its queue; returns when the parser is free again (it was free at `free`)."""
    kind = ops[n, KIND]
    words = ops[n, WORDS]
    port = np.int64(scalars[E_COMMAND_PORT])
    # Commands are fetched ahead: their latency is hidden, but they take their turn on the port.
    beats = words * 4.0 / scalars[E_BEAT]
    _, fetched = read(
        ports, state, port, time, read_cycles(ports, port, beats, words * 4.0 / ports[port, P_BURST_BYTES]), beats
    )
    done = max(time + scalars[E_COMMAND_CYCLES] * words, fetched)
    result[n, R_WAIT] = time - free
    result[n, R_ISSUED] = done
    if kind <= ELEMENTWISE:
        issued[n] = done
        kernels[counts[0]] = n
        counts[0] += 1
    elif kind == DMA:
        issued[n] = done
        transfers[counts[1]] = n
        counts[1] += 1
    else:
        result[n, R_START] = free
        result[n, R_END] = done
    return done


@kernel(nb.types.UniTuple(_F, 2)(_INT_TABLE, _I, _F, _I, _FLOAT_TABLE, _FLOAT_TABLE, _F), error_model="numpy")
def transfer_chunk(ops, n, time, chunk, ports, state, beat):  # type: ignore[no-untyped-def]
    """Moves one chunk of a DMA transfer at `time`; (arrival, when the next chunk can be asked for)."""
    beats = np.ceil(chunk / beat)
    arrived = time
    following = time
    source = ops[n, DMA_FROM]
    target = ops[n, DMA_TO]
    if source >= 0:
        cycles = read_cycles(ports, source, beats, np.ceil(chunk / ports[source, P_BURST_BYTES]))
        _, end = read(ports, state, source, time, cycles, beats)
        arrived = end + ports[source, P_READ_LATENCY]
        following = max(following, end)
    if target >= 0:
        cycles = write_cycles(ports, target, beats, np.ceil(chunk / ports[target, P_BURST_BYTES]))
        landed = write(ports, state, target, time, cycles, beats)
        following = max(following, landed)
        arrived = max(arrived, landed) + ports[target, P_WRITE_LATENCY]
    return arrived, following


@kernel(
    _F(*(_INT_TABLE,) * 3, *(_FLOAT_TABLE,) * 2, _FLOATS, *(_FLOAT_TABLE,) * 2, _FLOATS),
    error_model="numpy",
)
def run(ops, links, ends, costs, ports, scalars, result, times, tails):  # type: ignore[no-untyped-def]
    """Runs the stream; returns the time at which everything has finished.

    `ops` (n, OPERATION_COLUMNS), `links` (m, LINK_COLUMNS), `ends` (blocks + 1, 2), `costs` (m, COST_COLUMNS), `ports`
    (2, PORT_SCALARS). Outputs: `result` (n, RESULT_COLUMNS) cycles, `times` (m, TIME_COLUMNS) cycles, not filled if it has no
    rows; `tails` (3,) cycles that MAC array, output unit and weight decoder are idle at the end.
    """
    count = ops.shape[0]
    total = links.shape[0]
    with_times = times.shape[0] == total
    state = np.empty((2, STATE_COLUMNS))
    open_ports(ports, state)
    issued, finished = np.full(count, FAR), np.full(count, FAR)
    kernels, transfers, counts = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64), np.zeros(2, np.int64)
    output_end, block_end = np.empty(ends.shape[0]), np.empty(ends.shape[0])
    fetched, stream_start, stream_end = np.empty(total), np.empty(total), np.empty(total)
    mac_start, mac_end = np.empty(total), np.empty(total)
    parsed, transferred, fetch, stream, array, block = 0, 0, 0, 0, 0, 0
    parser_free, transfer_time, fetch_free, stream_free, mac_free, output_free = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    parser_at, transfer_at, fetch_at, stream_at, array_at, output_at = FAR, FAR, FAR, FAR, FAR, FAR
    left = np.int64(-1)
    transfer_arrival, held, finish = 0.0, 0.0, 0.0
    look_parser = True
    fetching = np.int64(-1)
    overhead = scalars[E_START_CYCLES]
    while True:
        # A time that is known stays as it is; the others are looked at until nothing more becomes known.
        while True:
            act = False
            while fetch_at >= FAR and fetch < total:
                n = links[fetch, K_OPERATION]
                wanted = links[fetch, K_END]
                if n >= parsed or fetch - 2 >= array or wanted >= block:
                    break
                time = max(issued[n] + overhead, fetch_free)
                if fetch >= 2:
                    time = max(time, mac_end[fetch - 2])
                held = 0.0
                if wanted >= 0:
                    held = max(block_end[wanted] - time, 0.0)
                    time = max(time, block_end[wanted])
                # What asks nothing of a port need not wait for its turn, unless the next fetch could be the earlier one.
                if held > 0.0 or costs[fetch, C_IFM_BEATS] > 0.0 or costs[fetch, C_IFM2_BEATS] > 0.0:
                    fetch_at = time
                    break
                if n != fetching:
                    fetching = n
                    result[n, R_START] = time
                fetched[fetch] = time
                if with_times:
                    times[fetch, T_IFM_START] = time
                    times[fetch, T_IFM_END] = time
                fetch += 1
            while stream_at >= FAR and stream < total:
                n = links[stream, K_OPERATION]
                room = links[stream, K_ROOM]
                if n >= parsed or room >= array:
                    break
                time = max(issued[n] + overhead, stream_free)
                if room >= 0:
                    time = max(time, mac_start[room])
                if costs[stream, C_STREAM_BEATS] > 0.0:
                    stream_at = time
                    break
                stream_start[stream] = time
                stream_end[stream] = time
                if with_times:
                    times[stream, T_STREAM_START] = time
                    times[stream, T_STREAM_END] = time
                stream += 1
            if array_at >= FAR and array < fetch and array < stream and links[array, K_OUTPUT] < block:
                array_at = max(mac_free, max(fetched[array], stream_start[array]))
                if links[array, K_OUTPUT] >= 0:
                    array_at = max(array_at, output_end[links[array, K_OUTPUT]])
                # The array uses no port. Only work that takes no time has to wait for its turn among equals.
                act = max(array_at + costs[array, C_MAC], stream_end[array]) > array_at
            if not act:
                if output_at >= FAR and ends[block, 0] < array:
                    output_at = max(output_free, mac_end[ends[block, 0]])
                if transfer_at >= FAR and transferred < counts[1]:
                    transfer_at = max(transfer_time, issued[transfers[transferred]] + scalars[E_DMA_SETUP])
                if look_parser and parser_at >= FAR and parsed < count:
                    look_parser = False
                    parser_at = parser_ready(ops, parsed, parser_free, scalars, kernels, transfers, counts, finished)
                first = min(parser_at, transfer_at)
                best = min(min(first, fetch_at), min(stream_at, min(array_at, output_at)))
                if array_at != best or first == best or fetch_at == best or stream_at == best or best >= FAR:
                    break
            n = links[array, K_OPERATION]
            busy = costs[array, C_MAC]
            end = max(array_at + busy, stream_end[array])
            mac_start[array] = array_at
            mac_end[array] = end
            if with_times:
                times[array, T_MAC_START] = array_at
                times[array, T_MAC_END] = end
            result[n, R_MAC_IDLE] += array_at - mac_free
            if busy > 0.0:
                # Before the operation has started the array is idle, not stalled.
                gap = array_at - max(mac_free, result[n, R_START])
                if gap > 0.0:
                    result[n, R_MAC_IDLE] -= gap
                    if fetched[array] >= array_at:
                        result[n, R_MAC_IFM] += gap
                    elif stream_start[array] >= array_at:
                        result[n, R_MAC_WEIGHTS] += gap
                    else:
                        result[n, R_MAC_ACCUMULATOR] += gap
                result[n, R_MAC_ACTIVE] += busy
                result[n, R_MAC_WEIGHTS] += end - array_at - busy
            mac_free = end
            array += 1
            array_at = FAR
        if best >= FAR:
            break
        if parser_at == best:
            parser_free = parse(
                ops, parsed, best, parser_free, scalars, ports, state, kernels, transfers, counts, issued, result
            )
            if ops[parsed, KIND] > DMA:
                finish = max(finish, parser_free)
            parsed += 1
            parser_at = FAR
            look_parser = True
            continue
        if transfer_at == best:
            n = transfers[transferred]
            if left < 0:
                left = ops[n, DMA_BYTES]
                transfer_arrival = best
                result[n, R_START] = best
            chunk = min(left, chunk_bytes(ops[n, DMA_BYTES]))
            arrived, transfer_time = transfer_chunk(ops, n, best, chunk, ports, state, scalars[E_BEAT])
            left -= chunk
            transfer_arrival = max(transfer_arrival, arrived)
            if left <= 0:
                left = np.int64(-1)
                finished[n] = transfer_arrival
                result[n, R_END] = transfer_arrival
                result[n, R_DMA_ACTIVE] = transfer_arrival - result[n, R_START]
                finish = max(finish, transfer_arrival)
                transferred += 1
                look_parser = True
            transfer_at = FAR
            continue
        is_fetch, is_stream = fetch_at == best, stream_at == best and fetch_at != best
        if is_fetch:
            n, port, channel = links[fetch, K_OPERATION], ops[links[fetch, K_OPERATION], IFM_PORT], S_READ_FREE
            cycles, beats = costs[fetch, C_IFM_CYCLES], costs[fetch, C_IFM_BEATS]
        elif is_stream:
            n, port, channel = links[stream, K_OPERATION], ops[links[stream, K_OPERATION], WEIGHT_PORT], S_READ_FREE
            cycles, beats = costs[stream, C_STREAM_CYCLES], costs[stream, C_STREAM_BEATS]
        else:
            n, port, channel = ends[block, 1], ops[ends[block, 1], OFM_PORT], S_WRITE_FREE
            cycles, beats = costs[ends[block, 0], C_OFM_CYCLES], costs[ends[block, 0], C_OFM_BEATS]
        begin, passed = best, best
        if beats > 0.0 or not is_fetch:
            # As `read` and `write`; a call would count references to its arrays, which took most of the time.
            begin = max(best, state[port, channel])
            passed = begin + cycles
            used = state[port, S_USED] + beats
            fits = (state[port, S_START] <= begin) & (begin < state[port, S_END])
            if fits & (passed <= state[port, S_CLOSES]) & (used <= state[port, S_CAP]):
                state[port, S_USED] = used
            else:
                passed = admit(ports, state, port, begin, cycles, beats)
            state[port, channel] = passed
        if is_fetch:
            if n != fetching:
                fetching = n
                result[n, R_START] = best
            result[n, R_BLOCKDEP] += held
            end = best
            if beats > 0.0:
                fetch_free = passed
                end = passed + ports[port, P_READ_LATENCY]
            if costs[fetch, C_IFM2_BEATS] > 0.0:
                port = ops[n, IFM2_PORT]
                _, other = read(ports, state, port, best, costs[fetch, C_IFM2_CYCLES], costs[fetch, C_IFM2_BEATS])
                end = max(end, other + ports[port, P_READ_LATENCY])
                fetch_free = max(fetch_free, other)
            fetched[fetch] = end
            if with_times:
                times[fetch, T_IFM_START] = begin
                times[fetch, T_IFM_END] = end
            result[n, R_IFM_ACTIVE] += max(0.0, fetch_free - begin)
            fetch += 1
            fetch_at = FAR
        elif is_stream:
            latency = ports[port, P_READ_LATENCY]
            decoding = costs[stream, C_DECODE]
            arrived = max(passed + latency, best + costs[stream, C_STREAM_DELAY] + latency)
            stream_start[stream] = begin + latency
            end = max(arrived, begin + latency + decoding)
            stream_end[stream] = end
            if with_times:
                times[stream, T_STREAM_START] = begin
                times[stream, T_STREAM_END] = end
            result[n, R_DECODER_ACTIVE] += decoding
            stalled = max(0.0, best - max(stream_free, issued[n]))
            result[n, R_DECODER_MAC] += stalled
            result[n, R_DECODER_IDLE] += best - stream_free - stalled
            stream_free = max(passed, end - latency)
            result[n, R_DECODER_MEMORY] += max(0.0, stream_free - best - decoding)
            stream += 1
            stream_at = FAR
        else:
            output = ends[block, 0]
            busy = costs[output, C_OUTPUT]
            end = max(best + busy, passed)
            result[n, R_OUTPUT_ACTIVE] += busy
            waited = max(0.0, best - max(output_free, result[n, R_START]))
            result[n, R_OUTPUT_INPUT] += waited
            result[n, R_OUTPUT_IDLE] += best - output_free - waited
            result[n, R_OUTPUT_MEMORY] += end - best - busy
            output_end[block] = end
            output_free = end
            block_end[block] = end + ports[port, P_WRITE_LATENCY]
            if with_times:
                times[output, T_OUTPUT_START] = best
                times[output, T_OUTPUT_END] = end
            block += 1
            if ends[block, 1] != n:
                finished[n] = block_end[block - 1]
                result[n, R_END] = finished[n]
                finish = max(finish, finished[n])
                look_parser = True
            output_at = FAR
    tails[0] = finish - mac_free
    tails[1] = finish - output_free
    tails[2] = finish - stream_free
    return finish
