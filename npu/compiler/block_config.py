"""Block configuration: how large the OFM block of an operation is and where its buffers lie in SHRAM.

The buffer formulas are those of `npu.isa.shram`; the choice among legal blocks is by an estimate of the operation's cycles.
"""

from __future__ import annotations

import functools

import numpy as np

from npu.compiler.block_estimate import BlockProblem, BlockSearch, multiplying_steps
from npu.errors import CompileError
from npu.hardware.variant import Variant
from npu.isa.families import family_of
from npu.isa.operations import Block, ShramLayout, Traversal
from npu.isa.shram import Work
from npu.layouts import BRICK_DEPTH
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
        self.slice_unit = int(round_up(BRICK_DEPTH, variant.accelerator.ofm_ublock.depth))
        """Slices of output channels are whole ones of so many."""
        self._search = BlockSearch(variant)
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
        return self._known.get((problem, depth_limit), lambda: _choose(problem, self._search, depth_limit))

    def choose_alike(self, problem: BlockProblem, other: BlockChoice) -> BlockChoice | None:
        """The best legal block that reads weights as they are encoded for `other`: of its depth and traversal. None without."""
        depth, traversal = other.block.depth, other.traversal
        return self._alike.get(
            (problem, traversal, depth), lambda: _best_of_depth(replace(problem, traversal=traversal), self._search, depth)
        )


def _choose(problem: BlockProblem, search: BlockSearch, depth_limit: int) -> BlockChoice:
    likely, others = _traversals(problem)
    choices = (_best(traversed, search, depth_limit) for traversed in likely)
    legal = [choice for choice in choices if choice is not None]
    if not legal:
        choices = (_best(other, search, depth_limit) for other in others)
        legal = [choice for choice in choices if choice is not None]
    if not legal:
        raise CompileError(
            f"{search.variant.name}: an operation of OFM {problem.ofm}, kernel {problem.kernel.height}x{problem.kernel.width} "
            f"must have a block that fits {search.variant.shram.banks} SHRAM banks, got none"
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


def _depths(problem: BlockProblem, variant: Variant, depth_limit: int) -> Ints:
    """Block depths to try."""
    ublock, limit = variant.accelerator.ofm_ublock.depth, variant.accelerator.max_block.depth
    whole = round_up(problem.ofm[2], ublock)
    largest = min(whole, limit, depth_limit or limit)
    step = round_up(16, ublock)
    depths = [value for value in range(step, largest + 1, step) if value < whole]
    if whole <= largest or not depths:
        depths.append(whole)
    return np.array(depths, np.int64)


@functools.lru_cache(_REMEMBERED)
def _extents(extent: int, ublock: int, limit: int) -> Ints:
    """Block sizes along an axis: of those that cut it into the same number of blocks only the smallest, the most even."""
    sizes = np.arange(ublock, min(round_up(extent, ublock), limit) + 1, ublock)
    blocks = ceil_div(extent, sizes)
    return sizes[np.concatenate(([True], blocks[1:] < blocks[:-1]))]


def _best_of_depth(problem: BlockProblem, search: BlockSearch, block_depth: int) -> BlockChoice | None:
    depths = _depths(problem, search.variant, block_depth)
    return _best_of(problem, search, depths[depths == block_depth])


def _best(problem: BlockProblem, search: BlockSearch, depth_limit: int) -> BlockChoice | None:
    return _best_of(problem, search, _depths(problem, search.variant, depth_limit))


def _best_of(problem: BlockProblem, search: BlockSearch, depths: Ints) -> BlockChoice | None:
    """The legal block of one of the depths with the lowest estimated cycles."""
    variant, accelerator = search.variant, search.variant.accelerator
    ublock, limit, ofm = accelerator.ofm_ublock, accelerator.max_block, problem.ofm
    heights, widths = _extents(ofm[0], ublock.height, limit.height), _extents(ofm[1], ublock.width, limit.width)
    best = search.best(problem, (heights, widths, depths))
    if best is None:
        return None
    layout = family_of(accelerator.product).buffers.layout(problem, best[0], variant)
    assert layout is not None
    return BlockChoice(best[0], layout, problem.traversal, best[1])
