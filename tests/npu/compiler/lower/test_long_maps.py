"""Maps that are longer than the registers can say: single positions, moves and windows are done in pieces, exactly."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.graph import attributes as at
from npu.graph.attributes import Attributes, Padding
from npu.graph.dtype import DType
from npu.graph.graph import Model
from npu.tflite.writer import write_model

from tests.support import single_ops as ops
from tests.support.litert import random_inputs, run_reference
from tests.support.lowering import lowered

LONG = 70_001
LONGEST = {"width": (1, LONG, 4), "height": (LONG, 1, 2), "depth": (1, 2, LONG), "batch": (LONG, 1, 1, 2)}


def moved(kind: str, shape: tuple[int, ...], made: tuple[int, ...], values: object, options: Attributes | None) -> Model:
    return ops.op_model(kind, [ops.tensor(shape), ops.constant(values)], [ops.tensor(made)], options)


def joined(kind: str, axis: int, shape: tuple[int, ...], made: tuple[int, ...]) -> Model:
    options = at.PackOptions(2, axis) if kind == "PACK" else at.ConcatenationOptions(axis)
    return ops.op_model(kind, [ops.tensor(shape), ops.tensor(shape)], [ops.tensor(made)], options)


def added(first: tuple[int, ...], second: tuple[int, ...]) -> Model:
    made = tuple(np.broadcast_shapes(first, second))
    return ops.op_model("ADD", [ops.tensor(first), ops.tensor(second, scale=0.3)], [ops.tensor(made)], at.AddOptions())


def window(kind: str, size: tuple[int, int], kernel: tuple[int, int], stride: int, padding: Padding) -> Model:
    made = [-(-n // stride) if padding is Padding.SAME else (n - k) // stride + 1 for n, k in zip(size, kernel, strict=True)]
    if "POOL" in kind:
        return ops.pool(kind=kind, ifm=(1, *size, 2), window=kernel, stride=(stride, stride), padding=padding)
    weights = ops.tensor((1, *kernel, 2) if kind == "DEPTHWISE_CONV_2D" else (2, *kernel, 2), data=3, scale=0.01)
    options = {
        "CONV_2D": at.Conv2DOptions(padding, stride, stride),
        "DEPTHWISE_CONV_2D": at.DepthwiseConv2DOptions(padding, stride, stride, 1),
    }
    inputs = [ops.tensor((1, *size, 2)), weights, ops.tensor((2,), DType.INT32, data=0)]
    return ops.op_model(kind, inputs, [ops.tensor((1, *made, 2))], options[kind])


MODELS = {
    **{
        f"{kind} {padding.name} along the {axis}": window(kind, size, kernel, stride, padding)
        for kind in ("CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "AVERAGE_POOL_2D")
        for padding in Padding
        for axis, size, kernel, stride in (("width", (3, LONG), (2, 3), 2), ("height", (2 * LONG, 1), (5, 1), 1))
    },
    **{f"ABS along the {axis}": ops.unary("ABS", shape) for axis, shape in LONGEST.items()},
    **{f"ADD along the {axis}": added(shape, shape) for axis, shape in LONGEST.items()},
    "ADD of a column": added((1, 4, LONG), (1, 4, 1)),
    "ADD of a row": added((1, 4, LONG), (1, 1, LONG)),
    "CONCATENATION": joined("CONCATENATION", 1, (1, 40_000, 3), (1, 80_000, 3)),
    "MEAN": moved("MEAN", (1, LONG, 3), (1, LONG, 1), (2,), at.ReducerOptions(True)),
    "PACK of many pieces": joined("PACK", 2, (1, LONG, 1, 2), (1, LONG, 2, 1, 2)),
    "PAD": moved("PAD", (1, LONG, 2), (1, LONG + 3, 2), ((0, 0), (1, 2), (0, 0)), at.PadOptions()),
    "REDUCE_MAX": moved("REDUCE_MAX", (3, LONG), (1, LONG), (0,), at.ReducerOptions(True)),
    "SOFTMAX": ops.op_model(
        "SOFTMAX",
        [ops.tensor((1, LONG, 3))],
        [ops.tensor((1, LONG, 3), scale=1 / 256, zero_point=-128)],
        at.SoftmaxOptions(1.0),
    ),
    "STRIDED_SLICE": ops.op_model(
        "STRIDED_SLICE",
        [ops.tensor((1, 2 * LONG, 3)), *map(ops.constant, ((0, 0, 0), (1, 2 * LONG, 3), (1, 2, 1)))],
        [ops.tensor((1, LONG, 3))],
        at.StridedSliceOptions(),
    ),
    "TRANSPOSE": moved("TRANSPOSE", (1, 4, LONG), (1, LONG, 4), (0, 2, 1), at.TransposeOptions()),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_long_map_is_done_on_the_npu_exactly(name: str) -> None:
    content = write_model(MODELS[name])
    compiled = npu.compile(content, target="ethos-u55-128")
    assert [op.violations for op in compiled.compiled_model.placement.ops] == [()]
    inputs = random_inputs(content, 1)
    for ours, theirs in zip(npu.run(compiled.content, inputs).outputs, run_reference(content, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_pieces_that_lie_apart_are_moved_at_once() -> None:
    """Two pieces of each input, whatever the number of positions in front of the axis."""
    assert len(lowered(MODELS["PACK of many pieces"].graphs[0]).steps) <= 4
