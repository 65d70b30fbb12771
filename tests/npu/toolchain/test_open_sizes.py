"""Sizes that a converter left open and declared as 1 are those that the operators make of the model's inputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import npu
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.graph.graph import Tensor
from npu.graph.placement import Device
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model

from tests.support.builder import ModelBuilder
from tests.support.litert import random_inputs, run_reference

I8, I32, F32 = DType.INT8, DType.INT32, DType.FLOAT32


def _projection(*, ends_in_float: bool = False) -> bytes:
    """A product over the last axis of (1, 6, 8), as converters write a dense layer over a sequence of open length."""
    b, random = ModelBuilder(), np.random.default_rng(5)
    x = b.input((1, 6, 8), I8, scale=0.05, shape_signature=(-1, 6, 8))
    shape = b.op("SHAPE", [x], (3,), I32, attributes=at.ShapeOptions(I32))
    first, last, zero = (b.constant(np.array(value, np.int32)) for value in ([0, 1], [2], [0]))
    sizes = b.op("GATHER", [shape, first], (2,), I32, attributes=at.GatherOptions())
    count = b.op("REDUCE_PROD", [sizes, zero], (), I32, attributes=at.ReducerOptions())
    depth = b.op("GATHER", [shape, last], (1,), I32, attributes=at.GatherOptions())
    deep = b.op("REDUCE_PROD", [depth, zero], (), I32, attributes=at.ReducerOptions())
    flat = b.op("PACK", [count, deep], (2,), I32, attributes=at.PackOptions(2, 0))
    rows = b.op("RESHAPE", [x, flat], (1, 1), I8, 0.05, shape_signature=(-1, -1))
    weights = b.constant(random.integers(-127, 128, (4, 8)).astype(np.int8), scale=0.01)
    made = b.op("FULLY_CONNECTED", [rows, weights], (1, 4), I8, 0.1, shape_signature=(-1, 4))
    back = b.op("CONCATENATION", [sizes, b.constant(np.array([4], np.int32))], (3,), I32)
    y = b.op("RESHAPE", [made, back], (1, 1, 4), I8, 0.1, shape_signature=(-1, -1, 4))
    again = b.op("SHAPE", [y], (3,), I32, attributes=at.ShapeOptions(I32))
    y = b.op("RESHAPE", [b.op("RELU", [y], (1, 1, 4), I8, 0.1, shape_signature=(-1, -1, 4)), again], (1, 1, 4), I8, 0.1,
             shape_signature=(-1, -1, 4))  # fmt: skip
    b.output(b.op("DEQUANTIZE", [y], (1, 1, 4), F32, shape_signature=(-1, -1, 4)) if ends_in_float else y)
    return b.build()


def test_a_chain_of_open_sizes_is_compiled_for_those_that_it_has_and_equals_litert() -> None:
    content = _projection()
    assert {op.device for op in npu.check(content).ops} == {Device.NPU}
    compiled = npu.compile(content)
    assert [op.name for op in read_model(compiled.content).graphs[0].ops] == ["ethos-u"]
    inputs = random_inputs(content, 3)
    (mine,), (theirs,) = npu.run(compiled.content, inputs=inputs).outputs, run_reference(content, inputs)
    assert mine.shape == (1, 6, 4)
    assert np.abs(mine.astype(int) - theirs).max() <= 1  # FULLY_CONNECTED rounds twice


def test_operators_on_the_cpu_of_a_file_with_open_sizes_cost_what_they_have() -> None:
    compiled = npu.compile(_projection(ends_in_float=True)).content
    model = read_model(compiled)
    graph = model.graphs[0]

    def opened(tensor: Tensor) -> Tensor:
        return replace(tensor, shape=(1, 1, 4), shape_signature=(-1, -1, 4)) if tensor.dtype is F32 else tensor

    declared_as_one = replace(graph, tensors=tuple(map(opened, graph.tensors)))
    again = write_model(replace(model, graphs=(declared_as_one,)))
    cycles = [npu.time_model(content).report.totals.cpu_cycles for content in (compiled, again)]
    assert cycles[0] == cycles[1]


@pytest.mark.parametrize("signature", [(1, 6), (-1, 7), (-1, 6, 1)])
def test_a_size_that_is_not_left_open_stays_the_contradiction_that_it_is(signature: tuple[int, ...]) -> None:
    b = ModelBuilder()
    x = b.input((2, 6), I8, scale=0.5)
    wanted = b.constant(np.array([2, 6], np.int32))
    y = b.op("RESHAPE", [x, wanted], tuple(max(size, 1) for size in signature), I8, 0.5, shape_signature=signature)
    b.output(b.op("RELU", [y], tuple(max(size, 1) for size in signature), I8, 0.5, shape_signature=signature))
    assert {op.device for op in npu.check(b.build()).ops} == {Device.CPU}


def test_a_model_whose_output_has_an_open_size_is_compared_with_its_file() -> None:
    content = _projection()
    result = npu.diff(content, npu.compile(content).content)
    assert result.first is None
    assert result.compared != ()
