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

# Scalars of a port: latencies, cycles that one burst takes of the port because its slot is held until the data are there
# (held cycles / slots), cycles per beat, window length (0: none), cycles of the window in which addresses pass, beats
# admitted per window (0: no cap), bytes of a burst.
(
    P_READ_LATENCY,
    P_WRITE_LATENCY,
    P_READ_BURST_CYCLES,
    P_WRITE_BURST_CYCLES,
    P_BEAT_CYCLES,
    P_WINDOW,
    P_OPEN,
    P_CAP,
    P_BURST_BYTES,
) = range(9)
PORT_SCALARS = 9

# State of a port: when its read and write channels are free, the current window, the beats admitted in it, its start and end.
S_READ_FREE, S_WRITE_FREE, S_WINDOW, S_USED, S_START, S_END = range(6)
STATE_COLUMNS = 6

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

FAR = 1e18
"""Time of what is not yet known."""

# Columns of the result per operation, cycles.
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

# Agents.
NOBODY, PARSER, TRANSFER, FETCH, STREAM, ARRAY, OUTPUT = range(-1, 6)

_I = nb.int64
_F = nb.float64
_INTS = nb.int64[::1]
_FLOATS = nb.float64[::1]
_INT_TABLE = nb.int64[:, ::1]
_FLOAT_TABLE = nb.float64[:, ::1]


@kernel(_F(_FLOAT_TABLE, _FLOAT_TABLE, _I, _F, _F, _F), error_model="numpy")
def admit(ports, state, p, start, cycles, beats):  # type: ignore[no-untyped-def]
    """End of a transfer of `beats` that takes `cycles` on an open port from `start`, under the port's window rule."""
    window = ports[p, P_WINDOW]
    if window <= 0.0 or beats <= 0.0:
        return start + cycles
    cap = ports[p, P_CAP]
    # The usual case without a division: the transfer fits into what is left of the current window.
    fits = state[p, S_START] <= start < state[p, S_END] and start + cycles <= state[p, S_START] + ports[p, P_OPEN]
    if fits and (cap <= 0.0 or state[p, S_USED] + beats <= cap):
        state[p, S_USED] += beats
        return start + cycles
    left = 1.0
    time = start
    while True:
        index = np.floor(time / window)
        if index > state[p, S_WINDOW]:
            state[p, S_WINDOW] = index
            state[p, S_USED] = 0.0
            state[p, S_START] = index * window
            state[p, S_END] = (index + 1.0) * window
        part = left
        if cycles > 0.0:
            part = min(part, (index * window + ports[p, P_OPEN] - time) / cycles)
        if cap > 0.0:
            part = min(part, (cap - state[p, S_USED]) / beats)
        if part > 0.0:
            state[p, S_USED] += part * beats
            left -= part
            time += part * cycles
        if left <= 1e-9:
            return time
        time = max(time, (index + 1.0) * window)
        # Whole windows in one step.
        full = ports[p, P_OPEN] / cycles if cycles > 0.0 else FAR
        if cap > 0.0:
            full = min(full, cap / beats)
        skip = np.floor(left / full) - 1.0
        if skip > 0.0:
            left -= skip * full
            time += skip * window


@kernel(nb.types.UniTuple(_F, 2)(_FLOAT_TABLE, _FLOAT_TABLE, _I, _F, _F, _F), error_model="numpy")
def read(ports, state, p, time, beats, bursts):  # type: ignore[no-untyped-def]
    """(start, end of the data) of a read of `beats` in `bursts` transactions asked for at `time`."""
    start = max(time, state[p, S_READ_FREE])
    cycles = max(beats * ports[p, P_BEAT_CYCLES], bursts * ports[p, P_READ_BURST_CYCLES])
    end = admit(ports, state, p, start, cycles, beats)
    state[p, S_READ_FREE] = end
    return start, end + ports[p, P_READ_LATENCY]


@kernel(_F(_FLOAT_TABLE, _FLOAT_TABLE, _I, _F, _F, _F), error_model="numpy")
def write(ports, state, p, time, beats, bursts):  # type: ignore[no-untyped-def]
    """End of the data of a write asked for at `time`; the response comes one write latency later."""
    start = max(time, state[p, S_WRITE_FREE])
    cycles = max(beats * ports[p, P_BEAT_CYCLES], bursts * ports[p, P_WRITE_BURST_CYCLES])
    end = admit(ports, state, p, start, cycles, beats)
    state[p, S_WRITE_FREE] = end
    return end


