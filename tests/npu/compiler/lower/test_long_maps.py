"""Maps that are longer than the registers can say: operators of single positions and moves do them in pieces, exactly."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.graph import attributes as at
from npu.graph.attributes import Attributes
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


MODELS = {
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
