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
from sim.timing.kernels.ports import open_ports
from sim.timing.kernels.rounding import round_results
from sim.timing.kernels.rows import (
    B_LOAD,
    B_OPERATION,
    BLOCK_WORDS,
    C_IFM2_BEATS,
    C_IFM_BEATS,
    C_MAC,
    C_STREAM_BEATS,
    FAR,
    FIRST_RESULT,
    H_AT_BLOCKS,
    H_AT_LOADS,
    H_AT_OPERATIONS,
    H_BEAT,
    H_COMMAND_PORT,
    H_DMA_SETUP,
    H_FIRST_TRANSFER,
    H_LOADS,
    H_OPERATIONS,
    H_START_CYCLES,
    HEAD_WORDS,
    K_OUTPUT,
    LOAD_WORDS,
    M_FETCHED,
    M_MAC_END,
    M_STREAM_END,
    M_STREAM_START,
    MOMENTS,
    NOTHING,
    O_COMMAND_BEATS,
    O_NEXT_TRANSFER,
    OPERATION_WORDS,
    P_BURST_BYTES,
    PORT_WORDS,
    R_END,
    R_ISSUED,
    T_IFM_START,
    T_MAC_START,
    T_OUTPUT_START,
    T_STREAM_START,
    X_LEFT,
)
from sim.timing.kernels.tables import WORD_BYTES, floats_at, ints_at
from sim.timing.kernels.units import (
    array_time,
    ask_commands,
    begin_operation,
    can_fetch,
    can_parse,
    can_stream,
    clear,
    fetch_input,
    fetch_time,
    inlined,
    move,
    multiply,
    note,
    parse,
    parser_time,
    stream_time,
    stream_weights,
    write_output,
)

_WORDS = nb.int64[::1]
_TIMES = nb.float64[:, ::1]
_COLUMNS = nb.int64[::1]
_TABLE = nb.int64[:, ::1]


@inlined
def tables_of(words):  # type: ignore[no-untyped-def]
    """The head and the ports; then integers and floats of operations, of loads and of blocks."""
    base = words.ctypes.data
    ops = base + words[H_AT_OPERATIONS] * WORD_BYTES
    loads = base + words[H_AT_LOADS] * WORD_BYTES
    blocks = base + words[H_AT_BLOCKS] * WORD_BYTES
    return (
        floats_at(base, 1),
        floats_at(base + HEAD_WORDS * WORD_BYTES, PORT_WORDS),
        ints_at(ops, OPERATION_WORDS),
        floats_at(ops, OPERATION_WORDS),
        ints_at(loads, LOAD_WORDS),
        floats_at(loads, LOAD_WORDS),
        ints_at(blocks, BLOCK_WORDS),
        floats_at(blocks, BLOCK_WORDS),
    )


