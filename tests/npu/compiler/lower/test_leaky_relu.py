"""LEAKY_RELU of int16: every value, any slope, any scales; one operation where it can scale both branches."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.isa.operations import Elementwise, ElementwiseMode, KernelOperation

from tests.support.builder import ModelBuilder
from tests.support.litert import run_reference

SHAPE = (1, 64, 64, 16)
VALUES = np.arange(-(2**15), 2**15, dtype=np.int16).reshape(SHAPE)


def model_of(alpha: float, scale: float) -> bytes:
    b = ModelBuilder()
    x = b.input(SHAPE, DType.INT16, scale=0.004)
    b.output(b.op("LEAKY_RELU", [x], SHAPE, DType.INT16, scale, attributes=at.LeakyReluOptions(alpha)))
    return b.build()


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
@pytest.mark.parametrize("alpha", [0.0, 0.01, 0.3, 0.99, 1.0, 1.5, -0.5])
@pytest.mark.parametrize("scale", [0.004, 0.0031, 0.0177, 0.0009])
def test_every_value_is_that_of_the_reference(alpha: float, scale: float, target: str) -> None:
    model = model_of(alpha, scale)
    compiled = npu.compile(model, target=target)
    assert compiled.compiled_model.partitions
    assert npu.verify(compiled.content) == []
    np.testing.assert_array_equal(npu.run(compiled.content, [VALUES]).outputs[0], run_reference(model, [VALUES])[0])


@pytest.mark.parametrize(("alpha", "count"), [(0.3, 1), (1.5, 1), (-0.5, 4)])
def test_one_operation_scales_both_branches_of_ethos_u85(alpha: float, count: int) -> None:
    (partition,) = npu.compile(model_of(alpha, 0.0031), target="ethos-u85-256").compiled_model.partitions
    kernels = [one for one in partition.operations if isinstance(one, KernelOperation)]
    assert len(kernels) == count
    bent = [one for one in kernels if isinstance(one, Elementwise) and one.mode is ElementwiseMode.LRELU]
    assert len(bent) == (count == 1)
