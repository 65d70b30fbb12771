"""SHRAM formulas against the registers that Vela writes, and the rules of every block that we choose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npu.compiler.block_config import BlockChoice, BlockChooser
from npu.compiler.block_estimate import BlockProblem
from npu.compiler.slicing import plane_blocks
from npu.errors import CompileError
from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Variant
from npu.isa.decode import decode
from npu.isa.families import family_of
from npu.isa.operations import (
    AccumulatorFormat,
    Block,
    Elementwise,
    KernelOperation,
    KernelWindow,
    ShramLayout,
    Traversal,
)
from npu.isa.payload import parse_payload
from npu.isa.shram import Work, buffers_of, shram_layout
from npu.machine.buffers import accumulator_banks, ifm_banks
from npu.tflite.writer import write_model

from tests.support.shared import shared_models
from tests.support.single_ops import binary, conv, pool, unary
from tests.support.vela import compile_with_vela, only_job

VARIANTS = ("ethos-u55-32", "ethos-u55-64", "ethos-u55-128", "ethos-u55-256", "ethos-u65-256", "ethos-u65-512")
SINGLE_OPS = {
    "convolution": conv(ifm=(1, 20, 20, 24)),
    "depthwise": conv(kind="DEPTHWISE_CONV_2D", ifm=(1, 20, 20, 24)),
    "average_pool": pool(ifm=(1, 12, 12, 40)),
    "max_pool": pool(kind="MAX_POOL_2D", ifm=(1, 12, 12, 40)),
    "add": binary("ADD", ((1, 16, 16, 20), (1, 16, 16, 20))),
    "mul_broadcast": binary("MUL", ((1, 16, 16, 20), (1, 1, 1, 20))),
    "softmax": unary("SOFTMAX", (1, 4, 4, 40)),
}


def layout_of(operation: KernelOperation) -> ShramLayout:
    """The registers of a decoded operation, as our formula reports them (unary operations have no IFM2 start)."""
    if isinstance(operation, Elementwise) and operation.mode.is_unary:
        return replace(operation.shram, ifm2_start=0)
    return operation.shram


def check_stream(compiled: bytes, variant_name: str) -> int:
    """Compare every kernel operation of a compiled file; the number of them."""
    variant = load_variant(variant_name)
    words = parse_payload(only_job(compiled).payload).words
    kernels = [item.operation for item in decode(words, variant) if isinstance(item.operation, KernelOperation)]
    for kernel in kernels:
        expected = shram_layout(buffers_of(kernel), kernel.block, variant)
        assert expected is not None
        if isinstance(kernel, Elementwise) and kernel.mode.is_unary:
            expected = replace(expected, ifm2_start=0)
        assert expected == layout_of(kernel), kernel
    return len(kernels)


@pytest.mark.parametrize("variant", ["ethos-u55-32", "ethos-u55-128", "ethos-u65-512"])
@pytest.mark.parametrize("name", SINGLE_OPS)
def test_shram_layout_of_vela_blocks_is_reproduced_for_single_operators(name: str, variant: str) -> None:
    assert check_stream(compile_with_vela(write_model(SINGLE_OPS[name]), variant), variant) > 0


@pytest.mark.parametrize("model", [name for name in ("mlperf_kws_int8", "mlperf_resnet8_int8") if name in shared_models()])
def test_shram_layout_of_vela_blocks_is_reproduced_for_real_models(model: str) -> None:
    compiled = compile_with_vela(shared_models()[model].read_bytes(), "ethos-u55-128")
    assert check_stream(compiled, "ethos-u55-128") > 10


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    "model", [n for n in ("mlperf_vww_int8", "mlperf_kws_int8", "person_detect_int8") if n in shared_models()]
)
def test_shram_layout_of_vela_blocks_is_reproduced_on_every_variant(model: str, variant: str) -> None:
    assert check_stream(compile_with_vela(shared_models()[model].read_bytes(), variant), variant) > 10


def test_buffers_of_a_hand_computed_convolution() -> None:
    # 10x4 kernel, stride 2, block 10x6x16, one input channel: IFM 26x14x8 = 2912 B, accumulators 3840 B.
    problem = BlockProblem(
        work=Work.CONVOLUTION, ofm=(25, 5, 64), ifm_depth=1, ifm_bits=8, ofm_bits=8, kernel=KernelWindow(10, 4, 2, 2),
        traversal=Traversal.PART_KERNEL_FIRST,
    )  # fmt: skip
    variant = load_variant("ethos-u55-128")
    assert shram_layout(problem, Block(10, 6, 16), variant) == ShramLayout(10, 14)


SHARED_WORK = list(Work)[:6]
"""That of Ethos-U55 and Ethos-U65."""


def _problems() -> list[BlockProblem]:
    """Varied problems, the same in every run."""
    random = np.random.default_rng(0)
    problems = []
    for _ in range(60):
        work = SHARED_WORK[random.integers(len(SHARED_WORK))]
        bits = int(random.choice([8, 8, 16, 32] if work in (Work.ELEMENTWISE, Work.REDUCE_SUM) else [8, 8, 16]))
        depth = int(random.integers(1, 300))
        sizes = [int(size) for size in (*random.integers(1, 9, 2), *random.integers(1, 4, 2))]
        kernel = KernelWindow() if work in (Work.ELEMENTWISE, Work.REDUCE_SUM) else KernelWindow(*sizes)
        is_wide = bits == 16 and work not in (Work.MAX_POOL, Work.AVERAGE_POOL)
        problems.append(
            BlockProblem(
                work=work,
                ofm=(int(random.integers(1, 80)), int(random.integers(1, 80)), 1 if work is Work.REDUCE_SUM else depth),
                ifm_depth=int(random.integers(1, 300)) if not work.shares_depth else depth,
                ifm_bits=bits,
                ofm_bits=bits,
                kernel=kernel,
                has_lut=bool(random.integers(2)),
                reads_ifm2=work is Work.ELEMENTWISE and bool(random.integers(2)),
                accumulator=AccumulatorFormat.INT40 if is_wide else AccumulatorFormat.INT32,
            )
        )
    return problems


@pytest.mark.parametrize("variant_name", VARIANTS)
def test_chosen_blocks_obey_the_hardware_rules(variant_name: str) -> None:
    variant = load_variant(variant_name)
    chooser = BlockChooser(variant)
    ublock, limit = variant.accelerator.ofm_ublock, variant.accelerator.max_block
    for problem in _problems():
        choice = chooser.choose(problem)
        block = choice.block
        for axis in ("height", "width", "depth"):
            size = getattr(block, axis)
            assert 0 < size <= getattr(limit, axis)
            assert size % getattr(ublock, axis) == 0
        assert block.depth >= problem.ofm[2] or block.depth % 16 == 0
        assert shram_layout(replace(problem, traversal=choice.traversal), block, variant) == choice.shram
        assert choice.shram.ifm_end <= choice.shram.accumulator_start <= variant.shram.banks
        tables = max(2 if problem.has_lut else 0, variant.shram.reserved_lut_banks)
        assert choice.shram.accumulator_start <= variant.shram.banks - tables


def test_an_operation_without_any_block_is_refused() -> None:
    variant = load_variant("ethos-u55-32")
    problem = BlockProblem(
        work=Work.DEPTHWISE, ofm=(8, 8, 32), ifm_depth=32, ifm_bits=16, ofm_bits=16, kernel=KernelWindow(8, 8, 3, 3)
    )
    tiny = replace(variant, shram=replace(variant.shram, banks=4))
    with pytest.raises(CompileError, match="must have a block that fits the buffers"):
        BlockChooser(tiny).choose(problem)


def test_a_micro_block_larger_than_any_block_is_not_taken() -> None:
    """One of 2 by 2 fits, those of 1 by 4 and 4 by 4 do not."""
    variant = load_variant("ethos-u85-1024")
    limit = replace(variant.accelerator.max_block, width=2)
    narrow = replace(variant, accelerator=replace(variant.accelerator, max_block=limit))
    problem = BlockProblem(
        work=Work.CONVOLUTION, ofm=(16, 16, 32), ifm_depth=32, ifm_bits=8, ofm_bits=8, kernel=KernelWindow(3, 3)
    )
    assert BlockChooser(narrow).choose(problem).block.width == 2


@pytest.mark.parametrize(("taps", "fits_twice"), [(21, False), (3, True)])
def test_a_pooling_whose_windows_overlap_much_may_have_a_block_that_has_no_room_for_two(taps: int, fits_twice: bool) -> None:
    problem = BlockProblem(
        work=Work.MAX_POOL, ofm=(60000, 1, 1), ifm_depth=1, ifm_bits=8, ofm_bits=64, kernel=KernelWindow(1, taps),
        ifm_in_arena=True, ofm_in_arena=True, accumulator=AccumulatorFormat.INT40,
    )  # fmt: skip
    variant = load_variant("ethos-u85-1024")
    assert has_room_for_two(BlockChooser(variant).choose(problem), problem, variant) == fits_twice


@pytest.mark.parametrize("in_place", [True, False])
def test_a_block_that_has_no_room_for_two_may_spare_that_constants_in_place_are_read_again(*, in_place: bool) -> None:
    problem = BlockProblem(
        work=Work.CONVOLUTION, ofm=(25, 5, 64), ifm_depth=64, ifm_bits=8, ofm_bits=8, kernel=KernelWindow(),
        ifm_is_bricked=True, ofm_is_bricked=True, weights_in_place=in_place,
    )  # fmt: skip
    variant = load_variant("ethos-u85-512")
    choice = BlockChooser(variant).choose(problem)
    assert has_room_for_two(choice, problem, variant) != in_place
    assert plane_blocks(problem.ofm, choice) == 1 or not in_place


def has_room_for_two(choice: BlockChoice, problem: BlockProblem, variant: Variant) -> bool:
    traversed = replace(problem, traversal=choice.traversal)
    rule = family_of(variant.accelerator.product).buffers.rule(traversed, choice.ublock, variant, 2)
    block = choice.block.height, choice.block.width, choice.block.depth
    return ifm_banks(rule, *block) <= rule.ifm_room and accumulator_banks(rule, *block) <= rule.accumulator_room
