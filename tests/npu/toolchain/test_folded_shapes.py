"""What a model computes of fixed shapes is known when it is compiled: nothing runs for it, and nothing cuts the NPU's job."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import npu
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.graph.placement import Device
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model

from tests.support.builder import ModelBuilder
from tests.support.litert import random_inputs, run_reference

I8, I32 = DType.INT8, DType.INT32


def _reshaped_as_converters_do(*, cpu_reader: bool = False, as_output: bool = False) -> bytes:
    """ADD, RESHAPE to the first size of its shape and the rest, SOFTMAX: a classifier's end with an open batch."""
    b = ModelBuilder()
    x = b.input((1, 4, 6), I8, scale=0.5)
    added = b.op("ADD", [x, x], (1, 4, 6), I8, 0.5, attributes=at.AddOptions())
    shape = b.op("SHAPE", [added], (3,), I32, attributes=at.ShapeOptions(I32))
    begin, end, step = (b.constant(np.array([value], np.int32)) for value in (0, 1, 1))
    sliced = at.StridedSliceOptions(shrink_axis_mask=1)
    batch = b.op("STRIDED_SLICE", [shape, begin, end, step], (), I32, attributes=sliced)
    packed = at.PackOptions(values_count=2, axis=0)
    wanted = b.op("PACK", [batch, b.constant(np.array(24, np.int32))], (2,), I32, attributes=packed)
    flat = b.op("RESHAPE", [added, wanted], (1, 24), I8, 0.5, attributes=at.ReshapeOptions(()))
    b.output(b.op("SOFTMAX", [flat], (1, 24), I8, 1 / 256, -128, attributes=at.SoftmaxOptions(beta=1.0)))
    if cpu_reader:
        zero = b.constant(np.array(2.5, np.float32))
        b.output(b.op("FILL", [wanted, zero], (1, 24), DType.FLOAT32, attributes=at.FillOptions()))
    if as_output:
        b.output(wanted)
    return b.build()


def _with_open_batch(content: bytes) -> bytes:
    model = read_model(content)
    graph = model.graphs[0]
    tensors = tuple(
        replace(tensor, shape_signature=(-1, *tensor.shape[1:])) if index in graph.inputs else tensor
        for index, tensor in enumerate(graph.tensors)
    )
    return write_model(replace(model, graphs=(replace(graph, tensors=tensors),)))


def _kinds(content: bytes) -> list[str]:
    return [op.name for op in read_model(content).graphs[0].ops]


