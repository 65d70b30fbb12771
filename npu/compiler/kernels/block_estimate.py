"""What an operation costs with each of many blocks: the only place where the compiler knows how blocks overlap."""

from __future__ import annotations

import numpy as np

from npu.machine.buffers import BufferRule
from npu.machine.buffers import accumulator_banks as _accumulator_banks
from npu.machine.buffers import ifm_banks as _ifm_banks
from npu.machine.kernels.arithmetic import block_place, ceil_div, inlined
from npu.machine.kernels.blocks import combines_channels, fetches_of_block, ifm_buffers, slices_kept
from npu.machine.kernels.costs import cost_block, cost_fetch
from npu.machine.kernels.rows import BLOCK_COSTS, FETCHES, MACHINES, OPERATIONS, PORTS, integers
from npu.native import types as ty
from npu.native.kernel import kernel

FRICTION = 0.04
"""Part of the time of the second busiest unit that does not hide behind the busiest: the timing model on 47,000 blocks."""

FETCH_CYCLES = 4.0
"""What every fill of the input buffer costs besides, from the same comparison."""

MOST_PIECES = 16
"""Sub-kernels up to which the wait for each is followed; of more they count as equal."""

BUFFER_RULE = np.dtype(integers(*BufferRule._fields))
BUFFERS = ty.record(BUFFER_RULE)[::1]
LIST, TIMES = ty.int64[::1], ty.float64[::1]
ifm_banks, accumulator_banks = inlined(_ifm_banks), inlined(_accumulator_banks)

EXPOSED = 0.5
"""Part of an operation's first fetch and last block that the blocks of its neighbours do not hide."""

SURE = 0.97
"""Part of the work of a map in one block that its parts do not fall below: bubbles of the MAC array depend on the block."""


@inlined
def kind_of_blocks(kind, count, is_first_other):  # type: ignore[no-untyped-def]
    """(number of one of them, how many) of the blocks along an axis that are alike: the first, middle ones, the last."""
    if kind == 2:
        return count - 1, np.int64(count > 1 or not is_first_other)
    if kind == 1:
        return np.int64(1), count - 2 if is_first_other else np.int64(0)
    return np.int64(0), np.int64(1) if is_first_other else count - 1


@inlined
def port_cycles(cost, op, ports):  # type: ignore[no-untyped-def]
    """Cycles of the busiest direction of a port, and those that it takes at least in the long run: by the cap of its directions
    together, and because addresses do not always pass.

    The latter is counted for maps alone: copies of weights are estimated without it, and those in place must not look worse.
    """
    busiest = capped = 0.0
    for p in range(2):
        read = write = beats = 0.0
        if op.ifm.port == p:
            read += cost.ifm_cycles
            beats += cost.ifm_beats
        if op.ifm2.port == p:
            read += cost.ifm2_cycles
            beats += cost.ifm2_beats
        maps = read
        if op.weight_port == p:
            read = max(read + cost.stream_cycles, max(cost.decode_cycles, cost.stream_delay))
            beats += cost.stream_beats
        if op.ofm.port == p:
            write = cost.ofm_cycles
            beats += cost.ofm_beats
        busiest = max(busiest, max(read, write))
        capped = max(capped, max(beats * ports[p].cap_beat_cycles, max(maps, write) * (1.0 + ports[p].closed_share)))
    return busiest, capped


@inlined
def read_latency(cost, op, ports):  # type: ignore[no-untyped-def]
    """Cycles from the end of a fetch until its data are there: those of the second input if it is fetched, too."""
    latency = ports[op.ifm.port].read.latency
    return max(latency, ports[op.ifm2.port].read.latency) if cost.ifm2_beats > 0 else latency


@inlined
def wait_cycles(op, ports, machine, fetches, count, scratch):  # type: ignore[no-untyped-def]
    """Cycles that the MAC array waits for the fetches of a block: half of the buffer is filled while it works on the other."""
    waited, total = 0.0, 0.0
    for i in range(2 * count):
        cost_fetch(scratch, fetches[i % count], op, ports, machine)
        fetched = abs(scratch.ifm_cycles) + abs(scratch.ifm2_cycles) + read_latency(scratch, op, ports)
        waited = max(fetched - scratch.mac_cycles - waited, 0.0)
        total += waited
    return total / 2


@inlined
def is_kept(op, machine):  # type: ignore[no-untyped-def]
    """Whether the input of the first block of a depth serves those behind it."""
    slices, down, across = fetches_of_block(op)
    return combines_channels(op.kind) and down * across == 1 and slices_kept(op, machine, slices) >= slices


@inlined
def fills_of_block(cost, op, machine):  # type: ignore[no-untyped-def]
    """How many times a block fills the input buffer: a memory of its own has all sub-kernels at once."""
    slices, _, _ = fetches_of_block(op)
    return cost.fetches if machine.ifm_buffer_bytes == 0 else slices


