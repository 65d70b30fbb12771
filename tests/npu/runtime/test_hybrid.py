"""Hybrid kernels: float activations are quantized as LiteRT does it, ties and what lies next to them too."""

from __future__ import annotations

import platform

import numpy as np
import pytest

from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.operators.hybrid import quantize_rows

from tests.support.builder import ModelBuilder
from tests.support.interpreters import run
from tests.support.litert import run_reference


def _identity(count: int, *, asymmetric: bool) -> bytes:
    """FULLY_CONNECTED that gives back its input, as it was quantized."""
    b = ModelBuilder()
    x = b.input((1, count), DType.FLOAT32)
    weights = b.constant((127 * np.eye(count)).astype(np.int8), scale=1 / 127)
    options = at.FullyConnectedOptions(asymmetric_quantize_inputs=asymmetric)
    b.output(b.op("FULLY_CONNECTED", [x, weights, -1], (1, count), DType.FLOAT32, attributes=options))
    return b.build()


def _next_to_ties(ends: tuple[float, float]) -> np.ndarray:
    """Activations of scale 1: whole numbers and a half, and the floats on both sides of it.

    None below a half: LiteRT's vector code adds a half and cuts off, so that the last of them becomes 1, but for the rest of a
    row.
    """
    ties = np.arange(1.5, 30, dtype=np.float32)
    near = [np.nextafter(ties, np.float32(limit)) for limit in (0, 100)]
    return np.concatenate([np.array(ends, np.float32), ties, *near])[None]


CASES = {
    "asymmetric": (True, (0.0, 255.0)),
    "asymmetric both ways": (True, (-100.0, 155.0)),
    "symmetric": (False, (-127.0, 127.0)),
}


@pytest.mark.parametrize("case", CASES)
def test_activations_are_rounded_before_the_zero_point_is_added(case: str) -> None:
    asymmetric, ends = CASES[case]
    values = _next_to_ties(ends)
    content = _identity(values.size, asymmetric=asymmetric)
    (expected,) = run_reference(content, [values])
    np.testing.assert_array_equal(run(CpuInterpreter(model_content=content), [values])[0], expected)


def _sums_of_16_bits(weights: np.ndarray) -> np.ndarray:
    """Sums of rows (units, depth) in eight lanes, each of pairs 16 values apart, that wrap."""
    lanes = weights.reshape(len(weights), -1, 8, 2).astype(np.int64).sum((1, 3))
    return lanes.astype(np.int16).astype(np.int64).sum(1)


