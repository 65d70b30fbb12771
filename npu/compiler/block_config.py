"""Block configuration: how large the OFM block of an operation is and where its buffers lie in SHRAM.

The buffer formulas are those of `npu.isa.shram`; the choice among legal blocks is by an estimate of the operation's cycles.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from npu.errors import CompileError
from npu.hardware.ports import port_rate
from npu.hardware.variant import Port, Variant
from npu.isa.operations import AccumulatorFormat, Block, ShramLayout, Traversal, Upscale
from npu.isa.shram import SUB_KERNEL, BufferProblem, Work, buffer_banks, ceil_div, lut_start, round_up, shram_layout

Ints = npt.NDArray[np.int64]

_COMPRESSION = 0.75
"""Assumed bytes of the compressed stream per weight, for the choice of a block only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockProblem(BufferProblem):
    """Everything about an operation that its block depends on. Shapes are height, width, depth.

    `output_rank` is the row of the output unit's rate table:
    "mul", "add", "unary_32", "binary_32", "mul_32" or "other". `ifm_in_arena` and `ofm_in_arena`: the map lies in
    the arena although the mode has a separate fast memory.
    """

    ofm_bits: int
    has_clamp: bool = False
    output_rank: str = "other"
    ifm_is_bricked: bool = False
    ofm_is_bricked: bool = False
    ifm_in_arena: bool = False
    ofm_in_arena: bool = False


@dataclass(frozen=True, slots=True)
class BlockChoice:
    """A legal block, its SHRAM layout, the traversal it was chosen for, and the estimated cycles of the operation."""

    block: Block
    shram: ShramLayout
    traversal: Traversal
    cycles: float


