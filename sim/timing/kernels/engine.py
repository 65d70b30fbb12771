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
    P_BEAT_CYCLES,
    P_BURST_BYTES,
    P_OPEN,
    P_READ_BURST_CYCLES,
    P_READ_LATENCY,
    P_WINDOW,
    P_WRITE_LATENCY,
    S_CAP,
    S_CLOSES,
    S_END,
    S_READ_FREE,
    S_START,
    S_USED,
    S_WINDOW,
    S_WRITE_FREE,
    STATE_COLUMNS,
    admit,
    open_ports,
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

# Columns of the result per operation, cycles. From R_MAC_ACTIVE on: durations. `sim.timing.scheduler` knows the order.
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

# What the engine remembers of a load: when its input and the first and the last of its weights are there, when the MAC array
# works on it; and of a block: when its data have been written, and when the response has come.
M_FETCHED, M_STREAM_START, M_STREAM_END, M_MAC_START, M_MAC_END = range(5)
MOMENT_COLUMNS = 5
W_DATA, W_RESPONSE = range(2)
WRITTEN_COLUMNS = 2

_I = nb.int64
_F = nb.float64
_INTS = nb.int64[::1]
_FLOATS = nb.float64[::1]
_INT_TABLE = nb.int64[:, ::1]
_FLOAT_TABLE = nb.float64[:, ::1]


@kernel(nb.types.UniTuple(_I, 2)(*(_I,) * 6), error_model="numpy")
def parser_needs(kind, wait, kernels, transfers, kernel_queue, dma_queue):  # type: ignore[no-untyped-def]
    """The kernel and the transfer that must have finished before the parser goes on; below 0: none.

    `kernels` and `transfers` are counts of what has been issued.
    """
    nothing = np.int64(-1)
    if kind <= ELEMENTWISE:
        return kernels - kernel_queue, nothing
    if kind == DMA:
        return nothing, transfers - dma_queue
    if kind == DMA_WAIT:
        return nothing, transfers - 1 - wait
    if kind == KERNEL_WAIT:
        return kernels - 1 - wait, nothing
    return kernels - 1, transfers - 1


