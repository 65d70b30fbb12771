"""QUANTIZE between int8 and uint8 of the same scale: neighbours read and write the other type, to the same results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npu.graph import attributes as at
from npu.graph.attributes import FusedActivation, Padding
from npu.graph.dtype import DType
from npu.graph.graph import Graph

from tests.support.lowering import assert_exact, lowered
from tests.support.random_graphs import Sketch

SIGNED, UNSIGNED = -3, 125
"""A zero point in both types."""


def relabeled(s: Sketch, source: int, *, is_signed: bool, moved: int = 0, scale: float | None = None) -> int:
    """QUANTIZE of a tensor to the other type; of another value with `moved` or another scale."""
    zero_point = (SIGNED if is_signed else UNSIGNED) + moved
    target = s.tensor(s.shape(source), s.scale_of(source) if scale is None else scale, zero_point)
    return s.op("QUANTIZE", [source], [target], at.QuantizeOptions())


def convolution(s: Sketch, source: int, depth: int) -> int:
    """A 3x3 convolution with padding, whose value is the zero point."""
    _, height, width, channels = s.shape(source)
    weights = s.weights((depth, 3, 3, channels), 0, per_channel=True)
    bias = s.bias(source, weights, depth, 900)
    result = s.tensor((1, height, width, depth), s.scale_of(source) * 4, SIGNED)
    options = at.Conv2DOptions(padding=Padding.SAME, stride_w=1, stride_h=1, fused_activation_function=FusedActivation.RELU)
    return s.op("CONV_2D", [source, weights, bias], [result], options)


def pooled(s: Sketch, source: int, kind: str) -> int:
    result = s.tensor(s.shape(source), s.scale_of(source), s.zero_point_of(source))
    return s.op(kind, [source], [result], at.Pool2DOptions(Padding.SAME, 1, 1, 3, 3, FusedActivation.NONE))


def joined(s: Sketch, sources: list[int]) -> int:
    """The tensors as rows of a matrix, one behind the other: two reshapes and a join, which carries no function."""
    depth = s.shape(sources[0])[3]
    flat = [s.tensor((1, int(np.prod(s.shape(t))) // depth, depth), s.scale_of(t), s.zero_point_of(t)) for t in sources]
    for source, target in zip(sources, flat, strict=True):
        s.op("RESHAPE", [source, s.numbers(s.shape(target))], [target], at.ReshapeOptions(s.shape(target)))
    rows = sum(s.shape(t)[1] for t in flat)
    result = s.tensor((1, rows, depth), s.scale_of(sources[0]), s.zero_point_of(sources[0]))
    return s.op("CONCATENATION", flat, [result], at.ConcatenationOptions(1))


def with_types(s: Sketch, outputs: list[int], unsigned: set[int]) -> Graph:
    graph = s.graph(outputs)
    tensors = tuple(replace(t, dtype=DType.UINT8) if i in unsigned else t for i, t in enumerate(graph.tensors))
    return replace(graph, tensors=tensors)


def check(graph: Graph, steps_of_quantize: int) -> None:
    """The graph is exact, and so many of its steps are QUANTIZE's."""
    kinds = [graph.ops[step.source].kind for step in lowered(graph).steps]
    assert kinds.count("QUANTIZE") == steps_of_quantize
    inputs = [
        np.random.default_rng(i).integers(0, 256, graph.tensors[t].shape, np.uint8).view(graph.tensors[t].dtype.numpy)
        for i, t in enumerate(graph.inputs)
    ]
    assert_exact(graph, inputs)


def test_readers_of_a_relabeled_input_read_the_input() -> None:
    s = Sketch(np.random.default_rng(1))
    image = s.input((1, 9, 7, 3), 0.02, UNSIGNED)
    signed = relabeled(s, image, is_signed=True)
    outputs = [convolution(s, signed, 8), convolution(s, signed, 5), pooled(s, signed, "AVERAGE_POOL_2D")]
    check(with_types(s, outputs, {image}), 0)


def test_writers_of_a_result_that_is_relabeled_write_the_output() -> None:
    s = Sketch(np.random.default_rng(2))
    image = s.input((1, 9, 7, 3), 0.02, SIGNED)
    small, large = convolution(s, image, 4), convolution(s, image, 4)
    result = relabeled(s, joined(s, [small, large]), is_signed=False)
    check(with_types(s, [result], {result}), 0)


def test_a_model_of_uint8_outside_and_int8_inside_copies_nothing() -> None:
    s = Sketch(np.random.default_rng(3))
    image = s.input((1, 9, 7, 3), 0.02, UNSIGNED)
    inside = relabeled(s, image, is_signed=True)
    result = relabeled(s, joined(s, [convolution(s, inside, 4), convolution(s, inside, 4)]), is_signed=False)
    check(with_types(s, [result], {image, result}), 0)


@pytest.mark.parametrize("other", ["MAX_POOL_2D", "output", "join"])
def test_a_map_with_another_use_is_copied(other: str) -> None:
    s = Sketch(np.random.default_rng(4))
    image = s.input((1, 9, 7, 3), 0.02, UNSIGNED)
    signed = relabeled(s, image, is_signed=True)
    beside = {"MAX_POOL_2D": lambda: pooled(s, signed, other), "output": lambda: signed, "join": lambda: joined(s, [signed])}
    check(with_types(s, [convolution(s, signed, 8), beside[other]()], {image}), 0 if other == "join" else 1)


@pytest.mark.parametrize(("moved", "scale"), [(1, None), (0, 0.021), (-1, 0.019)])
def test_another_value_is_requantized(moved: int, scale: float | None) -> None:
    s = Sketch(np.random.default_rng(5))
    image = s.input((1, 9, 7, 3), 0.02, UNSIGNED)
    signed = relabeled(s, image, is_signed=True, moved=moved, scale=scale)
    check(with_types(s, [convolution(s, signed, 8)], {image}), 1)


def test_an_operator_between_two_types_alone_is_a_copy() -> None:
    s = Sketch(np.random.default_rng(6))
    image = s.input((1, 9, 7, 3), 0.02, UNSIGNED)
    check(with_types(s, [relabeled(s, image, is_signed=True)], {image}), 1)
