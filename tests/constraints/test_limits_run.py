"""Profile u55-u65 keeps its promise: what it accepts at the edge of a limit compiles, runs, and equals the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import npu
from constraints.checker import check
from constraints.rule import Rule
from constraints.u55_u65 import PROFILE
from npu.graph import attributes as options
from npu.graph.dtype import DType
from npu.graph.graph import Model
from npu.tflite.writer import write_model

from tests.constraints import test_u55_u65, test_v0_1
from tests.support import single_ops as ops
from tests.support.litert import random_inputs, run_reference

MAKERS = {
    **test_v0_1.MAKERS,
    **test_u55_u65.MAKERS,
    "V-GEN-2": lambda v: ops.resize((1, v), (1, v), kind="RESIZE_NEAREST_NEIGHBOR"),
}
MOST_ELEMENTS = 3_000_000


def model_at(rule: Rule, value: Any) -> Model | None:
    """The model at a boundary, None if the profile does not take it or it is too large for a test."""
    if (rule.id, value) == ("N-GEN-4", -1):
        return None
    model = MAKERS[rule.id](value)
    model = _of_16_bits(model) if value is DType.INT64 else model
    size = sum(tensor.elements for tensor in model.graphs[0].tensors)
    return model if size < MOST_ELEMENTS and not check(model).ops[0].violations else None


def _of_16_bits(model: Model) -> Model:
    """The same with maps of int16: LiteRT adds a bias of 64 bits to no others."""
    graph = model.graphs[0]
    for index, tensor in enumerate(graph.tensors):
        if tensor.data is None:
            model = ops.changed(model, index, dtype=DType.INT16)
    return model


BOUNDARIES = [
    pytest.param(rule, value, id=f"{rule.id}-{value}")
    for rule in PROFILE.rules
    for value, _ in rule.limit.boundaries
    if model_at(rule, value) is not None
]


@pytest.mark.parametrize("target", ["ethos-u55-128", pytest.param("ethos-u65-512", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("rule", "value"), BOUNDARIES)
def test_a_model_at_the_edge_of_a_limit_is_exact(rule: Rule, value: Any, target: str) -> None:
    model = model_at(rule, value)
    assert model is not None
    assert_exact(model, target)


@pytest.mark.parametrize("kind", sorted(set(test_u55_u65.NOT_RESCALED) - {"ELU"}))  # LiteRT has none of int8
def test_operators_that_rescale_nothing_are_exact_at_any_factor(kind: str) -> None:
    for factor in (2.0**14, 2.0**20, 2.0 ** (24 if kind == "RSQRT" else 28)):  # beyond, LiteRT shifts by more than 31 bits
        assert_exact(test_u55_u65.with_factor(test_u55_u65.FREE_FACTORS[kind], factor), "ethos-u55-128")


def assert_exact(model: Model, target: str) -> None:
    """The model is compiled for the NPU as a whole, and equals the reference kernels on random data of the full range."""
    content = write_model(model)
    inputs = [_taken(model, tensor) for tensor in random_inputs(content, 1)]
    compiled = npu.compile(content, target=target)
    assert [violation.rule for op in compiled.compiled_model.placement.ops for violation in op.violations] == []
    found = npu.run(compiled.content, inputs).outputs
    expected = run_reference(content, inputs, fully_connected="npu")
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def _taken(model: Model, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Inputs that LiteRT takes: shapes are those of the result, and roots have positive arguments."""
    kind, ofm = model.graphs[0].ops[0].kind, model.graphs[0].tensors[-1]
    if kind == "TRANSPOSE_CONV" and values.dtype == np.int32:
        return np.array(ofm.shape, np.int32)
    return np.maximum(values, 1) if kind == "RSQRT" else values


# Edges that the generated models reach only by breaking another limit: (inside, outside, rule)


