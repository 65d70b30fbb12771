"""Cuts kernel operations into the pieces of work that flow through the pipeline: IFM loads and OFM blocks.

A *load* is one fill of the IFM buffer: one sub-kernel window and one IFM depth slice of one OFM block. Blocks run depth
first, then width, then height; loads of a block run IFM depth outside, sub-kernels inside.

Rules of the traffic, found with the beat counters of published measurements and exact on them to a few beats:
the loads of a block are fetched again for every OFM depth block, unless there is one sub-kernel and at most as many depth
slices as the IFM buffer has halves; weights and scales are streamed again for every block of the plane; rows of NHWC maps
cost the beats that they touch; NHWC outputs are written in pieces of 16 channels per pixel.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from npu.numerics.kernel import kernel
from sim.timing.kernels.tables import ints_at

# Columns of the operation table that `sim.timing.plan` fills; 64-bit integers.
(
    KIND,
    OFM_H,
    OFM_W,
    OFM_D,
    BLOCK_H,
    BLOCK_W,
    BLOCK_D,
    IFM_H,
    IFM_W,
    IFM_D,
    IFM_BYTES,
    IFM_LAYOUT,
    IFM_ADDRESS,
    IFM_ROW,
    IFM_PIXEL,
    OFM_BYTES,
    OFM_LAYOUT,
    OFM_ADDRESS,
    OFM_ROW,
    OFM_PIXEL,
    KERNEL_H,
    KERNEL_W,
    STRIDE_H,
    STRIDE_W,
    DILATION_H,
    DILATION_W,
    PAD_TOP,
    PAD_LEFT,
    UPSCALE,
    SUB_KERNEL,
    IFM_SLICE,
    STREAM_BYTES,
    IFM_PORT,
    IFM2_PORT,
    OFM_PORT,
    WEIGHT_PORT,
    UBLOCK_H,
    UBLOCK_W,
    IFM2_H,
    IFM2_W,
    IFM2_D,
    IFM2_LAYOUT,
    ACC_40,
    BLOCKDEP,
    DMA_BYTES,
    DMA_FROM,
    DMA_TO,
    WAIT,
    HAS_IFM2,
    WORDS,
    STREAM_ONCE,
) = range(51)
OPERATION_COLUMNS = 51

# Kinds of operation.
CONV_DEPTH_FIRST, CONV_PART_KERNEL, DEPTHWISE, POOL, REDUCE_SUM, ELEMENTWISE, DMA, DMA_WAIT, KERNEL_WAIT, OTHER = range(10)

# Columns of the load table.
L_OPERATION, L_FIRST, L_LAST, L_IFM_BEATS, L_IFM_BURSTS, L_IFM2_BEATS, L_STREAM_BYTES, L_OFM_BEATS, L_OFM_BURSTS, L_MACS = (
    range(10)
)
LOAD_COLUMNS = 10

# Scalars of the machine that the expansion needs.
(
    M_UBLOCK_D,
    M_CORES,
    M_UBLOCK_CYCLES,
    M_WEIGHT_BLOCK,
    M_BUBBLE,
    M_BUBBLE_40,
    M_POOL_16,
    M_BUFFER_HALVES,
    M_BEAT,
    M_BURST0,
    M_BURST1,
    M_BRICK,
    M_SWITCH,
    M_KERNEL_GROUP,
) = range(14)
MACHINE_SCALARS = 14

_I = nb.int64
_PAIR = nb.types.UniTuple(nb.int64, 2)
_ROW = nb.int64[::1]
_TABLE = nb.int64[:, ::1]
_inlined = nb.njit(inline="always")


@kernel(_I(_I, _I))
def ceil_div(a, b):  # type: ignore[no-untyped-def]
    """a / b rounded up, for positive b."""
    return -((-a) // b)


@kernel(_I(_I, _I))
def sub_kernels(extent, limit):  # type: ignore[no-untyped-def]
    """Number of pieces of at most `limit` that a kernel side is cut into."""
    return ceil_div(extent, limit)


@kernel(_PAIR(*(_I,) * 9))
def input_range(first, count, stride, dilation, tap, taps, pad, size, upscale):  # type: ignore[no-untyped-def]
    """(start, length) of the input rows that `count` outputs from `first` read through taps [tap, tap + taps), clipped."""
    low = first * stride - pad + tap * dilation
    high = (first + count - 1) * stride - pad + (tap + taps - 1) * dilation + 1
    low = max(low, 0) // upscale
    high = ceil_div(min(high, size * upscale), upscale)
    return low, max(high - low, 0)


@kernel(_I(_I, _I, _I))
def row_beats(start, length, beat):  # type: ignore[no-untyped-def]
    """Beats that `length` bytes from byte address `start` touch."""
    return ceil_div(start + length, beat) - start // beat


@kernel(_PAIR(_ROW, *(_I,) * 9))
def window_beats(op, y, rows, x, columns, depth0, depth, beat, burst, brick):  # type: ignore[no-untyped-def]
    """(beats, bursts) of reading a window of the IFM: whole bricks, or the beats that each NHWC row or pixel touches."""
    if rows == 0 or columns == 0:
        return np.int64(0), np.int64(0)
    es = op[IFM_BYTES]
    if op[IFM_LAYOUT] == 1:
        bricks = ceil_div(depth, brick)
        row = columns * brick * es
        return rows * bricks * ceil_div(row, beat), rows * bricks * ceil_div(row, burst)
    # Addresses modulo a beat repeat after `beat` rows and after `beat` pixels, so one period of each is enough.
    beats = np.int64(0)
    bursts = np.int64(0)
    whole = depth == op[IFM_D] and op[IFM_PIXEL] == depth * es
    pixels = 1 if whole else min(columns, beat)
    length = (columns - 1) * op[IFM_PIXEL] + depth * es if whole else depth * es
    for i in range(min(rows, beat)):
        base = op[IFM_ADDRESS] + (y + i) * op[IFM_ROW] + x * op[IFM_PIXEL] + (0 if whole else depth0 * es)
        for j in range(pixels):
            repeats = ceil_div(rows - i, beat) * (1 if whole else ceil_div(columns - j, beat))
            touched = row_beats(base + j * op[IFM_PIXEL], length, beat)
            beats += touched * repeats
            bursts += ceil_div(touched * beat, burst) * repeats
    return beats, bursts


@kernel(_PAIR(_ROW, *(_I,) * 9))
def output_beats(op, y, rows, x, columns, depth0, depth, beat, burst, brick):  # type: ignore[no-untyped-def]
    """(beats, bursts) of writing one OFM block: whole bricks, or 16 channels of a pixel at a time."""
    es = op[OFM_BYTES]
    if op[OFM_LAYOUT] == 1:
        bricks = ceil_div(depth, brick)
        row = columns * brick * es
        return rows * bricks * ceil_div(row, beat), rows * bricks * ceil_div(row, burst)
    beats = np.int64(0)
    bursts = np.int64(0)
    whole = op[OFM_D] <= brick and op[OFM_PIXEL] == op[OFM_D] * es
    pixels = 1 if whole else min(columns, beat)
    pieces = 1 if whole else ceil_div(depth, brick)
    for i in range(min(rows, beat)):
        base = op[OFM_ADDRESS] + (y + i) * op[OFM_ROW] + x * op[OFM_PIXEL] + depth0 * es
        for j in range(pixels):
            repeats = ceil_div(rows - i, beat) * (1 if whole else ceil_div(columns - j, beat))
            for c in range(pieces):
                length = (columns - 1) * op[OFM_PIXEL] + depth * es if whole else min(brick, depth - c * brick) * es
                touched = row_beats(base + j * op[OFM_PIXEL] + c * brick * es, length, beat)
                beats += touched * repeats
                bursts += ceil_div(touched * beat, burst) * repeats
    return beats, bursts


@kernel(_I(_ROW, _ROW, *(_I,) * 5))
def load_mac_cycles(op, machine, rows, columns, depth, taps, slice_depth):  # type: ignore[no-untyped-def]
    """MAC-array cycles of one load of a block of rows x columns x depth; taps = kernel elements of the sub-kernel.

    Formulas of the block model that Vela 5.2 uses, with the depth split over the cores; and from one set of weights to the
    next a bubble also where a block is larger than one micro-block.
    """
    kind = op[KIND]
    if kind == ELEMENTWISE:
        return np.int64(0)
    nx = ceil_div(columns, op[UBLOCK_W])
    ny = ceil_div(rows, op[UBLOCK_H])
    nz = ceil_div(ceil_div(depth, machine[M_UBLOCK_D]), machine[M_CORES])
    plane = nx * ny
    bits16 = max(op[IFM_BYTES], 1)
    step = machine[M_UBLOCK_CYCLES]
    group = machine[M_KERNEL_GROUP]
    groups = np.int64(1)
    if kind == POOL:
        factor = machine[M_POOL_16] if bits16 > 1 else 1
        return max(step, taps) * plane * nz * factor
    if kind == DEPTHWISE:
        steps = ceil_div(taps, group)
        cycles = max(machine[M_WEIGHT_BLOCK], step * plane * bits16) * steps * nz
    elif kind == CONV_PART_KERNEL:
        steps = ceil_div(taps, group // 2 if bits16 > 1 else group)
        groups = ceil_div(slice_depth, 8)
        cycles = max(machine[M_WEIGHT_BLOCK], step * plane) * steps * nz * groups
    else:
        steps = taps
        cycles = max(machine[M_WEIGHT_BLOCK], step * plane) * steps * nz
    bubble = machine[M_BUBBLE_40] if op[ACC_40] else machine[M_BUBBLE]
    if plane == 1:
        if nz == 1:
            cycles += bubble * steps * groups
        elif steps > 1:
            cycles += bubble * (steps - 1) * nz * groups
    else:
        cycles += machine[M_SWITCH] * steps * nz * groups
    return cycles


@kernel(_I(_ROW, _ROW, _I, _I))
def output_depth(op, machine, depth, brick):  # type: ignore[no-untyped-def]
    """Depth of a block that the output unit of the busiest core works through.

    MAC operations share a block by micro-block depth; elementwise ones by bricks, which are always processed whole when the
    output is stored in bricks.
    """
    unit = brick if op[KIND] == ELEMENTWISE else machine[M_UBLOCK_D]
    share = ceil_div(ceil_div(depth, unit), machine[M_CORES]) * unit
    if op[KIND] == ELEMENTWISE and op[OFM_LAYOUT] == 1:
        return share
    return min(depth, share)


@kernel(_I(_ROW, *(_I,) * 8))
def second_input_beats(op, y, rows, columns, x, depth, z, beat, brick):  # type: ignore[no-untyped-def]
    """Beats of the second operand for one block; an axis of extent 1 is read once, with the first block along it."""
    if op[IFM2_H] == 1:
        if y > 0 and op[OFM_H] > 1:
            return np.int64(0)
        rows = 1
    if op[IFM2_W] == 1:
        if x > 0 and op[OFM_W] > 1:
            return np.int64(0)
        columns = 1
    if op[IFM2_D] == 1:
        if z > 0 and op[OFM_D] > 1:
            return np.int64(0)
        depth = 1
    if op[IFM2_LAYOUT] == 1:
        return rows * columns * ceil_div(depth, brick) * ceil_div(brick * op[IFM_BYTES], beat)
    if op[IFM2_D] <= brick or depth == op[IFM2_D]:
        return rows * ceil_div(columns * depth * op[IFM_BYTES], beat)
    return rows * columns * ceil_div(depth * op[IFM_BYTES], beat)


@_inlined
def mixes_depth(kind):  # type: ignore[no-untyped-def]
    """Whether every output channel is made of all input channels."""
    return kind in (CONV_DEPTH_FIRST, CONV_PART_KERNEL, REDUCE_SUM)


@_inlined
def cut_block(op):  # type: ignore[no-untyped-def]
    """(depth slices, sub-kernels in a column, in a row): what the loads of every block of an operation are."""
    slices = ceil_div(op[IFM_D], op[IFM_SLICE]) if mixes_depth(op[KIND]) else np.int64(1)
    return slices, sub_kernels(op[KERNEL_H], op[SUB_KERNEL]), sub_kernels(op[KERNEL_W], op[SUB_KERNEL])


@kernel(_I(_TABLE))
def count_loads(ops):  # type: ignore[no-untyped-def]
    """Number of rows that `expand` writes."""
    total = np.int64(0)
    for n in range(ops.shape[0]):
        op = ops[n]
        if op[KIND] > ELEMENTWISE:
            continue
        blocks = ceil_div(op[OFM_H], op[BLOCK_H]) * ceil_div(op[OFM_W], op[BLOCK_W]) * ceil_div(op[OFM_D], op[BLOCK_D])
        slices, kh, kw = cut_block(op)
        total += blocks * slices * kh * kw
    return total


@_inlined
def stream_share(op, z, depth, is_first_plane):  # type: ignore[no-untyped-def]
    """The bytes of the compressed stream that belong to a depth block, exact in sum."""
    if op[STREAM_ONCE] and not is_first_plane:
        return np.int64(0)
    return op[STREAM_BYTES] * (z + depth) // op[OFM_D] - op[STREAM_BYTES] * z // op[OFM_D]


@_inlined
def fill_load(row, op, machine, y, rows, x, columns, depth, tap_y, taps_y, tap_x, taps_x, depth0, slice_depth, is_kept):  # type: ignore[no-untyped-def]
    """Fills traffic and products of a load, whose other columns are 0; its MAC cycles."""
    if not is_kept:
        y0, ny = input_range(y, rows, op[STRIDE_H], op[DILATION_H], tap_y, taps_y, op[PAD_TOP], op[IFM_H], op[UPSCALE])
        x0, nx = input_range(x, columns, op[STRIDE_W], op[DILATION_W], tap_x, taps_x, op[PAD_LEFT], op[IFM_W], op[UPSCALE])
        burst = machine[M_BURST0 + op[IFM_PORT]]
        row[L_IFM_BEATS], row[L_IFM_BURSTS] = window_beats(
            op, y0, ny, x0, nx, depth0, slice_depth, machine[M_BEAT], burst, machine[M_BRICK]
        )
    if op[KIND] != POOL and op[KIND] != ELEMENTWISE:
        row[L_MACS] = rows * columns * depth * taps_y * taps_x * (slice_depth if mixes_depth(op[KIND]) else 1)
    return load_mac_cycles(op, machine, rows, columns, depth, taps_y * taps_x, slice_depth)


@_inlined
def expand_block(n, op, machine, y, rows, x, columns, z, depth, share, at, loads, mac_cycles):  # type: ignore[no-untyped-def]
    """Fills the rows of the loads of one block from `at` on; the row behind them."""
    mixes = mixes_depth(op[KIND])
    slices, kh, kw = cut_block(op)
    is_kept = mixes and z > 0 and kh * kw == 1 and slices <= machine[M_BUFFER_HALVES]
    taps_total = op[KERNEL_H] * op[KERNEL_W] * (op[IFM_D] if mixes else 1)
    first, used, weights_used = at, np.int64(0), np.int64(0)
    for s in range(slices):
        depth0 = s * op[IFM_SLICE] if mixes else z
        slice_depth = min(op[IFM_SLICE], op[IFM_D] - depth0) if mixes else min(depth, op[IFM_D] - depth0)
        for tap_y in range(0, op[KERNEL_H], op[SUB_KERNEL]):
            taps_y = min(op[SUB_KERNEL], op[KERNEL_H] - tap_y)
            for tap_x in range(0, op[KERNEL_W], op[SUB_KERNEL]):
                taps_x = min(op[SUB_KERNEL], op[KERNEL_W] - tap_x)
                row = loads[at]
                row[L_OPERATION] = n
                row[L_FIRST] = at == first
                mac_cycles[at] = fill_load(
                    row, op, machine, y, rows, x, columns, depth, tap_y, taps_y, tap_x, taps_x, depth0, slice_depth, is_kept
                )
                used += taps_y * taps_x * (slice_depth if mixes else 1)
                upto = share * used // taps_total
                row[L_STREAM_BYTES] = upto - weights_used
                weights_used = upto
                at += 1
    return at


@_inlined
def fill_output(last, op, machine, y, rows, x, columns, z, depth):  # type: ignore[no-untyped-def]
    """Fills what the last load of a block has besides, output and second input; OFM elements of the busiest core."""
    beat, brick = machine[M_BEAT], machine[M_BRICK]
    burst = machine[M_BURST0 + op[OFM_PORT]]
    last[L_LAST] = 1
    last[L_OFM_BEATS], last[L_OFM_BURSTS] = output_beats(op, y, rows, x, columns, z, depth, beat, burst, brick)
    if op[HAS_IFM2]:
        last[L_IFM2_BEATS] = second_input_beats(op, y, rows, columns, x, depth, z, beat, brick)
    return rows * columns * output_depth(op, machine, depth, brick)


@kernel(_I(_TABLE, _ROW, _TABLE, _ROW, _ROW))
def expand(operations, machine, load_rows, mac_cycles, elements):  # type: ignore[no-untyped-def]
    """Fills the load table (n, LOAD_COLUMNS), MAC cycles (n,) and OFM elements of the busiest core (n,) of last loads.

    All of them hold zeros before.
    """
    ops, loads = ints_at(operations.ctypes.data, OPERATION_COLUMNS), ints_at(load_rows.ctypes.data, LOAD_COLUMNS)
    at = 0
    for n in range(operations.shape[0]):
        op = ops[n]
        if op[KIND] > ELEMENTWISE:
            continue
        for y in range(0, op[OFM_H], op[BLOCK_H]):
            rows = min(op[BLOCK_H], op[OFM_H] - y)
            for x in range(0, op[OFM_W], op[BLOCK_W]):
                columns = min(op[BLOCK_W], op[OFM_W] - x)
                for z in range(0, op[OFM_D], op[BLOCK_D]):
                    depth = min(op[BLOCK_D], op[OFM_D] - z)
                    share = stream_share(op, z, depth, x + y == 0)
                    at = expand_block(n, op, machine, y, rows, x, columns, z, depth, share, at, loads, mac_cycles)
                    elements[at - 1] = fill_output(loads[at - 1], op, machine, y, rows, x, columns, z, depth)
    return at
