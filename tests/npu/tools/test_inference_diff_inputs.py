"""What inference-diff feeds to both sides and runs as the reference, told by the differences that it reports."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.runtime.defaults import set_default
from npu.runtime.dummy import DummyDelegate, DummyOptions
from npu.tflite.reader import read_model
from npu.tools.inference_diff import compare
from npu.tools.registrar import default_parameters
from npu.tools.runner import open_interpreter

from tests.support.builder import ModelBuilder

COUNT = 20_000


def scaled(path: Path, factor: float) -> Path:
    """y = factor * x"""
    b = ModelBuilder()
    x = b.input((1, COUNT), DType.FLOAT32)
    made = b.op("MUL", [x, b.constant(np.float32(factor))], (1, COUNT), DType.FLOAT32, attributes=at.MulOptions())
    b.output(made)
    path.write_bytes(b.build())
    return path


@pytest.mark.seed("D-I-1", "D-I-2")
def test_inputs_are_standard_normal(tmp_path: Path) -> None:
    """The differences of x and 0 x are |x|: a half-normal distribution, of mean sqrt(2/pi) and variance 1 - 2/pi."""
    result = compare(scaled(tmp_path / "one.tflite", 1), default_parameters(), scaled(tmp_path / "zero.tflite", 0), runs=2)
    (output,) = result.outputs
    assert output.elements == 2 * COUNT
    assert output.mean == pytest.approx(math.sqrt(2 / math.pi), abs=0.02)
    assert output.std == pytest.approx(math.sqrt(1 - 2 / math.pi), abs=0.02)
    assert 3.5 < output.max < 6
    assert 0 <= output.min < 1e-3


@pytest.mark.seed("D-I-2")
def test_differences_are_absolute(tmp_path: Path) -> None:
    """x and 2 x differ by as much as 2 x and x, whatever the sign of x."""
    one, two = scaled(tmp_path / "one.tflite", 1), scaled(tmp_path / "two.tflite", 2)
    ways = [compare(left, default_parameters(), right, runs=1).outputs[0] for left, right in ((one, two), (two, one))]
    assert ways[0].mean == ways[1].mean > 0.7
    assert ways[0].min == ways[1].min >= 0


def quantized(path: Path, target_zero_point: int) -> Path:
    """int8 y = x in the same scale of 0.1, around another zero point."""
    b = ModelBuilder()
    x = b.input((1, COUNT), DType.INT8, scale=0.1, zero_point=7)
    made = b.op(
        "QUANTIZE", [x], (1, COUNT), DType.INT8, attributes=at.QuantizeOptions(), scale=0.1, zero_point=target_zero_point
    )
    b.output(made)
    path.write_bytes(b.build())
    return path


@pytest.mark.seed("D-I-1")
def test_quantized_inputs_stand_for_standard_normal_numbers(tmp_path: Path) -> None:
    """Around the zero points -118 and -128, outputs are equal only where both are held at -128: for x of -1.0 and less."""
    result = compare(
        quantized(tmp_path / "a.tflite", -118), default_parameters(), quantized(tmp_path / "b.tflite", -128), runs=1
    )
    (output,) = result.outputs
    assert output.max == 10
    share = output.differing / output.elements
    # x is rounded to steps of 0.1, so that everything below -0.95 counts as -1.0 or less.
    assert share == pytest.approx(1 - 0.5 * (1 + math.erf(-0.95 / math.sqrt(2))), abs=0.02)


@pytest.mark.seed("D-I-1")
def test_the_reference_runs_on_cpu_kernels_whatever_delegates_are_the_default(tmp_path: Path) -> None:
    set_default("dummy", lambda threads: DummyDelegate(DummyOptions()))
    try:
        interpreter = open_interpreter(read_model(scaled(tmp_path / "one.tflite", 1)), ())
    finally:
        set_default("dummy", None)
    assert [step["delegate"] for step in interpreter.execution_plan()] == [None]
