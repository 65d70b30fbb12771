"""Fixes keep every result of the reference kernels bit for bit, say what they do, and leave alone what they cannot prove."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from constraints.profiles import profile_named
from constraints.view import OpView
from npu.fixes.pipeline import fix_model
from npu.graph.attributes import (
    ConcatenationOptions,
    Conv2DOptions,
    DepthwiseConv2DOptions,
    Padding,
    PadOptions,
    Pool2DOptions,
    QuantizeOptions,
    ReducerOptions,
    ReshapeOptions,
    ShapeOptions,
    TransposeOptions,
)
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Model, Op
from npu.hardware.catalogue import load_variant
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model

from tests.support.builder import ModelBuilder
from tests.support.litert import random_inputs, run_reference
from tests.support.shared import shared_models

VARIANT = load_variant("ethos-u55-128")
I8 = DType.INT8


def accepts(profile: str) -> Callable[[Graph, Op], bool]:
    rules = profile_named(profile)
    return lambda graph, op: not rules.violations(OpView(graph, op, VARIANT))


def fixed(content: bytes, profile: str = "v0.1") -> tuple[Model, list[str]]:
    model, changes = fix_model(read_model(content), accepts(profile))
    return model, [change.what for change in changes]


def kinds(model: Model) -> list[str]:
    return [op.kind for op in model.graphs[0].ops]


def assert_same_results(before: bytes, after: Model, seed: int = 0) -> None:
    inputs = random_inputs(before, seed)
    for ours, theirs in zip(run_reference(write_model(after), inputs), run_reference(before, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs, strict=True)


def pool(kind: str, shape: tuple[int, ...], window: int, stride: int, padding: Padding, out: tuple[int, ...]) -> bytes:
    b = ModelBuilder()
    x = b.input(shape, I8, scale=0.5, zero_point=3)
    made = Pool2DOptions(padding, stride, stride, window, window)
    b.output(b.op(kind, [x], out, I8, 0.5, 3, attributes=made))
    return b.build()


def convolution(kind: str, batch: int, padding: Padding = Padding.SAME, dtype: DType = I8) -> bytes:
    rng = np.random.default_rng(4)
    b = ModelBuilder()
    quantized: dict[str, Any] = {} if dtype is DType.FLOAT32 else {"scale": 0.05}
    x = b.input((batch, 9, 9, 4), dtype, **quantized)
    shape, bias_type = ((1, 3, 3, 4) if kind == "DEPTHWISE_CONV_2D" else (4, 3, 3, 4)), DType.INT32
    data = rng.integers(-127, 128, shape).astype(np.int8)
    bias = rng.integers(-500, 500, 4).astype(np.int32)
    if dtype is DType.FLOAT32:
        data, bias, bias_type = data.astype(np.float32), bias.astype(np.float32), DType.FLOAT32
    weights = b.constant(data, **({"scale": 0.01} if quantized else {}))
    zeros = b.constant(bias, bias_type, **({"scale": 0.0005} if quantized else {}))
    made = Conv2DOptions(padding, 2, 2) if kind == "CONV_2D" else DepthwiseConv2DOptions(padding, 2, 2, 1)
    extent = 5 if padding is Padding.SAME else 4
    b.output(b.op(kind, [x, weights, zeros], (batch, extent, extent, 4), dtype, 0.3 if quantized else None, attributes=made))
    return b.build()


def padded(dtype: type) -> bytes:
    b = ModelBuilder()
    x = b.input((1, 4, 4, 2), I8, scale=0.5, zero_point=-7)
    table = b.constant(np.array([[0, 0], [1, 2], [0, 1], [0, 0]], dtype))
    b.output(b.op("PAD", [x, table], (1, 7, 5, 2), I8, 0.5, -7, attributes=PadOptions()))
    return b.build()


def computed_shape() -> bytes:
    """RESHAPE to a shape worked out from SHAPE by slicing, multiplying and packing, as converters write it."""
    b = ModelBuilder()
    x = b.input((2, 3, 4), I8, scale=0.5)
    b.tensors[x] = replace(b.tensors[x], shape_signature=None)
    shape = b.op("SHAPE", [x], (3,), DType.INT32, attributes=ShapeOptions(DType.INT32))
    begin, size, axis = (b.constant(np.array(value, np.int32)) for value in ([1], [2], 0))
    tail = b.op("SLICE", [shape, begin, size], (2,), DType.INT32)
    product = b.op("REDUCE_PROD", [tail, axis], (1,), DType.INT32, attributes=ReducerOptions(True))
    batch = b.constant(np.array([2], np.int32))
    wanted = b.op("CONCATENATION", [batch, product], (2,), DType.INT32, attributes=ConcatenationOptions(0))
    y = b.op("RESHAPE", [x, wanted], (2, 12), I8, 0.5, attributes=ReshapeOptions(()))
    b.output(y)
    return b.build()


def requantized(dtype: DType, scale: float = 0.037, zero_point: int = 5, again: float | None = None) -> bytes:
    """DEQUANTIZE and QUANTIZE between two RELU, on every value of the type."""
    b = ModelBuilder()
    count = 65536 if dtype is DType.INT16 else 256
    point = 0 if dtype is DType.INT16 else zero_point
    x = b.input((1, count), dtype, scale=scale, zero_point=point)
    y = b.op("RESHAPE", [x], (count,), dtype, scale, point, attributes=ReshapeOptions((count,)))
    y = b.op("DEQUANTIZE", [y], (count,), DType.FLOAT32)
    y = b.op("QUANTIZE", [y], (count,), dtype, again or scale, point, attributes=QuantizeOptions())
    b.output(b.op("RESHAPE", [y], (count, 1), dtype, again or scale, point, attributes=ReshapeOptions((count, 1))))
    return b.build()


def with_dead_branch() -> bytes:
    b = ModelBuilder()
    x = b.input((1, 8), I8, scale=0.5)
    dead = b.op("NEG", [x], (1, 8), I8, 0.5)
    b.op("RELU", [dead], (1, 8), I8, 0.5)
    b.output(b.op("RELU", [x], (1, 8), I8, 0.5))
    return b.build()


def turned(shape: tuple[int, ...], order: tuple[int, ...]) -> bytes:
    b = ModelBuilder()
    x = b.input(shape, I8, scale=0.5, zero_point=3)
    table = b.constant(np.array(order, np.int32))
    b.output(b.op("TRANSPOSE", [x, table], tuple(shape[axis] for axis in order), I8, 0.5, 3, attributes=TransposeOptions()))
    return b.build()


FIXES: dict[str, tuple[bytes, list[str], list[str]]] = {
    "average pool of 9x9 with SAME that pads nothing": (
        pool("AVERAGE_POOL_2D", (1, 9, 9, 4), 9, 9, Padding.SAME, (1, 1, 1, 4)),
        ["VALID padding, as SAME pads nothing and stride 1x1, as the window covers the input"],
        ["AVERAGE_POOL_2D"],
    ),
    "global pool with its own stride": (
        pool("MAX_POOL_2D", (1, 7, 7, 4), 7, 7, Padding.VALID, (1, 1, 1, 4)),
        ["stride 1x1, as the window covers the input"],
        ["MAX_POOL_2D"],
    ),
    "batch of a pool": (
        pool("AVERAGE_POOL_2D", (3, 6, 6, 4), 3, 2, Padding.SAME, (3, 3, 3, 4)),
        ["one image of the batch of 3 at a time"],
        ["SPLIT", *["AVERAGE_POOL_2D"] * 3, "CONCATENATION"],
    ),
    "batch of a convolution": (
        convolution("CONV_2D", 2), ["one image of the batch of 2 at a time"],
        ["SPLIT", "CONV_2D", "CONV_2D", "CONCATENATION"],
    ),
    "batch of a depthwise convolution": (
        convolution("DEPTHWISE_CONV_2D", 2, Padding.VALID), ["one image of the batch of 2 at a time"],
        ["SPLIT", "DEPTHWISE_CONV_2D", "DEPTHWISE_CONV_2D", "CONCATENATION"],
    ),
    "int64 paddings": (padded(np.int64), ["padding table as int32"], ["PAD"]),
    "computed shape": (
        computed_shape(), ["computed once, its result is a constant now"] * 4, ["RESHAPE"],
    ),
    **{
        f"{dtype} through float": (
            requantized(dtype), ["removed: gives back what went in", "removed: nothing reads it"], ["RESHAPE", "RESHAPE"]
        )
        for dtype in (DType.INT8, DType.UINT8, DType.INT16)
    },
    "TRANSPOSE of an empty dimension": (
        turned((1, 5, 1, 4), (0, 2, 1, 3)), ["RESHAPE, as the order of the elements stays"], ["RESHAPE"]
    ),
    "dead branch": (with_dead_branch(), ["removed: nothing reads it"] * 2, ["RELU"]),
}  # fmt: skip


@pytest.mark.seed("T-Y-5", "T-R-3", "T-R-8", "T-R-20")
@pytest.mark.parametrize("case", FIXES)
def test_a_fix_says_what_it_does_and_keeps_the_results(case: str) -> None:
    content, said, left = FIXES[case]
    model, changes = fixed(content)
    assert changes == said
    assert kinds(model) == left
    assert_same_results(content, model)


@pytest.mark.parametrize("case", [name for name in FIXES if "float" not in name and "dead" not in name])
def test_what_was_refused_is_accepted_after_the_fix(case: str) -> None:
    model, _ = fixed(FIXES[case][0])
    takes, graph = accepts("v0.1"), model.graphs[0]
    assert all(takes(graph, op) for op in graph.ops if op.kind not in ("SPLIT",))


KEPT = {
    "paddings of int32": padded(np.int32),
    "pool that the NPU takes": pool("AVERAGE_POOL_2D", (1, 6, 6, 4), 3, 2, Padding.SAME, (1, 3, 3, 4)),
    "average pool of 9x9 that pads": pool("AVERAGE_POOL_2D", (1, 12, 12, 4), 9, 1, Padding.SAME, (1, 12, 12, 4)),
    "stride of 4 that steps": pool("MAX_POOL_2D", (1, 12, 12, 4), 4, 4, Padding.VALID, (1, 3, 3, 4)),
    "float batch that the NPU would refuse anyway": convolution("CONV_2D", 2, dtype=DType.FLOAT32),
    "large batch": pool("MAX_POOL_2D", (17, 4, 4, 2), 2, 2, Padding.VALID, (17, 2, 2, 2)),
    "TRANSPOSE that turns": turned((1, 5, 3, 4), (0, 2, 1, 3)),
    "another scale after float": requantized(DType.INT8, again=0.05),
}


@pytest.mark.parametrize("case", KEPT)
def test_what_is_not_exactly_the_same_or_no_better_is_kept(case: str) -> None:
    model, changes = fixed(KEPT[case])
    assert changes == []
    assert kinds(model) == kinds(read_model(KEPT[case]))


def test_a_shape_that_may_change_is_not_folded() -> None:
    model = read_model(computed_shape())
    graph = model.graphs[0]
    tensors = (replace(graph.tensors[0], shape_signature=(-1, 3, 4)), *graph.tensors[1:])
    dynamic = replace(model, graphs=(replace(graph, tensors=tensors),))
    assert kinds(fix_model(dynamic, accepts("v0.1"))[0])[0] == "SHAPE"


def test_state_and_custom_operators_are_never_dead() -> None:
    b = ModelBuilder()
    x = b.input((1, 8), I8, scale=0.5)
    b.op("CUSTOM", [x], (1, 8), I8, 0.5, custom_code="logger")
    b.output(b.op("RELU", [x], (1, 8), I8, 0.5))
    assert fixed(b.build())[1] == []


NOT_RUN = {"keyword_scrambled_8bit", "custom_op_unknown", "invalid_makefile", "person_detect_int8"}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(name for name in set(shared_models()) - NOT_RUN if "vela" not in name))
def test_a_real_model_keeps_its_results(name: str) -> None:
    content = shared_models()[name].read_bytes()
    model, changes = fixed(content, "u55-u65")
    if not changes:
        pytest.skip("nothing to fix")
    assert_same_results(content, model)
