"""The event engine: parser, DMA, IFM fetch, weight decoder, MAC array and output unit over two shared memory ports.

Every unit is an agent with one next action and the earliest time at which it can start; the engine always performs the
earliest action of all, so requests reach the ports in the order of time and contention needs no special case. Buffers are
counters: a unit waits until the piece of work that frees its buffer has finished. Times are cycles as 64-bit floats.
Actions that ask nothing of a port are performed as soon as their time is known: no other action can come between.

The IFM buffer and the accumulators are double buffers. An action of the MAC array is one IFM block fetch, one of the output
unit one block, one of the DMA engine one chunk.
"""

from __future__ import annotations

import numpy as np

from npu.machine.kernels.arithmetic import inlined
from npu.machine.kernels.rows import FAR
from npu.native import types as ty
from npu.native.kernel import kernel
from sim.timing.kernels.ports import open_port
from sim.timing.kernels.rounding import round_results
from sim.timing.kernels.rows import (
    MOMENTS,
    NOTHING,
    OPERATION_WORDS,
    RESULT_AT,
    TIME_ROWS,
    blocks_at,
    fetches_at,
    heads_at,
    operations_at,
    ports_at,
)
from sim.timing.kernels.tables import floats_at
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
    move,
    multiply,
    parse,
    parser_time,
    stream_time,
    stream_weights,
    write_output,
)

_MEMORY = ty.uint8[::1]
_COLUMNS = ty.int64[::1]
_TABLE = ty.int64[:, ::1]


@inlined
def rows_in(memory):  # type: ignore[no-untyped-def]
    """The one head, ports, operations, fetches and blocks, and the results of the operations as a table of floats."""
    base = memory.ctypes.data
    heads = heads_at(base)
    head = heads[0]
    operations = base + head.operations_at
    return (
        heads,
        ports_at(base + head.ports_at),
        operations_at(operations),
        fetches_at(base + head.fetches_at),
        blocks_at(base + head.blocks_at),
        floats_at(operations + RESULT_AT, OPERATION_WORDS),
    )


