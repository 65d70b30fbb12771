"""Which operators get no step of their own, and which tensors live inside others."""

from __future__ import annotations

import numpy as np
import pytest

from npu.compiler.ir import ConvolutionStep, PoolingStep
from npu.compiler.lower.partition import lower_partition
from npu.graph import attributes as at
from npu.graph.attributes import FusedActivation, Padding
from npu.hardware.catalogue import load_variant
from npu.isa.operations import IfmPadding as PaddingAmounts

from tests.naive.steps import execute
from tests.support.lowering import assert_exact, lowered, reference_outputs, variant
from tests.support.random_graphs import Sketch, random_inputs


def sketch() -> Sketch:
    return Sketch(np.random.default_rng(5))


def convolution(
    s: Sketch, ifm: int, shape: tuple[int, ...], *, kernel: int = 1, padding: Padding = Padding.SAME, stride: int = 1
) -> int:
    """A convolution with output quantization 0.25, zero point 5."""
    weights = s.weights((shape[3], kernel, kernel, s.shape(ifm)[3]), 0, per_channel=True)
    ofm = s.tensor(shape, 0.25, 5)
    bias = s.bias(ifm, weights, shape[3], 1000)
    return s.op("CONV_2D", [ifm, weights, bias], [ofm], at.Conv2DOptions(padding, stride, stride, FusedActivation.NONE, 1, 1))


def exact(s: Sketch, outputs: list[int]) -> None:
    graph = s.graph(outputs)
    assert_exact(graph, random_inputs(graph, 1))


@pytest.mark.seed("T-Y-5")
@pytest.mark.parametrize("kind", ["RELU", "RELU6", "RELU_N1_TO_1"])
def test_a_rectifier_of_equal_quantization_rides_on_its_producer(kind: str) -> None:
    s = sketch()
    y = convolution(s, s.input((1, 4, 4, 3), 0.02, 1), (1, 4, 4, 8))
    z = s.op(kind, [y], [s.tensor((1, 4, 4, 8), 0.25, 5)])
    program = lowered(s.graph([z]))
    assert len(program.steps) == 1
    assert dict(program.absorbed) == {1: 0}
    exact(s, [z])


def test_a_rectifier_that_requantizes_rides_as_a_table() -> None:
    s = sketch()
    y = convolution(s, s.input((1, 4, 4, 3), 0.02, 1), (1, 4, 4, 8))
    z = s.op("RELU", [y], [s.tensor((1, 4, 4, 8), 0.1, -128)])
    (step,) = lowered(s.graph([z])).steps
    assert step.lut is not None
    exact(s, [z])


@pytest.mark.parametrize(("kind", "scale", "zero_point"), [("LOGISTIC", 1 / 256, -128), ("TANH", 1 / 128, 0)])
def test_a_table_rides_on_its_producer(kind: str, scale: float, zero_point: int) -> None:
    s = sketch()
    y = convolution(s, s.input((1, 4, 4, 3), 0.02, 1), (1, 4, 4, 8))
    z = s.op(kind, [y], [s.tensor((1, 4, 4, 8), scale, zero_point)])
    program = lowered(s.graph([z]))
    assert len(program.steps) == 1
    assert program.steps[0].lut is not None
    exact(s, [z])


def least(shape: tuple[int, ...]) -> tuple[Sketch, int]:
    """MINIMUM of two inputs, and a RELU with another scale."""
    s = sketch()
    inputs = [s.input(shape, 0.25, 5), s.input(shape, 0.25, 5)]
    y = s.op("MINIMUM", inputs, [s.tensor(shape, 0.25, 5)])
    return s, s.op("RELU", [y], [s.tensor(shape, 0.1, -128)])