@inlined
def steady_cycles(op, ports, machine, fetches, count, buffers, ends, scratch):  # type: ignore[no-untyped-def]
    """Cycles from one block to the next by its `count` fetches, each of which waits until one of the `buffers` is free."""
    ends[:buffers] = 0.0
    free = latest = first = 0.0
    for i in range(2 * count):
        cost_fetch(scratch, fetches[i % count], op, ports, machine)
        free = there = max(free, ends[i % buffers])
        if scratch.ifm_beats + scratch.ifm2_beats > 0:
            free += abs(scratch.ifm_cycles) + abs(scratch.ifm2_cycles)
            there = free + read_latency(scratch, op, ports)
        latest = max(latest, there) + scratch.mac_cycles
        ends[i % buffers] = latest
        if i == count - 1:
            first = latest
    return latest - first


@inlined
def round_trip(cost, op, ports, machine, deep, fetched, fetches, ends, scratch):  # type: ignore[no-untyped-def]
    """Cycles of a block by its input, of which a fetch takes `fetched`. Kept input is waited for once for all depths."""
    _, down, across = fetches_of_block(op)
    count, mac = fills_of_block(cost, op, machine), cost.mac_cycles
    buffers, pieces = ifm_buffers(op, machine), down * across
    if is_kept(op, machine) and (deep > 1 or machine.ifm_buffer_bytes == 0):
        return mac + max(fetched - (buffers - 1) * mac / count, 0.0) * (1 / deep if deep > 1 else count / 2)
    if machine.ifm_buffer_bytes > 0:
        if buffers <= cost.fetches:
            return steady_cycles(op, ports, machine, fetches, cost.fetches, buffers, ends, scratch)
        # A fill waits for the sub-kernel so many before it, and is waited for by the next: one time around are several fills.
        around = ceil_div(buffers, pieces)
        waited_for = mac / count * (around * pieces - buffers + 1) / pieces
        return max(mac, (fetched + waited_for) * count / around)
    if pieces == 1 or pieces > MOST_PIECES:
        return max(mac, (mac + fetched * count) / buffers)
    return mac + wait_cycles(op, ports, machine, fetches, count, scratch)


@inlined
def plane_cycles(op, machine, ports, y, x, fetches, ends, cost, scratch):  # type: ignore[no-untyped-def]
    """Cycles of all depth blocks of a place in the plane, and those more that caps cost. Blocks share their input's."""
    deep = ceil_div(op.ofm.depth, op.block_depth)
    total, held, fetched, beats, cycles = 0.0, 0.0, 0.0, 0.0, 0.0
    for a in range(3):
        layer, count = kind_of_blocks(a, deep, True)
        if count <= 0:
            continue
        cost_block(cost, op, machine, ports, y, x, layer * op.block_depth, fetches, scratch)
        if a == 0 or not is_kept(op, machine):
            beats, cycles = cost.ifm_beats, cost.ifm_cycles
            fetched = (cycles + cost.ifm2_cycles) / fills_of_block(cost, op, machine) + read_latency(cost, op, ports)
        if is_kept(op, machine):
            cost.ifm_beats, cost.ifm_cycles = beats / deep, cycles / deep
        mac, output = cost.mac_cycles, cost.output_cycles
        moved, capped = port_cycles(cost, op, ports)
        busiest = max(max(mac, output), max(round_trip(cost, op, ports, machine, deep, fetched, fetches, ends, scratch), moved))
        second = max(min(mac, output), min(max(mac, output), max(moved, capped)))
        held += max(capped - busiest, 0.0) * count
        total += (busiest + FRICTION * second + FETCH_CYCLES * fills_of_block(cost, op, machine)) * count
    return total, held


