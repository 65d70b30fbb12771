"""POW with one exponent for all elements, which the reference kernel multiplies out if it is a small whole number."""

from __future__ import annotations

import numpy as np
import pytest

from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.runtime.interpreter import CpuInterpreter

from tests.support.builder import ModelBuilder
from tests.support.interpreters import run
from tests.support.litert import run_reference


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1)], ids=str)
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 5, 6, 7, 12, 0.5])
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.INT32], ids=str)
def test_one_exponent_for_all_equals_the_reference(dtype: DType, exponent: float, shape: tuple[int, ...]) -> None:
    if dtype is DType.INT32 and exponent == 0.5:
        exponent = 4
    b = ModelBuilder()
    x, y = b.input((2, 37), dtype), b.input(shape, dtype)
    b.output(b.op("POW", [x, y], (1,) * (len(shape) - 2) + (2, 37), dtype, attributes=at.PowOptions()))
    values = np.linspace(0.1, 4, 74) if dtype is DType.FLOAT32 else np.arange(-37, 37)
    inputs = [values.reshape(2, 37).astype(dtype.numpy), np.full(shape, exponent, dtype.numpy)]
    content = b.build()
    np.testing.assert_array_equal(run(CpuInterpreter(model_content=content), inputs)[0], run_reference(content, inputs)[0])
