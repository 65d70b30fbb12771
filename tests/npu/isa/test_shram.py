"""Sizes of the buffers in SHRAM, written out: 8-bit maps on an Ethos-U55-128, micro-blocks of 1x2x8, banks of 1024 bytes."""

from __future__ import annotations

import numpy as np
import pytest

from npu.hardware.catalogue import load_variant
from npu.isa.operations import Block, KernelWindow
from npu.isa.shram import buffer_banks, buffers_of

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
    ifm, accumulators = buffer_banks(buffers_of(operation), height, width, depth, load_variant("ethos-u55-128"))
    assert (int(ifm), int(accumulators)) == (banks, 8)  # 4 x 8 x 16 accumulators of 4 bytes: 2 banks, twice, in steps of 8
