"""The walk over the blocks of an operation, and what each of its IFM block fetches asks of every unit.

An *IFM block fetch* is one fill of the IFM buffer: one sub-kernel window and one depth slice of the IFM for one OFM block.
Blocks run depth first, then width, then height; fetches of a block run IFM depth outside, sub-kernels inside.

The fetches of a block are repeated for every OFM depth block, unless there is one sub-kernel and at most as many depth slices
as the IFM buffer has halves; weights and scales are streamed again for every block of the plane.
"""

from __future__ import annotations

import numpy as np

from npu.layouts import BRICK_DEPTH
from npu.machine.kernels.arithmetic import block_place, ceil_div, inlined, input_range
from npu.machine.kernels.mac_array import mac_cycles
from npu.machine.kernels.output_unit import output_depth
from npu.machine.kernels.rows import (
    CONV_DEPTH_FIRST,
    CONV_PART_KERNEL,
    ELEMENTWISE,
    FETCHES,
    MACHINES,
    OPERATIONS,
    POOL,
    REDUCE_SUM,
)
from npu.machine.kernels.traffic import read_traffic, second_input_beats, write_traffic
from npu.machine.rules import BUFFER_HALVES, SCALE_RECORD_BYTES, deep_set_depth
from npu.native import types as ty
from npu.native.kernel import kernel

DEEP_SET = deep_set_depth(False)
"""Channels of the deepest IFM block of what combines channels, on Ethos-U85."""


@inlined
def combines_channels(kind):  # type: ignore[no-untyped-def]
    """Whether every output channel is made of all input channels."""
    return kind in (CONV_DEPTH_FIRST, CONV_PART_KERNEL, REDUCE_SUM)


@inlined
def fetches_of_block(op):  # type: ignore[no-untyped-def]
    """(depth slices, sub-kernels in a column, in a row): what the fetches of every block of an operation are."""
    slices = np.int64(1)
    if combines_channels(op.kind):
        slices = ceil_div(op.ifm.depth, op.ifm_block_depth)
    return slices, ceil_div(op.kernel_height, op.sub_kernel_height), ceil_div(op.kernel_width, op.sub_kernel_width)


@kernel(ty.int64(OPERATIONS), error_model="numpy")
def count_fetches(operations):  # type: ignore[no-untyped-def]
    """Number of rows that `expand` writes."""
    total = np.int64(0)
    for op in operations:
        if op.kind > ELEMENTWISE:
            continue
        plane = ceil_div(op.ofm.height, op.block_height) * ceil_div(op.ofm.width, op.block_width)
        slices, down, across = fetches_of_block(op)
        total += plane * ceil_div(op.ofm.depth, op.block_depth) * slices * down * across
    return total


@inlined
def stream_share(op, z, depth, is_first_plane):  # type: ignore[no-untyped-def]
    """The bytes of the compressed stream that belong to a depth block, exact in sum."""
    if op.streams_once and not is_first_plane:
        return np.int64(0)
    return op.stream_bytes * (z + depth) // op.ofm.depth - op.stream_bytes * z // op.ofm.depth


@inlined
def slices_kept(op, machine, slices):  # type: ignore[no-untyped-def]
    """Depth slices of an IFM block that the next depth block finds in the buffer: the last ones, with which it begins.

    Two halves keep all slices, or none: the others have overwritten the first.
    """
    if machine.ifm_buffer_bytes == 0:
        return slices if slices <= BUFFER_HALVES else np.int64(0)
    rows = (op.block_height - 1) * op.stride_y + (op.kernel_height - 1) * op.dilation_y + 1
    columns = (op.block_width - 1) * op.stride_x + (op.kernel_width - 1) * op.dilation_x + 1
    channels = min(op.ifm_block_depth, ceil_div(op.ifm.depth, BRICK_DEPTH) * BRICK_DEPTH)
    return machine.ifm_buffer_bytes // (rows * columns * channels * op.ifm.element_bytes)