@kernel(_I(_INT_TABLE, _INT_TABLE, *(_INTS,) * 6), error_model="numpy")
def index_blocks(ops, loads, block_of, first_load, first_block, block_count, previous, streamed):  # type: ignore[no-untyped-def]
    """Numbers the blocks of the stream and links each kernel operation to the one before it; returns the block count.

    `streamed` (loads + 1,) becomes the weight bytes before each load.
    """
    block = -1
    for i in range(loads.shape[0]):
        n = loads[i, L_OPERATION]
        if loads[i, L_FIRST]:
            block += 1
            block_count[n] += 1
        if first_load[n] < 0:
            first_load[n] = i
            first_block[n] = block
        block_of[i] = block
        streamed[i + 1] = streamed[i] + loads[i, L_STREAM_BYTES]
    last = -1
    for n in range(ops.shape[0]):
        if first_load[n] >= 0:
            previous[n] = last
            last = n
    return block + 1


@kernel(_F(_INT_TABLE, _I, _F, *(_INTS,) * 4, _FLOATS), error_model="numpy")
def parser_ready(ops, p, free, queues, kernels, transfers, counts, finished):  # type: ignore[no-untyped-def]
    """When the parser can perform its next operation; counts = (kernels issued, transfers issued)."""
    kind = ops[p, KIND]
    kernel_need = np.int64(-1)
    transfer_need = np.int64(-1)
    if kind <= ELEMENTWISE:
        kernel_need = counts[0] - queues[0]
    elif kind == DMA:
        transfer_need = counts[1] - queues[1]
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


@kernel(_F(_INT_TABLE, _I, _I, *(_INTS,) * 3, *(_FLOATS,) * 2), error_model="numpy")
def dependency(ops, n, block, previous, first_block, block_count, block_end, finished):  # type: ignore[no-untyped-def]
    """When a block may start for BLOCKDEP: block i of an operation leaves at most BLOCKDEP - i blocks of the one before."""
    q = previous[n]
    if q < 0:
        return 0.0
    allowed = max(ops[n, BLOCKDEP] - (block - first_block[n]), 0)
    last = first_block[q] + block_count[q] - 1 - allowed
    if last >= first_block[q]:
        return block_end[last]
    if previous[q] >= 0:
        return finished[previous[q]]
    return 0.0


@kernel(
    nb.types.Tuple((_I, _F, _F))(_INT_TABLE, _I, _F, _I, _FLOAT_TABLE, _FLOAT_TABLE, _FLOATS, _INT_TABLE), error_model="numpy"
)
def transfer_chunk(ops, n, time, left, ports, state, scalars, moved):  # type: ignore[no-untyped-def]
    """Moves one chunk of a DMA transfer at `time`; (bytes, arrival, when the next chunk can be asked for)."""
    chunk = min(left, max(DMA_CHUNK_BYTES, ops[n, DMA_BYTES] >> 14))
    beats = np.ceil(chunk / scalars[E_BEAT])
    arrived = time
    following = time
    source = ops[n, DMA_FROM]
    target = ops[n, DMA_TO]
    if source >= 0:
        bursts = np.ceil(chunk / ports[source, P_BURST_BYTES])
        _, arrived = read(ports, state, source, time, beats, bursts)
        moved[n, 2 * source] += np.int64(beats)
        following = max(following, state[source, S_READ_FREE])
    if target >= 0:
        bursts = np.ceil(chunk / ports[target, P_BURST_BYTES])
        landed = write(ports, state, target, time, beats, bursts)
        moved[n, 2 * target + 1] += np.int64(beats)
        following = max(following, state[target, S_WRITE_FREE])
        arrived = max(arrived, landed) + ports[target, P_WRITE_LATENCY]
    return chunk, arrived, following


