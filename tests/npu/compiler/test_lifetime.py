"""What is still read after the last operation keeps its memory, whatever is computed in place."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.compiler.allocate import LiveRange
from npu.compiler.lifetime import PlanNode, trace_lifetimes
from npu.graph import attributes as at
from npu.graph.attributes import Attributes, Padding
from npu.graph.dtype import DType
from npu.tflite.reader import read_model

from tests.support.builder import ModelBuilder
from tests.support.litert import random_inputs, run_reference

SHAPE = (1, 6, 5, 8)
LAST: dict[str, Attributes | None] = {
    "ADD": at.AddOptions(), "SUB": at.SubOptions(), "MUL": at.MulOptions(), "MAXIMUM": None, "MINIMUM": None,
}  # fmt: skip


def features_and_result(kind: str, *, chained: bool = False) -> bytes:
    """A convolution whose map is an output, and an operator on it and the input whose result is the last output."""
    b = ModelBuilder()
    x = b.input(SHAPE, DType.INT8, scale=0.05)
    weights = b.constant(np.random.default_rng(1).integers(-127, 128, (8, 1, 1, 8)).astype(np.int8), scale=0.01)
    bias = b.constant(np.zeros(8, np.int32), scale=0.05 * 0.01)
    options = at.Conv2DOptions(Padding.SAME, 1, 1)
    y = b.op("CONV_2D", [x, weights, bias], SHAPE, DType.INT8, 0.05, attributes=options)
    z = b.op(kind, [y, x], SHAPE, DType.INT8, 0.05, attributes=LAST[kind])
    b.output(y, z)
    if chained:
        b.output(b.op(kind, [z, y], SHAPE, DType.INT8, 0.05, attributes=LAST[kind]))
    return b.build()


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-512"])
@pytest.mark.parametrize("kind", LAST)
def test_an_output_that_the_last_operator_reads_is_not_overwritten(kind: str, target: str, chained: bool) -> None:
    content = features_and_result(kind, chained=chained)
    compiled = npu.compile(content, target=target).content
    assert [op.name for op in read_model(compiled).graphs[0].ops] == ["ethos-u"]
    inputs = random_inputs(content, 2)
    for ours, theirs in zip(npu.run(compiled, inputs).outputs, run_reference(content, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_variable_keeps_its_memory_from_the_first_operator_to_the_last() -> None:
    """It is read again by the next run, whoever touches it within one."""
    b = ModelBuilder()
    x, state = b.input((1, 16), DType.FLOAT32), b.variable((1, 16), DType.FLOAT32)
    first = b.op("ABS", [x], (1, 16), DType.FLOAT32)
    middle = b.op("ADD", [first, state], (1, 16), DType.FLOAT32, attributes=at.AddOptions())
    last = b.op("NEG", [middle], (1, 16), DType.FLOAT32)
    b.output(last)
    found = trace_lifetimes(b.graph(), [PlanNode((index,)) for index in range(3)], [[], [], []], {})
    assert found.spans[state] == LiveRange(64, 0, 2)
    assert found.spans[first] == LiveRange(64, 0, 1)
    assert found.lasting == {state, last}