def _assert_exact(content: bytes, compiled: npu.Compiled) -> None:
    inputs = random_inputs(content, 3)
    for mine, theirs in zip(npu.run(compiled.content, inputs=inputs).outputs, run_reference(content, inputs), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_chain_of_shapes_neither_runs_nor_cuts_the_job() -> None:
    content = _with_open_batch(_reshaped_as_converters_do())
    assert [op.device for op in npu.check(content).ops] == [Device.NPU] * 6
    compiled = npu.compile(content)
    assert _kinds(compiled.content) == ["ethos-u"]
    _assert_exact(content, compiled)


def test_operators_keep_their_numbers_in_reports() -> None:
    rows = npu.run(_reshaped_as_converters_do()).report.operators
    assert [(row.index, row.type) for row in rows] == list(
        enumerate(("ADD", "SHAPE", "STRIDED_SLICE", "PACK", "RESHAPE", "SOFTMAX"))
    )
    assert [row.cycles for row in rows[1:4]] == [0, 0, 0]


def test_an_operator_on_the_cpu_reads_the_constant() -> None:
    content = _reshaped_as_converters_do(cpu_reader=True)
    compiled = npu.compile(content)
    assert sorted(_kinds(compiled.content)) == ["FILL", "ethos-u"]
    _assert_exact(content, compiled)


@pytest.mark.parametrize(("width", "kinds"), [(24, ["ethos-u"]), (1025, ["FILL", "ethos-u"])])
def test_the_zeros_with_which_an_unrolled_network_begins_are_a_constant(width: int, kinds: list[str]) -> None:
    """Unless they are many: then they take less room as an operator."""
    b = ModelBuilder()
    x = b.input((1, width), I8, scale=0.5, zero_point=3)
    wanted, zero = b.constant(np.array([1, width], np.int32)), b.constant(np.array(-7, np.int8), scale=0.25, zero_point=-7)
    state = b.op("FILL", [wanted, zero], (1, width), I8, 0.25, -7, attributes=at.FillOptions())
    b.output(b.op("ADD", [x, state], (1, width), I8, 0.5, 3, attributes=at.AddOptions()))
    compiled = npu.compile(b.build())
    assert sorted(_kinds(compiled.content)) == kinds
    _assert_exact(b.build(), compiled)


def test_a_shape_that_the_model_returns_stays_computed() -> None:
    content = _reshaped_as_converters_do(as_output=True)
    compiled = npu.compile(content)
    rows = {row.type: row for row in npu.run(compiled.content).report.operators}
    assert rows["PACK"].cycles > 0
    _assert_exact(content, compiled)


def test_a_reshape_that_is_returned_copies_nothing() -> None:
    b = ModelBuilder()
    x = b.input((1, 2, 2, 8), I8, scale=0.5)
    added = b.op("ADD", [x, x], (1, 2, 2, 8), I8, 0.5, attributes=at.AddOptions())
    shape = b.op("SHAPE", [added], (4,), I32, attributes=at.ShapeOptions(I32))
    sizes = [b.constant(np.array(value, np.int32)) for value in ([0], [1], [32])]
    batch = b.op("SLICE", [shape, *sizes[:2]], (1,), I32)
    wanted = b.op("CONCATENATION", [batch, sizes[2]], (2,), I32, attributes=at.ConcatenationOptions(0))
    b.output(b.op("RESHAPE", [added, wanted], (1, 32), I8, 0.5, attributes=at.ReshapeOptions(())))
    content = b.build()
    compiled = npu.compile(content)
    assert npu.run(compiled.content).report.operators[-1].cycles == 0
    _assert_exact(content, compiled)


def test_folded_operators_of_a_model_without_work_for_the_npu_do_not_run() -> None:
    b = ModelBuilder()
    x = b.input((1, 4, 6), DType.FLOAT32)
    shape = b.op("SHAPE", [x], (3,), I32, attributes=at.ShapeOptions(I32))
    doubled = b.op("ADD", [shape, shape], (3,), I32, attributes=at.AddOptions())
    b.output(b.op("SIN", [x], (1, 4, 6), DType.FLOAT32))
    b.output(b.op("FILL", [doubled, b.constant(np.array(1.5, np.float32))], (2, 8, 12), DType.FLOAT32))
    content = b.build()
    _assert_exact(content, npu.compile(content))


def test_a_model_that_only_computes_shapes_gives_the_same() -> None:
    b = ModelBuilder()
    shape = b.op("SHAPE", [b.input((1, 4, 6), I8, scale=0.5)], (3,), I32, attributes=at.ShapeOptions(I32))
    doubled = b.op("ADD", [shape, shape], (3,), I32, attributes=at.AddOptions())
    b.output(b.op("MUL", [doubled, doubled], (3,), I32, attributes=at.MulOptions()))
    content = b.build()
    _assert_exact(content, npu.compile(content))


def test_a_shape_of_unknown_rank_stays_computed() -> None:
    """Files of older converters declare no dimensions where they know none; LiteRT makes them when it runs."""
    b = ModelBuilder()
    x = b.input((1, 4, 6), DType.FLOAT32)
    unknown = b.op("SIN", [x], (), DType.FLOAT32)
    shape = b.op("SHAPE", [unknown], (), I32, attributes=at.ShapeOptions(I32))
    begin, end, step = (b.constant(np.array([value], np.int32)) for value in (1, 2, 1))
    sliced = at.StridedSliceOptions(shrink_axis_mask=1)
    rows = b.op("STRIDED_SLICE", [shape, begin, end, step], (), I32, attributes=sliced)
    b.output(b.op("MUL", [rows, rows], (), I32, attributes=at.MulOptions()))
    content = b.build()
    compiled = npu.compile(content)
    assert npu.run(compiled.content).outputs[0] == 16
    _assert_exact(content, compiled)
