"""QUANTIZE from int16 to int32: every value, any scale, any zero point of the input."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.graph import attributes as at
from npu.graph.dtype import DType

from tests.support.builder import ModelBuilder
from tests.support.litert import run_reference

SHAPE = (1, 64, 64, 16)
VALUES = np.arange(-(2**15), 2**15, dtype=np.int16).reshape(SHAPE)


def model_of(factor: float, zero_point: int = 0, result_zero_point: int = 0) -> bytes:
    b = ModelBuilder()
    x = b.input(SHAPE, DType.INT16, scale=0.001, zero_point=zero_point)
    scale = float(np.float32(0.001)) / factor
    b.output(b.op("QUANTIZE", [x], SHAPE, DType.INT32, scale, result_zero_point, attributes=at.QuantizeOptions()))
    return b.build()


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
@pytest.mark.parametrize(
    ("factor", "zero_point"), [(3.3, 0), (0.3, 0), (3317.3, 0), (77.7, -321), (1.0, 0), (0.5, 5), (1e-5, 100)]
)
def test_every_value_is_that_of_the_reference(factor: float, zero_point: int, target: str) -> None:
    model = model_of(factor, zero_point)
    compiled = npu.compile(model, target=target)
    assert npu.verify(compiled.content) == []
    np.testing.assert_array_equal(npu.run(compiled.content, [VALUES]).outputs[0], run_reference(model, [VALUES])[0])


@pytest.mark.parametrize(
    ("model", "reason"),
    [(model_of(1.0, 0, 5), "zero point of an int32 output must be 0"), (model_of(20000.0), "must be at most 16384")],
)
def test_what_registers_or_the_reference_cannot_say_stays_on_the_cpu(model: bytes, reason: str) -> None:
    compiled = npu.compile(model, target="ethos-u85-256").compiled_model
    assert not compiled.partitions
    assert any(reason in violation.message for op in compiled.placement.ops for violation in op.violations)
