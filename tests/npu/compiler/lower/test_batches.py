"""SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND on the NPU: exact, also around a convolution, as converters write a dilated one."""

from __future__ import annotations

import math

import numpy as np
import pytest

import npu
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.graph.graph import Graph
from npu.graph.placement import Device
from npu.tflite.reader import read_model

from tests.support.builder import ModelBuilder
from tests.support.litert import random_inputs, run_reference
from tests.support.lowering import assert_exact, lowered
from tests.support.random_graphs import Sketch
from tests.support.random_graphs import random_inputs as random_arrays

Shape = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]
KINDS = ("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND")
OPTIONS = {"SPACE_TO_BATCH_ND": at.SpaceToBatchNDOptions, "BATCH_TO_SPACE_ND": at.BatchToSpaceNDOptions}
I8 = DType.INT8


def moved(kind: str, shape: Shape, block: Shape, pairs: Pairs) -> Shape:
    (batch, *space), rest, count = shape[: len(block) + 1], shape[len(block) + 1 :], math.prod(block)
    if kind == "SPACE_TO_BATCH_ND":
        made = ((extent + sum(pair)) // parts for extent, pair, parts in zip(space, pairs, block, strict=True))
        return (batch * count, *made, *rest)
    made = (extent * parts - sum(pair) for extent, pair, parts in zip(space, pairs, block, strict=True))
    return (batch // count, *made, *rest)


def graph_of(kind: str, shape: Shape, block: Shape, pairs: Pairs, *, inside: bool = False) -> Graph:
    """The operator alone, or between two RELU, whose maps the compiler may lay out as it likes."""
    s = Sketch(np.random.default_rng(5))
    x = s.input(shape, 0.1, 3)
    if inside:
        x = s.op("RELU", [x], [s.tensor(shape, 0.1, 3)])
    made = moved(kind, shape, block, pairs)
    numbers = [s.numbers(block), s.numbers(pairs)]
    y = s.op(kind, [x, *numbers], [s.tensor(made, 0.1, 3)], OPTIONS[kind]())
    if inside:
        y = s.op("RELU", [y], [s.tensor(made, 0.1, 3)])
    return s.graph([y])


CASES: dict[str, tuple[str, Shape, Shape, Pairs]] = {
    "a sequence in two phases": ("SPACE_TO_BATCH_ND", (1, 32, 36), (2,), ((2, 2),)),
    "a sequence without padding": ("SPACE_TO_BATCH_ND", (1, 12, 5), (4,), ((0, 0),)),
    "images in phases of rows and columns": ("SPACE_TO_BATCH_ND", (1, 7, 9, 5), (2, 3), ((1, 0), (0, 3))),
    "several images": ("SPACE_TO_BATCH_ND", (3, 4, 6, 2), (2, 2), ((0, 0), (1, 1))),
    "rows alone": ("SPACE_TO_BATCH_ND", (2, 6, 5, 3), (3, 1), ((2, 1), (0, 0))),
    "blocks of one": ("SPACE_TO_BATCH_ND", (1, 4, 4, 3), (1, 1), ((1, 2), (0, 1))),
    "two phases to a sequence": ("BATCH_TO_SPACE_ND", (2, 16, 36), (2,), ((0, 0),)),
    "cropped on both ends": ("BATCH_TO_SPACE_ND", (4, 5, 7), (4,), ((3, 2),)),
    "phases of rows and columns": ("BATCH_TO_SPACE_ND", (6, 4, 4, 5), (2, 3), ((1, 0), (0, 3))),
    "several images back": ("BATCH_TO_SPACE_ND", (12, 2, 4, 2), (2, 2), ((0, 0), (1, 1))),
    "rows alone back": ("BATCH_TO_SPACE_ND", (6, 3, 5, 3), (3, 1), ((2, 1), (0, 0))),
}


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_the_lowered_operator_equals_the_reference(case: str, inside: bool) -> None:
    graph = graph_of(*CASES[case], inside=inside)
    assert_exact(graph, random_arrays(graph, 1), case)


def test_random_blocks_are_exact() -> None:
    random = np.random.default_rng(7)
    for _ in range(60):
        axes = int(random.integers(1, 3))
        block = tuple(int(size) for size in random.integers(1, 4, axes))
        first, last, parts = (random.integers(0, 3, axes), random.integers(0, 3, axes), random.integers(1, 5, axes))
        batch, depth = (int(size) for size in random.integers(1, 5, 2))
        kind = KINDS[int(random.integers(2))]
        if kind == "SPACE_TO_BATCH_ND":
            space = np.maximum((parts + 3) * block - first - last, 1)
            last = last + (-(space + first + last)) % block
        else:
            batch, space = batch * math.prod(block), parts + first + last
        pairs = tuple((int(before), int(after)) for before, after in zip(first, last, strict=True))
        shape = (batch, *(int(size) for size in space), depth)
        graph = graph_of(kind, shape, block, pairs, inside=bool(random.integers(2)))
        assert_exact(graph, random_arrays(graph, 2), f"{kind} {shape} by {block} {pairs}")


def dilated(dilation: int) -> bytes:
    """A convolution over a sequence of open batch, dilated as converters write it: the batches are declared as 1."""
    b, random = ModelBuilder(), np.random.default_rng(2)
    length, depth, taps = 24, 16, 3
    part = (length + 2 * dilation) // dilation
    x = b.input((1, length, depth), I8, scale=0.1, zero_point=-5, shape_signature=(-1, length, depth))
    x = b.op("RELU", [x], (1, length, depth), I8, 0.1, -5, shape_signature=(-1, length, depth))
    block, pads = b.constant(np.array([dilation], np.int32)), b.constant(np.array([[dilation, dilation]], np.int32))
    options = at.SpaceToBatchNDOptions()
    x = b.op("SPACE_TO_BATCH_ND", [x, block, pads], (1, part, depth), I8, 0.1, -5, attributes=options,
             shape_signature=(-1, part, depth))  # fmt: skip
    axis = b.constant(np.array(-3, np.int32))
    x = b.op("EXPAND_DIMS", [x, axis], (1, 1, part, depth), I8, 0.1, -5, shape_signature=(-1, 1, part, depth))
    weights = b.constant(random.integers(-90, 90, (8, 1, taps, depth)).astype(np.int8), scale=0.01)
    bias = b.constant(random.integers(-900, 900, 8).astype(np.int32), scale=0.001)
    made = part - taps + 1
    x = b.op("CONV_2D", [x, weights, bias], (1, 1, made, 8), I8, 0.3, 7, shape_signature=(-1, 1, made, 8),
             attributes=at.Conv2DOptions(at.Padding.VALID, 1, 1))  # fmt: skip
    flat = b.constant(np.array([-1, made, 8], np.int32))
    x = b.op("RESHAPE", [x, flat], (1, made, 8), I8, 0.3, 7, shape_signature=(-1, made, 8))
    crops = b.constant(np.zeros((1, 2), np.int32))
    x = b.op("BATCH_TO_SPACE_ND", [x, block, crops], (1, length, 8), I8, 0.3, 7, attributes=at.BatchToSpaceNDOptions(),
             shape_signature=(-1, length, 8))  # fmt: skip
    b.output(b.op("RELU", [x], (1, length, 8), I8, 0.3, 7, shape_signature=(-1, length, 8)))
    return b.build()


@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D"])
@pytest.mark.parametrize(("rows", "stride", "steps"), [(1, 1, 1), (1, 2, 4), (3, 1, 4)])
def test_images_are_rows_of_one_where_no_row_sees_another(kind: str, rows: int, stride: int, steps: int) -> None:
    b, random = ModelBuilder(), np.random.default_rng(2)
    x = b.input((4, 6, 9, 8), I8, scale=0.1, zero_point=-5)
    is_depthwise = kind == "DEPTHWISE_CONV_2D"
    weights = random.integers(-90, 90, (1, rows, 3, 8) if is_depthwise else (8, rows, 3, 8)).astype(np.int8)
    bias = b.constant(random.integers(-900, 900, 8).astype(np.int32), scale=0.001)
    options = at.DepthwiseConv2DOptions if is_depthwise else at.Conv2DOptions
    out = (4, 6 // stride, 9 // stride + 9 % stride, 8)
    attributes = options(padding=at.Padding.SAME, stride_w=stride, stride_h=stride)
    b.output(b.op(kind, [x, b.constant(weights, scale=0.01), bias], out, I8, 0.3, 7, attributes=attributes))
    graph = read_model(b.build()).graphs[0]
    assert len(lowered(graph).steps) == steps
    assert_exact(graph, random_arrays(graph, 2), kind)


@pytest.mark.parametrize("target", ["ethos-u55-32", "ethos-u55-128", "ethos-u65-256", "ethos-u65-512"])
@pytest.mark.parametrize("dilation", [2, 4])
def test_a_dilated_convolution_of_an_open_batch_is_one_job_and_equals_litert(dilation: int, target: str) -> None:
    content = dilated(dilation)
    compiled = npu.compile(content, target)
    assert {op.device for op in compiled.compiled_model.placement.ops} == {Device.NPU}
    inputs = random_inputs(content, 3)
    (ours,) = npu.run(compiled.content, inputs).outputs
    (theirs,) = run_reference(content, inputs)
    assert np.array_equal(ours, theirs)