@kernel(ty.several(ty.float64, 4)(_MEMORY, TIME_ROWS, _COLUMNS, _TABLE), error_model="numpy")
def run(memory, times, columns, table):  # type: ignore[no-untyped-def]
    """Runs the stream; (when everything has finished, and from when on MAC array, output unit and weight decoder are idle).

    `memory` is laid out as `rows` says. `times`, a row per fetch, is filled if it has rows; so is `table` (n, any): it takes
    the results of the operations in whole cycles in its `columns` (len(RESULTS),).
    """
    heads, ports, ops, fetches, blocks, results = rows_in(memory)
    head = heads[0]
    engine, has_times = head.engine, times.shape[0] > 0
    count, total, command_port = head.operations, head.fetches, ports[engine.command_port]
    start_cycles, setup = engine.start_cycles, engine.dma_setup_cycles
    head.left = 0.0
    for p in range(2):
        open_port(ports[p])
    # The next operation, transfer, fetch and block of every unit, and the last ones that have finished.
    parsed, transfer = np.int64(0), head.first_transfer
    fetch, stream, array, block = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    kernel_done, transfer_done, fetching = np.int64(NOTHING), np.int64(NOTHING), np.int64(NOTHING)
    parser_free, transfer_free, fetch_free, stream_free, mac_free, output_free = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    parser_at, transfer_at, fetch_at, stream_at, array_at, output_at = FAR, FAR, FAR, FAR, FAR, FAR
    held, finish, first, is_stale = 0.0, 0.0, FAR, True
    # Commands are fetched at most one burst ahead of the parser.
    most, asked = command_port.burst_bytes / engine.machine.beat_bytes, np.int64(0)
    asked, ahead = ask_commands(ops, command_port, 0.0, count, parsed, asked, 0.0, most)
    while True:
        # A time that is known stays as it is; the others are looked at until nothing more becomes known.
        while True:
            act = False
            while fetch_at >= FAR and fetch < total and can_fetch(fetches, fetch, parsed, array, block):
                fetch_at, held = fetch_time(ops, fetches, blocks, fetch, fetching, fetch_free, start_cycles)
                # What asks nothing of a port need not wait for its turn, unless the next fetch could be the earlier one.
                if held > 0.0 or fetches[fetch].ifm_beats > 0.0 or fetches[fetch].ifm2_beats > 0.0:
                    break
                fetching = begin_operation(ops, fetches, fetch, fetching, fetch_at)
                fetches[fetch].fetched = fetch_at
                if has_times:
                    times[fetch].ifm_start = times[fetch].ifm_end = fetch_at
                fetch += 1
                fetch_at = FAR
            while stream_at >= FAR and stream < total and can_stream(fetches, stream, parsed, array):
                stream_at = stream_time(ops, fetches, stream, stream_free)
                if fetches[stream].stream_beats > 0.0:
                    break
                fetches[stream].weights_start = fetches[stream].weights_end = stream_at
                if has_times:
                    times[stream].weights_start = times[stream].weights_end = stream_at
                stream += 1
                stream_at = FAR
            if array_at >= FAR and array < fetch and array < stream and fetches[array].after_output < block:
                array_at = array_time(fetches, blocks, array, mac_free)
                # The array uses no port. Only work that takes no time has to wait for its turn among equals.
                act = max(array_at + fetches[array].mac_cycles, fetches[array].weights_end) > array_at
            if not act:
                if output_at >= FAR and blocks[block].last_fetch < array:
                    output_at = max(output_free, fetches[blocks[block].last_fetch].mac_end)
                if is_stale:
                    # Parser and transfers go on only when something has been parsed or has finished.
                    if transfer_at >= FAR and transfer < parsed:
                        transfer_at = max(transfer_free, ops[transfer].issued + setup)
                    if parser_at >= FAR and parsed < count and can_parse(ops, parsed, kernel_done, transfer_done):
                        parser_at = parser_time(ops, parsed, parser_free)
                    first = min(parser_at, transfer_at)
                    is_stale = False
                best = min(min(first, fetch_at), min(stream_at, min(array_at, output_at)))
                if array_at != best or first == best or fetch_at == best or stream_at == best or best >= FAR:
                    break
            mac_free = multiply(ops[fetches[array].operation], fetches[array], array_at, mac_free)
            if has_times:
                times[array].mac_start, times[array].mac_end = array_at, mac_free
            array += 1
            array_at = FAR
        if best >= FAR:
            break
        if first == best and parser_at == best:
            clear(results, parsed)
            parser_free = parse(ops[parsed], best, parser_free)
            finish = max(finish, ops[parsed].end)
            ahead -= ops[parsed].command_beats
            parsed += 1
            asked, ahead = ask_commands(ops, command_port, best, count, parsed, asked, ahead, most)
            parser_at = FAR
            is_stale = True
        elif first == best:
            others = min(min(fetch_at, stream_at), min(array_at, output_at))
            transfer_free = move(head, ports, ops[transfer], best, parser_at, others)
            if head.left <= 0.0:
                finish = max(finish, ops[transfer].end)
                transfer_done = transfer
                transfer = ops[transfer].next_transfer
            transfer_at = FAR
            is_stale = True
        elif fetch_at == best:
            fetching = begin_operation(ops, fetches, fetch, fetching, best)
            begin, end, fetch_free = fetch_input(ops[fetching], fetches[fetch], ports, best, held, fetch_free)
            if has_times:
                times[fetch].ifm_start, times[fetch].ifm_end = begin, end
            fetch += 1
            fetch_at = FAR
        elif stream_at == best:
            op = ops[fetches[stream].operation]
            begin, end, stream_free = stream_weights(op, fetches[stream], ports[op.weight_port], best, stream_free)
            if has_times:
                times[stream].weights_start, times[stream].weights_end = begin, end
            stream += 1
            stream_at = FAR
        else:
            n = blocks[block].operation
            output_free = write_output(ops, fetches, blocks, ports, block, best, output_free)
            if has_times:
                last = times[blocks[block].last_fetch]
                last.output_start, last.output_end = best, output_free
            block += 1
            if blocks[block].operation != n:
                kernel_done = n
                is_stale = True
                finish = max(finish, ops[n].end)
            output_at = FAR
    for n in range(parsed, count):
        clear(results, n)
    round_results(results, columns, MOMENTS, table)
    return finish, mac_free, output_free, stream_free
