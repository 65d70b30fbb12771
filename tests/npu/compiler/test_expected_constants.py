"""The sizes that plans expect of constants, beside those of the encoded ones."""

from __future__ import annotations

import numpy as np
import pytest

from npu.compiler import block_config
from npu.compiler.block_config import BlockChooser
from npu.compiler.block_estimate import BlockProblem
from npu.compiler.ir import ConvolutionStep, StepWeights, Storage, View
from npu.compiler.step_problems import describe
from npu.compiler.weights import Constants, ExpectedConstants
from npu.hardware.catalogue import load_variant
from npu.isa.operations import INT8, KernelWindow, Layout, Scale, Traversal
from npu.isa.shram import Work


@pytest.mark.parametrize(
    ("target", "outputs", "taps", "inputs", "is_depthwise"),
    [
        ("ethos-u55-128", 64, 9, 64, False),
        ("ethos-u55-128", 4, 1, 4000, False),  # as many zeros as weights for outputs that are not there
        ("ethos-u55-128", 64, 1, 1026, False),
        ("ethos-u55-128", 64, 1, 40, False),  # sets of 32 inputs: 24 zeros
        ("ethos-u55-128", 12, 9, 256, False),
        ("ethos-u55-128", 512, 9, 1, True),  # three zeros behind nine elements of the kernel
        ("ethos-u65-512", 64, 9, 40, False),
        ("ethos-u85-256", 64, 1, 40, False),  # sets of 64 inputs, or of 32
        ("ethos-u85-256", 512, 9, 1, True),
        ("ethos-u85-1024", 64, 9, 24, False),
        ("ethos-u85-1024", 512, 9, 1, True),  # one zero, and six more that nobody asks for
    ],
)
def test_zeros_that_fill_up_a_stream_are_expected(
    target: str, outputs: int, taps: int, inputs: int, *, is_depthwise: bool
) -> None:
    chooser, side = BlockChooser(load_variant(target)), 3 if taps == 9 else 1
    values = np.random.default_rng(1).integers(-127, 128, (outputs, side, side, inputs)).astype(np.int16)
    weights = StepWeights.unbiased(values, Scale(1 << 30, 38))
    depth = outputs if is_depthwise else inputs
    ifm, ofm = (View.whole(Storage(name, (10, 10, channels), INT8)) for name, channels in (("in", depth), ("out", outputs)))
    step = ConvolutionStep(
        source=0, ifm=ifm, ofm=ofm, minimum=-128, maximum=127, kernel=KernelWindow(side, side), weights=weights,
        is_depthwise=is_depthwise,
    )  # fmt: skip
    layouts = dict.fromkeys((ifm.storage, ofm.storage), Layout.NHWC)
    choice = chooser.choose(describe(step, layouts, chooser.variant.memory_mode))
    constants = Constants(chooser.variant)
    expected, encoded = (
        made.add_weights(weights, slice(0, outputs), choice, step, is_depthwise=is_depthwise).bytes
        for made in (ExpectedConstants(constants, is_rounded=False), constants)
    )
    assert 0.96 < expected / encoded < 1.04


def test_the_shorter_stream_is_taken_where_the_other_order_is_hardly_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Part kernel first, a set of Ethos-U85 has five elements of the kernel: four of a 1x1 kernel are zeros.

    Of blocks that have room for two, the best one of that order is 0.1 % faster.
    """
    variant = load_variant("ethos-u85-512")
    problem = BlockProblem(
        work=Work.CONVOLUTION, ofm=(25, 5, 64), ifm_depth=64, ifm_bits=8, ofm_bits=8, kernel=KernelWindow(),
        ifm_is_bricked=True, ofm_is_bricked=True, weights_in_place=True,
    )  # fmt: skip
    shorter = BlockChooser(variant).choose(problem)
    monkeypatch.setattr(block_config, "_WORTH_A_LONGER_STREAM", 1.0)
    faster = BlockChooser(variant).choose(problem)
    assert (shorter.traversal, faster.traversal) == (Traversal.DEPTH_FIRST, Traversal.PART_KERNEL_FIRST)
    assert faster.constant_bytes > 1.15 * shorter.constant_bytes
