"""No kernel of the compiler reads or writes outside of its arrays: libraries do not look."""

from __future__ import annotations

import pytest

from tests.support.processes import python

PROGRAM = """
from tests.support import plain_kernels
plain_kernels.install("npu.compiler.kernels", checks_bounds=True)
import numpy as np
import npu
from npu.graph.attributes import Conv2DOptions, Padding
from npu.graph.dtype import DType
from npu.hardware.choice import Hardware
from npu.toolchain.session import Session
from tests.support.builder import ModelBuilder

builder, shape = ModelBuilder(), (1, 96, 32, 16)
x = builder.input((1, 96, 32, 1), DType.INT8, scale=0.1)
for number in range(14):
    depth, channels = (1 if number == 0 else 16), (1 if number == 13 else 16)
    weights = builder.constant(np.ones((channels, 1, 1, depth), np.int8), scale=0.01)
    bias = builder.constant(np.zeros(channels, np.int32), scale=0.001)
    options = Conv2DOptions(Padding.SAME, 1, 1)
    x = builder.op("CONV_2D", [x, weights, bias], (1, 96, 32, channels), DType.INT8, 0.1, attributes=options)
builder.output(x)
content, made = builder.build(), 0
for target in ("ethos-u55-128", "ethos-u65-256"):
    for goal in ("performance", "size"):
        for arena in (None, 24576, 8192, 4096):
            hardware = Hardware(target, arena_cache_bytes=arena)
            made += len(npu.compile(content, session=Session(hardware, goal=goal)).content) > 0
print(made)
"""


@pytest.mark.slow
def test_the_search_for_cascades_stays_within_its_arrays() -> None:
    done = python(PROGRAM)
    assert (done.returncode, done.stdout) == (0, "16\n"), done.stderr