@inlined
def operation_cycles(op, machine, ports, limit, is_far, fetches, ends, cost, scratch):  # type: ignore[no-untyped-def]
    """Cycles of the whole operation, or some number above `limit` where they are more than that.

    `is_far`: the input lies behind a memory of the NPU alone. Nobody hides its first fetch, and two buffers are filled in whole
    rounds.
    """
    down, across = ceil_div(op.ofm.height, op.block_height), ceil_div(op.ofm.width, op.block_width)
    total, held = 0.0, -ports[op.ifm.port].cap_ahead_cycles
    for a in range(9):
        row, rows = kind_of_blocks(a // 3, down, op.pad_top > 0 or (op.has_ifm2 and op.ifm2.height == 1))
        column, columns = kind_of_blocks(a % 3, across, op.pad_left > 0 or (op.has_ifm2 and op.ifm2.width == 1))
        if rows <= 0 or columns <= 0:
            continue
        y, x = row * op.block_height, column * op.block_width
        plane, plane_held = plane_cycles(op, machine, ports, y, x, fetches, ends, cost, scratch)
        total, held = total + plane * (rows * columns), held + plane_held * (rows * columns)
        if total + max(held, 0.0) > limit:
            return total + max(held, 0.0)
    # The first block is fetched before anything else can work, the last one leaves the output unit after everything else.
    cost_block(cost, op, machine, ports, 0, 0, 0, fetches, scratch)
    fills = fills_of_block(cost, op, machine)
    first = (cost.ifm_cycles + cost.ifm2_cycles) / fills
    last = min(max(cost.mac_cycles, first), cost.output_cycles)
    fetched = first + read_latency(cost, op, ports)
    total += max(held, 0.0) + EXPOSED * last
    if not is_far:
        return total + EXPOSED * fetched
    if machine.ifm_buffer_bytes > 0:
        return total + fetched
    deep = 1 if is_kept(op, machine) else ceil_div(op.ofm.depth, op.block_depth)
    rounds = ceil_div(np.int64(down * across * deep * fills), ifm_buffers(op, machine))
    return max(total, rounds * (fetched + cost.mac_cycles / fills)) + fetched


@inlined
def is_fitting(rule, height, width, depth):  # type: ignore[no-untyped-def]
    """Whether the buffers of a block find room."""
    if rule.row_bytes > 0 and width * depth * rule.ifm_bits // 8 > rule.row_bytes:
        return False
    if rule.row_width > 0 and width > rule.row_width:
        return False
    ifm, accumulators = np.int64(0), np.int64(0)
    if rule.ifm_buffers:
        ifm = ifm_banks(rule, height, width, depth) * rule.ifm_buffers
    if rule.has_accumulators:
        accumulators = accumulator_banks(rule, height, width, depth)
    return ifm <= rule.ifm_room and accumulators <= rule.accumulator_room and ifm + accumulators <= rule.room


@inlined
def is_larger(best, op):  # type: ignore[no-untyped-def]
    """Whether block `best` is larger than that of the operation, or wider than one of the same size."""
    size, other = best[0] * best[1] * best[2], op.block_height * op.block_width * op.block_depth
    return size > other or (size == other and best[1] > op.block_width)


@inlined
def blocks_of(op):  # type: ignore[no-untyped-def]
    """How many blocks the output has."""
    plane = ceil_div(op.ofm.height, op.block_height) * ceil_div(op.ofm.width, op.block_width)
    return plane * ceil_div(op.ofm.depth, op.block_depth)


@inlined
def fewest_cycles(op, machine, ports, fetches, cost, scratch):  # type: ignore[no-untyped-def]
    """What the operation takes at least, whatever its block, and what every block adds to that."""
    op.block_height, op.block_width, op.block_depth = op.ofm.height, op.ofm.width, op.ofm.depth
    cost_block(cost, op, machine, ports, 0, 0, 0, fetches, scratch)
    moved, _ = port_cycles(cost, op, ports)
    return max(max(cost.mac_cycles, cost.output_cycles), moved) * SURE, fills_of_block(cost, op, machine) * FETCH_CYCLES


@kernel(
    ty.float64(OPERATIONS, MACHINES, PORTS, BUFFERS, ty.int64[:, ::1], LIST, FETCHES, TIMES, BLOCK_COSTS, LIST, TIMES),
    error_model="numpy",
)
def choose(operations, machines, ports, rules, axes, counts, fetches, ends, costs, best, limits):  # type: ignore[no-untyped-def]
    """Fills `best` with the block of the fewest cycles, which are returned, of those that find room and take fewer than
    limits[0]; with zeros if none does. The input is far unless limits[1] is 0.

    `axes` has the heights, widths and depths to combine, `counts` how many. Of blocks that take as long it is the largest, of
    these the widest. `fetches` has room for those of a block, `ends` for as many, `costs` two rows.
    """
    op, rule, cycles, is_far = operations[0], rules[0], limits[0], limits[1] != 0
    best[:] = 0
    least, for_block = fewest_cycles(op, machines[0], ports, fetches, costs[0], costs[1])
    for i in range(counts[0] * counts[1] * counts[2] - 1, -1, -1):
        row, column, layer = block_place(i, counts[1], counts[2])
        op.block_height, op.block_width, op.block_depth = axes[0, row], axes[1, column], axes[2, layer]
        is_slow = least + for_block * blocks_of(op) > cycles
        if is_slow or not is_fitting(rule, op.block_height, op.block_width, op.block_depth):
            continue
        own = operation_cycles(op, machines[0], ports, cycles, is_far, fetches, ends, costs[0], costs[1])
        if own < cycles or (own == cycles and best[0] > 0 and not is_larger(best, op)):
            cycles = own
            best[0], best[1], best[2] = op.block_height, op.block_width, op.block_depth
    return cycles