class BlockChooser:
    """Chooses blocks for one variant and remembers its answers."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self._known: dict[tuple[BlockProblem, int], BlockChoice] = {}

    def choose(self, problem: BlockProblem, *, depth_limit: int = 0) -> BlockChoice:
        """The legal block with the lowest estimated cycles; ties go to the larger block.

        For a convolution both traversals are tried. `depth_limit` bounds the block depth (0 = only the hardware does).
        CompileError if no block fits SHRAM.
        """
        key = (problem, depth_limit)
        if key not in self._known:
            self._known[key] = _choose(problem, self.variant, depth_limit)
        return self._known[key]


def _choose(problem: BlockProblem, variant: Variant, depth_limit: int) -> BlockChoice:
    choices = [_best(problem, variant, depth_limit)]
    if problem.work is Work.CONVOLUTION:
        choices.append(_best(replace(problem, traversal=Traversal.PART_KERNEL_FIRST), variant, depth_limit))
    legal = [choice for choice in choices if choice is not None]
    if not legal:
        raise CompileError(
            f"{variant.name}: an operation of OFM {problem.ofm}, kernel {problem.kernel.height}x{problem.kernel.width} "
            f"must have a block that fits {variant.shram.banks} SHRAM banks, got none"
        )
    return min(legal, key=lambda choice: choice.cycles)


def _candidates(problem: BlockProblem, variant: Variant, depth_limit: int) -> tuple[Ints, Ints, Ints]:
    """Heights, widths and depths of all blocks that obey the shape rules, as flat arrays of equal length."""
    ublock, limit = variant.accelerator.ofm_ublock, variant.accelerator.max_block
    height, width, depth = problem.ofm
    heights = np.arange(ublock.height, min(round_up(height, ublock.height), limit.height) + 1, ublock.height)
    widths = np.arange(ublock.width, min(round_up(width, ublock.width), limit.width) + 1, ublock.width)
    whole = round_up(depth, ublock.depth)
    largest = min(whole, limit.depth, depth_limit or limit.depth)
    depths = [value for value in range(16, largest + 1, 16) if value < whole]
    if whole <= largest or not depths:
        depths.append(whole)
    grid = np.meshgrid(heights, widths, np.asarray(depths), indexing="ij")
    return grid[0].ravel().astype(np.int64), grid[1].ravel().astype(np.int64), grid[2].ravel().astype(np.int64)


def _best(problem: BlockProblem, variant: Variant, depth_limit: int) -> BlockChoice | None:
    height, width, depth = _candidates(problem, variant, depth_limit)
    ifm, accumulator = buffer_banks(problem, height, width, depth, variant)
    room = lut_start(problem, variant) - variant.shram.reserved_output_banks
    second = (ifm if problem.reads_ifm2 else 0) if problem.work is Work.ELEMENTWISE else accumulator
    fits = ifm + second <= room
    if not fits.any():
        return None
    height, width, depth = height[fits], width[fits], depth[fits]
    cycles = _estimate(problem, height, width, depth, variant)
    order = np.lexsort((-width, -(height * width * depth), cycles))
    best = int(order[0])
    block = Block(int(height[best]), int(width[best]), int(depth[best]))
    layout = shram_layout(problem, block, variant)
    assert layout is not None
    return BlockChoice(block, layout, problem.traversal, float(cycles[best]))


def _estimate(problem: BlockProblem, height: Ints, width: Ints, depth: Ints, variant: Variant) -> npt.NDArray[np.float64]:
    """Estimated cycles of the whole operation for every candidate block."""
    ofm_height, ofm_width, ofm_depth = problem.ofm
    blocks_y, blocks_x = ceil_div(ofm_height, height), ceil_div(ofm_width, width)
    blocks_z = ceil_div(ofm_depth, depth)
    blocks = blocks_y * blocks_x * blocks_z
    mac = _mac_cycles(problem, height, width, depth, variant)
    elements = ofm_height * ofm_width * ofm_depth / blocks
    output = _output_rate(problem, variant) * elements
    mode = variant.memory_mode
    source = port_rate(variant, mode.arena if problem.ifm_in_arena else mode.cache)
    target = port_rate(variant, mode.arena if problem.ofm_in_arena else mode.cache)
    latency = (source.read_latency + target.write_latency) / 4
    per_block = np.maximum(np.maximum(mac, output), latency + (mac + output) / 4)
    compute = blocks * per_block + np.minimum(mac, output)
    read, written = _traffic_bytes(problem, height, width, blocks_y, blocks_x, blocks_z, variant)
    transfer = read / source.read + written / target.write
    result: npt.NDArray[np.float64] = np.maximum(compute, transfer) + 0.1 * np.minimum(compute, transfer)
    return result


def _mac_cycles(problem: BlockProblem, height: Ints, width: Ints, depth: Ints, variant: Variant) -> npt.NDArray[np.float64]:
    """MAC-array cycles of an average block, edges clipped."""
    if problem.work is Work.ELEMENTWISE:
        return np.zeros(height.shape)
    accelerator, timing = variant.accelerator, variant.timing
    ublock = accelerator.ofm_ublock
    high, wide = ublock.height, ublock.width
    if high == 2 and problem.ofm[0] == 1 and problem.kernel.height == 1 and problem.ofm[1] % 2 == 0:
        high, wide = 1, wide * 2
    plane = _mean_ublocks(problem.ofm[0], height, high) * _mean_ublocks(problem.ofm[1], width, wide)
    planes = _mean_ublocks(problem.ofm[2], depth, ublock.depth)
    fetch = 32 * ublock.depth / timing.weights_per_cycle
    step, is_16_bit = timing.ublock_mac_cycles, problem.ifm_bits == 16
    steps, depth_steps, floor, rate = _kernel_steps(problem, is_16_bit)
    if problem.work in (Work.MAX_POOL, Work.AVERAGE_POOL):
        factor = timing.pooling_16_bit_factor if is_16_bit else 1
        return np.asarray(max(step, steps) * plane * planes * factor / accelerator.cores)
    bubble = timing.bubble_cycles_40_bit if problem.accumulator is AccumulatorFormat.INT40 else timing.bubble_cycles
    bubbles = np.where(plane <= 1, bubble * steps * depth_steps, 0)
    busy = np.maximum(fetch if floor else 0, step * plane * rate) * steps * planes * depth_steps
    return np.asarray((busy + bubbles) / accelerator.cores)


def _mean_ublocks(extent: int, block: Ints, ublock: int) -> npt.NDArray[np.float64]:
    """Micro-blocks along one axis of an average block."""
    full, rest = extent // block, extent % block
    total = full * ceil_div(block, ublock) + ceil_div(rest, ublock)
    return np.asarray(total / ceil_div(extent, block))


def _kernel_steps(problem: BlockProblem, is_16_bit: bool) -> tuple[int, int, bool, float]:
    """Kernel steps, IFM depth steps, whether weights bound the rate, and cycles per micro-block step relative to 8 bits."""
    kernel = problem.kernel
    pieces = [
        min(SUB_KERNEL // kernel.dilation_y, kernel.height - y) * min(SUB_KERNEL // kernel.dilation_x, kernel.width - x)
        for y in range(0, kernel.height, SUB_KERNEL // kernel.dilation_y)
        for x in range(0, kernel.width, SUB_KERNEL // kernel.dilation_x)
    ]
    if problem.work is Work.DEPTHWISE:
        return sum(ceil_div(piece, 4) for piece in pieces), 1, True, problem.ifm_bits / 8
    if problem.work in (Work.MAX_POOL, Work.AVERAGE_POOL):
        return sum(pieces), 1, False, 1.0
    if problem.traversal is Traversal.PART_KERNEL_FIRST:
        group = 2 if is_16_bit else 4
        return sum(ceil_div(piece, group) for piece in pieces), ceil_div(problem.ifm_depth, 8), True, 1.0
    return sum(pieces), ceil_div(problem.ifm_depth, 16 if is_16_bit else 32), True, 1.0


def _output_rate(problem: BlockProblem, variant: Variant) -> float:
    """Output-unit cycles per element, the activation included."""
    cycles = variant.timing.output_cycles
    rates = {
        "mul": cycles.mul_or_40_bit_accumulator,
        "add": cycles.add_sub,
        "unary_32": cycles.elementwise_32_bit_unary,
        "binary_32": cycles.elementwise_32_bit_binary,
        "mul_32": cycles.mul_32_bit_ofm,
    }
    rate = rates.get(problem.output_rank, cycles.other)
    if problem.work is Work.MAX_POOL:
        rate = cycles.max_pool
    elif problem.work is not Work.ELEMENTWISE and problem.accumulator is AccumulatorFormat.INT40:
        rate = cycles.mul_or_40_bit_accumulator
    activation = cycles.activation_lut if problem.has_lut else cycles.activation_clamp if problem.has_clamp else 0.0
    return max(rate, activation)


def _traffic_bytes(
    problem: BlockProblem, height: Ints, width: Ints, blocks_y: Ints, blocks_x: Ints, blocks_z: Ints, variant: Variant
) -> tuple[npt.NDArray[np.float64], float]:
    """Bytes that the operation reads, halos and repeated fetches included, and bytes that it writes."""
    kernel = problem.kernel
    factor = 1 if problem.upscale is Upscale.NONE else 2
    rows = ((height - 1) * kernel.stride_y + kernel.dilated_height) / factor
    columns = ((width - 1) * kernel.stride_x + kernel.dilated_width) / factor
    depth = problem.ofm[2] if problem.work.shares_depth else problem.ifm_depth
    memory = variant.system.memories[variant.memory_mode.arena if problem.ifm_in_arena else variant.memory_mode.cache]
    runs, channels = (ceil_div(depth, 16), 16) if problem.ifm_is_bricked else (1, depth)
    run_bytes = round_up(columns * channels * problem.ifm_bits / 8, memory.burst_bytes // 2)
    ifm = blocks_y * rows * blocks_x * runs * run_bytes * (1 if problem.work.shares_depth else blocks_z)
    if problem.work is Work.ELEMENTWISE and problem.reads_ifm2:
        ifm = ifm * 2
    ofm_depth = round_up(problem.ofm[2], 16 if problem.ofm_is_bricked else 1)
    ofm = problem.ofm[0] * problem.ofm[1] * ofm_depth * problem.ofm_bits / 8
    weights: Any = 0.0
    if problem.work in (Work.CONVOLUTION, Work.DEPTHWISE) and variant.memory_mode.cache is Port.AXI0:
        inputs = problem.ifm_depth if problem.work is Work.CONVOLUTION else 1
        weights = kernel.height * kernel.width * inputs * problem.ofm[2] * _COMPRESSION * blocks_y * blocks_x
    return np.asarray(ifm + weights), ofm
