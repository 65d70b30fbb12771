"""What an operation costs with a given block: the only place where the compiler knows how the blocks of an operation overlap.

The units work on different blocks at the same time, so a block takes as long as its busiest unit: MAC array, output unit,
weight decoder, a direction of a port, a port as a whole, or the round of a double-buffered input fetch. Full blocks and those
that the edges clip are counted separately. Rules of traffic and rates are those of `docs/timing-accuracy.md`; this is the
planner's rounded view of them, for all candidates at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from npu.hardware.ports import PortRate, port_rate
from npu.hardware.variant import Port, Variant
from npu.isa.operations import AccumulatorFormat, Kernel, Traversal, Upscale
from npu.isa.scale_records import RECORD_BYTES
from npu.isa.shram import BufferProblem, Work
from npu.layouts import BRICK_DEPTH
from npu.machine.kernels.blocks import block_cycles
from npu.machine.kernels.rows import (
    CONV_DEPTH_FIRST,
    CONV_PART_KERNEL,
    DEPTHWISE,
    ELEMENTWISE,
    OPERATION,
    POOL,
    REDUCE_SUM,
)
from npu.machine.output_unit import element_cycles
from npu.machine.parameters import machine_rows, working_ublock
from npu.machine.rules import BUFFER_HALVES, ceil_div, ifm_block_depth, kernel_group, round_up, sub_kernel

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_FRICTION = 0.04
"""Part of the time of the second busiest unit that does not hide behind the busiest: the timing model on 47,000 blocks."""

_LOAD_CYCLES = 4
"""What every fill of the input buffer costs besides, from the same comparison."""

_MOST_PIECES = 16
"""Sub-kernels up to which the wait for each is followed; of more they count as equal."""

_EXPOSED = 0.5
"""Part of an operation's first fetch and last block that the blocks of its neighbours do not hide."""

_PADDING_BYTES = 0.1
"""Bytes of a compressed zero among the zeros that fill up the input channels."""

