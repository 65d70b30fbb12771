"""Block configuration: how large the OFM block of an operation is, of which micro-blocks, and where its buffers lie.

The buffer formulas are those of the family (`npu.isa.family.Buffers`); the choice among legal blocks is by an estimate of the
operation's cycles.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from itertools import compress
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from npu.compiler.block_estimate import BlockProblem, BlockSearch, constant_bytes, multiplying_steps
from npu.errors import CompileError
from npu.hardware.variant import Accelerator, Size, Variant
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
_MANY_DEPTHS = 8
_HOPELESS = 2
"""A traversal that needs so many times the steps of the other one is not looked at."""
_WORTH_A_LONGER_STREAM = 0.98
"""Of the cycles of the traversal with the shorter stream of weights, what the other one must be below."""
_FEW_TAPS = 9
"""Of most windows: blocks of a pooling whose windows have more read much of their input twice."""

_Found: TypeAlias = tuple[BlockProblem, Block, float, Block | None]
"""A problem with a traversal, its block, the cycles, and the micro-block."""


@dataclass(frozen=True, slots=True)
class BlockChoice:
    """A legal block, its SHRAM layout, the traversal it was chosen for, and the estimated cycles of the operation.

    `ublock` is the micro-block, where operations choose one. `constant_bytes` are the expected ones of its constants.
    """

    block: Block
    shram: ShramLayout
    traversal: Traversal
    cycles: float
    ublock: Block | None = None
    constant_bytes: float = 0.0


class BlockChooser:
    """Chooses blocks for one variant and remembers its last answers; threads may share it."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.slice_unit = int(round_up(BRICK_DEPTH, family_of(variant.accelerator.product).buffers.deepest(variant)))
        """Slices of output channels are whole ones of so many."""
        self._search = BlockSearch(variant)
        self._known: LastUsed[tuple[BlockProblem, int], BlockChoice] = LastUsed(_REMEMBERED)
        self._problems: LastUsed[BlockProblem, BlockProblem] = LastUsed(_REMEMBERED)
        self._alike: LastUsed[tuple[BlockProblem, Traversal, int, Block | None], BlockChoice | None] = LastUsed(_REMEMBERED)
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

    def cycles_of(self, problem: BlockProblem, choice: BlockChoice) -> float:
        """Estimated cycles of the problem with a block that was chosen for another use of its constants."""
        block = choice.block
        axes = np.array([block.height]), np.array([block.width]), np.array([block.depth])
        best = self._search.best(problem, axes, choice.ublock, min(self._search.buffers.halves))
        assert best is not None
        return best[1]

    def choose_alike(self, problem: BlockProblem, other: BlockChoice) -> BlockChoice | None:
        """The best legal block that reads weights as they are encoded for `other`: of its depth, micro-block and traversal.
        None without."""
        depth, traversal, ublock = other.block.depth, other.traversal, other.ublock
        return self._alike.get(
            (problem, traversal, depth, ublock),
            lambda: _best_of_depth(replace(problem, traversal=traversal), self._search, depth, ublock),
        )


def _choose(problem: BlockProblem, search: BlockSearch, depth_limit: int) -> BlockChoice:
    likely, others = _traversals(problem, search)
    choice = _best(likely, search, depth_limit) or _best(others, search, depth_limit)
    if choice is None:
        raise CompileError(
            f"{search.variant.name}: an operation of OFM {problem.ofm}, kernel {problem.kernel.height}x{problem.kernel.width} "
            "must have a block that fits the buffers, got none"
        )
    return choice


def _traversals(problem: BlockProblem, search: BlockSearch) -> tuple[list[BlockProblem], list[BlockProblem]]:
    """The problem with each traversal that it may have: those that are worth a look, and the others.

    With micro-blocks to choose from, that of the shorter stream comes first: there it can be much shorter.
    """
    if problem.work is not Work.CONVOLUTION:
        return [problem], []
    both = [replace(problem, traversal=traversal) for traversal in (Traversal.DEPTH_FIRST, Traversal.PART_KERNEL_FIRST)]
    if search.buffers.micro_blocks is not None:
        return sorted(both, key=lambda one: _stream(one, search)), []
    steps = [multiplying_steps(traversed) for traversed in both]
    likely = [count < min(steps) * _HOPELESS for count in steps]
    return list(compress(both, likely)), [traversed for traversed, is_likely in zip(both, likely, strict=True) if not is_likely]


def _stream(problem: BlockProblem, search: BlockSearch) -> float:
    """Expected bytes of the constants with the first micro-block."""
    return constant_bytes(problem, search.variant, search.micro_blocks(problem)[0])


def _deepest(work: Work, accelerator: Accelerator) -> int:
    """Channels of the deepest block: a resize makes one brick; where columns and channels change places, a block that is stored
    has as many columns."""
    if work is Work.RESIZE:
        return BRICK_DEPTH
    return accelerator.max_block.width if work is Work.TRANSPOSE else accelerator.max_block.depth


