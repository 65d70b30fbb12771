"""REDUCE_MAX and REDUCE_MIN over many elements: in two poolings whose channels are at work, equal to the reference kernels."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.compiler.lower.reduction import _parts
from npu.graph import attributes as at
from npu.graph.dtype import DType

from tests.support.builder import ModelBuilder
from tests.support.litert import run_reference


@pytest.mark.parametrize(
    ("extent", "inner", "expected"),
    [(9216, 1, [(576, 16), (16, 1)]), (9216, 16, [(9216, 16)]), (97, 1, [(97, 1)]), (1, 1, [(1, 1)])],
)
def test_elements_are_compared_in_parts_where_channels_lie_idle(
    extent: int, inner: int, expected: list[tuple[int, int]]
) -> None:
    assert list(_parts(extent, inner)) == expected


@pytest.mark.parametrize("shape", [(1, 96, 96, 1), (1, 40, 6, 3), (1, 31, 7, 2)], ids=str)
@pytest.mark.parametrize("kind", ["REDUCE_MAX", "REDUCE_MIN"])
def test_the_result_is_that_of_the_reference(kind: str, shape: tuple[int, ...]) -> None:
    b = ModelBuilder()
    x = b.input(shape, DType.INT8, scale=0.1, zero_point=3)
    axes = b.constant(np.array([1, 2], np.int32))
    reduced = (1, 1, 1, shape[3])
    b.output(b.op(kind, [x, axes], reduced, DType.INT8, 0.1, 3, attributes=at.ReducerOptions(keep_dims=True)))
    content = b.build()
    given = np.random.default_rng(2).integers(-128, 128, shape).astype(np.int8)
    result = npu.run(content, [given], "ethos-u55-128")
    assert np.array_equal(result.outputs[0], run_reference(content, [given])[0])
    assert result.report.operators[0].placement == "npu"
