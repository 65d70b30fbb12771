"""Factors and clamps in the precision of the reference kernels: double where they use double, float32 where they use that."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

import npu
from npu.compiler.lower.activation_tables import Quantized
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.convolution import _fully_connected_factors, channel_factors
from npu.compiler.lower.fusions import Fusions
from npu.compiler.lower.mean import divided, factor_of_sums
from npu.compiler.lower.quantize import activation_range, register_scale
from npu.compiler.lower.rooms import Rooms
from npu.graph import attributes as at
from npu.graph.graph import Model
from npu.hardware.catalogue import load_variant
from npu.isa.decode import decode
from npu.isa.operations import INT8, Elementwise, Scale
from npu.numerics.rounding import saturating_rounding_doubling_high_mul
from npu.numerics.scaling import round_away, round_half_away
from npu.tflite.writer import write_model
from sim.container import jobs_of

from tests.support.single_ops import op_model, tensor

F32 = np.float32


def _builder(model: Model) -> Builder:
    graph, fusions = model.graphs[0], cast(Fusions, SimpleNamespace(inputs=()))
    return Builder(graph, fusions, load_variant("ethos-u55-128"), Rooms(graph, (), fusions, 0, is_small=False))


def _scales() -> tuple[float, float, float]:
    """Scales whose product in float32 leads to another multiplier than their product in double."""
    rng = np.random.default_rng(1)
    while True:
        first, second, output = (F32(value) for value in rng.uniform(0.001, 1, 3))
        narrow, wide = float(first * second) / float(output), float(first) * float(second) / float(output)
        if register_scale(narrow) != register_scale(wide):
            return float(first), float(second), float(output)


def test_a_fully_connected_layer_multiplies_its_two_scales_in_float32_and_a_convolution_in_double() -> None:
    first, second, output = _scales()
    weights = tensor((3, 4), data=1, scale=second)
    model = op_model("FULLY_CONNECTED", [tensor((1, 4), scale=first), weights], [tensor((1, 3), scale=output)])
    builder, op = _builder(model), model.graphs[0].ops[0]
    assert _fully_connected_factors(builder, op) == [float(F32(first) * F32(second)) / float(F32(output))]
    assert channel_factors(builder, op, 0, 1) == [float(F32(first)) * float(F32(second)) / float(F32(output))]


def test_the_clamp_of_a_rectifier_is_divided_in_float32() -> None:
    """Where the quotient in float32 is a tie that it is not in double, the bound moves by a step."""
    rng, seen = np.random.default_rng(2), 0
    for steps in rng.integers(1, 120, 4000):
        scale = F32(6) / F32(steps + 0.5)
        single, double = round_half_away(float(F32(6) / scale)), round_half_away(6.0 / float(scale))
        seen += single != double
        assert activation_range("RELU6", scale, -128, INT8)[1] == min(127, -128 + single)
    assert seen


def test_the_high_half_of_the_two_least_numbers_saturates() -> None:
    least = -(1 << 31)
    assert saturating_rounding_doubling_high_mul(least, least) == (1 << 31) - 1
    assert saturating_rounding_doubling_high_mul(least, least + 1) == (1 << 31) - 1
    assert saturating_rounding_doubling_high_mul(least, 1 << 30) == -(1 << 30)


@pytest.mark.parametrize(("multiplier", "exponent"), [(1 << 30, 1), ((1 << 31) - 1, 0), (1234567891, -3), (1500000001, -28)])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 9, 49, 64, 1000, 65535])
def test_the_count_of_a_mean_is_divided_into_the_multiplier_as_the_reference_kernel_does(
    multiplier: int, exponent: int, count: int
) -> None:
    """QuantizedMeanOrSum: shift = 63 - leading zeros of the count, at most 32 and 31 + exponent; then one integer division."""
    shift = min(63 - (64 - count.bit_length()), 32, 31 + exponent)
    expected = Scale((multiplier << shift) // count, 31 - (exponent - shift))
    assert divided(Scale(multiplier, 31 - exponent), count) == expected


def test_a_softmax_of_more_rows_than_a_map_may_have_is_split_in_time() -> None:
    shape = (1, 257, 256, 2)
    ofm = tensor(shape, scale=1 / 256, zero_point=-128)
    content = write_model(op_model("SOFTMAX", [tensor(shape, scale=0.1)], [ofm], at.SoftmaxOptions(1.0)))
    compiled = npu.compile(content, target="ethos-u55-256").content
    assert b"ethos-u" in compiled
    assert npu.verify(compiled) == []


def test_a_product_of_maps_combines_its_three_scales_in_float32() -> None:
    rng, variant = np.random.default_rng(3), load_variant("ethos-u55-128")
    while True:
        first, second, output = (F32(value) for value in rng.uniform(0.01, 1, 3))
        single = register_scale(float(first * second / output))
        if single != register_scale(float(first) * float(second) / float(output)):
            break
    maps = [tensor((1, 2, 2, 8), scale=float(scale)) for scale in (first, second, output)]
    compiled = npu.compile(write_model(op_model("MUL", maps[:2], maps[2:], at.MulOptions())), target=variant.name).content
    (job,) = jobs_of(npu.load(compiled))
    (product,) = [item.operation for item in decode(job.payload.words, variant) if isinstance(item.operation, Elementwise)]
    assert product.scale == single


@pytest.mark.parametrize("count", [1, 2, 9, 40, 192, 512, 2048])
def test_the_factor_of_sums_rounds_every_sum_as_float32_does(count: int) -> None:
    rng = np.random.default_rng(count)
    given = [
        (F32(rng.uniform(0.01, 0.05)), F32(rng.uniform(0.02, 0.4)), *rng.integers(-128, 128, 2).tolist()) for _ in range(25)
    ]
    factors = [factor_of_sums(Quantized(a, x, INT8), Quantized(b, y, INT8), count) for a, b, x, y in given]
    assert sum(factor is None for factor in factors) <= (15 if count > 1000 else 8)
    for (scale, out_scale, zero, out_zero), factor in zip(given, factors, strict=True):
        if factor is None:
            continue
        sums, ratio = np.arange(-128 * count, 127 * count + 1), scale / out_scale
        real = sums.astype(F32) * ratio + F32(-zero) * ratio * F32(count)
        made = ((sums - count * zero) * factor.scale + (1 << factor.shift - 1)) >> factor.shift
        wanted = np.clip(round_away(real).astype(np.int64) + out_zero, -128, 127)
        np.testing.assert_array_equal(np.clip(made + out_zero, -128, 127), wanted)


def test_a_factor_of_sums_moves_where_that_of_the_scales_is_wrong_and_none_is_given_where_none_is_right() -> None:
    rng, moved, none = np.random.default_rng(3), 0, 0
    for _ in range(60):
        scale, out_scale, zero = F32(rng.uniform(0.01, 0.05)), F32(rng.uniform(0.1, 0.4)), int(rng.integers(-128, 128))
        factor = factor_of_sums(Quantized(scale, zero, INT8), Quantized(out_scale, 0, INT8), 1024)
        none += factor is None
        moved += factor is not None and factor != register_scale(float(scale) / float(out_scale))
    assert moved > 0
    assert none > 0


@pytest.mark.parametrize("ratio", [1e-6, 2.0**30])
def test_no_factor_of_sums_is_looked_for_between_scales_far_apart(ratio: float) -> None:
    assert factor_of_sums(Quantized(F32(ratio), 0, INT8), Quantized(F32(1), 0, INT8), 8) is None
