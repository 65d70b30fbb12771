"""CONCATENATION of inputs that have another quantization than the output: uint8 is rescaled, int16 copied, as LiteRT does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import npu
from npu.api import verify
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.graph.graph import Graph
from npu.isa.operations import Convolution, KernelOperation

from tests.support.architectures.layers import Layers
from tests.support.builder import ModelBuilder
from tests.support.litert import random_inputs as random_inputs_of
from tests.support.litert import run_reference
from tests.support.lowering import assert_exact, lowered
from tests.support.random_graphs import Sketch

RATIOS = [0.01, 0.3980471, 0.4999999, 0.5, 0.75, 1.0, 1.2, 1.5, 3.0, 17.3]


def joined(dtype: DType, scales: tuple[float, float, float], zero_points: tuple[int, int, int], size: int) -> Graph:
    """Two inputs of `size` values each, one behind the other in the last dimension."""
    s = Sketch(np.random.default_rng(3))
    a, b = (s.input((1, 1, 1, size), scale, zero) for scale, zero in zip(scales[:2], zero_points[:2], strict=True))
    op = s.op("CONCATENATION", [a, b], [s.tensor((1, 1, 1, 2 * size), scales[2], zero_points[2])], at.ConcatenationOptions(3))
    graph = s.graph([op])
    return replace(graph, tensors=tuple(replace(tensor, dtype=dtype) for tensor in graph.tensors))


@pytest.mark.parametrize("ratio", RATIOS)
def test_uint8_inputs_are_rescaled_and_rounded_once(ratio: float) -> None:
    graph = joined(DType.UINT8, (0.079 * ratio, 0.079, 0.079), (138, 191, 191), 256)
    every = np.arange(256, dtype=np.uint8).reshape(1, 1, 1, 256)
    assert_exact(graph, [every, every])


def test_ties_and_their_neighbours_are_rounded_as_float32_does() -> None:
    below_half = float(np.nextafter(np.float32(0.5), np.float32(0)))
    for scale in (0.5, below_half, 0.25, 1.5):
        graph = joined(DType.UINT8, (scale, 1.0, 1.0), (128, 3, 0), 256)
        every = np.arange(256, dtype=np.uint8).reshape(1, 1, 1, 256)
        assert_exact(graph, [every, every], str(scale))


def test_int16_inputs_are_copied() -> None:
    graph = joined(DType.INT16, (0.01, 0.02, 0.03), (0, 0, 0), 64)
    values = np.arange(-32768, 32767, 1024, dtype=np.int16).reshape(1, 1, 1, 64)
    assert_exact(graph, [values, values[..., ::-1].copy()])


FUNCTIONS = {"LOGISTIC": ({"int8": -128}, 1 / 256), "RELU6": ({}, 0.0235), "TANH": ({"uint8": 128}, 1 / 128)}


def joined_and_looked_up(kind: str, dtype: DType, scales: tuple[float, float, float], *, inside: bool = False) -> Graph:
    """A function behind a join of two maps; `inside`: both are computed, and could be written into the join."""
    s = Sketch(np.random.default_rng(3))
    zero = 0 if dtype is DType.INT8 else 117
    parts = [s.input((1, 2, 3, 8), scale, zero) for scale in scales[:2]]
    if inside:
        parts = [s.op("RELU", [part], [s.tensor((1, 2, 3, 8), scales[2], zero)]) for part in parts]
    whole = s.op("CONCATENATION", parts, [s.tensor((1, 4, 3, 8), scales[2], zero)], at.ConcatenationOptions(1))
    points, scale = FUNCTIONS[kind]
    made = s.op(kind, [whole], [s.tensor((1, 4, 3, 8), scale, points.get(str(dtype), 0))])
    graph = s.graph([made])
    return replace(graph, tensors=tuple(replace(tensor, dtype=dtype) for tensor in graph.tensors))


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_a_function_behind_a_join_that_copies_is_looked_up_while_it_copies(kind: str, dtype: DType) -> None:
    scales = (0.05, 0.05, 0.05) if dtype is DType.INT8 else (0.03, 0.05, 0.04)
    graph = joined_and_looked_up(kind, dtype, scales)
    steps = lowered(graph).steps
    assert [step.source for step in steps] == [0, 0]
    values = np.random.default_rng(2).integers(0, 256, (2, 1, 2, 3, 8)).astype(np.uint8).view(dtype.numpy)
    assert_exact(graph, list(values), kind)


def test_a_function_behind_a_join_that_copies_nothing_stays_alone() -> None:
    graph = joined_and_looked_up("LOGISTIC", DType.INT8, (0.05, 0.05, 0.05), inside=True)
    assert [step.source for step in lowered(graph).steps] == [0, 1, 3]
    values = np.random.default_rng(2).integers(-128, 128, (2, 1, 2, 3, 8)).astype(np.int8)
    assert_exact(graph, list(values))


def test_a_part_of_a_join_and_a_copy_of_it_behind_a_pad_of_nothing_are_two_places() -> None:
    b = ModelBuilder()
    x = b.op("RELU", [b.input((1, 2, 3, 8), DType.INT8, scale=0.1)], (1, 2, 3, 8), DType.INT8, 0.1)
    padded = b.op("PAD", [x, b.constant(np.zeros((4, 2), np.int32))], (1, 2, 3, 8), DType.INT8, 0.1, attributes=at.PadOptions())
    b.output(b.op("CONCATENATION", [padded, padded, x], (1, 2, 3, 24), DType.INT8, 0.1, attributes=at.ConcatenationOptions(3)))
    inputs = random_inputs_of(b.build(), 1)
    compiled = npu.compile(b.build()).content
    np.testing.assert_array_equal(npu.run(compiled, inputs).outputs[0], run_reference(b.build(), inputs)[0])
    assert verify(compiled) == []


def test_a_clamp_of_int16_to_one_value_is_no_table() -> None:
    """6 is less than half a step of the scale, so that RELU6 leaves 0 alone."""
    b = ModelBuilder()
    x = b.op(
        "ADD", [b.input((1, 2, 3, 8), DType.INT16, scale=9.0)] * 2, (1, 2, 3, 8), DType.INT16, 64.0, attributes=at.AddOptions()
    )
    b.output(b.op("RELU6", [x], (1, 2, 3, 8), DType.INT16, 64.0))
    inputs = random_inputs_of(b.build(), 1)
    result = npu.run(b.build(), inputs)
    np.testing.assert_array_equal(result.outputs[0], run_reference(b.build(), inputs)[0])
    assert [operator.placement for operator in result.report.operators] == ["npu", "npu"]


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-256"])
def test_maps_are_packed_where_they_are_made(target: str) -> None:
    """One behind the other they lie in the result, which is the output that it is reshaped to."""
    net = Layers(1)
    x = net.input(9, 7, 16)
    first, second = (net.conv(x, 16, 3) for _ in range(2))
    packed = net.like("PACK", first, (1, 2, 9, 7, 16), at.PackOptions(2, 1), [second])
    content = net.finish(net.reshape(packed, 1, 18, 7, 16))
    compiled = npu.compile(content, target)
    (partition,) = compiled.compiled_model.partitions
    assert [type(one) for one in partition.operations if isinstance(one, KernelOperation)] == [Convolution] * 2
    inputs = random_inputs_of(content, 3)
    np.testing.assert_array_equal(npu.run(compiled.content, inputs, target).outputs[0], run_reference(content, inputs)[0])


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-256"])
@pytest.mark.parametrize("axis", [1, 2, 3, 4])
def test_what_is_packed_is_made_inside_a_join(axis: int, target: str) -> None:
    net = Layers(1)
    x = net.input(5, 3, 8)
    shape = [1, 5, 3, 8]
    shape.insert(axis, 2)
    packed = net.like("PACK", net.like("RELU", x), shape, at.PackOptions(2, axis), [net.like("RELU6", x)])
    content = net.finish(net.cat(packed, net.like("RELU", packed), axis=4))
    inputs = random_inputs_of(content, 3)
    compiled = npu.compile(content, target)
    np.testing.assert_array_equal(npu.run(compiled.content, inputs, target).outputs[0], run_reference(content, inputs)[0])