def _products_of_8_bits(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Sums of sizes times weights with the sign of the value, of which 128 has none."""
    signed = (weights * np.sign(values)).astype(np.int8)
    return signed.astype(np.int64) @ abs(values)


def test_sums_of_long_rows_and_products_of_the_least_weight_are_whole() -> None:
    """The row of docs/exactness.md: sums that a zero point is multiplied by, and -128 times a negative value."""
    depth, rng = 1 << 14, np.random.default_rng(8)
    ranges = ((-40, 41), (0, 41), (-127, 0), (127, 128), (-128, 128))
    weights = np.stack([rng.integers(low, high, depth) for low, high in ranges])
    x = rng.uniform(-0.5, 1, (1, depth)).astype(np.float32)
    b = ModelBuilder()
    options = at.FullyConnectedOptions(asymmetric_quantize_inputs=True)
    inputs = [b.input((1, depth), DType.FLOAT32), b.constant(weights.astype(np.int8), scale=2.0**-7), -1]
    b.output(b.op("FULLY_CONNECTED", inputs, (1, len(weights)), DType.FLOAT32, attributes=options))
    content = b.build()
    (row,), scale, (zero_point,) = quantize_rows(x, asymmetric=True)
    values, factor = row.astype(np.int64), scale * np.float32(2.0**-7)
    whole, wrapped = (
        (products - int(zero_point) * sums).astype(np.float32) * factor
        for products, sums in (
            (weights @ values, weights.sum(1)),
            (_products_of_8_bits(weights, values), _sums_of_16_bits(weights)),
        )
    )
    np.testing.assert_array_equal(run(CpuInterpreter(model_content=content), [x])[0][0], whole)
    is_x86 = platform.machine() == "x86_64"  # whose vector code in LiteRT this is
    np.testing.assert_array_equal(run_reference(content, [x])[0][0], wrapped if is_x86 else whole)
    assert (whole != wrapped).tolist() == [False, True, True, True, True]


@pytest.mark.parametrize("scales", [[0.02], [0.02, 0.03, 0.04], [0.02] * 3], ids=["per tensor", "per channel", "all the same"])
def test_a_hybrid_convolution_leaves_the_zero_points_of_its_filter_out(scales: list[float]) -> None:
    b, rng = ModelBuilder(), np.random.default_rng(5)
    x = b.input((1, 6, 5, 8), DType.FLOAT32)
    weights = b.constant(rng.integers(-127, 128, (3, 3, 3, 8)).astype(np.int8), scale=scales, zero_point=[5] * len(scales))
    options = at.Conv2DOptions(at.Padding.SAME, 1, 1)
    bias = b.constant(np.array([-1, 0, 1], np.float32))
    b.output(b.op("CONV_2D", [x, weights, bias], (1, 6, 5, 3), DType.FLOAT32, attributes=options))
    content, values = b.build(), [rng.standard_normal((1, 6, 5, 8)).astype(np.float32)]
    np.testing.assert_array_equal(run(CpuInterpreter(model_content=content), values)[0], run_reference(content, values)[0])


def test_groups_of_one_scale_have_a_zero_point_of_the_input() -> None:
    b, rng = ModelBuilder(), np.random.default_rng(6)
    x = b.input((1, 5, 4, 8), DType.FLOAT32)
    weights = b.constant(rng.integers(-127, 128, (4, 3, 3, 2)).astype(np.int8), scale=[0.02] * 4, zero_point=[0] * 4)
    bias = b.constant(np.zeros(4, np.float32))
    options = at.Conv2DOptions(at.Padding.SAME, 1, 1)
    b.output(b.op("CONV_2D", [x, weights, bias], (1, 5, 4, 4), DType.FLOAT32, attributes=options))
    content, values = b.build(), [rng.standard_normal((1, 5, 4, 8)).astype(np.float32)]
    np.testing.assert_array_equal(run(CpuInterpreter(model_content=content), values)[0], run_reference(content, values)[0])


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 4, 5, 6), (3, 4, 6, 7)),
        ((3, 1, 5, 6), (3, 4, 6, 7)),
        ((3, 4, 5, 6), (3, 1, 6, 7)),
        ((3, 4, 5, 6), (4, 6, 7)),
        ((3, 4, 5, 6), (6, 7)),
        ((2, 3, 4, 5, 6), (2, 3, 1, 6, 7)),
        ((4, 5, 6), (4, 6, 7)),
    ],
    ids=str,
)
def test_a_product_of_batches_takes_the_scales_that_the_kernel_takes(
    left: tuple[int, ...], right: tuple[int, ...], asymmetric: bool
) -> None:
    b, rng = ModelBuilder(), np.random.default_rng(7)
    x = b.input(left, DType.FLOAT32)
    y = b.constant(rng.integers(-127, 128, right).astype(np.int8), scale=0.02)
    batch = np.broadcast_shapes(left[:-2], right[:-2])
    options = at.BatchMatMulOptions(asymmetric_quantize_inputs=asymmetric and len(batch) < 3)
    b.output(b.op("BATCH_MATMUL", [x, y], (*batch, left[-2], right[-1]), DType.FLOAT32, attributes=options))
    content, values = b.build(), [(rng.standard_normal(left) + 1).astype(np.float32)]
    np.testing.assert_array_equal(run(CpuInterpreter(model_content=content), values)[0], run_reference(content, values)[0])
