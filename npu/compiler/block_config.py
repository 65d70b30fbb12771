"""Block configuration: how large the OFM block of an operation is and where its buffers lie in SHRAM.

The buffer formulas are those of `npu.isa.shram`; the choice among legal blocks is by an estimate of the operation's cycles.
"""

from __future__ import annotations

import numpy as np

from npu.compiler.block_estimate import BlockProblem, MachineRows, estimate_cycles, multiplying_steps
from npu.errors import CompileError
from npu.hardware.variant import Variant
from npu.isa.families import family_of
from npu.isa.operations import Block, ShramLayout, Traversal
from npu.isa.shram import Work
from npu.machine.rules import ceil_div, round_up
from npu.memo import LastUsed
from npu.numerics.arrays import Ints
from npu.records import dataclass, replace

_REMEMBERED = 1 << 14
_HOPELESS = 2
"""A traversal that needs so many times the steps of the other one is not looked at."""


@dataclass(frozen=True, slots=True)
class BlockChoice:
    """A legal block, its SHRAM layout, the traversal it was chosen for, and the estimated cycles of the operation."""

    block: Block
    shram: ShramLayout
    traversal: Traversal
    cycles: float


class BlockChooser:
    """Chooses blocks for one variant and remembers its last answers; threads may share it."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self._rows = MachineRows(variant)
        self._known: LastUsed[tuple[BlockProblem, int], BlockChoice] = LastUsed(_REMEMBERED)
        self._problems: LastUsed[BlockProblem, BlockProblem] = LastUsed(_REMEMBERED)
        self._alike: LastUsed[tuple[BlockProblem, Traversal, int], BlockChoice | None] = LastUsed(_REMEMBERED)

    def known(self, problem: BlockProblem) -> BlockProblem:
        """The problem equal to this one that was asked for before: it has kept what was worked out for it."""
        return self._problems.get(problem, lambda: problem)

    def choose(self, problem: BlockProblem, *, depth_limit: int = 0) -> BlockChoice:
        """The legal block with the lowest estimated cycles; ties go to the larger block.

        For a convolution both traversals are tried. `depth_limit` bounds the block depth (0 = only the hardware does).
        CompileError if no block fits SHRAM.
        """
        return self._known.get((problem, depth_limit), lambda: _choose(problem, self._rows, depth_limit))

    def choose_alike(self, problem: BlockProblem, other: BlockChoice) -> BlockChoice | None:
        """The best legal block that reads weights as they are encoded for `other`: of its depth and traversal. None without."""
        depth, traversal = other.block.depth, other.traversal
        return self._alike.get(
            (problem, traversal, depth), lambda: _best_of_depth(replace(problem, traversal=traversal), self._rows, depth)
        )


def _choose(problem: BlockProblem, rows: MachineRows, depth_limit: int) -> BlockChoice:
    likely, others = _traversals(problem)
    choices = (_best(traversed, rows, depth_limit) for traversed in likely)
    legal = [choice for choice in choices if choice is not None]
    if not legal:
        choices = (_best(other, rows, depth_limit) for other in others)
        legal = [choice for choice in choices if choice is not None]
    if not legal:
        raise CompileError(
            f"{rows.variant.name}: an operation of OFM {problem.ofm}, kernel {problem.kernel.height}x{problem.kernel.width} "
            f"must have a block that fits {rows.variant.shram.banks} SHRAM banks, got none"
        )
    return min(legal, key=lambda choice: choice.cycles)


def _traversals(problem: BlockProblem) -> tuple[list[BlockProblem], list[BlockProblem]]:
    """The problem with each traversal that it may have: those that are worth a look, and the others."""
    if problem.work is not Work.CONVOLUTION:
        return [problem], []
    both = [replace(problem, traversal=traversal) for traversal in (Traversal.DEPTH_FIRST, Traversal.PART_KERNEL_FIRST)]
    least = min(multiplying_steps(traversed) for traversed in both)
    likely = [traversed for traversed in both if multiplying_steps(traversed) < least * _HOPELESS]
    return likely, [traversed for traversed in both if traversed not in likely]


def _candidates(problem: BlockProblem, variant: Variant, depth_limit: int) -> tuple[Ints, Ints, Ints]:
    """Heights, widths and depths of all blocks that obey the shape rules, as flat arrays of equal length."""
    ublock, limit = variant.accelerator.ofm_ublock, variant.accelerator.max_block
    height, width, depth = problem.ofm
    heights = _extents(height, ublock.height, limit.height)
    widths = _extents(width, ublock.width, limit.width)
    whole = round_up(depth, ublock.depth)
    largest = min(whole, limit.depth, depth_limit or limit.depth)
    step = round_up(16, ublock.depth)
    depths = [value for value in range(step, largest + 1, step) if value < whole]
    if whole <= largest or not depths:
        depths.append(whole)
    grid = np.empty((3, len(heights), len(widths), len(depths)), np.int64)
    grid[0], grid[1], grid[2] = heights[:, None, None], widths[:, None], depths
    flat = grid.reshape(3, -1)
    return flat[0], flat[1], flat[2]


def _extents(extent: int, ublock: int, limit: int) -> Ints:
    """Block sizes along an axis: of those that cut it into the same number of blocks only the smallest, the most even."""
    sizes = np.arange(ublock, min(round_up(extent, ublock), limit) + 1, ublock)
    blocks = ceil_div(extent, sizes)
    return sizes[np.concatenate(([True], blocks[1:] < blocks[:-1]))]


def _best_of_depth(problem: BlockProblem, rows: MachineRows, block_depth: int) -> BlockChoice | None:
    height, width, depth = _candidates(problem, rows.variant, block_depth)
    same = depth == block_depth
    return _best_of(problem, rows, (height[same], width[same], depth[same]))


def _best(problem: BlockProblem, rows: MachineRows, depth_limit: int) -> BlockChoice | None:
    return _best_of(problem, rows, _candidates(problem, rows.variant, depth_limit))


def _best_of(problem: BlockProblem, rows: MachineRows, candidates: tuple[Ints, Ints, Ints]) -> BlockChoice | None:
    """The legal one of the candidates with the lowest estimated cycles."""
    variant = rows.variant
    height, width, depth = candidates
    buffers = family_of(variant.accelerator.product).buffers
    fits = buffers.fits(problem, height, width, depth, variant)
    if not fits.any():
        return None
    height, width, depth = height[fits], width[fits], depth[fits]
    cycles = estimate_cycles(problem, height, width, depth, rows)
    order = np.lexsort((-width, -(height * width * depth), cycles))
    best = int(order[0])
    block = Block(int(height[best]), int(width[best]), int(depth[best]))
    layout = buffers.layout(problem, block, variant)
    assert layout is not None
    return BlockChoice(block, layout, problem.traversal, float(cycles[best]))