_KINDS = {
    Work.CONVOLUTION: CONV_DEPTH_FIRST,
    Work.DEPTHWISE: DEPTHWISE,
    Work.MAX_POOL: POOL,
    Work.AVERAGE_POOL: POOL,
    Work.REDUCE_SUM: REDUCE_SUM,
    Work.ELEMENTWISE: ELEMENTWISE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockProblem(BufferProblem):
    """Everything about an operation that its block depends on. Shapes are height, width, depth.

    `ofm_map_depth` are the channels of the map that the OFM is part of (0: its own); `padding` the rows and columns of padding
    on both sides together. `output_rank` is the field of `OutputCycles` that holds for it.
    `ifm_in_arena` and `ofm_in_arena`: the map lies in the arena although the mode has a separate fast memory.
    `weights_in_place`: they are read where the constants lie. `weight_bytes` are the bytes of the compressed stream per weight.
    """

    ofm_bits: int
    ofm_map_depth: int = 0
    padding: tuple[int, int] = (0, 0)
    has_clamp: bool = False
    output_rank: str = "other"
    ifm_is_bricked: bool = False
    ofm_is_bricked: bool = False
    ifm_in_arena: bool = False
    ofm_in_arena: bool = False
    weights_in_place: bool = False
    weight_bytes: float = 1.0

    @property
    def has_weights(self) -> bool:
        return self.work in (Work.CONVOLUTION, Work.DEPTHWISE)

    @property
    def channel_bytes(self) -> float:
        """Expected bytes of compressed weights and scale record per output channel, what fills up the stream included."""
        taps = self.kernel.height * self.kernel.width
        if self.work is Work.DEPTHWISE:
            return float(round_up(taps, kernel_group(1))) * self.weight_bytes + RECORD_BYTES
        filled = round_up(self.ifm_depth, 8) - self.ifm_depth
        return float(taps * (self.ifm_depth * self.weight_bytes + filled * _PADDING_BYTES)) + RECORD_BYTES


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Blocks of equal size, for each candidate: `count` of `rows` x `columns` x `depth`, each of shape (kinds, candidates).

    `depth_blocks` (candidates,) is how many there are along the depth.
    """

    rows: Ints
    columns: Ints
    depth: Ints
    count: Ints
    depth_blocks: Ints


@dataclass(frozen=True, slots=True)
class _Steps:
    """The loads of a block: `loads` fills of the input buffer; `groups` x sum of `steps` sets of weights."""

    pieces: tuple[tuple[int, int], ...]
    slices: int
    steps: tuple[int, ...]
    groups: int

    @property
    def loads(self) -> int:
        return len(self.pieces) * self.slices


def estimate_cycles(problem: BlockProblem, height: Ints, width: Ints, depth: Ints, variant: Variant) -> Floats:
    """Estimated cycles of the whole operation for every candidate block; `height`, `width`, `depth` are (candidates,)."""
    blocks = _cut(problem.ofm, height, width, depth)
    steps = _steps(problem)
    mac, output = _unit_cycles(problem, blocks, variant)
    traffic = _Traffic(problem, blocks, steps, variant)
    moved = traffic.cycles()
    busiest = np.maximum(np.maximum(mac, output), np.maximum(_round_trip(mac, traffic, blocks, steps), moved))
    second = np.maximum(np.minimum(mac, output), np.minimum(np.maximum(mac, output), moved))
    whole = ((busiest + _FRICTION * second + _LOAD_CYCLES * steps.loads) * blocks.count).sum(axis=0)
    # The first block is fetched before anything else can work, the last one leaves the output unit after everything else.
    first = traffic.load_cycles[0] + traffic.latency
    last = np.minimum(np.maximum(mac[0], traffic.load_cycles[0]), output[0])
    result: Floats = whole + _EXPOSED * (first + last)
    return result


def _round_trip(mac: Floats, traffic: _Traffic, blocks: _Blocks, steps: _Steps) -> Floats:
    """Cycles of a block by its input: half of the buffer is filled while the MAC array works on the other half.

    Where the input is kept for all depths, only the first block of them waits for it.
    """
    fetch = traffic.load_cycles + traffic.latency
    if traffic.is_kept:
        fetches = np.where(blocks.depth_blocks > 1, 1 / blocks.depth_blocks, steps.loads / 2)
        return np.asarray(mac + np.maximum(fetch - mac / steps.loads, 0) * fetches)
    if len(steps.steps) == 1 or len(steps.steps) > _MOST_PIECES:
        return np.asarray(np.maximum(mac, (mac + fetch * steps.loads) / 2))
    waits, total = np.zeros(mac.shape), np.zeros(mac.shape)
    shares = [each / (sum(steps.steps) * steps.slices) for each in steps.steps]
    for share in (*shares, *shares):
        waits = np.maximum(fetch - share * mac - waits, 0)
        total = total + waits
    return np.asarray(mac + total * (steps.slices / 2))


def _cut(ofm: tuple[int, int, int], height: Ints, width: Ints, depth: Ints) -> _Blocks:
    """Full blocks and the clipped ones of the last row, column and depth of blocks."""
    sizes, counts = [], []
    for extent, block in zip(ofm, (height, width, depth), strict=True):
        full, rest = extent // block, extent % block
        whole = np.minimum(block, extent)
        sizes.append((whole, np.where(rest > 0, rest, whole)))
        counts.append((full, (rest > 0).astype(np.int64)))
    kinds = [
        kind for kind in product((0, 1), repeat=3) if not any(k and not counts[axis][1].any() for axis, k in enumerate(kind))
    ]
    rows, columns, deep = (np.stack([sizes[axis][kind[axis]] for kind in kinds]) for axis in range(3))
    count = np.stack([counts[0][y] * counts[1][x] * counts[2][z] for y, x, z in kinds])
    return _Blocks(rows, columns, deep, count, ceil_div(ofm[2], depth))


def _pieces(kernel: Kernel) -> tuple[tuple[int, int], ...]:
    """Rows and columns of every sub-kernel."""
    rows, columns = (
        [min(sub_kernel(dilation), extent - at) for at in range(0, extent, sub_kernel(dilation))]
        for extent, dilation in ((kernel.height, kernel.dilation_y), (kernel.width, kernel.dilation_x))
    )
    return tuple(product(rows, columns))


def _steps(problem: BlockProblem) -> _Steps:
    pieces = _pieces(problem.kernel) if problem.work is not Work.ELEMENTWISE else ((1, 1),)
    taps = [rows * columns for rows, columns in pieces]
    if problem.work is Work.DEPTHWISE:
        return _Steps(pieces, 1, tuple(ceil_div(each, kernel_group(1)) for each in taps), 1)
    if problem.work.shares_depth:
        return _Steps(pieces, 1, tuple(taps), 1)
    is_part_kernel, size = problem.traversal is Traversal.PART_KERNEL_FIRST, problem.ifm_bits // 8
    slices = ceil_div(problem.ifm_depth, ifm_block_depth(problem.ifm_depth, size, is_part_kernel))
    if is_part_kernel:
        groups = ceil_div(problem.ifm_depth, 8)
        return _Steps(pieces, slices, tuple(ceil_div(each, kernel_group(size)) for each in taps), groups)
    return _Steps(pieces, slices, tuple(taps), slices)


def multiplying_steps(problem: BlockProblem) -> int:
    """Steps of the MAC array per micro-block."""
    steps = _steps(problem)
    return sum(steps.steps) * steps.groups


def operation_row(problem: BlockProblem, variant: Variant) -> npt.NDArray[Any]:
    """One OPERATION row of the machine model, without a block, addresses and ports."""
    rows = np.zeros(1, OPERATION)
    row, kernel = rows[0], problem.kernel
    is_part_kernel = problem.work is Work.CONVOLUTION and problem.traversal is Traversal.PART_KERNEL_FIRST
    row["kind"] = CONV_PART_KERNEL if is_part_kernel else _KINDS[problem.work]
    row["kernel_height"], row["kernel_width"] = kernel.height, kernel.width
    row["sub_kernel_height"], row["sub_kernel_width"] = sub_kernel(kernel.dilation_y), sub_kernel(kernel.dilation_x)
    row["ublock_height"], row["ublock_width"] = working_ublock(
        variant, problem.ofm[:2], kernel.height, is_convolution=problem.work is Work.CONVOLUTION
    )
    row["has_40_bit_accumulators"] = problem.accumulator is AccumulatorFormat.INT40
    row["ifm"]["depth"], row["ifm"]["element_bytes"] = problem.ifm_depth, problem.ifm_bits // 8
    row["ofm"]["layout"] = problem.ofm_is_bricked
    row["output_element_cycles"] = element_cycles(
        variant, problem.output_rank, has_function=problem.has_lut, has_clamp=problem.has_clamp
    )
    return rows


def _unit_cycles(problem: BlockProblem, blocks: _Blocks, variant: Variant) -> tuple[Floats, Floats]:
    """Cycles of the MAC array and of the output unit for each block."""
    shape = blocks.rows.shape
    mac, output = np.empty(shape), np.empty(shape)
    sizes = [np.ascontiguousarray(size).reshape(-1) for size in (blocks.rows, blocks.columns, blocks.depth)]
    block_cycles(operation_row(problem, variant), machine_rows(variant), *sizes, mac.reshape(-1), output.reshape(-1))
    return mac, output


class _Traffic:
    """What a block asks of the ports: cycles of its input, cycles that the input is under way, and the busiest port."""

    def __init__(self, problem: BlockProblem, blocks: _Blocks, steps: _Steps, variant: Variant) -> None:
        mode, accelerator = variant.memory_mode, variant.accelerator
        self._beat = accelerator.axi_data_bytes
        taken = variant.timing.core_input_bytes_per_cycle * accelerator.cores
        self._take = self._beat / taken if taken else 0.0
        self._rates = {port: port_rate(variant, port) for port in {mode.arena, mode.cache, mode.constants}}
        source = mode.arena if problem.ifm_in_arena else mode.cache
        target = mode.arena if problem.ofm_in_arena else mode.cache
        stream = mode.constants if problem.weights_in_place else mode.cache
        self._read: dict[Port, Floats] = {}
        self._written: dict[Port, Floats] = {}
        self._shared: dict[Port, Floats] = {}
        self.latency = self._rates[source].read_latency
        self.is_kept = not problem.work.shares_depth and len(steps.pieces) == 1 and steps.slices <= BUFFER_HALVES
        beats, bursts = self._ifm(problem, blocks, steps, self._rates[source])
        self.load_cycles = self._read_cycles(source, beats, bursts) / steps.loads
        fetched = 1 / blocks.depth_blocks if self.is_kept else 1.0
        self._add_read(source, beats * fetched, bursts * fetched)
        if problem.has_weights:
            self._add_weights(problem, blocks, stream, variant)
        beats, bursts = self._ofm(problem, blocks, self._rates[target])
        rate = self._rates[target]
        self._add(self._written, target, np.maximum(beats * rate.beat_cycles, bursts * rate.write_burst_cycles))
        self._add(self._shared, target, beats * rate.shared_beat_cycles)

    def cycles(self) -> Floats:
        """Cycles of the busiest direction of a port, or of a port whose directions share its beats."""
        busiest: Floats = np.zeros_like(self.load_cycles)
        for cycles in (*self._read.values(), *self._written.values(), *self._shared.values()):
            busiest = np.maximum(busiest, cycles)
        return busiest

    @staticmethod
    def _add(target: dict[Port, Floats], port: Port, cycles: Floats) -> None:
        target[port] = target[port] + cycles if port in target else cycles

    def _add_read(self, port: Port, beats: Floats, bursts: Floats) -> None:
        self._add(self._read, port, self._read_cycles(port, beats, bursts))
        self._add(self._shared, port, beats * self._rates[port].shared_beat_cycles)

    def _read_cycles(self, port: Port, beats: Floats, bursts: Floats) -> Floats:
        rate = self._rates[port]
        return np.maximum(beats * max(rate.beat_cycles, self._take), bursts * rate.read_burst_cycles)

    def _ifm(self, problem: BlockProblem, blocks: _Blocks, steps: _Steps, rate: PortRate) -> tuple[Floats, Floats]:
        """Beats and bursts of all loads of a block."""
        kernel, factor = problem.kernel, 1 if problem.upscale is Upscale.NONE else 2
        rows: Floats = np.zeros(blocks.rows.shape)
        beats, bursts = rows, rows
        depth = blocks.depth if problem.work.shares_depth else np.full_like(blocks.depth, problem.ifm_depth)
        for taps_y, taps_x in steps.pieces:
            rows = _window(problem.ofm[0], blocks.rows, kernel.stride_y, (taps_y - 1) * kernel.dilation_y, problem.padding[0])
            columns = _window(
                problem.ofm[1], blocks.columns, kernel.stride_x, (taps_x - 1) * kernel.dilation_x, problem.padding[1]
            )
            more, pieces = self._map(
                rows / factor, columns / factor, depth, problem.ifm_depth, problem.ifm_bits // 8, rate,
                is_bricked=problem.ifm_is_bricked, slices=steps.slices, whole=problem.ifm_depth,
            )  # fmt: skip
            beats, bursts = beats + more, bursts + pieces
        if problem.work is Work.ELEMENTWISE and problem.reads_ifm2:
            return beats * 2, bursts * 2
        return beats, bursts

    def _ofm(self, problem: BlockProblem, blocks: _Blocks, rate: PortRate) -> tuple[Floats, Floats]:
        depth = max(problem.ofm_map_depth, problem.ofm[2])
        return self._map(
            blocks.rows, blocks.columns, blocks.depth, depth, problem.ofm_bits // 8, rate,
            is_bricked=problem.ofm_is_bricked, slices=0, whole=min(depth, BRICK_DEPTH),
        )  # fmt: skip

    def _map(
        self, rows: Floats | Ints, columns: Floats | Ints, depth: Ints, full_depth: int, size: int, rate: PortRate,
        *, is_bricked: bool, slices: int, whole: int,
    ) -> tuple[Floats, Floats]:  # fmt: skip
        """Beats and bursts of a box of a map: rows of bricks, rows of whole pixels, or pieces of a pixel.

        Pixels go in one run if the map is no deeper than `whole`, else in `slices` pieces each (0: of a brick each).
        """
        burst = rate.burst_bytes
        if is_bricked:
            row = columns * (BRICK_DEPTH * size)
            bricks = rows * ceil_div(depth, BRICK_DEPTH)
            return np.asarray(bricks * np.ceil(row / self._beat)), np.asarray(bricks * np.ceil(row / burst))
        if full_depth <= whole:
            row = self._touched(columns * depth * size, full_depth * size)
            runs = np.where(depth == full_depth, rows, rows * columns)
            row = np.where(depth == full_depth, row, self._touched(depth * size, full_depth * size))
            return np.asarray(runs * row), np.asarray(runs * np.ceil(row * (self._beat / burst)))
        pieces = rows * columns * (slices or ceil_div(depth, BRICK_DEPTH))
        piece = self._touched(depth * size / (slices or ceil_div(depth, BRICK_DEPTH)), full_depth * size)
        return np.asarray(pieces * piece), np.asarray(pieces * np.ceil(piece * (self._beat / burst)))

    def _touched(self, length: Floats | Ints, stride: int) -> Floats:
        """Beats that a run of bytes touches: it starts anywhere unless pixels fill beats."""
        if stride % self._beat == 0:
            return np.asarray(np.ceil(length / self._beat), np.float64)
        return np.asarray((length + (self._beat - 1)) / self._beat, np.float64)

    def _add_weights(self, problem: BlockProblem, blocks: _Blocks, port: Port, variant: Variant) -> None:
        size = blocks.depth * problem.channel_bytes
        rate, timing = self._rates[port], variant.timing
        beats = size / self._beat
        self._add_read(port, beats, size / rate.burst_bytes)
        cores = variant.accelerator.cores
        per_byte = max(8 / timing.weight_decode_bits_per_cycle, rate.read_latency / timing.weight_window_bytes) / cores
        busiest = np.asarray(size * per_byte)
        self._read[port] = np.maximum(self._read[port], busiest)


def _window(extent: int, size: Ints, stride: int, taps: int, padding: int) -> Floats:
    """Input rows (or columns) that the blocks of `size` along an axis read; what lies in the padding is spread over all."""
    rows = (size - 1) * stride + (taps + 1)
    total = ceil_div(extent, size) * rows
    return np.asarray(rows * (1 - np.minimum(padding / total, 0.9)), np.float64)
