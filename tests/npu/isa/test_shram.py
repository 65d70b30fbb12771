"""Sizes of the buffers in SHRAM: written out for 8-bit maps on an Ethos-U55-128, micro-blocks of 1x2x8, banks of 1024 bytes;
and as Vela lays out the same blocks."""

from __future__ import annotations

import numpy as np
import pytest
from ethosu.vela.architecture_allocator import try_block_config
from ethosu.vela.architecture_features import Accelerator, ArchitectureFeatures, create_default_arch
from ethosu.vela.architecture_features import Block as VelaBlock
from ethosu.vela.ethos_u55_regs.ethos_u55_regs import resampling_mode
from ethosu.vela.operation import Kernel, NpuBlockType
from ethosu.vela.shape4d import Shape4D

from npu.compiler.targets import compiler_targets
from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Variant
from npu.isa.operations import AccumulatorFormat, Block, KernelWindow, ShramLayout, Traversal, Upscale
from npu.isa.shram import BufferProblem, Work, buffer_banks, buffer_rule, buffers_of, shram_layout

from tests.support.timing import convolution

WINDOWS = {
    # rows x columns x 32 channels that a block of 4x8 pixels reads; twice that in banks, in steps of 4
    "1x1": (KernelWindow(), 4),  # 4 x 8: 1 bank
    "3x3": (KernelWindow(3, 3), 4),  # 6 x 10: 2 banks
    "3x3, strides 2 and 3": (KernelWindow(3, 3, 2, 3), 16),  # 9 x 24: 7 banks
    "3x3, strides 3 and 2": (KernelWindow(3, 3, 3, 2), 16),  # 12 x 18 (17 columns in pairs): 7 banks
    "3x2, strides 3 and 1": (KernelWindow(3, 2, 3, 1), 8),  # 12 x 10 (9 columns in pairs): 4 banks
}


@pytest.mark.parametrize("case", WINDOWS)
def test_the_input_buffer_holds_what_two_blocks_read(case: str) -> None:
    kernel, banks = WINDOWS[case]
    operation = convolution(32, 32, 16, 32, Block(4, 8, 16), kernel=kernel)
    height, width, depth = (np.asarray(extent, np.int64) for extent in (4, 8, 16))
    ifm, accumulators = buffer_banks(buffer_rule(buffers_of(operation), load_variant("ethos-u55-128")), height, width, depth)
    assert (int(ifm), int(accumulators)) == (banks, 8)  # 4 x 8 x 16 accumulators of 4 bytes: 2 banks, twice, in steps of 8


WORKS = {
    Work.CONVOLUTION: NpuBlockType.ConvolutionMxN,
    Work.DEPTHWISE: NpuBlockType.ConvolutionDepthWise,
    Work.MAX_POOL: NpuBlockType.Pooling,
    Work.AVERAGE_POOL: NpuBlockType.Pooling,
    Work.REDUCE_SUM: NpuBlockType.ReduceSum,
    Work.ELEMENTWISE: NpuBlockType.ElementWise,
}
UPSCALES = {
    Upscale.NONE: resampling_mode.NONE,
    Upscale.NEAREST: resampling_mode.NEAREST,
    Upscale.ZEROS: resampling_mode.TRANSPOSE,
}


@pytest.mark.parametrize("target", [name for name in compiler_targets() if load_variant(name).shram.granules is not None])
def test_layouts_are_those_of_vela(target: str) -> None:
    """Operations and blocks at random, many of which do not fit."""
    rng, variant, arch = np.random.default_rng(7), load_variant(target), create_default_arch(Accelerator(target))
    fitting = 0
    for _ in range(600):
        problem, block = _problem(rng), _block(rng, variant)
        expected = _layout_of_vela(problem, block, arch)
        assert shram_layout(problem, block, variant) == expected, (problem, block)
        fitting += expected is not None
    assert 100 < fitting < 550


def _problem(rng: np.random.Generator) -> BufferProblem:
    """Anything that buffers depend on."""
    work = list(Work)[rng.integers(6)]
    has_window, is_pool = work not in (Work.ELEMENTWISE, Work.REDUCE_SUM), work in (Work.MAX_POOL, Work.AVERAGE_POOL)
    bits = int(rng.choice([8, 16] if has_window else [8, 16, 32]))
    window = (int(value) for value in rng.integers(1, (10, 10, 4, 4, 3, 3)))
    is_wide = bits == 16 and not is_pool and bool(rng.integers(2))
    return BufferProblem(
        work=work,
        ofm=(int(rng.choice([1, 3, 17])), int(rng.integers(1, 40)), int(rng.integers(1, 200))),
        ifm_depth=int(rng.integers(1, 200)),
        ifm_bits=bits,
        kernel=KernelWindow(*window) if has_window else KernelWindow(),
        upscale=Upscale(int(rng.integers(3))) if has_window else Upscale.NONE,
        has_lut=bool(rng.integers(2)),
        reads_ifm2=work is Work.ELEMENTWISE and bool(rng.integers(2)),
        accumulator=AccumulatorFormat.INT40 if is_wide else AccumulatorFormat.INT32,
        traversal=Traversal(int(rng.integers(2))) if work is Work.CONVOLUTION else Traversal.DEPTH_FIRST,
    )


def _block(rng: np.random.Generator, variant: Variant) -> Block:
    """A block that the hardware has, of any size."""
    unit, most = variant.accelerator.ofm_ublock, variant.accelerator.max_block
    return Block(
        *(
            size * int(rng.integers(1, limit // size + 1) ** rng.random())
            for size, limit in zip((unit.height, unit.width, unit.depth), (most.height, most.width, most.depth), strict=True)
        )
    )


def _layout_of_vela(problem: BufferProblem, block: Block, arch: ArchitectureFeatures) -> ShramLayout | None:
    window, maps = problem.kernel, Shape4D(1, *problem.ofm[:2], problem.ifm_depth)
    config = try_block_config(
        VelaBlock(block.width, block.height, block.depth),
        arch,
        WORKS[problem.work],
        Shape4D(1, *problem.ofm),
        maps,
        maps if problem.reads_ifm2 else None,
        not problem.reads_ifm2,
        problem.ifm_bits,
        problem.traversal is Traversal.PART_KERNEL_FIRST,
        Kernel(window.width, window.height, window.stride_x, window.stride_y, window.dilation_x, window.dilation_y),
        2 if problem.has_lut else 0,
        problem.accumulator is AccumulatorFormat.INT40,
        UPSCALES[problem.upscale],
    )
    if config is None:
        return None
    layout = config.layout
    second = layout.ib_start2 if problem.work is Work.ELEMENTWISE else 0
    return ShramLayout(ifm_end=layout.ib_end, accumulator_start=layout.ab_start, ifm2_start=second)
