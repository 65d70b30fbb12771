"""The estimate that blocks are chosen by, against the timing model; and what it is for: more hardware, fewer cycles."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import npu
from npu.api import time_model
from npu.compiler.block_config import BlockChooser
from npu.compiler.block_estimate import BlockProblem, BlockSearch, SecondInput
from npu.graph.attributes import Padding
from npu.graph.ethos_u import Region
from npu.graph.graph import Model
from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Variant
from npu.isa.families import family_of
from npu.isa.operations import Block, Convolution, KernelOperation, KernelWindow, Stop, Traversal, WeightedOperation
from npu.isa.shram import Work, buffers_of, shram_layout
from npu.native.kernel import Kernel
from npu.tflite.writer import write_model
from sim.timing import schedule

from tests.support.single_ops import binary, conv, pool

U55 = ("ethos-u55-32", "ethos-u55-64", "ethos-u55-128", "ethos-u55-256")
U65 = ("ethos-u65-256", "ethos-u65-512")
MODELS = {
    "pointwise": conv(ifm=(1, 25, 5, 64), kernel=(1, 1), out_channels=64),
    "deep_pointwise": conv(ifm=(1, 16, 16, 200), kernel=(1, 1), out_channels=84),
    "window": conv(ifm=(1, 16, 16, 64), out_channels=64),
    "first_layer": conv(ifm=(1, 49, 10, 1), kernel=(10, 4), out_channels=64),
    "one_row": conv(ifm=(1, 1, 24, 128), kernel=(1, 1), out_channels=128),
    "depthwise": conv(kind="DEPTHWISE_CONV_2D", ifm=(1, 25, 5, 64)),
    "average": pool(ifm=(1, 12, 12, 40)),
    "addition": binary("ADD", ((1, 16, 16, 40), (1, 16, 16, 40))),
}


BIND = Kernel.bind


def kernels_of(model: Model, target: str) -> list[KernelOperation]:
    """The kernel operations that our compiler makes."""
    partitions = npu.compile(write_model(model), target=target).compiled_model.partitions
    return [operation for part in partitions for operation in part.operations if isinstance(operation, KernelOperation)]


def cycles_of(operation: KernelOperation, variant: Variant) -> int:
    return schedule([operation, Stop()], variant, stream_words=30).totals.total_cycles


def other_blocks(operation: KernelOperation, variant: Variant) -> Iterator[KernelOperation]:
    """The operation with other blocks and, for a convolution, the other traversal."""
    ublock, limit = variant.accelerator.ofm_ublock, variant.accelerator.max_block
    heights = [value for value in (1, 2, 4, 6, 8, 10, 12, 16) if value % ublock.height == 0 and value <= limit.height]
    widths = [value for value in (2, 4, 6, 8, 12, 16, 24) if value % ublock.width == 0]
    traversals = list(Traversal) if isinstance(operation, Convolution) else [None]
    for traversal, height, width, depth in itertools.product(traversals, heights, widths, (16, 32, 48, 64, 96)):
        changed = operation if traversal is None else replace(operation, traversal=traversal)
        block = Block(height, width, depth)
        layout = shram_layout(buffers_of(changed), block, variant)
        if layout is not None and depth <= operation.ofm.depth and height < operation.ofm.height + ublock.height:
            yield replace(changed, block=block, shram=layout)


# On Ethos-U65 the maps of one operator lie in DRAM, whose long latencies are harder to foresee.
@pytest.mark.parametrize(("target", "margin"), [("ethos-u55-64", 1.1), ("ethos-u55-128", 1.1), ("ethos-u65-256", 1.2)])
@pytest.mark.parametrize("name", MODELS)
def test_hardly_any_other_block_is_faster_in_the_timing_model(name: str, target: str, margin: float) -> None:
    variant = load_variant(target)
    for operation in kernels_of(MODELS[name], target):
        best = min((cycles_of(block, variant) for block in other_blocks(operation, variant)), default=10**9)
        assert cycles_of(operation, variant) <= best * margin


def cycles_in_blocks(operation: KernelOperation, variant: Variant, heights: range, widths: range) -> list[int]:
    """Cycles of the operation in each block of these sizes that finds room, as deep as its own."""
    assert operation.options is not None
    limits, buffers, cycles = variant.accelerator.max_block, family_of(variant.accelerator.product).buffers, []
    for height, width in itertools.product(heights, widths):
        block = Block(height, width, operation.block.depth)
        if height <= limits.height and width <= limits.width and buffers.layout(buffers_of(operation), block, variant):
            cycles.append(cycles_of(replace(operation, block=block), variant))
    return cycles


U85 = ("ethos-u85-128", "ethos-u85-256", "ethos-u85-1024")


@pytest.mark.parametrize("target", U85)
@pytest.mark.parametrize("window", [(1, 21), (10, 4), (9, 9)])
def test_hardly_any_other_block_is_faster_where_sub_kernels_share_the_input(window: tuple[int, int], target: str) -> None:
    """A memory of its own has the input of all sub-kernels, but hands it over to one after the other, unequal ones of 9x9."""
    variant = load_variant(target)
    *_, operation = kernels_of(pool(kind="MAX_POOL_2D", ifm=(1, 96, 40, 16), window=window, padding=Padding.VALID), target)
    cycles = cycles_in_blocks(operation, variant, range(1, 33), range(1, 21))
    assert len(cycles) > 5
    assert cycles_of(operation, variant) <= min(cycles) * 1.1


@pytest.mark.parametrize("target", U85)
def test_hardly_any_other_block_is_faster_where_slices_of_the_input_differ(target: str) -> None:
    """Of 96 channels the second slice has half of the work of the first, and takes as long to fetch."""
    variant = load_variant(target)
    (operation,) = kernels_of(conv(ifm=(1, 30, 30, 96), out_channels=8), target)
    cycles = cycles_in_blocks(operation, variant, range(2, 33, 2), range(2, 33, 2))
    assert len(cycles) > 5
    assert cycles_of(operation, variant) <= min(cycles) * 1.1


@pytest.mark.parametrize("targets", [U55, U65], ids=["u55", "u65"])
@pytest.mark.parametrize("name", MODELS)
def test_a_larger_array_is_not_slower(name: str, targets: tuple[str, ...]) -> None:
    model = write_model(MODELS[name])
    cycles = [time_model(model, target).report.totals.npu_cycles or 0 for target in targets]
    assert all(after <= before * 1.01 for before, after in itertools.pairwise(cycles)), cycles


def test_equal_slices_of_weights_are_copied_once_for_both() -> None:
    operations = kernels_of(MODELS["pointwise"], "ethos-u65-256")
    regions = {operation.weights[0].region for operation in operations if isinstance(operation, WeightedOperation)}
    assert regions == {Region.FAST}


@pytest.mark.parametrize("target", U55)
def test_weights_that_are_read_in_place_are_read_once(target: str) -> None:
    # A map that its weights dwarf: copying them would enlarge the arena.
    for operation in kernels_of(conv(ifm=(1, 1, 24, 128), kernel=(1, 3), out_channels=128), target):
        assert isinstance(operation, WeightedOperation)
        if operation.weights[0].region == Region.CONSTANTS:
            assert operation.block.height >= operation.ofm.height
            assert operation.block.width >= operation.ofm.width


def cycles_with(problem: BlockProblem, block: Block, variant: Variant) -> float:
    """The estimate where no other block may be chosen."""
    axes = np.array([block.height]), np.array([block.width]), np.array([block.depth])
    best = BlockSearch(variant).best(problem, axes)
    assert best is not None
    return best[1]


@pytest.mark.parametrize("target", ["ethos-u55-32", "ethos-u55-128", "ethos-u65-512"])
@pytest.mark.parametrize("work", list(Work))
def test_no_block_that_is_passed_over_is_faster(work: Work, target: str) -> None:
    """Blocks of which the number alone takes too long are not weighed."""
    variant = load_variant(target)
    search, ublock = BlockSearch(variant), variant.accelerator.ofm_ublock
    for height, width, depth, bits, kernel in ((9, 13, 40, 8, 3), (32, 5, 96, 16, 1), (1, 40, 24, 8, 1), (24, 24, 16, 8, 5)):
        window = KernelWindow() if work is Work.ELEMENTWISE else KernelWindow(kernel, kernel)
        problem = BlockProblem(
            work=work,
            ofm=(height, width, depth),
            ifm_depth=depth,
            ifm_bits=bits,
            ofm_bits=bits,
            kernel=window,
            ofm_in_arena=True,
        )
        axes = tuple(np.arange(step, 33, step) for step in (ublock.height, ublock.width, 16))
        alone = [search.best(problem, tuple(np.array([size]) for size in block)) for block in itertools.product(*axes)]
        assert (best := search.best(problem, axes)) is not None
        assert best[1] == min(one[1] for one in alone if one is not None)


def test_the_cycles_of_one_block_are_those_of_its_busiest_unit() -> None:
    # Ethos-U55-128, 8x8 outputs of 32 channels from 32: 8 x 4 micro-blocks and 4 of depth, 4 cycles and one to change the
    # weights; the output unit needs half a cycle per element.
    variant = load_variant("ethos-u55-128")
    problem = BlockProblem(work=Work.CONVOLUTION, ofm=(8, 8, 32), ifm_depth=32, ifm_bits=8, ofm_bits=8, kernel=KernelWindow())
    estimate = cycles_with(problem, Block(8, 8, 32), variant)
    array, output = (4 * 8 * 4 + 1) * 4, 8 * 8 * 32 * 0.5
    assert max(array, output) < estimate <= (array + output) * 1.2


def test_slices_of_a_map_without_bricks_are_written_pixel_by_pixel() -> None:
    variant = load_variant("ethos-u65-256")
    whole = BlockProblem(
        work=Work.CONVOLUTION, ofm=(48, 48, 16), ifm_depth=24, ifm_bits=8, ofm_bits=8, kernel=KernelWindow(), ofm_in_arena=True
    )
    block, part = Block(8, 16, 16), replace(whole, ofm_map_depth=34)
    assert cycles_with(part, block, variant) > 2 * cycles_with(whole, block, variant)


def test_a_second_input_from_afar_takes_larger_blocks() -> None:
    """Every block waits for the slow memory."""
    variant = load_variant("ethos-u65-256")
    near = BlockProblem(
        work=Work.ELEMENTWISE, ofm=(1, 1, 320), ifm_depth=320, ifm_bits=8, ofm_bits=8, kernel=KernelWindow(),
        reads_ifm2=True, ofm_in_arena=True, ifm2=SecondInput((1, 1, 320), "cache", is_bricked=False),
    )  # fmt: skip
    far = replace(near, ifm2=SecondInput((1, 1, 320), "constants", is_bricked=False))
    chooser = BlockChooser(variant)
    assert chooser.choose(far).cycles > chooser.choose(near).cycles
    assert chooser.choose(far).block.depth > chooser.choose(near).block.depth


def test_blocks_behind_the_first_do_not_wait_for_a_second_input_of_one_row() -> None:
    variant, block = load_variant("ethos-u65-256"), Block(2, 16, 16)
    rows = BlockProblem(
        work=Work.ELEMENTWISE, ofm=(64, 64, 64), ifm_depth=64, ifm_bits=8, ofm_bits=8, kernel=KernelWindow(), reads_ifm2=True
    )

    def cycles(height: int, memory: str) -> float:
        return cycles_with(replace(rows, ifm2=SecondInput((height, 64, 64), memory, is_bricked=False)), block, variant)

    assert cycles(64, "constants") > 2 * cycles(64, "cache")
    assert cycles(1, "constants") < 1.1 * cycles(1, "cache")


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
def test_a_block_is_looked_for_only_below_so_many_cycles(target: str) -> None:
    """What the traversals and micro-blocks before have taken ends the search of the next ones."""
    variant = load_variant(target)
    search = BlockSearch(variant)
    problem = BlockProblem(
        work=Work.CONVOLUTION, ofm=(24, 24, 32), ifm_depth=32, ifm_bits=8, ofm_bits=8, kernel=KernelWindow(3, 3)
    )
    ublock = search.micro_blocks(problem)[0]
    axes = np.arange(4, 17, 4), np.arange(4, 17, 4), np.array([16, 32])
    best = search.best(problem, axes, ublock)
    assert best is not None
    assert search.best(problem, axes, ublock, below=best[1] + 1) == best
    assert search.best(problem, axes, ublock, below=best[1]) is None


def test_the_search_is_made_ready_once_for_most_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """To bind its arrays takes longer than a search."""
    bound: list[int] = []
    monkeypatch.setattr(Kernel, "bind", lambda kernel, *given: bound.append(1) or BIND(kernel, *given))
    chooser = BlockChooser(load_variant("ethos-u55-128"))
    for side in (1, 3, 5, 7):
        for depth in (8, 64, 128):
            chooser.choose(
                BlockProblem(
                    work=Work.CONVOLUTION,
                    ofm=(8, 8, 16),
                    ifm_depth=depth,
                    ifm_bits=8,
                    ofm_bits=8,
                    kernel=KernelWindow(side, side),
                )
            )
    assert len(bound) == 1