@pytest.mark.parametrize(
    ("target", "height", "has_table"),
    [
        ("ethos-u55-128", 64, True),
        ("ethos-u55-256", 64, False),
        ("ethos-u55-256", 2, True),
        ("ethos-u65-512", 64, False),
        ("ethos-u65-512", 1024, True),  # may lie behind the cache
    ],
)
def test_a_rescaling_behind_an_extreme_rides_as_a_table_unless_two_operations_are_faster(
    target: str, height: int, has_table: bool
) -> None:
    s, z = least((1, height, 16, 8))
    graph = s.graph([z])
    inputs = random_inputs(graph, 1)
    program = lower_partition(graph, [0, 1], load_variant(target))
    assert [step.lut is not None for step in program.steps] == ([True] if has_table else [False, False])
    found = execute(program, dict(zip(graph.inputs, inputs, strict=True)))[z]
    np.testing.assert_array_equal(found.reshape(-1), reference_outputs(graph, inputs)[0].reshape(-1))


@pytest.mark.parametrize(
    ("target", "kernel", "depth", "saves_memory", "has_table"),
    [
        ("ethos-u55-256", 1, 8, False, False),
        ("ethos-u65-256", 1, 8, False, False),
        ("ethos-u55-256", 3, 40, False, True),  # the MAC array takes longer than the table
        ("ethos-u55-64", 1, 8, False, True),  # a table takes no longer than what it stands for
        ("ethos-u55-256", 1, 8, True, True),
    ],
)
def test_a_rescaling_behind_few_products_is_an_operation_of_its_own_where_its_table_takes_longer(
    target: str, kernel: int, depth: int, *, saves_memory: bool, has_table: bool
) -> None:
    s = sketch()
    y = convolution(s, s.input((1, 16, 16, depth), 0.02, 1), (1, 16, 16, 16), kernel=kernel)
    z = s.op("QUANTIZE", [y], [s.tensor((1, 16, 16, 16), 0.4, -7)], at.QuantizeOptions())
    graph = s.graph([z])
    inputs = random_inputs(graph, 1)
    program = lower_partition(graph, [0, 1], load_variant(target), saves_memory=saves_memory)
    assert [step.lut is not None for step in program.steps] == ([True] if has_table else [False, False])
    found = execute(program, dict(zip(graph.inputs, inputs, strict=True)))[z]
    np.testing.assert_array_equal(found.reshape(-1), reference_outputs(graph, inputs)[0].reshape(-1))


def test_an_activation_whose_input_is_also_an_output_stays_on_its_own() -> None:
    s = sketch()
    y = convolution(s, s.input((1, 4, 4, 3), 0.02, 1), (1, 4, 4, 8))
    z = s.op("RELU", [y], [s.tensor((1, 4, 4, 8), 0.25, 5)])
    assert len(lowered(s.graph([y, z])).steps) == 2
    exact(s, [y, z])


def test_a_valid_convolution_carries_a_pad() -> None:
    s = sketch()
    x = s.input((1, 5, 6, 3), 0.02, 1)
    p = s.op("PAD", [x, s.numbers([[0, 0], [1, 1], [0, 1], [0, 0]])], [s.tensor((1, 7, 7, 3), 0.02, 1)], at.PadOptions())
    y = convolution(s, p, (1, 5, 5, 4), kernel=3, padding=Padding.VALID)
    program = lowered(s.graph([y]))
    assert dict(program.absorbed) == {0: 1}
    (step,) = program.steps
    assert isinstance(step, ConvolutionStep)
    assert step.padding == PaddingAmounts(1, 0, 1, 1)
    exact(s, [y])


