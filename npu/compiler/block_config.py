"""Block configuration: how large the OFM block of an operation is and where its buffers lie in SHRAM.

The buffer formulas are those of `npu.isa.shram`; the choice among legal blocks is by an estimate of the operation's cycles.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from npu.compiler.block_estimate import BlockProblem, BlockSearch, multiplying_steps
from npu.compiler.targets import require_compiled_for
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

if TYPE_CHECKING:
    from npu.compiler.slicing import Forms

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
        """CompileError if nothing is compiled for the variant."""
        require_compiled_for(variant)
        self.variant = variant
        self.slice_unit = int(round_up(BRICK_DEPTH, variant.accelerator.ofm_ublock.depth))
        """Slices of output channels are whole ones of so many."""
        self._search = BlockSearch(variant)
        self._known: LastUsed[tuple[BlockProblem, int], BlockChoice] = LastUsed(_REMEMBERED)
        self._problems: LastUsed[BlockProblem, BlockProblem] = LastUsed(_REMEMBERED)
        self._alike: LastUsed[tuple[BlockProblem, Traversal, int], BlockChoice | None] = LastUsed(_REMEMBERED)
        self.forms: LastUsed[BlockProblem, Forms] = LastUsed(_REMEMBERED)
        """What operations can be cut into, for those that draft plans of a model again and again."""

    def known(self, problem: BlockProblem) -> BlockProblem:
        """The problem equal to this one that was asked for before: it has kept what was worked out for it."""
        return self._problems.get(problem, lambda: problem)

    def choose(self, problem: BlockProblem, *, depth_limit: int = 0) -> BlockChoice:
        """The legal block with the lowest estimated cycles; ties go to the larger block.

        For a convolution both traversals are tried. `depth_limit` bounds the block depth (0 = only the hardware does).
        CompileError if no block fits SHRAM.
        """
        return self._known.get((problem, depth_limit), lambda: _choose(problem, self._search, depth_limit))

    def cycles_of(self, problem: BlockProblem, block: Block) -> float:
        """Estimated cycles of the problem with a block that was chosen for another use of its constants."""
        best = self._search.best(problem, (np.array([block.height]), np.array([block.width]), np.array([block.depth])))
        assert best is not None
        return best[1]

    def choose_alike(self, problem: BlockProblem, other: BlockChoice) -> BlockChoice | None:
        """The best legal block that reads weights as they are encoded for `other`: of its depth and traversal. None without."""
        depth, traversal = other.block.depth, other.traversal
        return self._alike.get(
            (problem, traversal, depth), lambda: _best_of_depth(replace(problem, traversal=traversal), self._search, depth)
        )


def _choose(problem: BlockProblem, search: BlockSearch, depth_limit: int) -> BlockChoice:
    likely, others = _traversals(problem)
    choice = _best(likely, search, depth_limit) or _best(others, search, depth_limit)
    if choice is None:
        raise CompileError(
            f"{search.variant.name}: an operation of OFM {problem.ofm}, kernel {problem.kernel.height}x{problem.kernel.width} "
            f"must have a block that fits {search.variant.shram.banks} SHRAM banks, got none"
        )
    return choice


def _traversals(problem: BlockProblem) -> tuple[list[BlockProblem], list[BlockProblem]]:
    """The problem with each traversal that it may have: those that are worth a look, and the others."""
    if problem.work is not Work.CONVOLUTION:
        return [problem], []
    both = [replace(problem, traversal=traversal) for traversal in (Traversal.DEPTH_FIRST, Traversal.PART_KERNEL_FIRST)]
    steps = [multiplying_steps(traversed) for traversed in both]
    likely = [count < min(steps) * _HOPELESS for count in steps]
    return list(compress(both, likely)), [traversed for traversed, is_likely in zip(both, likely, strict=True) if not is_likely]


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
    best = _best_of(problem, search, depths[depths == block_depth])
    return None if best is None else _choice(problem, search.variant, *best)


def _best(problems: Sequence[BlockProblem], search: BlockSearch, depth_limit: int) -> BlockChoice | None:
    """The best block of one of the problems; the first ones win ties."""
    least: tuple[BlockProblem, Block, float] | None = None
    for problem in problems:
        best = _best_of(problem, search, _depths(problem, search.variant, depth_limit))
        if best is not None and (least is None or best[1] < least[2]):
            least = (problem, *best)
    return None if least is None else _choice(least[0], search.variant, *least[1:])


def _best_of(problem: BlockProblem, search: BlockSearch, depths: Ints) -> tuple[Block, float] | None:
    """The legal block of one of the depths with the lowest estimated cycles, and these."""
    accelerator, ofm = search.variant.accelerator, problem.ofm
    ublock, limit = accelerator.ofm_ublock, accelerator.max_block
    heights, widths = _extents(ofm[0], ublock.height, limit.height), _extents(ofm[1], ublock.width, limit.width)
    return search.best(problem, (heights, widths, depths))


def _choice(problem: BlockProblem, variant: Variant, block: Block, cycles: float) -> BlockChoice:
    layout = family_of(variant.accelerator.product).shared_buffers.layout(problem, block, variant)
    assert layout is not None
    return BlockChoice(block, layout, problem.traversal, cycles)