def _depths(problem: BlockProblem, ublock: Block | Size, limit: int) -> Ints:
    """All block depths up to a limit."""
    unit = BRICK_DEPTH if isinstance(ublock, Block) and problem.work.shares_depth else ublock.depth
    whole = round_up(problem.ofm[2], unit)
    largest, step = min(whole, limit), round_up(BRICK_DEPTH, unit)
    depths = [value for value in range(step, largest + 1, step) if value < whole]
    if whole <= largest or not depths:
        depths.append(whole)
    return np.array(depths, np.int64)


def _even(depths: Ints, extent: int) -> Ints:
    """Where there are very many depths: of those that give the same number of blocks the smallest, the most even."""
    if len(depths) <= _MANY_DEPTHS:
        return depths
    blocks = ceil_div(extent, depths)
    return depths[np.concatenate(([True], blocks[1:] < blocks[:-1]))]


@functools.lru_cache(_REMEMBERED)
def _extents(extent: int, ublock: int, limit: int) -> Ints:
    """Block sizes along an axis: of those that cut it into the same number of blocks only the smallest, the most even.

    None where the micro-block is larger than the limit, as one of several that an operation may have can be.
    """
    sizes = np.arange(ublock, min(round_up(extent, ublock), limit) + 1, ublock)
    blocks = ceil_div(extent, sizes)
    fewer: npt.NDArray[np.bool_] = blocks[1:] < blocks[:-1]
    return sizes[np.concatenate((sizes[:1] > 0, fewer))]


def _best_of_depth(problem: BlockProblem, search: BlockSearch, depth: int, ublock: Block | None) -> BlockChoice | None:
    """The best block of one depth and one micro-block; None without."""
    depths = _depths(problem, ublock or search.variant.accelerator.ofm_ublock, depth)
    for halves in search.buffers.halves:
        best = _best_of(problem, search, depths[depths == depth], ublock, halves)
        if best is not None:
            return _choice(problem, search, *best, ublock)
    return None


def _best(problems: Sequence[BlockProblem], search: BlockSearch, depth_limit: int) -> BlockChoice | None:
    """The best block of one of the problems; the first ones win ties.

    There is room for two at a time, unless none is so small. One alone may be larger, which is worth a look where windows of a
    pooling overlap much, or constants would be read in place for one block of the plane after the other.
    """
    least: _Found | None = None
    accelerator = search.variant.accelerator
    deepest = _deepest(problems[0].work, accelerator) if problems else 0
    limit = min(deepest, depth_limit or deepest)
    for halves in search.buffers.halves:
        reads_again = least is not None and _reads_again(*least[:2])
        for problem in problems if least is None or reads_again else filter(_overlaps, problems):
            for ublock in search.micro_blocks(problem):
                depths = _even(_depths(problem, ublock or accelerator.ofm_ublock, limit), problem.ofm[2])
                best = _best_of(problem, search, depths, ublock, halves, _below(least, problem, ublock))
                if best is not None:
                    least = (problem, *best, ublock)
    return None if least is None else _choice(least[0], search, *least[1:])


def _below(least: _Found | None, problem: BlockProblem, ublock: Block | None) -> float:
    """What the cycles of a problem must be below to be worth more than the least so far."""
    if least is None:
        return math.inf
    return least[2] * (1.0 if ublock is None or problem is least[0] else _WORTH_A_LONGER_STREAM)


def _reads_again(problem: BlockProblem, block: Block) -> bool:
    """Whether constants that lie in place are read for more than one block of the plane."""
    return problem.weights_in_place and (block.height < problem.ofm[0] or block.width < problem.ofm[1])


def _overlaps(problem: BlockProblem) -> bool:
    """Whether it is a pooling whose windows overlap much."""
    return not problem.has_weights and problem.kernel.height * problem.kernel.width > _FEW_TAPS


def _best_of(
    problem: BlockProblem, search: BlockSearch, depths: Ints, ublock: Block | None, halves: int, below: float = math.inf
) -> tuple[Block, float] | None:
    """The legal block of one of the depths with the lowest estimated cycles, and these. A resize makes one row at a time.
    None if none is `below` so many."""
    accelerator, ofm = search.variant.accelerator, problem.ofm
    unit, limit = ublock or accelerator.ofm_ublock, accelerator.max_block
    rows = (1, 1) if problem.work is Work.RESIZE else (unit.height, limit.height)
    heights, widths = _extents(ofm[0], *rows), _extents(ofm[1], unit.width, limit.width)
    return search.best(problem, (heights, widths, depths), ublock, halves, below)


def _choice(problem: BlockProblem, search: BlockSearch, block: Block, cycles: float, ublock: Block | None) -> BlockChoice:
    layout = search.buffers.layout(problem, block, search.variant)
    assert layout is not None
    size = constant_bytes(problem, search.variant, ublock) if problem.has_weights else 0.0
    return BlockChoice(block, layout, problem.traversal, cycles, ublock, size)