def _full_weights(kind: str, extra: int) -> Model:
    """64x64 kernel over 16 channels of weights 127: a sum of 127 x 65536, which is the limit; `extra` goes beyond it."""
    values = np.full((1, 64, 64, 16), 127, np.int8)
    values.reshape(-1)[:extra] = -128
    weights = ops.tensor(values.shape, data=values, scale=0.001)
    if kind == "CONV_2D":
        return ops.conv(ifm=(1, 64, 64, 16), kernel=(64, 64), out_channels=1, weights=weights, padding=options.Padding.VALID)
    target, bias = ops.constant((1, 64, 64, 1)), ops.tensor((1,), ops.DType.INT32, data=0)
    made = options.TransposeConvOptions(options.Padding.VALID, 1, 1)
    inputs = [target, weights, ops.tensor((1, 1, 1, 16)), bias]
    return ops.op_model("TRANSPOSE_CONV", inputs, [ops.tensor((1, 64, 64, 1))], made)


def _wide_pool(kind: str, height: int, width: int) -> Model:
    return ops.pool(kind=kind, ifm=(1, height, width, 2), window=(height, width), padding=options.Padding.VALID)


def _tall_pad(above: int) -> Model:
    table = ops.constant(((0, 0), (above, 0), (0, 0), (0, 0)))
    return ops.op_model("PAD", [ops.tensor((1, 1, 1, 1)), table], [ops.tensor((1, above + 1, 1, 1))], options.PadOptions())


def _wide_mean(width: int) -> Model:
    return test_u55_u65.mean((1, 2), (1, 256, width, 2))


EXTREMES: dict[str, tuple[Model, Model, str]] = {
    "sum of convolution weights": (_full_weights("CONV_2D", 0), _full_weights("CONV_2D", 1), "V-CONV-7"),
    "sum of transposed weights": (_full_weights("TRANSPOSE_CONV", 0), _full_weights("TRANSPOSE_CONV", 1), "N-TC-7"),
    "average pool window": (_wide_pool("AVERAGE_POOL_2D", 256, 256), _wide_pool("AVERAGE_POOL_2D", 256, 257), "V-AVG-5"),
    "maximum pool window": (_wide_pool("MAX_POOL_2D", 256, 256), _wide_pool("MAX_POOL_2D", 256, 257), "V-MAX-4"),
    "padding": (_tall_pad(65534), _tall_pad(65536), "N-PAD-2"),
    "elements of a mean": (_wide_mean(256), _wide_mean(257), "N-MEAN-4"),
}


@pytest.mark.parametrize("case", EXTREMES)
def test_the_outside_of_an_extreme_is_refused(case: str) -> None:
    inside, outside, rule = EXTREMES[case]
    assert check(inside).ops[0].violations == ()
    assert rule in {violation.rule for violation in check(outside).ops[0].violations}


@pytest.mark.slow
@pytest.mark.parametrize("case", EXTREMES)
def test_the_inside_of_an_extreme_is_exact(case: str) -> None:
    assert_exact(EXTREMES[case][0], "ethos-u55-128")


def test_the_sum_of_depthwise_weights_cannot_reach_its_limit() -> None:
    """The largest kernel has 4096 elements of magnitude 128 at most."""
    limit = next(rule for rule in PROFILE.rules if rule.id == "V-DW-7").limit
    assert limit.accepts(4096 * 128)


UNREACHED = {"N-GATHER-5", "N-GATHER-6", "V-DW-7"}
"""Limits with no edge that an accepted model can have: other limits keep all models far inside, or are Ethos-U85's alone."""


def test_every_limit_is_run_at_an_edge_at_least_once() -> None:
    extremes = {rule for _, _, rule in EXTREMES.values()}
    for rule in PROFILE.rules:
        values = [value for value, accepted in rule.limit.boundaries if accepted]
        run = rule.id in extremes or any(model_at(rule, value) is not None for value in values)
        assert run != (rule.id in UNREACHED), rule.id
