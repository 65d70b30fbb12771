"""Everything that the event engine finds prepared and leaves behind, as rows of named fields, and how they lie in memory.

One block of memory: a head, the two ports, then a row per operation, per IFM block fetch and per OFM block. One because every
further argument of a compiled function takes a tenth of a microsecond, rows because what is used together should lie together.
"""

from __future__ import annotations

import numpy as np

from npu.machine.kernels.rows import COSTS, MACHINE, PORT, floats, integers
from npu.native import types as ty
from npu.native.kernel import RowsAt

NOTHING = -1
"""A row number that stands for none: there is nothing to wait for."""

ENGINE = np.dtype(
    [
        ("machine", MACHINE),
        *integers(*("kernel_queue", "dma_queue"), "command_port"),
        *integers("always_drains"),  # whether an operation never fetches beside the output of the one before
        *floats(
            "command_cycles_per_word",
            "start_cycles",  # of an operation, once nothing holds it up any more
            "dma_setup_cycles",
            "dma_window_bytes",  # of a transfer that are on their way; 0: as many as its ports take
        ),
    ]
)
"""A variant, as the engine knows it."""

HEAD = np.dtype(
    [
        *integers("operations", "fetches", "blocks"),  # how many
        *integers("ports_at", "operations_at", "fetches_at", "blocks_at"),  # bytes from the head to the first row
        *integers("first_transfer"),  # an operation; as many as there are: none
        ("engine", ENGINE),
        # State, of the transfer under way: the bytes that are left (0: none is under way), when what has been moved has
        # arrived, and the bytes of a chunk with its beats and the cycles that it takes of its source and of its target.
        *floats("left", "arrived", "chunk", "chunk_beats", "chunk_read_cycles", "chunk_write_cycles"),
    ]
)

RESULTS = (
    *("issued", "start", "end"),
    *("mac_stalled_by_weights", "mac_stalled_by_ifm", "mac_stalled_by_accumulator"),
    *("output_stalled_by_memory", "output_stalled_by_input", "decoder_stalled_by_memory", "decoder_stalled_by_mac"),
    *("ifm_fetch_active", "dma_active", "blockdep_stall", "parser_wait", "mac_idle", "output_idle", "decoder_idle"),
)
"""What the engine finds out about an operation, by the names of the trace's columns: moments, then durations."""
MOMENTS = 3

TIMED_OPERATION = np.dtype(
    [
        *integers(
            "kind",
            *("after_kernel", "after_transfer"),  # what must have finished before the parser goes on, or NOTHING
            *("ifm_port", "ifm2_port", "ofm_port", "weight_port"),
            *("dma_bytes", "dma_from", "dma_to"),  # ports; below 0: no port
            "next_transfer",  # the transfer behind it; as many as there are operations: none
        ),
        # What its command words ask of their port, and the cycles that the parser needs for them.
        *floats("command_beats", "command_port_cycles", "command_cycles"),
        *floats("commands_arrived"),  # state, at the parser
        *floats(*RESULTS),
    ]
)
RESULT_AT = TIMED_OPERATION.fields["issued"][1] if TIMED_OPERATION.fields else 0
"""Bytes from a row to the first of its results."""
OPERATION_WORDS = TIMED_OPERATION.itemsize // 8

TIMED_FETCH = np.dtype(
    [
        *integers(
            "operation",
            # Blocks, or NOTHING: its accumulators come free, BLOCKDEP lets it start, SHRAM can be laid out anew.
            *("after_output", "after_end", "after_drain"),
            "after_array",  # the fetch that the MAC array must be done with, for its buffer, or NOTHING
            "after_start",  # the fetch that the MAC array must have started before the decoder has room, or NOTHING
        ),
        *floats(*COSTS),
        # State: when its input and the first and the last of its weights are there, when the MAC array works on it.
        *floats("fetched", "weights_start", "weights_end", "mac_start", "mac_end"),
    ]
)

TIMED_BLOCK = np.dtype(
    [
        *integers("last_fetch", "operation"),  # behind the last block: the number of fetches, and NOTHING
        *floats("written", "responded"),  # state: when its data have been written, and when the response has come
    ]
)

TIMES = np.dtype(
    floats(
        *("ifm_start", "ifm_end", "weights_start", "weights_end"),
        *("mac_start", "mac_end", "output_start", "output_end"),
    )
)
"""When each unit worked on a fetch, for those who ask."""

ENGINE_ROW, HEAD_ROW = ty.record(ENGINE), ty.record(HEAD)
ENGINES, TIMED_OPERATIONS, TIMED_FETCHES, TIMED_BLOCKS, TIME_ROWS = (
    ty.record(row)[::1] for row in (ENGINE, TIMED_OPERATION, TIMED_FETCH, TIMED_BLOCK, TIMES)
)
heads_at, ports_at, operations_at, fetches_at, blocks_at = (
    RowsAt(ty.record(row)) for row in (HEAD, PORT, TIMED_OPERATION, TIMED_FETCH, TIMED_BLOCK)
)
