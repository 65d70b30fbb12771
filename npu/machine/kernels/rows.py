"""What the machine model is told and what it answers, as rows of named fields: each row is declared here and nowhere else.

The names are fields of structured arrays in Python (`fetches["ifm_beats"]`) and attributes in compiled functions
(`fetch.ifm_beats`). Every number is 64 bits wide.
"""

from __future__ import annotations

import numpy as np

from npu.native import types as ty

# Kinds of operation.
CONV_DEPTH_FIRST, CONV_PART_KERNEL, DEPTHWISE, POOL, REDUCE_SUM, ELEMENTWISE, DMA, DMA_WAIT, KERNEL_WAIT, OTHER = range(10)


def integers(*names: str) -> list[tuple[str, type]]:
    """Fields of 64-bit integers."""
    return [(name, np.int64) for name in names]


def vector(name: str, length: int) -> tuple[str, type, tuple[int]]:
    """A field of several 64-bit integers."""
    return name, np.int64, (length,)


def floats(*names: str) -> list[tuple[str, type]]:
    """Fields of 64-bit floats."""
    return [(name, np.float64) for name in names]


MACHINE = np.dtype(
    [
        *integers(
            "cores",
            "ublock_mac_cycles",
            "weights_per_cycle",  # that come to the MAC array
            "bubble_cycles",
            "bubble_cycles_40_bit",
            "pooling_16_bit_factor",
            "weight_switch_cycles",
            "beat_bytes",
            "ifm_buffer_bytes",  # of a memory of its own; 0: the IFM buffer has two halves of a block
        ),
        # All cores together: what the decoder parses, what it asks for ahead, and how long a beat is taken in.
        *floats("decode_bytes_per_cycle", "weight_window_bytes", "take_cycles"),
        *floats("scale_window_bytes"),  # of records that the output unit asks for ahead; 0: they never hold it up
    ]
)
"""The compute part of a variant."""

FEATURE_MAP = np.dtype(
    integers(
        *("height", "width", "depth", "element_bytes", "layout"),  # layout: register value, 1 = NHCWB16
        *("address", "stride_y", "stride_x"),  # of tile 0, in bytes
        *("port", "burst_bytes"),  # the number of its port, and a full transaction there; 0: it is not in memory
    )
)
"""A feature map as traffic sees it."""

OPERATION = np.dtype(
    [
        *integers(
            "kind",
            *("block_height", "block_width", "block_depth"),
            *("kernel_height", "kernel_width", "stride_y", "stride_x", "dilation_y", "dilation_x"),
            *("pad_top", "pad_left"),
            "upscale",  # 1, or 2 where rows and columns are doubled
            *("sub_kernel_height", "sub_kernel_width"),  # of the largest sub-kernel, in taps
            *("ublock_height", "ublock_width", "ublock_depth"),
            "ifm_block_depth",  # channels of an IFM block, of what combines channels
            # Channels of a set of weights, which takes the MAC array as long as there are channels; 0: SET_DEPTH, all as long.
            "set_depth",
            "has_40_bit_accumulators",
            "has_ifm2",
            *("stream_bytes", "weight_port"),  # of weights and scale records together
            "streams_once",  # whether only the first block of the plane brings weights
            "blockdep",
            *("ifm_end", "accumulator_start"),  # SHRAM banks
            *(
                "stored_rows",
                "stored_columns",
                "stored_channels",
            ),  # the axis that each has been: 0 rows, 1 columns, 2 channels
            *("dma_bytes", "dma_from", "dma_to"),  # ports; below 0: no port
            "outstanding",  # of a wait
            "command_words",
        ),
        *floats("output_element_cycles"),  # of the output unit, an element of the busiest core
        *((name, FEATURE_MAP) for name in ("ifm", "ifm2", "ofm")),
    ]
)
"""An operation of the command stream; a kernel operation unless `kind` is above ELEMENTWISE."""

FETCH = np.dtype(
    [
        *integers(
            "operation",
            *("is_first", "is_last"),  # of its OFM block
            *("ifm_beats", "ifm_bursts", "ifm2_beats"),
            "stream_bytes",
            "scale_bytes",  # of the records that the output unit asks for, of the block that it ends
            *("ofm_beats", "ofm_bursts"),  # written by the block that it ends
            "macs",
            "mac_cycles",
        ),
        *floats("output_cycles"),  # of the block that it ends
    ]
)
"""An IFM block fetch, one fill of the IFM buffer: a sub-kernel window and a depth slice of an OFM block, with all it causes."""

COSTS = (
    *("ifm_beats", "ifm_cycles", "ifm2_beats", "ifm2_cycles"),
    *("stream_beats", "stream_cycles", "stream_delay", "decode_cycles"),
    *("mac_cycles", "output_cycles", "ofm_beats", "ofm_cycles"),
)
"""Of a fetch: beats of its reads and its write and the cycles that they take of their ports (`ports.turn`), the least time that
its weights are on their way beyond one latency, and the cycles of every unit. Output unit and write: of the block it ends."""

CHANNEL = np.dtype(
    floats(
        "latency",
        "burst_cycles",  # that one burst takes of the slots together: held cycles / slots
        "held_cycles",  # of one slot by a burst
        "ahead_cycles",  # how far the addresses of transfers may be ahead of slots and open parts
        # State: when the last transfer has passed, and until when its transfers would keep a single slot of that rate busy.
        *("free", "booked"),
    )
)
"""One direction of a memory port."""

PORT = np.dtype(
    [
        ("read", CHANNEL),
        ("write", CHANNEL),
        *floats(
            *("beat_cycles", "burst_bytes", "burst_beats"),
            *("closed_cycles", "closed_share"),  # how long addresses do not pass, also for each cycle in which they do
            "cap_beat_cycles",  # per beat that an adapter's cap admits, both directions together; 0: no cap
            "spill_beats",  # that a window of whole bursts passes beyond the cap
            "cap_ahead_cycles",  # how far transfers may be ahead of the cap
            "booked",  # state: until when the cap is used up
        ),
    ]
)
"""A memory port: what it sustains, and for the timing engine its state."""

FAR = 1e18
"""Time of what is not yet known, and a limit that is none."""

BLOCK_COST = np.dtype([*integers("fetches"), *floats(*COSTS)])
"""An OFM block: its fetches, and their costs together; cycles on ports as long as they are, whatever they come from."""

MACHINE_ROW, FEATURE_MAP_ROW, OPERATION_ROW, FETCH_ROW = map(ty.record, (MACHINE, FEATURE_MAP, OPERATION, FETCH))
CHANNEL_ROW, PORT_ROW = map(ty.record, (CHANNEL, PORT))
MACHINES, OPERATIONS, FETCHES, PORTS = (row[::1] for row in (MACHINE_ROW, OPERATION_ROW, FETCH_ROW, PORT_ROW))
BLOCK_COST_ROW = ty.record(BLOCK_COST)
BLOCK_COSTS = BLOCK_COST_ROW[::1]