@kernel(
    _F(_INT_TABLE, _INT_TABLE, _FLOATS, _FLOATS, _FLOAT_TABLE, _FLOATS, _FLOAT_TABLE, _INT_TABLE, _FLOAT_TABLE, _FLOATS),
    error_model="numpy",
)
def run(ops, loads, mac_cycles, output_cycles, ports, scalars, result, moved, times, tails):  # type: ignore[no-untyped-def]
    """Runs the stream; returns the time at which everything has finished.

    `ops` (n, OPERATION_COLUMNS), `loads` (m, LOAD_COLUMNS), `mac_cycles` and `output_cycles` (m,), `ports` (2, PORT_SCALARS).
    Outputs: `result` (n, RESULT_COLUMNS) cycles, `moved` (n, 4) beats of port 0 read and write, port 1 read and write,
    `times` (m, TIME_COLUMNS) cycles, not filled if it has no rows; `tails` (3,) cycles that MAC array, output unit and weight
    decoder are idle at the end.
    """
    count = ops.shape[0]
    total = loads.shape[0]
    state = np.zeros((2, STATE_COLUMNS))
    for p in range(2):
        state[p, S_END] = ports[p, P_WINDOW]
    with_times = times.shape[0] == total
    block_of = np.zeros(total, np.int64)
    first_load = np.full(count, -1, np.int64)
    first_block = np.zeros(count, np.int64)
    block_count = np.zeros(count, np.int64)
    previous = np.full(count, -1, np.int64)
    streamed = np.zeros(total + 1, np.int64)
    blocks = index_blocks(ops, loads, block_of, first_load, first_block, block_count, previous, streamed)
    block_end = np.full(blocks + 1, FAR)
    output_end = np.full(blocks + 1, FAR)
    issued = np.full(count, FAR)
    finished = np.full(count, FAR)
    fetched = np.full(total + 1, FAR)
    stream_start = np.full(total + 1, FAR)
    stream_end = np.full(total + 1, FAR)
    mac_start = np.full(total + 1, FAR)
    mac_end = np.full(total + 1, FAR)
    kernels = np.zeros(count + 1, np.int64)
    transfers = np.zeros(count + 1, np.int64)
    counts = np.zeros(2, np.int64)
    queues = np.empty(2, np.int64)
    queues[0] = np.int64(scalars[E_KERNEL_QUEUE])
    queues[1] = np.int64(scalars[E_DMA_QUEUE])
    command_port = np.int64(scalars[E_COMMAND_PORT])
    beat = scalars[E_BEAT]
    parsed, transferred, fetch, stream, array, output, freed = 0, 0, 0, 0, 0, 0, 0
    parser_free, transfer_time, fetch_free, stream_free, mac_free, output_free = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    transfer_left = np.int64(-1)
    transfer_arrival = 0.0
    finish = 0.0
    parser_at, transfer_at, fetch_at, stream_at, array_at, output_at = FAR, FAR, FAR, FAR, FAR, FAR
    held = 0.0
    agent = NOBODY
    look_parser, look_fetch, look_stream = True, True, True
    while True:
        # A time that is known stays as it is; an unknown one is looked at again after the actions that can make it known.
        if agent == PARSER:
            kind = ops[parsed, KIND]
            words = ops[parsed, WORDS]
            # Commands are fetched ahead: their latency is hidden, but they take their turn on the port.
            beats = words * 4.0 / beat
            read(ports, state, command_port, parser_at, beats, words * 4.0 / ports[command_port, P_BURST_BYTES])
            done = max(parser_at + scalars[E_COMMAND_CYCLES] * words, state[command_port, S_READ_FREE])
            result[parsed, R_WAIT] = parser_at - parser_free
            result[parsed, R_ISSUED] = done
            if kind <= ELEMENTWISE:
                issued[parsed] = done
                kernels[counts[0]] = parsed
                counts[0] += 1
            elif kind == DMA:
                issued[parsed] = done
                transfers[counts[1]] = parsed
                counts[1] += 1
            else:
                result[parsed, R_START] = parser_free
                result[parsed, R_END] = done
                finish = max(finish, done)
            parser_free = done
            parsed += 1
            parser_at = FAR
            look_parser, look_fetch, look_stream = True, True, True
        if agent == TRANSFER:
            n = transfers[transferred]
            if transfer_left < 0:
                transfer_left = ops[n, DMA_BYTES]
                transfer_arrival = transfer_at
                result[n, R_START] = transfer_at
            chunk, arrived, transfer_time = transfer_chunk(ops, n, transfer_at, transfer_left, ports, state, scalars, moved)
            transfer_left -= chunk
            transfer_arrival = max(transfer_arrival, arrived)
            if transfer_left <= 0:
                transfer_left = np.int64(-1)
                finished[n] = transfer_arrival
                result[n, R_END] = transfer_arrival
                result[n, R_DMA_ACTIVE] = transfer_arrival - result[n, R_START]
                finish = max(finish, transfer_arrival)
                transferred += 1
                look_parser = True
            transfer_at = FAR
        if agent == OUTPUT:
            n = loads[output, L_OPERATION]
            block = block_of[output]
            busy = output_cycles[output]
            port = ops[n, OFM_PORT]
            beats = loads[output, L_OFM_BEATS]
            written = write(ports, state, port, output_at, float(beats), float(loads[output, L_OFM_BURSTS]))
            moved[n, 2 * port + 1] += beats
            end = max(output_at + busy, written)
            result[n, R_OUTPUT_ACTIVE] += busy
            waited = max(0.0, output_at - max(output_free, result[n, R_START]))
            result[n, R_OUTPUT_INPUT] += waited
            result[n, R_OUTPUT_IDLE] += output_at - output_free - waited
            result[n, R_OUTPUT_MEMORY] += end - output_at - busy
            output_end[block] = end
            output_free = end
            block_end[block] = end + ports[port, P_WRITE_LATENCY]
            if with_times:
                times[output, T_OUTPUT_START] = output_at
                times[output, T_OUTPUT_END] = end
            if block == first_block[n] + block_count[n] - 1:
                finished[n] = block_end[block]
                look_parser = True
                result[n, R_END] = block_end[block]
                finish = max(finish, block_end[block])
            output += 1
            output_at = FAR
            look_fetch = True
        if look_parser and parser_at >= FAR and parsed < count:
            look_parser = False
            parser_at = parser_ready(ops, parsed, parser_free, queues, kernels, transfers, counts, finished)
        if transfer_at >= FAR and transferred < counts[1]:
            transfer_at = max(transfer_time, issued[transfers[transferred]] + scalars[E_DMA_SETUP])
        act = agent == FETCH
        while True:
            if not act:
                if not look_fetch or fetch_at < FAR or fetch >= total:
                    break
                look_fetch = False
                n = loads[fetch, L_OPERATION]
                if issued[n] >= FAR:
                    break
                time = max(issued[n] + scalars[E_START_CYCLES], fetch_free)
                if fetch >= 2:
                    time = max(time, mac_end[fetch - 2])
                held = 0.0
                if loads[fetch, L_FIRST]:
                    wanted = dependency(ops, n, block_of[fetch], previous, first_block, block_count, block_end, finished)
                    held = max(wanted - time, 0.0)
                    time = max(time, wanted)
                if time >= FAR:
                    break
                fetch_at = time
                # What asks nothing of a port need not wait for its turn, unless the next fetch could be the earlier one.
                if held > 0.0 or loads[fetch, L_IFM_BEATS] > 0 or loads[fetch, L_IFM2_BEATS] > 0:
                    break
            act = False
            n = loads[fetch, L_OPERATION]
            if fetch == first_load[n]:
                result[n, R_START] = fetch_at
            result[n, R_BLOCKDEP] += held
            end = fetch_at
            begin = fetch_at
            beats = loads[fetch, L_IFM_BEATS]
            if beats > 0:
                port = ops[n, IFM_PORT]
                begin, end = read(ports, state, port, fetch_at, float(beats), float(loads[fetch, L_IFM_BURSTS]))
                moved[n, 2 * port] += beats
                fetch_free = state[port, S_READ_FREE]
            beats = loads[fetch, L_IFM2_BEATS]
            if beats > 0:
                port = ops[n, IFM2_PORT]
                bursts = np.ceil(beats * beat / ports[port, P_BURST_BYTES])
                _, other = read(ports, state, port, fetch_at, float(beats), bursts)
                moved[n, 2 * port] += beats
                end = max(end, other)
                fetch_free = max(fetch_free, state[port, S_READ_FREE])
            fetched[fetch] = end
            if with_times:
                times[fetch, T_IFM_START] = begin
                times[fetch, T_IFM_END] = end
            result[n, R_IFM_ACTIVE] += max(0.0, fetch_free - begin)
            fetch += 1
            fetch_at = FAR
            look_fetch = True
        act = agent == STREAM
        while True:
            if not act:
                if not look_stream or stream_at < FAR or stream >= total:
                    break
                look_stream = False
                n = loads[stream, L_OPERATION]
                if issued[n] >= FAR:
                    break
                # The decoder asks ahead until its window is full: it waits for the newest load that must have started.
                while freed < stream and streamed[stream + 1] - streamed[freed + 1] > scalars[E_WEIGHT_WINDOW]:
                    freed += 1
                time = max(issued[n] + scalars[E_START_CYCLES], stream_free)
                if freed > 0:
                    time = max(time, mac_start[freed - 1])
                if time >= FAR:
                    break
                stream_at = time
                if loads[stream, L_STREAM_BYTES] > 0:
                    break
            act = False
            n = loads[stream, L_OPERATION]
            size = loads[stream, L_STREAM_BYTES]
            stream_start[stream] = stream_at
            stream_end[stream] = stream_at
            if with_times:
                times[stream, T_STREAM_START] = stream_at
                times[stream, T_STREAM_END] = stream_at
            if size > 0:
                port = ops[n, WEIGHT_PORT]
                latency = ports[port, P_READ_LATENCY]
                bursts = np.ceil(size / ports[port, P_BURST_BYTES])
                begin, arrived = read(ports, state, port, stream_at, size / beat, bursts)
                # No more than the window can be in flight: one window per latency.
                arrived = max(arrived, stream_at + size * latency / scalars[E_WEIGHT_WINDOW] + latency)
                decoding = size / scalars[E_DECODE_BYTES]
                stream_start[stream] = begin + latency
                stream_end[stream] = max(arrived, stream_start[stream] + decoding)
                result[n, R_DECODER_ACTIVE] += decoding
                stalled = max(0.0, stream_at - max(stream_free, issued[n]))
                result[n, R_DECODER_MAC] += stalled
                result[n, R_DECODER_IDLE] += stream_at - stream_free - stalled
                stream_free = max(state[port, S_READ_FREE], stream_end[stream] - latency)
                result[n, R_DECODER_MEMORY] += max(0.0, stream_free - stream_at - decoding)
                if with_times:
                    times[stream, T_STREAM_START] = begin
                    times[stream, T_STREAM_END] = stream_end[stream]
            stream += 1
            stream_at = FAR
            look_stream = True
        act = agent == ARRAY
        agent = NOBODY
        if array_at >= FAR and array < fetch and array < stream:
            time = max(mac_free, max(fetched[array], stream_start[array]))
            if loads[array, L_FIRST] and block_of[array] >= 2:
                time = max(time, output_end[block_of[array] - 2])
            array_at = time
            # The array uses no port. Only work that takes no time has to wait for its turn among equals.
            act = time < FAR and max(time + mac_cycles[array], stream_end[array]) > time
        if act:
            n = loads[array, L_OPERATION]
            busy = mac_cycles[array]
            mac_start[array] = array_at
            mac_end[array] = max(array_at + busy, stream_end[array])
            if with_times:
                times[array, T_MAC_START] = array_at
                times[array, T_MAC_END] = mac_end[array]
            result[n, R_MAC_IDLE] += array_at - mac_free
            if busy > 0.0:
                # Before the operation has started the array is idle, not stalled.
                gap = array_at - max(mac_free, result[n, R_START])
                result[n, R_MAC_IDLE] -= max(gap, 0.0)
                if gap > 0.0:
                    if fetched[array] >= array_at:
                        result[n, R_MAC_IFM] += gap
                    elif stream_start[array] >= array_at:
                        result[n, R_MAC_WEIGHTS] += gap
                    else:
                        result[n, R_MAC_ACCUMULATOR] += gap
                result[n, R_MAC_ACTIVE] += busy
                result[n, R_MAC_WEIGHTS] += mac_end[array] - array_at - busy
            mac_free = mac_end[array]
            array += 1
            array_at = FAR
            look_fetch, look_stream = True, True
            continue
        if output_at >= FAR:
            while output < array and not loads[output, L_LAST]:
                output += 1
            if output < array:
                output_at = max(output_free, mac_end[output])
        best = min(min(min(parser_at, transfer_at), min(fetch_at, stream_at)), min(array_at, output_at))
        if best >= FAR:
            break
        if fetch_at == best and parser_at != best and transfer_at != best:
            agent = FETCH
        elif parser_at == best:
            agent = PARSER
        elif transfer_at == best:
            agent = TRANSFER
        elif stream_at == best:
            agent = STREAM
        elif array_at == best:
            agent = ARRAY
        else:
            agent = OUTPUT
    tails[0] = finish - mac_free
    tails[1] = finish - output_free
    tails[2] = finish - stream_free
    return finish
