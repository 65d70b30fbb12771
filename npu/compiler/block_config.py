"""Block configuration: how large the OFM block of an operation is and where its buffers lie in SHRAM.

The buffer formulas reproduce the registers that Vela writes for the same block (tested against its streams); the choice
among legal blocks is our own, by an estimate of the operation's cycles.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from npu.errors import CompileError
from npu.hardware.variant import Port, Variant
from npu.isa.operations import AccumulatorFormat, Block, Kernel, ShramLayout, Traversal, Upscale

Ints = npt.NDArray[np.int64]

SUB_KERNEL = 8
"""The MAC array walks kernels in pieces of at most 8x8 (dilated)."""

_UNIT = Kernel()
_COMPRESSION = 0.75
"""Assumed bytes of the compressed stream per weight, for the choice of a block only."""


class Work(Enum):
    """What decides the shape of the buffers and the rate of the MAC array."""

    CONVOLUTION = "convolution"
    DEPTHWISE = "depthwise"
    MAX_POOL = "max_pool"
    AVERAGE_POOL = "average_pool"
    REDUCE_SUM = "reduce_sum"
    ELEMENTWISE = "elementwise"

    @property
    def shares_depth(self) -> bool:
        """Whether an OFM channel reads the IFM channel of the same number only."""
        return self not in (Work.CONVOLUTION, Work.REDUCE_SUM)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockProblem:
    """Everything about an operation that its block depends on. Shapes are height, width, depth.

    `reads_ifm2` says whether a second operand comes from memory; `output_rank` is the row of the output unit's rate table:
    "mul", "add", "unary_32", "binary_32", "mul_32" or "other". `ifm_in_arena` and `ofm_in_arena`: the map lies in
    the arena although the mode has a separate fast memory.
    """

    work: Work
    ofm: tuple[int, int, int]
    ifm_depth: int
    ifm_bits: int
    ofm_bits: int
    kernel: Kernel = _UNIT
    upscale: Upscale = Upscale.NONE
    has_lut: bool = False
    has_clamp: bool = False
    reads_ifm2: bool = False
    accumulator: AccumulatorFormat = AccumulatorFormat.INT32
    traversal: Traversal = Traversal.DEPTH_FIRST
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


def ifm_block_depth(problem: BlockProblem, block_depth: int) -> int:
    """Channels of the IFM block that one OFM block of `block_depth` channels reads at a time."""
    return int(_ifm_depth(problem, np.asarray(block_depth, np.int64)))


def ifm_block(problem: BlockProblem, block: Block, variant: Variant) -> Block:
    """The IFM block, rounded to the micro-block, that SHRAM must hold for `block`."""
    height, width = _ifm_plane(problem, np.asarray(block.height), np.asarray(block.width), variant)
    return Block(int(height), int(width), ifm_block_depth(problem, block.depth))


def shram_layout(problem: BlockProblem, block: Block, variant: Variant) -> ShramLayout | None:
    """Buffer boundaries in banks for `block`, None if they do not fit SHRAM."""
    ifm, accumulator = _buffer_banks(
        problem, np.asarray(block.height), np.asarray(block.width), np.asarray(block.depth), variant
    )
    start = variant.shram.reserved_output_banks
    end = _lut_start(problem, variant)
    ifm_end = start + int(ifm)
    if problem.work is Work.ELEMENTWISE:
        if ifm_end + (int(ifm) if problem.reads_ifm2 else 0) > end:
            return None
        return ShramLayout(ifm_end=end, accumulator_start=end, ifm2_start=ifm_end)
    accumulator_start = end - int(accumulator)
    return ShramLayout(ifm_end, accumulator_start) if ifm_end <= accumulator_start else None


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


def _round_up(value: Any, multiple: int) -> Any:
    return -(-value // multiple) * multiple


def _ceil_div(value: Any, divisor: Any) -> Any:
    return -(-value // divisor)


def _ifm_depth(problem: BlockProblem, depth: Ints) -> Ints:
    if problem.work.shares_depth:
        return depth
    if problem.ifm_bits == 16:
        fixed = _round_up(min(problem.ifm_depth, 16), 4)
    else:
        limit = 16 if problem.traversal is Traversal.PART_KERNEL_FIRST else 32
        fixed = _round_up(min(problem.ifm_depth, limit), 8)
    return np.full_like(depth, fixed)


def _ifm_plane(problem: BlockProblem, height: Ints, width: Ints, variant: Variant) -> tuple[Ints, Ints]:
    kernel, ublock = problem.kernel, variant.accelerator.ofm_ublock
    factor = 1 if problem.upscale is Upscale.NONE else 2
    nearest = 1 if problem.upscale is Upscale.NEAREST else 0
    if problem.work is Work.ELEMENTWISE:
        kernel = Kernel()
    rows = (height - 1) * kernel.stride_y + min(kernel.dilated_height, SUB_KERNEL) + nearest
    columns = (width - 1) * kernel.stride_x + min(kernel.dilated_width, SUB_KERNEL) + nearest
    return _round_up(_ceil_div(rows, factor), ublock.height), _round_up(_ceil_div(columns, factor), ublock.width)


def _buffer_banks(problem: BlockProblem, height: Ints, width: Ints, depth: Ints, variant: Variant) -> tuple[Ints, Ints]:
    """Banks of the IFM double buffer and of the accumulator double buffer."""
    granules, bank = variant.shram.granules, variant.shram.bank_bytes
    rows, columns = _ifm_plane(problem, height, width, variant)
    ifm_bytes = rows * columns * _round_up(_ifm_depth(problem, depth) * problem.ifm_bits // 8, 8)
    is_elementwise = problem.work is Work.ELEMENTWISE
    granule = {
        (8, False): granules.ifm_8_bit,
        (8, True): granules.ifm_8_bit_elementwise,
        (16, False): granules.ifm_16_bit,
        (16, True): granules.ifm_16_bit_elementwise,
    }.get((problem.ifm_bits, is_elementwise), granules.ifm_32_bit)
    ifm = _round_up(2 * _ceil_div(ifm_bytes, bank), granule)
    is_wide = problem.accumulator is AccumulatorFormat.INT40
    flat = problem.ofm[0] == 1 and problem.kernel.height == 1 and variant.accelerator.ofm_ublock.height == 2
    lines = np.minimum(height, 1) if flat else height
    accumulator_bytes = lines * width * _round_up(depth, 8) * (40 if is_wide else 32) // 8
    granule = granules.accumulator_40_bit if is_wide else granules.accumulator_32_bit
    return ifm, _round_up(2 * _ceil_div(accumulator_bytes, bank), granule)


def _lut_start(problem: BlockProblem, variant: Variant) -> int:
    """First bank of the look-up tables: kept free on variants that reserve it, and when the operation uses one."""
    shram = variant.shram
    used = shram.lut_bytes // shram.bank_bytes if problem.has_lut else 0
    return shram.banks - max(used, shram.reserved_lut_banks)


def _candidates(problem: BlockProblem, variant: Variant, depth_limit: int) -> tuple[Ints, Ints, Ints]:
    """Heights, widths and depths of all blocks that obey the shape rules, as flat arrays of equal length."""
    ublock, limit = variant.accelerator.ofm_ublock, variant.accelerator.max_block
    height, width, depth = problem.ofm
    heights = np.arange(ublock.height, min(_round_up(height, ublock.height), limit.height) + 1, ublock.height)
    widths = np.arange(ublock.width, min(_round_up(width, ublock.width), limit.width) + 1, ublock.width)
    whole = _round_up(depth, ublock.depth)
    largest = min(whole, limit.depth, depth_limit or limit.depth)
    depths = [value for value in range(16, largest + 1, 16) if value < whole]
    if whole <= largest or not depths:
        depths.append(whole)
    grid = np.meshgrid(heights, widths, np.asarray(depths), indexing="ij")
    return grid[0].ravel().astype(np.int64), grid[1].ravel().astype(np.int64), grid[2].ravel().astype(np.int64)


def _best(problem: BlockProblem, variant: Variant, depth_limit: int) -> BlockChoice | None:
    height, width, depth = _candidates(problem, variant, depth_limit)
    ifm, accumulator = _buffer_banks(problem, height, width, depth, variant)
    room = _lut_start(problem, variant) - variant.shram.reserved_output_banks
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
    blocks_y, blocks_x = _ceil_div(ofm_height, height), _ceil_div(ofm_width, width)
    blocks_z = _ceil_div(ofm_depth, depth)
    blocks = blocks_y * blocks_x * blocks_z
    mac = _mac_cycles(problem, height, width, depth, variant)
    elements = ofm_height * ofm_width * ofm_depth / blocks
    output = _output_rate(problem, variant) * elements
    memories, mode = variant.system.memories, variant.memory_mode
    source = memories[mode.arena if problem.ifm_in_arena else mode.cache]
    target = memories[mode.arena if problem.ofm_in_arena else mode.cache]
    latency = (source.read_latency_cycles + target.write_latency_cycles) / 4
    per_block = np.maximum(np.maximum(mac, output), latency + (mac + output) / 4)
    compute = blocks * per_block + np.minimum(mac, output)
    read, written = _traffic_bytes(problem, height, width, blocks_y, blocks_x, blocks_z, variant)
    beat = variant.accelerator.axi_data_bytes
    transfer = read / (beat * source.clock_scale) + written / (beat * target.clock_scale)
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
    total = full * _ceil_div(block, ublock) + _ceil_div(rest, ublock)
    return np.asarray(total / _ceil_div(extent, block))


def _kernel_steps(problem: BlockProblem, is_16_bit: bool) -> tuple[int, int, bool, float]:
    """Kernel steps, IFM depth steps, whether weights bound the rate, and cycles per micro-block step relative to 8 bits."""
    kernel = problem.kernel
    pieces = [
        min(SUB_KERNEL // kernel.dilation_y, kernel.height - y) * min(SUB_KERNEL // kernel.dilation_x, kernel.width - x)
        for y in range(0, kernel.height, SUB_KERNEL // kernel.dilation_y)
        for x in range(0, kernel.width, SUB_KERNEL // kernel.dilation_x)
    ]
    if problem.work is Work.DEPTHWISE:
        return sum(_ceil_div(piece, 4) for piece in pieces), 1, True, problem.ifm_bits / 8
    if problem.work in (Work.MAX_POOL, Work.AVERAGE_POOL):
        return sum(pieces), 1, False, 1.0
    if problem.traversal is Traversal.PART_KERNEL_FIRST:
        group = 2 if is_16_bit else 4
        return sum(_ceil_div(piece, group) for piece in pieces), _ceil_div(problem.ifm_depth, 8), True, 1.0
    return sum(pieces), _ceil_div(problem.ifm_depth, 16 if is_16_bit else 32), True, 1.0


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
    runs, channels = (_ceil_div(depth, 16), 16) if problem.ifm_is_bricked else (1, depth)
    run_bytes = _round_up(columns * channels * problem.ifm_bits / 8, memory.burst_bytes // 2)
    ifm = blocks_y * rows * blocks_x * runs * run_bytes * (1 if problem.work.shares_depth else blocks_z)
    if problem.work is Work.ELEMENTWISE and problem.reads_ifm2:
        ifm = ifm * 2
    ofm_depth = _round_up(problem.ofm[2], 16 if problem.ofm_is_bricked else 1)
    ofm = problem.ofm[0] * problem.ofm[1] * ofm_depth * problem.ofm_bits / 8
    weights: Any = 0.0
    if problem.work in (Work.CONVOLUTION, Work.DEPTHWISE) and variant.memory_mode.cache is Port.AXI0:
        inputs = problem.ifm_depth if problem.work is Work.CONVOLUTION else 1
        weights = kernel.height * kernel.width * inputs * problem.ofm[2] * _COMPRESSION * blocks_y * blocks_x
    return np.asarray(ifm + weights), ofm