@kernel(
    _F(*(_INT_TABLE,) * 3, *(_FLOAT_TABLE,) * 2, _FLOATS, *(_FLOAT_TABLE,) * 2, _FLOATS),
    error_model="numpy",
)
def run(ops, links, ends, costs, ports, scalars, result, times, tails):  # type: ignore[no-untyped-def]
    """Runs the stream; returns the time at which everything has finished.

    `ops` (n, OPERATION_COLUMNS), `links` (m, LINK_COLUMNS), `ends` (blocks + 1, 2), `costs` (m, COST_COLUMNS), `ports`
    (2, PORT_SCALARS). Outputs: `result` (n, RESULT_COLUMNS) cycles, `times` (m, TIME_COLUMNS) cycles, not filled if it has no
    rows; `tails` (3,) cycles that MAC array, output unit and weight decoder are idle at the end.

    No array goes into another function here: every call would count references to it, which took half of the time.
    """
    count = ops.shape[0]
    total = links.shape[0]
    with_times = times.shape[0] == total
    state = np.empty((2, STATE_COLUMNS))
    open_ports(ports, state)
    issued, finished = np.full(count, FAR), np.full(count, FAR)
    kernels, transfers = np.empty(count, np.int64), np.empty(count, np.int64)
    # One array each: several that are read and written at one index get in each other's way in the processor.
    written, moments = np.empty((ends.shape[0], WRITTEN_COLUMNS)), np.empty((total, MOMENT_COLUMNS))
    parsed, kernel_count, transfer_count = np.int64(0), np.int64(0), np.int64(0)
    transferred, fetch, stream, array, block = 0, 0, 0, 0, 0
    parser_free, transfer_time, fetch_free, stream_free, mac_free, output_free = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    parser_at, transfer_at, fetch_at, stream_at, array_at, output_at = FAR, FAR, FAR, FAR, FAR, FAR
    held, finish = 0.0, 0.0
    left, shaped, fetching = np.int64(-1), np.int64(-1), np.int64(-1)
    transfer_arrival, chunk_beats = 0.0, 0.0
    chunk_cycles = np.empty(2)
    look_parser = True
    command_cycles = scalars[E_COMMAND_CYCLES]
    overhead, beat, setup = scalars[E_START_CYCLES], scalars[E_BEAT], scalars[E_DMA_SETUP]
    kernel_queue, dma_queue = np.int64(scalars[E_KERNEL_QUEUE]), np.int64(scalars[E_DMA_QUEUE])
    command_port = np.int64(scalars[E_COMMAND_PORT])
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
                    time = max(time, moments[fetch - 2, M_MAC_END])
                held = 0.0
                if wanted >= 0:
                    held = max(written[wanted, W_RESPONSE] - time, 0.0)
                    time = max(time, written[wanted, W_RESPONSE])
                # What asks nothing of a port need not wait for its turn, unless the next fetch could be the earlier one.
                if held > 0.0 or costs[fetch, C_IFM_BEATS] > 0.0 or costs[fetch, C_IFM2_BEATS] > 0.0:
                    fetch_at = time
                    break
                if n != fetching:
                    fetching = n
                    result[n, R_START] = time
                moments[fetch, M_FETCHED] = time
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
                    time = max(time, moments[room, M_MAC_START])
                if costs[stream, C_STREAM_BEATS] > 0.0:
                    stream_at = time
                    break
                moments[stream, M_STREAM_START] = time
                moments[stream, M_STREAM_END] = time
                if with_times:
                    times[stream, T_STREAM_START] = time
                    times[stream, T_STREAM_END] = time
                stream += 1
            if array_at >= FAR and array < fetch and array < stream and links[array, K_OUTPUT] < block:
                array_at = max(mac_free, max(moments[array, M_FETCHED], moments[array, M_STREAM_START]))
                if links[array, K_OUTPUT] >= 0:
                    array_at = max(array_at, written[links[array, K_OUTPUT], W_DATA])
                # The array uses no port. Only work that takes no time has to wait for its turn among equals.
                act = max(array_at + costs[array, C_MAC], moments[array, M_STREAM_END]) > array_at
            if not act:
                if output_at >= FAR and ends[block, 0] < array:
                    output_at = max(output_free, moments[ends[block, 0], M_MAC_END])
                if transfer_at >= FAR and transferred < transfer_count:
                    transfer_at = max(transfer_time, issued[transfers[transferred]] + setup)
                if look_parser and parser_at >= FAR and parsed < count:
                    look_parser = False
                    kernel_need, transfer_need = parser_needs(
                        ops[parsed, KIND], ops[parsed, WAIT], kernel_count, transfer_count, kernel_queue, dma_queue
                    )
                    parser_at = parser_free
                    if kernel_need >= 0:
                        parser_at = max(parser_at, finished[kernels[kernel_need]])
                    if transfer_need >= 0:
                        parser_at = max(parser_at, finished[transfers[transfer_need]])
                first = min(parser_at, transfer_at)
                best = min(min(first, fetch_at), min(stream_at, min(array_at, output_at)))
                if array_at != best or first == best or fetch_at == best or stream_at == best or best >= FAR:
                    break
            n = links[array, K_OPERATION]
            busy = costs[array, C_MAC]
            end = max(array_at + busy, moments[array, M_STREAM_END])
            moments[array, M_MAC_START] = array_at
            moments[array, M_MAC_END] = end
            if with_times:
                times[array, T_MAC_START] = array_at
                times[array, T_MAC_END] = end
            result[n, R_MAC_IDLE] += array_at - mac_free
            if busy > 0.0:
                # Before the operation has started the array is idle, not stalled.
                gap = array_at - max(mac_free, result[n, R_START])
                if gap > 0.0:
                    result[n, R_MAC_IDLE] -= gap
                    if moments[array, M_FETCHED] >= array_at:
                        result[n, R_MAC_IFM] += gap
                    elif moments[array, M_STREAM_START] >= array_at:
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
        if transfer_at == best and parser_at != best:
            n = transfers[transferred]
            size = ops[n, DMA_BYTES]
            whole = chunk_bytes(size)
            if left < 0:
                left = size
                transfer_arrival = best
                result[n, R_START] = best
            others = min(min(fetch_at, stream_at), min(array_at, output_at))
            # One chunk, and all that follow it before another unit's turn.
            while True:
                chunk = min(left, whole)
                if chunk != shaped:
                    shaped = chunk
                    chunk_beats = np.ceil(chunk / beat)
                    for side in range(2):
                        port = ops[n, DMA_FROM + side]
                        if port < 0:
                            continue
                        bursts = np.ceil(chunk / ports[port, P_BURST_BYTES])
                        chunk_cycles[side] = max(
                            chunk_beats * ports[port, P_BEAT_CYCLES], bursts * ports[port, P_READ_BURST_CYCLES + side]
                        )
                arrived = best
                transfer_time = best
                for side in range(2):
                    port = ops[n, DMA_FROM + side]
                    if port < 0:
                        continue
                    begin = max(best, state[port, side])
                    cycles = chunk_cycles[side]
                    passed = begin + cycles
                    used = state[port, S_USED] + chunk_beats
                    fits = (state[port, S_START] <= begin) & (begin < state[port, S_END])
                    if fits & (passed <= state[port, S_CLOSES]) & (used <= state[port, S_CAP]):
                        state[port, S_USED] = used
                    elif ports[port, P_WINDOW] > 0.0 and chunk_beats > 0.0:
                        window, opened, index = ports[port, P_WINDOW], ports[port, P_OPEN], state[port, S_WINDOW]
                        passed, index, used = admit(
                            begin, cycles, chunk_beats, window, opened, state[port, S_CAP], index, state[port, S_USED]
                        )
                        state[port, S_WINDOW], state[port, S_USED], state[port, S_START] = index, used, index * window
                        state[port, S_CLOSES], state[port, S_END] = index * window + opened, (index + 1.0) * window
                    state[port, side] = passed
                    transfer_time = max(transfer_time, passed)
                    arrived = max(arrived, passed) + ports[port, P_READ_LATENCY + side]
                transfer_arrival = max(transfer_arrival, arrived)
                left -= chunk
                if left <= 0 or transfer_time >= parser_at or transfer_time > others:
                    break
                best = transfer_time
            if left <= 0:
                left = shaped = np.int64(-1)
                finished[n] = transfer_arrival
                result[n, R_END] = transfer_arrival
                result[n, R_DMA_ACTIVE] = transfer_arrival - result[n, R_START]
                finish = max(finish, transfer_arrival)
                transferred += 1
                look_parser = True
            transfer_at = FAR
            continue
        is_parse = parser_at == best
        is_fetch = not is_parse and fetch_at == best
        is_stream = not is_parse and not is_fetch and stream_at == best
        # What the unit asks of its port, and of another one at the same time.
        channel, then_port, other = S_READ_FREE, np.int64(-1), best
        if is_parse:
            # Commands are fetched ahead: their latency is hidden, but they take their turn on the port.
            n, port = np.int64(parsed), command_port
            beats = ops[n, WORDS] * 4.0 / beat
            bursts = ops[n, WORDS] * 4.0 / ports[port, P_BURST_BYTES]
            cycles = max(beats * ports[port, P_BEAT_CYCLES], bursts * ports[port, P_READ_BURST_CYCLES])
        elif is_fetch:
            n = links[fetch, K_OPERATION]
            port, cycles, beats = ops[n, IFM_PORT], costs[fetch, C_IFM_CYCLES], costs[fetch, C_IFM_BEATS]
            if costs[fetch, C_IFM2_BEATS] > 0.0:
                then_port = ops[n, IFM2_PORT]
        elif is_stream:
            n = links[stream, K_OPERATION]
            port, cycles, beats = ops[n, WEIGHT_PORT], costs[stream, C_STREAM_CYCLES], costs[stream, C_STREAM_BEATS]
        else:
            n, channel = ends[block, 1], S_WRITE_FREE
            port, cycles, beats = ops[n, OFM_PORT], costs[ends[block, 0], C_OFM_CYCLES], costs[ends[block, 0], C_OFM_BEATS]
        begin, passed = best, best
        if beats > 0.0 or not is_fetch:
            begin = max(best, state[port, channel])
            passed = begin + cycles
            used = state[port, S_USED] + beats
            fits = (state[port, S_START] <= begin) & (begin < state[port, S_END])
            if fits & (passed <= state[port, S_CLOSES]) & (used <= state[port, S_CAP]):
                state[port, S_USED] = used
            elif ports[port, P_WINDOW] > 0.0 and beats > 0.0:
                window, opened, index = ports[port, P_WINDOW], ports[port, P_OPEN], state[port, S_WINDOW]
                passed, index, used = admit(
                    begin, cycles, beats, window, opened, state[port, S_CAP], index, state[port, S_USED]
                )
                state[port, S_WINDOW], state[port, S_USED], state[port, S_START] = index, used, index * window
                state[port, S_CLOSES], state[port, S_END] = index * window + opened, (index + 1.0) * window
            state[port, channel] = passed
        if then_port >= 0:
            cycles, beats = costs[fetch, C_IFM2_CYCLES], costs[fetch, C_IFM2_BEATS]
            start = max(best, state[then_port, S_READ_FREE])
            other = start + cycles
            used = state[then_port, S_USED] + beats
            fits = (state[then_port, S_START] <= start) & (start < state[then_port, S_END])
            if fits & (other <= state[then_port, S_CLOSES]) & (used <= state[then_port, S_CAP]):
                state[then_port, S_USED] = used
            elif ports[then_port, P_WINDOW] > 0.0:
                window, opened, index = ports[then_port, P_WINDOW], ports[then_port, P_OPEN], state[then_port, S_WINDOW]
                other, index, used = admit(
                    start, cycles, beats, window, opened, state[then_port, S_CAP], index, state[then_port, S_USED]
                )
                state[then_port, S_WINDOW], state[then_port, S_USED], state[then_port, S_START] = index, used, index * window
                state[then_port, S_CLOSES], state[then_port, S_END] = index * window + opened, (index + 1.0) * window
            state[then_port, S_READ_FREE] = other
        if is_parse:
            done = max(best + command_cycles * ops[n, WORDS], passed)
            result[n, R_WAIT] = best - parser_free
            result[n, R_ISSUED] = done
            issued[n] = done
            if ops[n, KIND] <= ELEMENTWISE:
                kernels[kernel_count] = n
                kernel_count += 1
            elif ops[n, KIND] == DMA:
                transfers[transfer_count] = n
                transfer_count += 1
            else:
                result[n, R_START] = parser_free
                result[n, R_END] = done
                finish = max(finish, done)
            parser_free = done
            parsed += 1
            parser_at = FAR
            look_parser = True
        elif is_fetch:
            if n != fetching:
                fetching = n
                result[n, R_START] = best
            result[n, R_BLOCKDEP] += held
            end = best
            if costs[fetch, C_IFM_BEATS] > 0.0:
                fetch_free = passed
                end = passed + ports[port, P_READ_LATENCY]
            if then_port >= 0:
                end = max(end, other + ports[then_port, P_READ_LATENCY])
                fetch_free = max(fetch_free, other)
            moments[fetch, M_FETCHED] = end
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
            moments[stream, M_STREAM_START] = begin + latency
            end = max(arrived, begin + latency + decoding)
            moments[stream, M_STREAM_END] = end
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
            written[block, W_DATA] = end
            output_free = end
            written[block, W_RESPONSE] = end + ports[port, P_WRITE_LATENCY]
            if with_times:
                times[output, T_OUTPUT_START] = best
                times[output, T_OUTPUT_END] = end
            block += 1
            if ends[block, 1] != n:
                finished[n] = written[block - 1, W_RESPONSE]
                result[n, R_END] = finished[n]
                finish = max(finish, finished[n])
                look_parser = True
            output_at = FAR
    tails[0] = finish - mac_free
    tails[1] = finish - output_free
    tails[2] = finish - stream_free
    return finish