@inlined
def ifm_buffers(op, machine):  # type: ignore[no-untyped-def]
    """IFM blocks that are filled one after the other: halves of a double buffer, or as many as a memory of their own holds."""
    if machine.ifm_buffer_bytes == 0:
        return np.int64(BUFFER_HALVES)
    rows = min((op.block_height - 1) * op.stride_y + (op.kernel_height - 1) * op.dilation_y + 1, op.ifm.height)
    columns = min((op.block_width - 1) * op.stride_x + (op.kernel_width - 1) * op.dilation_x + 1, op.ifm.width)
    depth = min(DEEP_SET if combines_channels(op.kind) else op.block_depth, op.ifm.depth)
    channels = ceil_div(depth, BRICK_DEPTH) * BRICK_DEPTH * (2 if op.has_ifm2 else 1)
    return max(1, machine.ifm_buffer_bytes // (rows * columns * channels * op.ifm.element_bytes))


@inlined
def fill_fetch(fetch, op, machine, box, taps_box, channel, slice_depth, is_kept):  # type: ignore[no-untyped-def]
    """Fills what a fetch reads, multiplies and takes of the MAC array."""
    y, rows, x, columns, depth = box
    tap_y, taps_y, tap_x, taps_x = taps_box
    fetch.ifm_beats, fetch.ifm_bursts, fetch.macs = 0, 0, 0
    taps = taps_y * taps_x
    if machine.ifm_buffer_bytes > 0:
        # A memory of its own has the input of all sub-kernels, which the first one brings.
        is_kept = is_kept or tap_y + tap_x > 0
        taps_y, taps_x = op.kernel_height, op.kernel_width
    if not is_kept:
        ifm = op.ifm
        top, high = input_range(y, rows, op.stride_y, op.dilation_y, tap_y, taps_y, op.pad_top, ifm.height, op.upscale)
        left, wide = input_range(x, columns, op.stride_x, op.dilation_x, tap_x, taps_x, op.pad_left, ifm.width, op.upscale)
        fetch.ifm_beats, fetch.ifm_bursts = read_traffic(ifm, top, high, left, wide, channel, slice_depth, machine.beat_bytes)
    if op.kind != POOL and op.kind != ELEMENTWISE:
        fetch.macs = rows * columns * depth * taps * (slice_depth if combines_channels(op.kind) else 1)
    fetch.mac_cycles = mac_cycles(op, machine, rows, columns, depth, taps, slice_depth)


@inlined
def fill_output(fetch, op, machine, y, rows, x, columns, z, depth):  # type: ignore[no-untyped-def]
    """Fills what the last fetch of a block has besides: its output and its second input."""
    beat = machine.beat_bytes
    fetch.is_last = 1
    fetch.ofm_beats, fetch.ofm_bursts = write_traffic(op, y, rows, x, columns, z, depth, beat)
    if op.has_ifm2 and combines_channels(op.kind) and op.stream_bytes == 0:  # its columns are the weights
        fetch.ifm2_beats = second_input_beats(op, 0, 1, z, depth, 0, op.ifm.depth, beat)
    elif op.has_ifm2:
        fetch.ifm2_beats = second_input_beats(op, y, rows, x, columns, z, depth, beat)
    fetch.scale_bytes = depth * SCALE_RECORD_BYTES if op.stream_bytes > 0 else 0
    fetch.output_cycles = rows * columns * output_depth(op, machine, depth) * op.output_element_cycles


@inlined
def expand_block(n, op, machine, y, x, z, at, fetches):  # type: ignore[no-untyped-def]
    """Fills the rows of the fetches of the block that begins at these elements, from `at` on; the row behind them."""
    rows, columns = min(op.block_height, op.ofm.height - y), min(op.block_width, op.ofm.width - x)
    depth = min(op.block_depth, op.ofm.depth - z)
    combines = combines_channels(op.kind)
    slices, down, across = fetches_of_block(op)
    kept = slices_kept(op, machine, slices) if combines and z > 0 and down * across == 1 else np.int64(0)
    is_backwards = machine.ifm_buffer_bytes > 0 and (z // op.block_depth) & 1 != 0
    weights = op.kernel_height * op.kernel_width * (op.ifm.depth if combines else 1)
    share = stream_share(op, z, depth, x + y == 0)
    widest = op.ifm_block_depth if combines else depth
    first, used, streamed = at, np.int64(0), np.int64(0)
    for s in range(slices):
        is_kept = s < kept
        channel = (slices - 1 - s if is_backwards else s) * widest if combines else z
        slice_depth = min(widest, op.ifm.depth - channel)
        for tap_y in range(0, op.kernel_height, op.sub_kernel_height):
            taps_y = min(op.sub_kernel_height, op.kernel_height - tap_y)
            for tap_x in range(0, op.kernel_width, op.sub_kernel_width):
                taps_x = min(op.sub_kernel_width, op.kernel_width - tap_x)
                fetch = fetches[at]
                fetch.operation = n
                fetch.is_first, fetch.is_last = at == first, 0
                fetch.ifm2_beats, fetch.ofm_beats, fetch.ofm_bursts, fetch.output_cycles = 0, 0, 0, 0.0
                fetch.scale_bytes = 0
                box, taps = (y, rows, x, columns, depth), (tap_y, taps_y, tap_x, taps_x)
                fill_fetch(fetch, op, machine, box, taps, channel, slice_depth, is_kept)
                used += taps_y * taps_x * (slice_depth if combines else 1)
                upto = share * used // weights
                fetch.stream_bytes = upto - streamed
                streamed = upto
                at += 1
    fill_output(fetches[at - 1], op, machine, y, rows, x, columns, z, depth)
    return at


@kernel(ty.int64(OPERATIONS, MACHINES, FETCHES), error_model="numpy")
def expand(operations, machines, fetches):  # type: ignore[no-untyped-def]
    """Fills the fetches of all operations on a machine, the one row of `machines`; how many."""
    at = np.int64(0)
    for n in range(operations.shape[0]):
        op = operations[n]
        if op.kind > ELEMENTWISE:
            continue
        across, deep = ceil_div(op.ofm.width, op.block_width), ceil_div(op.ofm.depth, op.block_depth)
        for number in range(ceil_div(op.ofm.height, op.block_height) * across * deep):
            row, column, layer = block_place(number, across, deep)
            at = expand_block(
                n, op, machines[0], row * op.block_height, column * op.block_width, layer * op.block_depth, at, fetches
            )
    return at
