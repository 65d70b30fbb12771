"""The event engine: parser, DMA, IFM fetch, weight decoder, MAC array and output unit over two shared memory ports.

Every unit is an agent with one next action and the earliest time at which it can start; the engine always performs the
earliest action of all, so requests reach the ports in the order of time and contention needs no special case. Buffers are
counters: a unit waits until the piece of work that frees its buffer has finished. All times are in cycles.
"""

from __future__ import annotations

import numba
import numpy as np

from sim.timing.kernels.expand import (
    BLOCKDEP, DMA, DMA_BYTES, DMA_FROM, DMA_TO, DMA_WAIT, ELEMENTWISE, IFM2_PORT, IFM_PORT, KERNEL_WAIT, KIND, L_FIRST,
    L_IFM2_BEATS, L_IFM_BEATS, L_IFM_BURSTS, L_LAST, L_OFM_BEATS, L_OFM_BURSTS, L_OPERATION, L_STREAM_BYTES, OFM_PORT, OTHER,
    WAIT, WEIGHT_PORT, WORDS,
)

# Scalars of a port: beats per cycle when open, latencies, cycles that one burst holds its slot divided by the slots,
# window length (0: none), cycles of it in which addresses pass, beats admitted per window (0: no cap).
(
    P_READ_LATENCY, P_WRITE_LATENCY, P_READ_BURST_CYCLES, P_WRITE_BURST_CYCLES, P_BEAT_CYCLES, P_WINDOW, P_OPEN, P_CAP,
) = range(8)
PORT_SCALARS = 8

# State of a port.
(S_READ_FREE, S_WRITE_FREE, S_WINDOW, S_USED) = range(4)

# Scalars of the pipeline.
(
    E_COMMAND_CYCLES, E_START_CYCLES, E_KERNEL_QUEUE, E_DMA_QUEUE, E_DMA_SETUP, E_BEAT, E_DMA_CHUNK, E_DECODE_BYTES,
    E_OUTPUT_DELAY, E_BURST1, E_FINISH_CYCLES, E_WEIGHT_AHEAD, E_MAC_DELAY, E_DMA_BURST, E_DMA_BURST_SCALE, E_COMMAND_PORT,
) = range(16)
ENGINE_SCALARS = 16

FAR = 1e18
RING = 64

# Columns of the float result per operation.
(
    R_ISSUED, R_START, R_END, R_MAC_ACTIVE, R_MAC_WEIGHTS, R_MAC_IFM, R_MAC_ACC, R_AO_ACTIVE, R_AO_MEMORY, R_AO_INPUT,
    R_WD_ACTIVE, R_WD_MEMORY, R_WD_MAC, R_IFM_ACTIVE, R_DMA_ACTIVE, R_BLOCKDEP, R_WAIT,
) = range(17)
RESULT_COLUMNS = 17


@numba.njit(cache=True)
def admit(port, state, start, cycles, beats):  # type: ignore[no-untyped-def]
    """End of a transfer of `beats` that takes `cycles` on an open port from `start`, under the port's window rule."""
    window = port[P_WINDOW]
    if window <= 0.0 or beats <= 0.0:
        return start + cycles
    open_cycles = port[P_OPEN]
    cap = port[P_CAP]
    left = 1.0
    t = start
    while True:
        index = np.floor(t / window)
        if index > state[S_WINDOW]:
            state[S_WINDOW] = index
            state[S_USED] = 0.0
        close = index * window + open_cycles
        room = (cap - state[S_USED]) / beats if cap > 0.0 else 2.0
        fits = (close - t) / cycles if cycles > 0.0 else 2.0
        part = min(left, fits)
        if part > room:
            part = room
        if part > 0.0:
            state[S_USED] += part * beats
            left -= part
            t += part * cycles
        if left <= 1e-9:
            return t
        t = max(t, (index + 1.0) * window)


@numba.njit(cache=True)
def read(port, state, time, beats, bursts):  # type: ignore[no-untyped-def]
    """(first start, end of the data) of a read of `beats` in `bursts` transactions asked for at `time`."""
    start = max(time, state[S_READ_FREE])
    cycles = max(beats * port[P_BEAT_CYCLES], bursts * port[P_READ_BURST_CYCLES])
    end = admit(port, state, start, cycles, beats)
    state[S_READ_FREE] = end
    return start, end + port[P_READ_LATENCY]


