"""Operators that no output depends on neither run nor take memory, on the NPU and on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.tflite.reader import read_model

from tests.support.builder import ModelBuilder
from tests.support.litert import random_inputs, run_reference

I8, F32 = DType.INT8, DType.FLOAT32
SHAPE = (1, 8, 8, 16)
RULE = "JOB-WORK"


def _added(b: ModelBuilder) -> int:
    x = b.input(SHAPE, I8, scale=0.5)
    added = b.op("ADD", [x, x], SHAPE, I8, 0.5, attributes=at.AddOptions())
    b.output(added)
    return added


def _convolved(b: ModelBuilder, x: int) -> int:
    rng = np.random.default_rng(1)
    weights = b.constant(rng.integers(-127, 128, (16, 3, 3, 16)).astype(np.int8), scale=0.01)
    bias = b.constant(np.zeros(16, np.int32), scale=0.005)
    options = at.Conv2DOptions(at.Padding.SAME, 1, 1)
    return b.op("CONV_2D", [x, weights, bias], SHAPE, I8, 0.5, attributes=options)


def _with_branch(kind: str) -> bytes:
    """ADD, whose result is returned, with what nobody reads behind it: for the NPU, the CPU or both."""
    b = ModelBuilder()
    branch = _added(b)
    if kind in ("npu", "both"):
        branch = _convolved(b, branch)
    if kind in ("cpu", "both"):
        b.op("SIN", [b.op("DEQUANTIZE", [branch], SHAPE, F32)], SHAPE, F32)
    return b.build()


def _without_branch() -> bytes:
    b = ModelBuilder()
    _added(b)
    return b.build()


def _floats(*, with_branch: bool = True) -> bytes:
    """SIN, and beside it COS of a constant that nobody else reads."""
    b = ModelBuilder()
    x = b.input((1, 4), F32, name="x")
    if with_branch:
        b.op("COS", [b.constant(np.ones((1, 4000), np.float32))], (1, 4000), F32)
    b.output(b.op("SIN", [x], (1, 4), F32, name="y"))
    b.signature("serve", {"x": x}, {"y": b.outputs[0]})
    return b.build()


def _kinds(content: bytes) -> list[str]:
    return [op.name for op in read_model(content).graphs[0].ops]


def _assert_exact(content: bytes, compiled: bytes) -> None:
    inputs = random_inputs(content, 3)
    for mine, theirs in zip(npu.run(compiled, inputs=inputs).outputs, run_reference(content, inputs), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("kind", ["npu", "cpu", "both"])
def test_a_branch_leaves_the_file_as_it_is_without(kind: str) -> None:
    content = _with_branch(kind)
    compiled, plain = npu.compile(content), npu.compile(_without_branch())
    assert _kinds(compiled.content) == ["ethos-u"]
    assert compiled.compiled_model.usage == plain.compiled_model.usage
    _assert_exact(content, compiled.content)


def test_a_model_for_the_cpu_alone_loses_them_and_their_constants() -> None:
    content = _floats()
    compiled = npu.compile(content).content
    assert _kinds(compiled) == ["SIN"]
    assert len(compiled) < len(content) - 4 * 4000
    _assert_exact(content, compiled)
    assert npu.run(compiled, inputs={"x": np.zeros((1, 4), np.float32)}).outputs[0].tolist() == [[0.0] * 4]


def test_a_model_for_the_cpu_alone_that_has_none_is_written_as_it_is() -> None:
    content = _floats(with_branch=False)
    assert npu.compile(content).content == content


def test_its_signature_can_still_be_called() -> None:
    (signature,) = read_model(npu.compile(_floats()).content).signatures
    assert (signature.key, list(signature.inputs), list(signature.outputs)) == ("serve", ["x"], ["y"])
    assert signature.defect(read_model(npu.compile(_floats()).content).graphs[0]) is None


def test_they_keep_their_numbers_and_take_no_time() -> None:
    rows = npu.run(_with_branch("both")).report.operators
    assert [(row.index, row.type) for row in rows] == list(enumerate(("ADD", "CONV_2D", "DEQUANTIZE", "SIN")))
    assert [(row.cycles, row.macs) for row in rows[1:]] == [(0, 0)] * 3
    checked = npu.check_report(_with_branch("both")).operators
    assert [(row.base.cycles, row.base.macs, row.base.violations) for row in checked[1:]] == [(0, 0, ())] * 3


def test_without_work_for_the_npu_check_says_that_they_are_left_out() -> None:
    cos, sin = npu.check(_floats()).ops
    assert [violation.rule for violation in cos.violations] == [RULE]
    assert cos.violations[0].message == "COS is left out: its result is known before the model runs, or nobody reads it"
    assert RULE not in [violation.rule for violation in sin.violations]


@pytest.mark.parametrize(("kind", "which"), [("npu", "operator 1"), ("both", "operators 1-3")])
def test_check_compile_and_run_say_which(kind: str, which: str) -> None:
    content = _with_branch(kind)
    note = f"left out, since nobody reads their results: {which}"
    assert note in npu.check_report(content).notes
    for report in (npu.compile(content).report, npu.run(content).report):
        assert note in (report.notes or ())
    assert not npu.check_report(_without_branch()).notes


def test_diff_compares_the_rest() -> None:
    content = _with_branch("npu")
    found = npu.diff(content, npu.compile(content).content)
    assert found.first is None
    assert len(found.compared) == 1
    assert not found.skipped


def test_one_that_the_npu_could_run_makes_no_job_beside_operators_of_the_cpu() -> None:
    b = ModelBuilder()
    x = b.input((1, 4), F32)
    ints = b.input(SHAPE, I8, scale=0.5)
    b.op("ADD", [ints, ints], SHAPE, I8, 0.5, attributes=at.AddOptions())
    b.output(b.op("SIN", [x], (1, 4), F32))
    content = b.build()
    assert _kinds(npu.compile(content).content) == ["SIN"]
    _assert_exact(content, npu.compile(content).content)


def test_a_model_whose_output_is_its_input_needs_none() -> None:
    b = ModelBuilder()
    x = b.input(SHAPE, I8, scale=0.5)
    b.op("ADD", [x, x], SHAPE, I8, 0.5, attributes=at.AddOptions())
    b.output(x)
    assert _kinds(npu.compile(b.build()).content) == []


def test_a_body_of_a_loop_loses_its_own() -> None:
    content = _loop()
    compiled = npu.compile(content)
    assert [op.kind for op in read_model(compiled.content).graphs[2].ops] == ["ADD"]
    assert "left out, since nobody reads their results: operator 1 of subgraph 2" in (compiled.report.notes or ())
    _assert_exact(content, compiled.content)


def _loop() -> bytes:
    """60 added to x until it is 100 or more, in floats; the body takes its sine too, which nobody reads."""
    b = ModelBuilder()
    x = b.input((1,), F32)
    options = at.WhileOptions(b.subgraph(_condition()), b.subgraph(_body()))
    b.output(b.op("WHILE", [x], (1,), F32, attributes=options))
    return b.build()


def _condition() -> ModelBuilder:
    b = ModelBuilder("condition")
    x = b.input((1,), F32)
    b.output(b.op("LESS", [x, b.constant(np.array([100], np.float32))], (1,), DType.BOOL))
    return b


def _body() -> ModelBuilder:
    b = ModelBuilder("body")
    x = b.input((1,), F32)
    b.output(b.op("ADD", [x, b.constant(np.array([60], np.float32))], (1,), F32, attributes=at.AddOptions()))
    b.op("SIN", [x], (1,), F32)
    return b
