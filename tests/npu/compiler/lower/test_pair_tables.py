"""Binary operators that are functions of one value: which are fused, and that every value of it gives the reference's."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from npu.graph import attributes as at
from npu.graph.attributes import Attributes, FusedActivation, Padding
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Tensor

from tests.support.lowering import assert_exact, lowered, reference_outputs
from tests.support.random_graphs import Sketch, random_inputs

SHAPE = (1, 16, 16, 1)
EVERY_VALUE = np.arange(-128, 128, dtype=np.int8).reshape(SHAPE)
OPTIONS: dict[str, type[Attributes]] = {
    "ADD": at.AddOptions, "MAXIMUM": at.MaximumMinimumOptions, "MINIMUM": at.MaximumMinimumOptions, "MUL": at.MulOptions,
    "SUB": at.SubOptions,
}  # fmt: skip


def sketch(seed: int = 5) -> Sketch:
    return Sketch(np.random.default_rng(seed))


def convolution(s: Sketch) -> int:
    """Four channels with scale 0.05, zero point -20."""
    ifm = s.input((1, 4, 4, 3), 0.02, 1)
    weights = s.weights((4, 1, 1, 3), 0, per_channel=True)
    ofm = s.tensor((1, 4, 4, 4), 0.05, -20)
    bias = s.bias(ifm, weights, 4, 1000)
    return s.op("CONV_2D", [ifm, weights, bias], [ofm], at.Conv2DOptions(Padding.SAME, 1, 1, FusedActivation.NONE, 1, 1))


def function(s: Sketch, kind: str, x: int, scale: float, zero_point: int) -> int:
    return s.op(kind, [x], [s.tensor(s.shape(x), scale, zero_point)])


def pair(s: Sketch, kind: str, a: int, b: int, scale: float, zero_point: int, shape: tuple[int, ...] | None = None) -> int:
    return s.op(kind, [a, b], [s.tensor(shape or s.shape(a), scale, zero_point)], OPTIONS[kind]())


def number(s: Sketch, value: int, scale: float, zero_point: int) -> int:
    return s.add((1,), scale, zero_point, np.array([value], np.int8))


def swish(s: Sketch, x: int) -> int:
    return pair(s, "MUL", x, function(s, "LOGISTIC", x, 1 / 256, -128), 0.04, -120)


def exact(s: Sketch, outputs: list[int]) -> None:
    graph = s.graph(outputs)
    assert_exact(graph, random_inputs(graph, 1))


def test_a_swish_of_two_operators_rides_on_the_convolution() -> None:
    s = sketch()
    y = swish(s, convolution(s))
    program = lowered(s.graph([y]))
    assert len(program.steps) == 1
    assert dict(program.absorbed) == {1: 0, 2: 0}
    exact(s, [y])


def test_a_hard_swish_of_four_operators_rides_on_the_convolution() -> None:
    s = sketch()
    x = convolution(s)
    moved = function(s, "RELU6", pair(s, "ADD", x, number(s, 127, 3 / 127, 0), 0.06, -128), 6 / 255, -128)
    y = pair(s, "MUL", pair(s, "MUL", moved, number(s, 127, 1 / 6 / 127, 0), 1 / 255, -128), x, 0.04, -110)
    assert len(lowered(s.graph([y])).steps) == 1
    exact(s, [y])


def test_a_swish_of_what_others_read_too_is_one_look_up() -> None:
    s = sketch()
    x = convolution(s)
    y = swish(s, x)
    z = s.op("MAX_POOL_2D", [x], [s.tensor((1, 4, 4, 4), 0.05, -20)], at.Pool2DOptions(Padding.SAME, 1, 1, 2, 2))
    program = lowered(s.graph([y, z]))
    assert len(program.steps) == 3
    assert dict(program.absorbed) == {2: 1}
    exact(s, [y, z])


def test_a_value_less_its_size_is_one_look_up_beside_a_rectifier() -> None:
    s = sketch()
    x = convolution(s)
    y = pair(s, "SUB", x, function(s, "ABS", x, 0.06, 3), 0.1, 90)
    z = function(s, "RELU", x, 0.03, -128)
    assert len(lowered(s.graph([y, z])).steps) == 3
    exact(s, [y, z])


def test_two_functions_of_a_value_whose_results_both_are_read_stay_apart() -> None:
    s = sketch()
    x = convolution(s)
    gate = function(s, "LOGISTIC", x, 1 / 256, -128)
    y = pair(s, "MUL", x, gate, 0.04, -120)
    assert len(lowered(s.graph([gate, y])).steps) == 3
    exact(s, [gate, y])


def test_a_product_with_another_map_stays_apart() -> None:
    s = sketch()
    x = convolution(s)
    y = pair(s, "MUL", function(s, "LOGISTIC", x, 1 / 256, -128), s.input((1, 4, 4, 4), 0.1, 3), 0.04, -120)
    assert len(lowered(s.graph([y])).steps) == 2
    exact(s, [y])


def test_a_gate_of_each_channel_stays_apart() -> None:
    s = sketch()
    x = s.input((1, 1, 1, 4), 0.05, 3)
    y = pair(s, "MUL", function(s, "LOGISTIC", x, 1 / 256, -128), s.input((1, 4, 4, 4), 0.1, 3), 0.04, -120, (1, 4, 4, 4))
    assert len(lowered(s.graph([y])).steps) == 2
    exact(s, [y])


@pytest.mark.parametrize(("count", "steps"), [(1, 2), (2, 1), (3, 1)])
def test_a_number_is_added_on_the_way_where_there_are_several(count: int, steps: int) -> None:
    s = sketch()
    y = convolution(s)
    for index in range(count):
        y = pair(s, "ADD", y, number(s, 17 * index + 5, 0.03, -2), 0.05, -20 + index)
    assert len(lowered(s.graph([y])).steps) == steps
    exact(s, [y])


def test_a_square_behind_a_table_rides() -> None:
    s = sketch()
    y = function(s, "TANH", convolution(s), 1 / 128, 0)
    z = pair(s, "MUL", y, y, 1 / 256, -128)
    assert len(lowered(s.graph([z])).steps) == 1
    exact(s, [z])


@pytest.mark.parametrize("seed", range(12))
def test_a_prelu_of_one_slope_is_a_table_that_rides(seed: int) -> None:
    s = sketch(seed)
    x = s.input(SHAPE)
    slope = s.add((1, 1, 1), s.scale(), s.zero_point(), s.rng.integers(-128, 128, (1, 1, 1), np.int8))
    y = s.op("PRELU", [x, slope], [s.tensor(SHAPE)])
    z = s.op("PRELU", [y, slope], [s.tensor(SHAPE)])
    graph = s.graph([z])
    assert len(lowered(graph).steps) == 1
    assert_exact(graph, [EVERY_VALUE], str(seed))


def test_a_prelu_of_one_slope_rides_on_the_convolution() -> None:
    s = sketch()
    x = convolution(s)
    slope = s.add((1, 1, 1), 0.01, 3, np.full((1, 1, 1), 40, np.int8))
    y = s.op("PRELU", [x, slope], [s.tensor((1, 4, 4, 4), 0.04, -90)])
    assert len(lowered(s.graph([y])).steps) == 1
    exact(s, [y])


def as_uint8(graph: Graph) -> Graph:
    """The same with bytes without sign."""

    def moved(tensor: Tensor) -> Tensor:
        assert tensor.quantization is not None
        own = dataclasses.replace(tensor.quantization, zero_points=tensor.quantization.zero_points + 128)
        return dataclasses.replace(tensor, dtype=DType.UINT8, quantization=own)

    return dataclasses.replace(graph, tensors=tuple(moved(tensor) for tensor in graph.tensors))


def made_of_two(kind: str, seed: int, *, activation: FusedActivation = FusedActivation.NONE) -> Graph:
    """`kind` of every value and of a function of it; those that compare values have one quantization."""
    s = sketch(seed)
    x = s.input(SHAPE)
    like = s.tensors[x].quantization
    assert like is not None
    is_same = kind in ("MAXIMUM", "MINIMUM")
    scale, zero_point = (like.scale, like.zero_point) if is_same else (None, None)
    first = s.op("LEAKY_RELU", [x], [s.tensor(SHAPE, scale, zero_point)], at.LeakyReluOptions(-0.7))
    operands = [x, first] if s.chance(0.5) else [first, x]
    options = OPTIONS[kind]() if is_same else OPTIONS[kind](fused_activation_function=activation)
    return s.graph([s.op(kind, operands, [s.tensor(SHAPE, scale, zero_point)], options)])


@pytest.mark.parametrize("kind", sorted(OPTIONS))
@pytest.mark.parametrize("seed", range(12))
def test_every_value_is_exact(kind: str, seed: int) -> None:
    activation = [FusedActivation.NONE, FusedActivation.RELU, FusedActivation.RELU6, FusedActivation.RELU_N1_TO_1][seed % 4]
    graph = made_of_two(kind, seed, activation=activation)
    assert len(lowered(graph).steps) == 1
    assert_exact(graph, [EVERY_VALUE], f"{kind} {seed}")


@pytest.mark.parametrize("kind", sorted(OPTIONS))
def test_every_value_without_sign_is_exact(kind: str) -> None:
    graph = as_uint8(made_of_two(kind, 3))
    assert len(lowered(graph).steps) == 1
    assert_exact(graph, [(EVERY_VALUE.astype(np.int64) + 128).astype(np.uint8)], kind)
    assert reference_outputs(graph, [np.zeros(SHAPE, np.uint8)])[0].dtype == np.uint8