def padded_twice(before: int, after: int, padding: Padding, stride: int) -> tuple[Sketch, int]:
    """A PAD of rows and columns, and a convolution of 3x3 behind it."""
    s = sketch()
    x = s.input((1, 6, 6, 3), 0.02, 1)
    extent = 6 + before + after
    table = [[0, 0], [before, after], [before, after], [0, 0]]
    p = s.op("PAD", [x, s.numbers(table)], [s.tensor((1, extent, extent, 3), 0.02, 1)], at.PadOptions())
    out = -(-extent // stride) if padding is Padding.SAME else (extent - 3) // stride + 1
    return s, convolution(s, p, (1, out, out, 4), kernel=3, padding=padding, stride=stride)


@pytest.mark.parametrize(
    ("before", "after", "padding", "stride"),
    [
        (1, 1, Padding.SAME, 1),
        (0, 1, Padding.SAME, 2),
        (0, 1, Padding.SAME, 1),
        (2, 2, Padding.VALID, 1),
        (1, 0, Padding.SAME, 2),
    ],
)
def test_a_pad_is_carried_with_the_padding_of_the_convolution_itself(
    before: int, after: int, padding: Padding, stride: int
) -> None:
    s, y = padded_twice(before, after, padding, stride)
    program = lowered(s.graph([y]))
    assert dict(program.absorbed) == {0: 1}
    assert len(program.steps) == 1
    exact(s, [y])


@pytest.mark.parametrize(
    ("before", "after", "padding"),
    [(3, 1, Padding.VALID), (0, 3, Padding.VALID), (2, 2, Padding.SAME)],
    ids=["as wide as the kernel before", "as wide behind", "padded twice"],
)
def test_a_pad_that_the_hardware_cannot_do_is_written_out(before: int, after: int, padding: Padding) -> None:
    s, y = padded_twice(before, after, padding, 1)
    assert not lowered(s.graph([y])).absorbed
    exact(s, [y])


PADDED: dict[str, tuple[list[list[int]], bool]] = {
    "around height and width": ([[0, 0], [2, 1], [0, 3], [0, 0]], True),
    "behind the channels": ([[0, 0], [0, 0], [1, 0], [0, 5]], True),
    "before the channels": ([[0, 0], [1, 1], [0, 0], [2, 0]], False),
    "with a further image": ([[1, 0], [0, 1], [0, 0], [0, 0]], False),
}


@pytest.mark.parametrize(("table", "is_in_place"), PADDED.values(), ids=PADDED.keys())
def test_what_is_padded_is_written_into_the_padded_map(table: list[list[int]], is_in_place: bool) -> None:
    s = sketch()
    y = convolution(s, s.input((1, 5, 5, 3), 0.02, 1), (1, 5, 5, 16))
    shape = tuple(extent + sum(pair) for extent, pair in zip((1, 5, 5, 16), table, strict=True))
    p = s.op("PAD", [y, s.numbers(table)], [s.tensor(shape, 0.25, 5)], at.PadOptions())
    z = s.op("ADD", [y, y], [s.tensor((1, 5, 5, 16), 0.5, 1)], at.AddOptions(FusedActivation.NONE))
    first = lowered(s.graph([p, z])).steps[0]
    assert (first.ofm.storage.tensor == p) is is_in_place
    assert not is_in_place or first.ofm.offset == (table[1][0], table[2][0], 0)
    exact(s, [p, z])


def test_the_inputs_of_a_concatenation_are_written_in_place() -> None:
    s = sketch()
    x = s.input((1, 4, 4, 3), 0.02, 1)
    a, b = convolution(s, x, (1, 4, 4, 16)), convolution(s, x, (1, 4, 4, 5))
    c = s.op("CONCATENATION", [a, b], [s.tensor((1, 4, 4, 21), 0.25, 5)], at.ConcatenationOptions(3))
    program = lowered(s.graph([c]))
    assert dict(program.absorbed) == {2: None}
    assert [(step.ofm.storage.tensor, step.ofm.offset) for step in program.steps] == [(c, (0, 0, 0)), (c, (0, 0, 16))]
    exact(s, [c])


def test_inputs_that_have_a_place_already_are_copied_into_a_concatenation() -> None:
    s = sketch()
    x = s.input((1, 4, 4, 3), 0.25, 5)
    a = convolution(s, x, (1, 4, 4, 2))
    c = s.op("CONCATENATION", [x, a, a], [s.tensor((1, 4, 4, 7), 0.25, 5)], at.ConcatenationOptions(3))
    program = lowered(s.graph([c]))
    assert [step.source for step in program.steps] == [0, 1, 1]
    exact(s, [c])


def test_a_tensor_in_two_concatenations_lives_in_one_of_them() -> None:
    s = sketch()
    x = s.input((1, 4, 4, 3), 0.02, 1)
    a, b = convolution(s, x, (1, 4, 4, 2)), convolution(s, x, (1, 4, 4, 5))
    c = s.op("CONCATENATION", [a, b], [s.tensor((1, 4, 4, 7), 0.25, 5)], at.ConcatenationOptions(3))
    d = s.op("CONCATENATION", [b, a], [s.tensor((1, 4, 4, 7), 0.25, 5)], at.ConcatenationOptions(3))
    assert len(lowered(s.graph([c, d])).steps) == 4
    exact(s, [c, d])


def test_a_concatenation_inside_another_nests_twice() -> None:
    s = sketch()
    x = s.input((1, 4, 4, 3), 0.02, 1)
    a, b, e = (convolution(s, x, (1, 4, 4, n)) for n in (2, 5, 3))
    c = s.op("CONCATENATION", [a, b], [s.tensor((1, 4, 4, 7), 0.25, 5)], at.ConcatenationOptions(3))
    d = s.op("CONCATENATION", [e, c], [s.tensor((1, 4, 4, 10), 0.25, 5)], at.ConcatenationOptions(3))
    program = lowered(s.graph([d]))
    assert len(program.steps) == 3
    assert {step.ofm.storage.tensor for step in program.steps} == {d}
    exact(s, [d])


def test_a_reshape_between_operators_is_a_view() -> None:
    s = sketch()
    y = convolution(s, s.input((1, 4, 4, 3), 0.02, 1), (1, 4, 4, 8))
    r = s.op("RESHAPE", [y, s.numbers([1, 128])], [s.tensor((1, 128), 0.25, 5)], at.ReshapeOptions((1, 128)))
    z = s.op("ADD", [r, s.input((1, 128), 0.1, 3)], [s.tensor((1, 128), 0.3, 4)], at.AddOptions())
    program = lowered(s.graph([z]))
    assert dict(program.absorbed) == {1: None}
    assert program.steps[1].ifm.storage is program.steps[0].ofm.storage
    exact(s, [z])


def test_a_reshape_to_an_output_lets_its_input_live_there() -> None:
    s = sketch()
    y = convolution(s, s.input((1, 4, 4, 3), 0.02, 1), (1, 4, 4, 8))
    r = s.op("RESHAPE", [y, s.numbers([1, 128])], [s.tensor((1, 128), 0.25, 5)], at.ReshapeOptions((1, 128)))
    program = lowered(s.graph([r]))
    assert len(program.steps) == 1
    assert program.steps[0].ofm.storage.tensor == r
    assert program.steps[0].ofm.storage.is_boundary
    exact(s, [r])


def test_a_reshape_from_input_to_output_copies() -> None:
    s = sketch()
    x = s.input((1, 4, 4, 8), 0.25, 5)
    r = s.op("RESHAPE", [x, s.numbers([1, 128])], [s.tensor((1, 128), 0.25, 5)], at.ReshapeOptions((1, 128)))
    (step,) = lowered(s.graph([r])).steps
    assert isinstance(step, PoolingStep)
    exact(s, [r])


def test_a_reshape_of_a_tensor_that_lives_in_a_concatenation_packs_it_first() -> None:
    s = sketch()
    x = s.input((1, 4, 4, 3), 0.02, 1)
    a, b = convolution(s, x, (1, 4, 4, 2)), convolution(s, x, (1, 4, 4, 5))
    c = s.op("CONCATENATION", [a, b], [s.tensor((1, 4, 4, 7), 0.25, 5)], at.ConcatenationOptions(3))
    r = s.op("RESHAPE", [b, s.numbers([1, 80])], [s.tensor((1, 80), 0.25, 5)], at.ReshapeOptions((1, 80)))
    exact(s, [c, r])


def test_only_what_the_partition_needs_and_gives_crosses_its_boundary() -> None:
    s = sketch()
    x = s.input((1, 4, 4, 3), 0.02, 1)
    a = convolution(s, x, (1, 4, 4, 2))
    b = convolution(s, a, (1, 4, 4, 5))
    c = convolution(s, b, (1, 4, 4, 6))
    program = lower_partition(s.graph([c]), [1], variant())
    assert [t for t, _ in program.inputs] == [a]
    assert [t for t, _ in program.outputs] == [b]
    assert all(storage.is_boundary and storage.tensor == t for t, storage in (*program.inputs, *program.outputs))