@numba.njit(cache=True)
def write(port, state, time, beats, bursts):  # type: ignore[no-untyped-def]
    """(start, end of the data) of a write asked for at `time`; the response comes one write latency later."""
    start = max(time, state[S_WRITE_FREE])
    cycles = max(beats * port[P_BEAT_CYCLES], bursts * port[P_WRITE_BURST_CYCLES])
    end = admit(port, state, start, cycles, beats)
    state[S_WRITE_FREE] = end
    return start, end


@numba.njit(cache=True)
def run(ops, loads, mac_cycles, output_cycles, ports, scalars, result, moved, load_times):  # type: ignore[no-untyped-def]
    """Runs the stream; returns the time at which everything has finished.

    `ops` (n, OPERATION_COLUMNS), `loads` (m, LOAD_COLUMNS), `mac_cycles` and `output_cycles` (m,), `ports` (2, PORT_SCALARS),
    `result` (n, RESULT_COLUMNS) float out, `moved` (n, 4) beats of port 0 read, write, port 1 read, write out,
    `load_times` (m, 10) out: start and end of fetch, weights, MAC, output and write.
    """
    count = ops.shape[0]
    total = loads.shape[0]
    state = np.zeros((2, 4))
    beat = scalars[E_BEAT]
    first_load = np.full(count, -1, np.int64)
    block_count = np.zeros(count, np.int64)
    previous = np.full(count, -1, np.int64)
    first_block = np.zeros(count, np.int64)
    blocks_total = 0
    for i in range(total):
        n = loads[i, L_OPERATION]
        if first_load[n] < 0:
            first_load[n] = i
            first_block[n] = blocks_total
        if loads[i, L_LAST]:
            block_count[n] += 1
            blocks_total += 1
    block_end = np.full(blocks_total + 1, FAR)
    block_of = np.zeros(total, np.int64)
    b = -1
    last_kernel = -1
    for i in range(total):
        if loads[i, L_FIRST]:
            b += 1
        block_of[i] = b
    for n in range(count):
        if first_load[n] >= 0:
            previous[n] = last_kernel
            last_kernel = n
    issued = np.full(count, FAR)
    finished = np.full(count, FAR)
    fetch_end = np.full(total + 1, FAR)
    weight_start = np.full(total + 1, FAR)
    weight_end = np.full(total + 1, FAR)
    mac_start = np.full(total + 1, FAR)
    mac_end = np.full(total + 1, FAR)
    output_end = np.full(blocks_total + 1, FAR)
    kernels = np.empty(count + 1, np.int64)
    transfers = np.empty(count + 1, np.int64)
    kernels_issued = 0
    kernels_done = 0
    transfers_issued = 0
    transfers_done = 0
    p = 0
    f = 0
    w = 0
    m = 0
    o = 0
    d = 0
    parser_time = 0.0
    parser_free = 0.0
    fetch_free = 0.0
    weight_free = 0.0
    mac_free = 0.0
    output_free = 0.0
    dma_time = 0.0
    dma_left = np.int64(0)
    dma_active = False
    dma_arrival = 0.0
    finish = 0.0
    output_load = 0
    freed = 0
    streamed = np.zeros(total + 1, np.int64)
    for i in range(total):
        streamed[i + 1] = streamed[i] + loads[i, L_STREAM_BYTES]
    while True:
        # Parser: operation p needs room in its queue, or its wait to be satisfied.
        best = FAR
        agent = -1
        if p < count:
            kind = ops[p, KIND]
            t = parser_free
            if kind <= ELEMENTWISE:
                need = kernels_issued - np.int64(scalars[E_KERNEL_QUEUE])
                if need >= 0:
                    t = max(t, finished[kernels[need]])
            elif kind == DMA:
                need = transfers_issued - np.int64(scalars[E_DMA_QUEUE])
                if need >= 0:
                    t = max(t, finished[transfers[need]])
            elif kind == DMA_WAIT:
                need = transfers_issued - 1 - ops[p, WAIT]
                if need >= 0:
                    t = max(t, finished[transfers[need]])
            elif kind == KERNEL_WAIT:
                need = kernels_issued - 1 - ops[p, WAIT]
                if need >= 0:
                    t = max(t, finished[kernels[need]])
            else:
                if kernels_issued > 0:
                    t = max(t, finished[kernels[kernels_issued - 1]])
                if transfers_issued > 0:
                    t = max(t, finished[transfers[transfers_issued - 1]])
            if t < best:
                best = t
                agent = 0
        # DMA.
        if dma_active or d < transfers_issued:
            t = dma_time if dma_active else max(dma_time, issued[transfers[d]] + scalars[E_DMA_SETUP])
            if t < best:
                best = t
                agent = 1
        # IFM fetch.
        if f < total:
            n = loads[f, L_OPERATION]
            t = issued[n]
            if t < FAR:
                t = max(t + scalars[E_START_CYCLES], fetch_free)
                if f >= 2 and (loads[f, L_IFM_BEATS] > 0 or loads[f, L_FIRST]):
                    t = max(t, mac_end[f - 3] if f >= 3 else 0.0)
                if loads[f, L_FIRST]:
                    q = previous[n]
                    if q >= 0:
                        index = block_of[f] - first_block[n]
                        allowed = ops[n, BLOCKDEP] - index
                        if allowed < 0:
                            allowed = 0
                        last = first_block[q] + block_count[q] - 1 - allowed
                        if last >= first_block[q]:
                            t = max(t, block_end[last])
                        elif q > 0 and previous[q] >= 0:
                            t = max(t, finished[previous[q]])
                if t < best:
                    best = t
                    agent = 2
        # Weight stream.
        if w < total:
            n = loads[w, L_OPERATION]
            t = issued[n]
            if t < FAR:
                t = max(t + scalars[E_START_CYCLES], weight_free)
                # The decoder asks ahead until its window of the stream is full: the newest load that must have started.
                while freed < w and streamed[w + 1] - streamed[freed + 1] > scalars[E_WEIGHT_AHEAD]:
                    freed += 1
                if freed > 0:
                    t = max(t, mac_start[freed - 1])
                if t < best:
                    best = t
                    agent = 3
        # MAC array.
        if m < f and m < w:
            t = max(mac_free, max(fetch_end[m], weight_start[m]))
            if loads[m, L_FIRST] and block_of[m] >= 2:
                t = max(t, output_end[block_of[m] - 2])
            if t < best:
                best = t
                agent = 4
        # Output unit.
        if output_load < m:
            t = max(output_free, mac_end[output_load] if loads[output_load, L_LAST] else 0.0)
            if not loads[output_load, L_LAST]:
                output_load += 1
                continue
            if t < best:
                best = t
                agent = 5
        if agent < 0:
            break
        if agent == 0:
            kind = ops[p, KIND]
            result[p, R_WAIT] = max(best - parser_free, 0.0)
            result[p, R_ISSUED] = best
            done = best + scalars[E_COMMAND_CYCLES] * ops[p, WORDS]
            # Commands are fetched ahead, so their latency is hidden, but they take their turn on the port.
            port = np.int64(scalars[E_COMMAND_PORT])
            beats = ops[p, WORDS] * 4.0 / beat
            start, arrived = read(ports[port], state[port], best, beats, ops[p, WORDS] * 4.0 / scalars[E_BURST1])
            done = max(done, state[port, S_READ_FREE])
            parser_free = done
            if kind <= ELEMENTWISE:
                issued[p] = done
                kernels[kernels_issued] = p
                kernels_issued += 1
            elif kind == DMA:
                issued[p] = done
                transfers[transfers_issued] = p
                transfers_issued += 1
            else:
                result[p, R_START] = best - result[p, R_WAIT]
                result[p, R_END] = done
                finish = max(finish, done)
            p += 1
        elif agent == 1:
            n = transfers[d]
            if not dma_active:
                dma_active = True
                dma_left = ops[n, DMA_BYTES]
                result[n, R_START] = best
                dma_arrival = best
            chunk = min(dma_left, np.int64(scalars[E_DMA_CHUNK]))
            source = ops[n, DMA_FROM]
            target = ops[n, DMA_TO]
            arrived = best
            if source >= 0:
                beats = np.ceil(chunk / beat)
                bursts = np.ceil(chunk / scalars[E_DMA_BURST]) * scalars[E_DMA_BURST_SCALE]
                start, arrived = read(ports[source], state[source], best, beats, bursts)
                moved[n, 2 * source] += np.int64(beats)
                dma_time = max(state[source, S_READ_FREE], best)
            if target >= 0:
                beats = np.ceil(chunk / beat)
                bursts = np.ceil(chunk / 32.0)
                start, landed = write(ports[target], state[target], max(best, state[target, S_WRITE_FREE]), beats, bursts)
                moved[n, 2 * target + 1] += np.int64(beats)
                arrived = max(arrived, landed) + ports[target, P_WRITE_LATENCY]
            dma_arrival = max(dma_arrival, arrived)
            dma_left -= chunk
            if dma_left <= 0:
                dma_active = False
                finished[n] = dma_arrival
                result[n, R_END] = dma_arrival
                result[n, R_DMA_ACTIVE] = dma_arrival - result[n, R_START]
                finish = max(finish, dma_arrival)
                d += 1
        elif agent == 2:
            n = loads[f, L_OPERATION]
            end = best
            beats = loads[f, L_IFM_BEATS]
            start = best
            if f == first_load[n]:
                result[n, R_START] = best
            if beats > 0:
                port = ops[n, IFM_PORT]
                start, end = read(ports[port], state[port], best, float(beats), float(loads[f, L_IFM_BURSTS]))
                moved[n, 2 * port] += beats
                fetch_free = state[port, S_READ_FREE]
            beats = loads[f, L_IFM2_BEATS]
            if beats > 0:
                port = ops[n, IFM2_PORT]
                begin, end2 = read(ports[port], state[port], best, float(beats), np.ceil(beats * beat / 32.0))
                moved[n, 2 * port] += beats
                end = max(end, end2)
                fetch_free = max(fetch_free, state[port, S_READ_FREE])
            fetch_end[f] = end
            load_times[f, 0] = best
            load_times[f, 1] = end
            result[n, R_IFM_ACTIVE] += end - start
            f += 1
        elif agent == 3:
            n = loads[w, L_OPERATION]
            stream = loads[w, L_STREAM_BYTES]
            weight_start[w] = best
            weight_end[w] = best
            if stream > 0:
                port = ops[n, WEIGHT_PORT]
                beats = stream / beat
                bursts = np.ceil(stream / (32.0 if port == 0 else scalars[E_BURST1]))
                start, end = read(ports[port], state[port], best, beats, bursts)
                # No more than the window can be in flight: one window per latency.
                end = max(end, best + stream * ports[port, P_READ_LATENCY] / scalars[E_WEIGHT_AHEAD] + ports[port, P_READ_LATENCY])
                weight_start[w] = start + ports[port, P_READ_LATENCY]
                weight_end[w] = max(end, weight_start[w] + stream / (scalars[E_DECODE_BYTES] if port == 0 else scalars[E_MAC_DELAY]))
                weight_free = max(state[port, S_READ_FREE], weight_end[w] - ports[port, P_READ_LATENCY])
                moved[n, 2 * port] += np.int64(np.ceil(beats))
                result[n, R_WD_ACTIVE] += weight_end[w] - weight_start[w]
            load_times[w, 2] = weight_start[w]
            load_times[w, 3] = weight_end[w]
            w += 1
        elif agent == 4:
            n = loads[m, L_OPERATION]
            mac_start[m] = best
            busy = mac_cycles[m]
            mac_end[m] = max(best + busy, weight_end[m])
            load_times[m, 4] = best
            load_times[m, 5] = mac_end[m]
            result[n, R_MAC_ACTIVE] += busy
            mac_free = mac_end[m]
            m += 1
        else:
            n = loads[output_load, L_OPERATION]
            busy = output_cycles[output_load]
            end = best + busy
            beats = loads[output_load, L_OFM_BEATS]
            port = ops[n, OFM_PORT]
            start, written = write(ports[port], state[port], best + scalars[E_OUTPUT_DELAY], float(beats), float(loads[output_load, L_OFM_BURSTS]))
            moved[n, 2 * port + 1] += beats
            end = max(end, written)
            block = block_of[output_load]
            output_end[block] = end
            output_free = end
            block_end[block] = end + ports[port, P_WRITE_LATENCY] + scalars[E_FINISH_CYCLES]
            load_times[output_load, 6] = best
            load_times[output_load, 7] = end
            result[n, R_AO_ACTIVE] += busy
            if block == first_block[n] + block_count[n] - 1:
                finished[n] = block_end[block]
                result[n, R_END] = block_end[block]
                finish = max(finish, block_end[block])
            output_load += 1
    return finish
