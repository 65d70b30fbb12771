"""The oracle itself: which rounding `run_reference` gives for FULLY_CONNECTED, from formulas written out here."""

from __future__ import annotations

from math import frexp

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from npu.graph.attributes import FullyConnectedOptions, FusedActivation
from npu.graph.dtype import DType

from tests.support.builder import VERSIONS, ModelBuilder
from tests.support.litert import random_inputs, repaired, run_reference
from tests.support.shared import shared_models

IFM_SCALE, WEIGHT_SCALE, OFM_SCALE = np.float32(0.1), np.float32(0.01), np.float32(0.7)


def model(shape: tuple[int, ...], fused: FusedActivation, *, keep_num_dims: bool) -> tuple[bytes, np.ndarray, np.ndarray]:
    """FULLY_CONNECTED to 40 units; returns the file, the weights and the bias."""
    rng = np.random.default_rng(5)
    weights, bias = rng.integers(-127, 128, (40, shape[-1]), np.int8), rng.integers(-9999, 9999, 40, np.int32)
    b = ModelBuilder()
    x = b.input(shape, DType.INT8, scale=float(IFM_SCALE), zero_point=7)
    w = b.constant(weights, scale=float(WEIGHT_SCALE))
    c = b.constant(bias, scale=float(IFM_SCALE * WEIGHT_SCALE))
    out = (*shape[:-1], 40) if keep_num_dims else (int(np.prod(shape[:-1])), 40)
    options = FullyConnectedOptions(fused, keep_num_dims=keep_num_dims)
    b.output(b.op("FULLY_CONNECTED", [x, w, c], out, DType.INT8, float(OFM_SCALE), -4, attributes=options))
    return b.build(), weights, bias


def two_roundings(accumulator: int, scale: float) -> int:
    """High half of the doubled product, rounded; then a right shift with ties away from zero."""
    fraction, exponent = frexp(scale)
    product = accumulator * round(fraction * 2**31)
    product += (1 << 30) if product >= 0 else 1 - (1 << 30)
    high = product >> 31 if product >= 0 else -((-product) >> 31)
    mask = (1 << -exponent) - 1
    return (high >> -exponent) + int((high & mask) > (mask >> 1) + (high < 0))


def one_rounding(accumulator: int, scale: float) -> int:
    value = accumulator * scale
    return int(np.floor(value + 0.5)) if value >= 0 else int(np.ceil(value - 0.5))


@pytest.mark.parametrize("keep_num_dims", [False, True], ids=["flat", "keep_num_dims"])
@pytest.mark.parametrize("shape", [(9, 64), (2, 5, 64)], ids=str)
@pytest.mark.parametrize("fused", [FusedActivation.NONE, FusedActivation.RELU], ids=lambda fused: fused.name)
def test_both_roundings_of_fully_connected_are_as_described(
    shape: tuple[int, ...], fused: FusedActivation, keep_num_dims: bool
) -> None:
    content, weights, bias = model(shape, fused, keep_num_dims=keep_num_dims)
    (ifm,) = random_inputs(content, 3)
    accumulators = (ifm.reshape(-1, shape[-1]).astype(np.int64) - 7) @ weights.T.astype(np.int64) + bias
    scale = float(np.float64(IFM_SCALE) * np.float64(WEIGHT_SCALE) / np.float64(OFM_SCALE))
    low = -4 if fused is FusedActivation.RELU else -128
    for kind, rounding in (("npu", two_roundings), ("litert", one_rounding)):
        expected = [min(max(rounding(int(value), scale) - 4, low), 127) for value in accumulators.ravel()]
        (found,) = run_reference(content, [ifm], fully_connected=kind)  # type: ignore[arg-type]
        np.testing.assert_array_equal(found.ravel(), expected)


def test_random_inputs_cover_the_whole_range_and_repeat() -> None:
    content, _, _ = model((64, 64), FusedActivation.NONE, keep_num_dims=False)
    (first,), (again,) = random_inputs(content, 1), random_inputs(content, 1)
    np.testing.assert_array_equal(first, again)
    assert (first.min(), first.max()) == (-128, 127)


@pytest.mark.parametrize("name", [name for name in ("person_detect_int8",) if name in shared_models()])
def test_a_repaired_model_loads_in_litert(name: str) -> None:
    content = shared_models()[name].read_bytes()
    inputs = random_inputs(content, 1)
    with pytest.raises(ValueError, match="quantized_dimension must be in range"):
        run_reference(content, inputs)
    assert len(run_reference(repaired(content), inputs)) == 1


def reduced_multiplier(accumulator: int, scale: float) -> int:
    """The multiplier rounded to 16 bits, one rounding with ties up."""
    fraction, exponent = frexp(scale)
    multiplier = min((round(fraction * 2**31) + (1 << 15)) >> 16, 0x7FFF)
    shift = 15 - exponent
    return (accumulator * multiplier + (1 << (shift - 1))) >> shift


def test_fully_connected_on_16_bit_data_rounds_differently_too() -> None:
    """As a convolution it uses the reduced multiplier, LiteRT's own reference kernel the scale in double precision."""
    rng = np.random.default_rng(6)
    weights, bias = rng.integers(-127, 128, (40, 64), np.int8), rng.integers(-99999, 99999, 40, np.int64)
    b = ModelBuilder()
    x = b.input((9, 64), DType.INT16, scale=0.001)
    inputs = [x, b.constant(weights, scale=0.01), b.constant(bias, scale=0.00001)]
    b.output(b.op("FULLY_CONNECTED", inputs, (9, 40), DType.INT16, 0.02, attributes=FullyConnectedOptions()))
    content = b.build()
    (ifm,) = random_inputs(content, 3)
    accumulators = ifm.astype(np.int64) @ weights.T.astype(np.int64) + bias
    scale = float(np.float64(np.float32(0.001)) * np.float64(np.float32(0.01)) / np.float64(np.float32(0.02)))
    for kind, rounding in (("npu", reduced_multiplier), ("litert", one_rounding)):
        expected = [min(max(rounding(int(value), scale), -(1 << 15)), (1 << 15) - 1) for value in accumulators.ravel()]
        (found,) = run_reference(content, [ifm], fully_connected=kind)  # type: ignore[arg-type]
        np.testing.assert_array_equal(found.ravel(), expected)
    assert run_reference(content, [ifm])[0].tolist() != run_reference(content, [ifm], fully_connected="npu")[0].tolist()


@pytest.mark.parametrize(("kind", "version"), [(kind, v) for kind in VERSIONS for v in sorted(set(VERSIONS[kind].values()))])
def test_litert_has_reference_kernels_of_the_versions_that_the_builder_chooses(kind: str, version: int) -> None:
    """LiteRT looks the kernel up before it looks at any tensor."""
    b = ModelBuilder()
    b.op(kind, [b.input((1,), DType.FLOAT32)], (1,), DType.FLOAT32, version=version)
    Interpreter(model_content=b.build(), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
