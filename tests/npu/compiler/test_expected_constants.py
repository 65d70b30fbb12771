"""The sizes that plans expect of constants, beside those of the encoded ones."""

from __future__ import annotations

import numpy as np
import pytest

from npu.compiler.block_config import BlockChooser
from npu.compiler.ir import ConvolutionStep, StepWeights, Storage, View
from npu.compiler.step_problems import describe
from npu.compiler.weights import Constants, ExpectedConstants
from npu.hardware.catalogue import load_variant
from npu.isa.operations import INT8, KernelWindow, Layout, Scale


@pytest.mark.parametrize(
    ("outputs", "taps", "inputs", "is_depthwise"),
    [
        (64, 9, 64, False),
        (4, 1, 4000, False),  # as many zeros as weights for outputs that are not there
        (64, 1, 1026, False),
        (12, 9, 256, False),
        (512, 9, 1, True),  # three zeros behind nine elements of the kernel
    ],
)
def test_zeros_that_fill_up_a_stream_are_expected(outputs: int, taps: int, inputs: int, *, is_depthwise: bool) -> None:
    chooser, side = BlockChooser(load_variant("ethos-u55-128")), 3 if taps == 9 else 1
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
