"""TRANSPOSE_CONV of any stride, kernel, padding and type, over one row or many: exact on the machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import npu
from npu.compiler.lower.partition import lower_partition
from npu.graph import attributes as at
from npu.graph.attributes import Padding
from npu.graph.dtype import DType
from npu.graph.ethos_u import is_npu_job
from npu.hardware.catalogue import load_variant
from npu.tflite.reader import read_model

from tests.support.builder import ModelBuilder
from tests.support.interpreters import run
from tests.support.litert import random_inputs, run_reference
from tests.support.lowering import ways_of

# height and width of the input, kernel, strides
CASES = {
    "kernel of the stride": ((6, 7), (2, 2), (2, 2)),
    "small": ((2, 3), (3, 3), (2, 2)),
    "odd": ((9, 11), (3, 5), (2, 2)),
    "kernel below the stride": ((8, 8), (1, 2), (3, 3)),
    "unequal strides": ((8, 9), (4, 3), (1, 3)),
    "one row": ((1, 11), (3, 4), (1, 2)),
    "one column": ((10, 1), (4, 5), (2, 4)),
    "one element": ((1, 1), (5, 4), (3, 2)),
    "no stride": ((7, 6), (3, 3), (1, 1)),
    "large": ((40, 40), (3, 3), (2, 2)),
    "large, kernel of the stride": ((40, 40), (2, 2), (2, 2)),
}


def transposed(
    case: str, padding: Padding, dtype: DType, seed: int, *, is_shape_computed: bool = False, outer: int | None = None
) -> bytes:
    """Random channels, weights and scales."""
    rng, b = np.random.default_rng(seed), ModelBuilder()
    sides, kernel, strides = CASES[case]
    inner, any_outer = (int(n) for n in rng.integers(1, 40, 2))
    outer = outer or any_outer
    point = 3 if dtype is DType.INT8 else 0
    rest = 0 if padding is Padding.SAME else 1
    size = [n * s + rest * max(k - s, 0) for n, k, s in zip(sides, kernel, strides, strict=True)]
    x = b.input((1, *sides, inner), dtype, scale=0.02, zero_point=point)
    shape = b.input((4,), DType.INT32) if is_shape_computed else b.constant(np.array([1, *size, outer], np.int32))
    w = b.constant(rng.integers(-127, 128, (outer, *kernel, inner)).astype(np.int8), scale=0.01)
    bias = b.constant(rng.integers(-9999, 9999, outer).astype(np.int64 if dtype is DType.INT16 else np.int32), scale=0.0002)
    scale = 0.02 * 0.01 * (2000 if dtype is DType.INT8 else 200) * float(np.sqrt(inner))
    options = at.TransposeConvOptions(padding, strides[1], strides[0])
    inputs = [shape, w, x, bias]
    b.output(b.op("TRANSPOSE_CONV", inputs, (1, *size, outer), dtype, scale, -point, attributes=options))
    return b.build()


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16], ids=str)
@pytest.mark.parametrize("padding", list(Padding)[:2], ids=lambda padding: padding.name)
@pytest.mark.parametrize("case", CASES)
def test_values_are_exact(case: str, padding: Padding, dtype: DType, tmp_path: Path) -> None:
    for seed, target in enumerate(("ethos-u55-32", "ethos-u65-512")):
        content = transposed(case, padding, dtype, seed)
        npu.compile(content, target=target).save(tmp_path / "m.tflite")
        assert [is_npu_job(op) for op in read_model(tmp_path / "m.tflite").graphs[0].ops] == [True]
        inputs = random_inputs(content, seed)
        (found,) = run(npu.Interpreter(str(tmp_path / "m.tflite")), inputs)
        (expected,) = run_reference(content, inputs)
        np.testing.assert_array_equal(found, expected)
        assert len(np.unique(expected)) > min(10, expected.size // 3)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16], ids=str)
@pytest.mark.parametrize(
    ("case", "padding", "outer", "steps"),
    [
        ("large, kernel of the stride", Padding.VALID, 1, 2),
        ("large", Padding.SAME, 3, 2),
        ("large", Padding.VALID, 3, 4),  # the last row of 81 columns would lack one
    ],
)
def test_outputs_between_two_inputs_of_a_row_are_channels_where_rows_have_as_many(
    case: str, outer: int, steps: int, padding: Padding, dtype: DType, tmp_path: Path
) -> None:
    content = transposed(case, padding, dtype, 3, outer=outer)
    (tmp_path / "source.tflite").write_bytes(content)
    hardware, graph = load_variant("ethos-u55-256"), read_model(tmp_path / "source.tflite").graphs[0]
    assert len(lower_partition(graph, [0], hardware, estimates=ways_of(hardware)).steps) == steps
    npu.compile(content, target="ethos-u55-256").save(tmp_path / "m.tflite")
    inputs = random_inputs(content, 1)
    (found,) = run(npu.Interpreter(str(tmp_path / "m.tflite")), inputs)
    (expected,) = run_reference(content, inputs)
    np.testing.assert_array_equal(found, expected)


def test_a_computed_output_shape_is_the_declared_one(tmp_path: Path) -> None:
    """tflite-micro's kernel takes what the output tensor says, so a job may, too; LiteRT's is told the same."""
    content = transposed("odd", Padding.VALID, DType.INT8, 0, is_shape_computed=True)
    npu.compile(content).save(tmp_path / "m.tflite")
    graph = read_model(tmp_path / "m.tflite").graphs[0]
    assert [is_npu_job(op) for op in graph.ops] == [True]
    picture, _ = random_inputs(content, 0)
    inputs = [picture, np.array(graph.tensors[graph.outputs[0]].shape, np.int32)]
    (found,) = run(npu.Interpreter(str(tmp_path / "m.tflite")), inputs)
    (expected,) = run_reference(content, inputs)
    np.testing.assert_array_equal(found, expected)