@kernel(nb.types.UniTuple(nb.float64, 4)(_WORDS, _TIMES, _COLUMNS, _TABLE), error_model="numpy")
def run(words, times, columns, table):  # type: ignore[no-untyped-def]
    """Runs the stream; (when everything has finished, and from when on MAC array, output unit and weight decoder are idle).

    `words` are laid out as `rows` says. `times` (m, TIME_COLUMNS) cycles is filled if it has rows; so is `table` (n, any): it
    takes the results of the operations in whole cycles in its `columns` (RESULT_COLUMNS,).
    """
    head, ports, ops, result, links, costs, ends, written = tables_of(words)
    count, total, command_port = words[H_OPERATIONS], words[H_LOADS], words[H_COMMAND_PORT]
    overhead, setup = head[H_START_CYCLES, 0], head[H_DMA_SETUP, 0]
    head[X_LEFT, 0] = 0.0
    open_ports(ports)
    # The next operation, transfer, load and block of every unit, and the last ones that have finished.
    parsed, transfer = np.int64(0), words[H_FIRST_TRANSFER]
    fetch, stream, array, block = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    kernel_done, transfer_done, fetching = np.int64(NOTHING), np.int64(NOTHING), np.int64(NOTHING)
    parser_free, transfer_free, fetch_free, stream_free, mac_free, output_free = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    parser_at, transfer_at, fetch_at, stream_at, array_at, output_at = FAR, FAR, FAR, FAR, FAR, FAR
    held, finish, first, is_stale = 0.0, 0.0, FAR, True
    # Commands are fetched at most one burst ahead of the parser.
    most, asked = ports[command_port, P_BURST_BYTES] / head[H_BEAT, 0], np.int64(0)
    asked, ahead = ask_commands(result, ports, command_port, 0.0, count, parsed, asked, 0.0, most)
    while True:
        # A time that is known stays as it is; the others are looked at until nothing more becomes known.
        while True:
            act = False
            while fetch_at >= FAR and fetch < total and can_fetch(links, fetch, parsed, array, block):
                fetch_at, held = fetch_time(links, costs, result, written, fetch, fetching, fetch_free, overhead)
                # What asks nothing of a port need not wait for its turn, unless the next fetch could be the earlier one.
                if held > 0.0 or costs[fetch, C_IFM_BEATS] > 0.0 or costs[fetch, C_IFM2_BEATS] > 0.0:
                    break
                fetching = begin_operation(links, result, fetch, fetching, fetch_at)
                costs[fetch, M_FETCHED] = fetch_at
                note(times, fetch, T_IFM_START, fetch_at, fetch_at)
                fetch += 1
                fetch_at = FAR
            while stream_at >= FAR and stream < total and can_stream(links, stream, parsed, array):
                stream_at = stream_time(links, costs, result, stream, stream_free)
                if costs[stream, C_STREAM_BEATS] > 0.0:
                    break
                costs[stream, M_STREAM_START] = costs[stream, M_STREAM_END] = stream_at
                note(times, stream, T_STREAM_START, stream_at, stream_at)
                stream += 1
                stream_at = FAR
            if array_at >= FAR and array < fetch and array < stream and links[array, K_OUTPUT] < block:
                array_at = array_time(links, costs, written, array, mac_free)
                # The array uses no port. Only work that takes no time has to wait for its turn among equals.
                act = max(array_at + costs[array, C_MAC], costs[array, M_STREAM_END]) > array_at
            if not act:
                if output_at >= FAR and ends[block, B_LOAD] < array:
                    output_at = max(output_free, costs[ends[block, B_LOAD], M_MAC_END])
                if is_stale:
                    # Parser and transfers go on only when something has been parsed or has finished.
                    if transfer_at >= FAR and transfer < parsed:
                        transfer_at = max(transfer_free, result[transfer, R_ISSUED] + setup)
                    if parser_at >= FAR and parsed < count and can_parse(ops, parsed, kernel_done, transfer_done):
                        parser_at = parser_time(ops, result, parsed, parser_free)
                    first = min(parser_at, transfer_at)
                    is_stale = False
                best = min(min(first, fetch_at), min(stream_at, min(array_at, output_at)))
                if array_at != best or first == best or fetch_at == best or stream_at == best or best >= FAR:
                    break
            mac_free = multiply(links, costs, result, array, array_at, mac_free)
            note(times, array, T_MAC_START, array_at, mac_free)
            array += 1
            array_at = FAR
        if best >= FAR:
            break
        if first == best and parser_at == best:
            parser_free = parse(ops, result, parsed, best, parser_free)
            finish = max(finish, result[parsed, R_END])
            ahead -= result[parsed, O_COMMAND_BEATS]
            parsed += 1
            asked, ahead = ask_commands(result, ports, command_port, best, count, parsed, asked, ahead, most)
            parser_at = FAR
            is_stale = True
        elif first == best:
            others = min(min(fetch_at, stream_at), min(array_at, output_at))
            transfer_free = move(head, ops, result, ports, transfer, best, parser_at, others)
            if head[X_LEFT, 0] <= 0.0:
                finish = max(finish, result[transfer, R_END])
                transfer_done = transfer
                transfer = ops[transfer, O_NEXT_TRANSFER]
            transfer_at = FAR
            is_stale = True
        elif fetch_at == best:
            fetching = begin_operation(links, result, fetch, fetching, best)
            begin, end, fetch_free = fetch_input(ops, links, costs, result, ports, fetch, best, held, fetch_free)
            note(times, fetch, T_IFM_START, begin, end)
            fetch += 1
            fetch_at = FAR
        elif stream_at == best:
            begin, end, stream_free = stream_weights(ops, links, costs, result, ports, stream, best, stream_free)
            note(times, stream, T_STREAM_START, begin, end)
            stream += 1
            stream_at = FAR
        else:
            n = ends[block, B_OPERATION]
            output_free = write_output(ops, ends, costs, result, written, ports, block, best, output_free)
            note(times, ends[block, B_LOAD], T_OUTPUT_START, best, output_free)
            block += 1
            if ends[block, B_OPERATION] != n:
                kernel_done = n
                is_stale = True
                finish = max(finish, result[n, R_END])
            output_at = FAR
    for n in range(parsed, count):
        clear(result, n)
    round_results(result, FIRST_RESULT, columns, MOMENTS, table)
    return finish, mac_free, output_free, stream_free
