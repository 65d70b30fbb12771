"""Tables of activations where float32 ends: equal to LiteRT's reference kernel, and without a warning of numpy."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.compiler.lower.activation_tables import Quantized, result_of
from npu.graph.dtype import DType
from npu.graph.graph import Op
from npu.isa.operations import INT8

from tests.support.builder import ModelBuilder
from tests.support.litert import run_reference
from tests.support.lowering import assert_exact

SCALES = {
    "usual": (0.05, 2, 1 / 128, 0),
    "tiny input": (1e-42, 3, 1 / 128, 5),
    "huge input": (3e38, 3, 1 / 128, 0),
    "tiny output": (0.05, 3, 1e-12, 9),
    "inverse of the output beyond float32": (0.05, 3, 1e-41, 9),
    "both beyond": (1e-42, -7, 1e-41, -9),
    "huge output": (0.05, 0, 3e38, 4),
}  # input scale and zero point, output scale and zero point


def results(kind: str, source: tuple[float, int], target: tuple[float, int]) -> np.ndarray:
    """What the table of a function holds, from scale and zero point of its int8 operand to those of its result."""
    before, after = (Quantized(np.float32(scale), zero_point, INT8) for scale, zero_point in (source, target))
    return result_of(Op(kind, (), ()), before.values, before, after)


@pytest.mark.parametrize("name", SCALES)
def test_a_table_of_tanh_equals_the_reference(name: str) -> None:
    source, source_zero, target, target_zero = SCALES[name]
    b = ModelBuilder()
    x = b.input((256,), DType.INT8, scale=source, zero_point=source_zero)
    b.output(b.op("TANH", [x], (256,), DType.INT8, target, target_zero))
    (expected,) = run_reference(b.build(), [np.arange(-128, 128).astype(np.int8)])
    found = results("TANH", (source, source_zero), (target, target_zero))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("scale", [0.05, 1e-41, 3e38])
def test_a_table_of_the_logistic_function_is_that_of_exact_arithmetic(scale: float) -> None:
    """LiteRT takes an output scale of 1/256 only."""
    x = np.float64(np.float32(scale)) * np.arange(-128, 128)
    expected = np.minimum(np.floor(256 / (1 + np.exp(-np.clip(x, -700, 700))) + 0.5) - 128, 127)
    np.testing.assert_array_equal(results("LOGISTIC", (scale, 0), (1 / 256, -128)), expected)


@pytest.mark.parametrize("kind", ["LOGISTIC", "TANH"])
@pytest.mark.parametrize("scale", [1e-5, 2.0**-12, 1 / 300, 4.5])
def test_functions_of_words_are_those_of_the_reference(kind: str, scale: float) -> None:
    words = np.arange(-32768, 32768, 7).astype(np.int16)
    b = ModelBuilder()
    x = b.input((1, 1, words.size, 1), DType.INT16, scale=scale, zero_point=0)
    b.output(b.op(kind, [x], (1, 1, words.size, 1), DType.INT16, 2.0**-15, 0))
    assert_exact(b.model().graphs[0], [words.reshape(1, 1, -1, 1)])


def test_every_inverse_root_of_int8_is_that_of_the_reference_kernel() -> None:
    values = np.arange(-127, 128, dtype=np.int8).reshape(1, 255)
    for seed in range(12):
        rng, b = np.random.default_rng(seed), ModelBuilder()
        x = b.input(values.shape, DType.INT8, scale=float(rng.uniform(0.0005, 0.2)), zero_point=-128)
        b.output(b.op("RSQRT", [x], values.shape, DType.INT8, float(rng.uniform(0.001, 0.3)), int(rng.integers(-128, 60))))
        result = npu.run(b.build(), [values])
        assert result.report.operators[0].placement == "npu"
        np.testing.assert_array_equal(result.outputs[0], run_reference(b.build(), [values])[0])
