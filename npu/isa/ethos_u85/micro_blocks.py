"""The micro-blocks of Ethos-U85, which operations take which, and the buffers of their blocks.

By the public sources of Vela 5.2 and the streams that it writes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from npu.hardware.variant import Accelerator, Variant
from npu.isa.family import Buffers
from npu.isa.operations import AccumulatorFormat, Block, FeatureMap, ShramLayout, Traversal, Upscale
from npu.isa.shram import BufferProblem, Work
from npu.layouts import BRICK_DEPTH
from npu.machine.buffers import BufferRule
from npu.machine.rules import BUFFER_HALVES, SUB_KERNEL, deep_set_depth, round_up
from npu.records import dataclass

_WORD_BYTES = 16
"""Of what is stored together of a pixel of the IFM."""
_SMALL_ARRAY, _MIDDLE_ARRAY, _LARGE_ARRAY = 256, 512, 1024
"""MACs per cycle up to which arrays have a deep micro-block for single channels, and from which deep ones are for sums."""
_CHAINED_MAPS = 6
"""That share the memory of chains."""
_NEIGHBOURS = 2
"""Elements of an IFM row between which a place lies."""
_NO_SHRAM = ShramLayout(0, 0)


@dataclass(frozen=True, slots=True)
class MicroBlock:
    """A micro-block, and the units in which the IFM for it is stored: rows, columns and words of a pixel.

    By the bytes of a pixel in an IFM block: at most a word, at most two, more.
    """

    extent: Block
    narrow: tuple[int, int, int]
    wide: tuple[int, int, int]
    widest: tuple[int, int, int]


def _of(
    *sizes: tuple[int, int, int, tuple[int, int, int], tuple[int, int, int], tuple[int, int, int]],
) -> tuple[MicroBlock, ...]:
    return tuple(MicroBlock(Block(*size[:3]), *size[3:]) for size in sizes)


MICRO_BLOCKS: Mapping[int, tuple[MicroBlock, ...]] = {
    128: _of(
        (1, 2, 8, (1, 2, 1), (1, 1, 2), (1, 1, 2)),
        (1, 1, 16, (1, 2, 1), (1, 1, 2), (1, 1, 2)),
    ),
    256: _of(
        (1, 2, 16, (2, 2, 1), (1, 2, 2), (1, 1, 4)),
        (1, 4, 8, (1, 4, 1), (1, 2, 2), (1, 1, 4)),
        (2, 2, 8, (2, 2, 1), (1, 2, 2), (1, 1, 4)),
    ),
    512: _of(
        (2, 2, 16, (2, 2, 1), (1, 2, 2), (1, 1, 4)),
        (1, 4, 16, (1, 4, 1), (1, 2, 2), (1, 1, 4)),
    ),
    1024: _of(
        (2, 2, 32, (2, 4, 1), (2, 2, 2), (1, 2, 4)),
        (1, 4, 32, (2, 4, 1), (1, 4, 2), (1, 2, 4)),
        (2, 4, 16, (2, 4, 1), (2, 2, 2), (1, 2, 4)),
    ),
    2048: _of(
        (2, 2, 64, (4, 4, 1), (2, 4, 2), (2, 2, 4)),
        (1, 4, 64, (4, 4, 1), (2, 4, 2), (1, 4, 4)),
        (4, 4, 16, (4, 4, 1), (2, 4, 2), (2, 2, 4)),
    ),
}
"""By the MACs per cycle of the array."""


def choices(problem: BufferProblem, variant: Variant) -> tuple[Block, ...]:
    """The micro-blocks that an operation may have."""
    return tuple(one.extent for one in MICRO_BLOCKS[variant.accelerator.macs_per_cycle] if _takes(one.extent, problem, variant))


def _takes(extent: Block, problem: BufferProblem, variant: Variant) -> bool:
    """Whether a micro-block is one for an operation.

    Small arrays have one of 16 channels for work on single channels of 8 bits, of convolutions for those of 1x1 alone; large
    ones have deep ones for sums over channels alone.
    """
    macs, work = variant.accelerator.macs_per_cycle, problem.work
    if work is Work.ELEMENTWISE or (work is Work.RESIZE and macs < _LARGE_ARRAY):
        return True
    if work is Work.PRODUCT:
        return macs == _MIDDLE_ARRAY or (extent.depth > BRICK_DEPTH if macs > _MIDDLE_ARRAY else extent.depth < BRICK_DEPTH)
    is_sum = work is Work.CONVOLUTION
    if macs >= _LARGE_ARRAY:
        return is_sum or extent.depth == BRICK_DEPTH
    if macs > _SMALL_ARRAY:
        return True
    is_narrow = problem.ifm_bits == 8
    if extent.depth < BRICK_DEPTH:
        return is_sum or work is Work.REDUCE_SUM or not is_narrow
    if is_sum:
        is_point = problem.kernel.height == problem.kernel.width == 1 and problem.traversal is Traversal.DEPTH_FIRST
        return is_point and not is_narrow
    return is_narrow and work is not Work.REDUCE_SUM


def buffer_rule(problem: BufferProblem, ublock: Block | None, variant: Variant, halves: int = BUFFER_HALVES) -> BufferRule:
    """What the buffers of every block of an operation with a micro-block depend on, with room for so many blocks."""
    micro = _micro_block(variant.accelerator, ublock)
    accelerator, kernel = variant.accelerator, problem.kernel
    is_elementwise, is_resize = problem.work is Work.ELEMENTWISE, problem.work is Work.RESIZE
    has_buffers = not (is_elementwise or is_resize)
    ifm_room, accumulator_room = variant.timing.ifm_buffer_bytes, accelerator.accumulator_buffer_bytes
    units = [(rows, columns, words * _WORD_BYTES) for rows, columns, words in (micro.narrow, micro.wide, micro.widest)]
    narrow, wide, widest = units
    nearest = 1 if problem.upscale is Upscale.NEAREST else 0
    return BufferRule(
        kernel.stride_y,
        kernel.stride_x,
        min(kernel.dilated_height, SUB_KERNEL) + nearest,
        min(kernel.dilated_width, SUB_KERNEL) + nearest,
        1 if problem.upscale is Upscale.NONE else 2,
        *narrow,
        *wide,
        *widest,
        narrow_bytes=_WORD_BYTES,
        ifm_depth=0 if problem.work.shares_depth else ifm_block_depth(problem, micro.extent, accelerator),
        ifm_bits=problem.ifm_bits,
        ifm_granule=1,
        ifm_buffers=1 if has_buffers else 0,
        has_one_line=0,
        has_accumulators=has_buffers,
        accumulator_bytes=4 if problem.accumulator is AccumulatorFormat.INT32 else 8,
        accumulator_granule=1,
        accumulator_unit=BRICK_DEPTH,
        halves=halves,
        bank_bytes=1,
        ifm_room=ifm_room,
        accumulator_room=accumulator_room,
        room=ifm_room + accumulator_room,
        row_bytes=accelerator.output_buffer_bytes if is_elementwise else 0,
        row_width=0 if has_buffers else _widest_row(problem, micro.extent, accelerator),
    )


def map_bytes(fm: FeatureMap, ublock: Block, accelerator: Accelerator) -> int:
    """What a whole map takes in the memory of the IFM."""
    micro, size = _micro_block(accelerator, ublock), fm.depth * fm.element.bytes
    rows, columns, words = micro.narrow if size <= _WORD_BYTES else micro.wide if size <= 2 * _WORD_BYTES else micro.widest
    return int(round_up(fm.height, rows) * round_up(fm.width, columns) * round_up(size, words * _WORD_BYTES))


def ifm_block_depth(problem: BufferProblem, ublock: Block, accelerator: Accelerator) -> int:
    """Channels of an IFM block of what combines channels."""
    is_part_kernel = problem.traversal is Traversal.PART_KERNEL_FIRST
    is_shallow = accelerator.macs_per_cycle <= _SMALL_ARRAY and ublock.depth == BRICK_DEPTH
    if not is_part_kernel and (problem.ifm_bits == 32 or is_shallow):
        return deep_set_depth(is_part_kernel) // 2
    return deep_set_depth(is_part_kernel)


def _widest_row(problem: BufferProblem, ublock: Block, accelerator: Accelerator) -> int:
    """Columns of a block whose IFM is a row in the memory of chains: of a resize, or repeated like the IFM2; 0: any number."""
    bricks = accelerator.chaining_buffer_bytes // _CHAINED_MAPS // (BRICK_DEPTH * problem.ifm_bits // 8)
    if problem.work is Work.RESIZE:
        step, scale = problem.column_step
        widest = -(-((bricks - _NEIGHBOURS) * scale + 1) // max(step, 1))
        return max(min(widest, accelerator.max_block.width), ublock.width)
    return max(bricks // ublock.height, ublock.width) if problem.repeats_both_operands else 0


@functools.lru_cache(maxsize=64)
def _by_extent(macs: int) -> Mapping[Block, MicroBlock]:
    return {one.extent: one for one in MICRO_BLOCKS[macs]}


def _micro_block(accelerator: Accelerator, ublock: Block | None) -> MicroBlock:
    assert ublock is not None
    return _by_extent(accelerator.macs_per_cycle)[ublock]


def _deepest(variant: Variant) -> int:
    return max(one.extent.depth for one in MICRO_BLOCKS[variant.accelerator.macs_per_cycle])


BUFFERS = Buffers(
    rule=buffer_rule, layout=lambda *_: _NO_SHRAM, micro_blocks=choices, deepest=_deepest, halves=(BUFFER_HALVES, 1)
)
"""Each kind of buffer has a memory of its own."""
