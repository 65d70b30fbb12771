"""The interpreter's call shapes: the same script on ours and on LiteRT's, and the errors of wrong use."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRt
from ai_edge_litert.interpreter import OpResolverType as LiteRtResolver

from npu.errors import InterpreterError
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.runtime.dummy import create_dummy_delegate
from npu.runtime.interpreter import CpuInterpreter, OpResolverType
from npu.runtime.operator import RuntimeOptions

from tests.support.builder import ModelBuilder

Make = Callable[..., Any]
BOTH = pytest.mark.parametrize("make", [pytest.param(CpuInterpreter, id="ours"), pytest.param(LiteRt, id="litert")])


def _two_inputs() -> bytes:
    b = ModelBuilder()
    x = b.input((1, 4), DType.FLOAT32, name="x", shape_signature=(-1, 4))
    y = b.input((1, 4), DType.FLOAT32, name="y", shape_signature=(-1, 4))
    total = b.op("ADD", [x, y], (1, 4), DType.FLOAT32, name="total", attributes=at.AddOptions())
    product = b.op("MUL", [total, y], (1, 4), DType.FLOAT32, name="product", attributes=at.MulOptions())
    b.output(product, total)
    b.signature("both", {"a": x, "b": y}, {"sum": total, "product": product})
    return b.build()


def _script(interpreter: Any) -> list[Any]:
    """An application as people write it."""
    interpreter.allocate_tensors()
    first, second = interpreter.get_input_details()
    interpreter.set_tensor(first["index"], np.array([[1, 2, 3, 4]], np.float32))
    interpreter.tensor(second["index"])()[:] = 2.0
    interpreter.invoke()
    results = [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]
    interpreter.resize_tensor_input(first["index"], [3, 4])
    interpreter.resize_tensor_input(second["index"], [3, 4])
    interpreter.allocate_tensors()
    interpreter.set_tensor(first["index"], np.arange(12, dtype=np.float32).reshape(3, 4))
    interpreter.set_tensor(second["index"], np.full((3, 4), 0.5, np.float32))
    interpreter.invoke()
    return results + [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def test_a_script_gives_the_same_results_after_changing_the_import() -> None:
    for ours, theirs in zip(
        _script(CpuInterpreter(model_content=_two_inputs())), _script(LiteRt(model_content=_two_inputs())), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.shape == theirs.shape


def test_tensor_details_have_the_keys_and_values_of_litert() -> None:
    b = ModelBuilder()
    x = b.input((1, 2, 2, 3), DType.INT8, scale=0.5, zero_point=-7, name="x")
    b.output(b.op("RELU", [x], (1, 2, 2, 3), DType.INT8, scale=0.25, zero_point=-128, name="y"))
    content = b.build()
    ours, theirs = CpuInterpreter(model_content=content), LiteRt(model_content=content)
    ours.allocate_tensors()
    theirs.allocate_tensors()
    for mine, other in zip(
        ours.get_input_details() + ours.get_output_details(),
        theirs.get_input_details() + theirs.get_output_details(),
        strict=True,
    ):
        assert set(mine) == set(other)
        for key in ("name", "index", "dtype", "quantization"):
            assert mine[key] == other[key]
        for key in ("shape", "shape_signature"):
            np.testing.assert_array_equal(mine[key], other[key])
            assert mine[key].dtype == other[key].dtype
        for key, value in other["quantization_parameters"].items():
            np.testing.assert_array_equal(mine["quantization_parameters"][key], value)


@BOTH
def test_signature_runner_takes_and_returns_names(make: Make) -> None:
    interpreter = make(model_content=_two_inputs())
    assert interpreter.get_signature_list() == {"both": {"inputs": ["a", "b"], "outputs": ["product", "sum"]}}
    runner = interpreter.get_signature_runner()
    result = runner(a=np.ones((1, 4), np.float32), b=np.full((1, 4), 3, np.float32))
    assert sorted(result) == ["product", "sum"]
    np.testing.assert_array_equal(result["product"], np.full((1, 4), 12, np.float32))
    assert sorted(runner.get_input_details()) == ["a", "b"]
    assert runner.get_output_details()["sum"]["name"] == "total"


@BOTH
def test_signature_runner_resizes_to_its_arguments(make: Make) -> None:
    runner = make(model_content=_two_inputs()).get_signature_runner("both")
    result = runner(a=np.ones((5, 4), np.float32), b=np.full((5, 4), 3, np.float32))
    assert result["sum"].shape == (5, 4)


@BOTH
@pytest.mark.parametrize(
    "misuse",
    [
        pytest.param(lambda i: i.set_tensor(0, np.zeros((1, 4), np.int8)), id="type"),
        pytest.param(lambda i: i.set_tensor(0, np.zeros((2, 4), np.float32)), id="shape"),
        pytest.param(lambda i: i.set_tensor(99, np.zeros((1, 4), np.float32)), id="index"),
        pytest.param(lambda i: i.get_signature_runner("nothing"), id="signature"),
        pytest.param(lambda i: i.get_signature_runner()(a=np.zeros((1, 4), np.float32)), id="missing argument"),
        pytest.param(lambda i: i.resize_tensor_input(0, [1, 5], strict=True), id="strict resize"),
        pytest.param(lambda i: i.get_tensor(-5), id="negative index"),
    ],
)
def test_wrong_data_is_a_value_error(make: Make, misuse: Callable[[Any], Any]) -> None:
    interpreter = make(model_content=_two_inputs())
    interpreter.allocate_tensors()
    with pytest.raises((ValueError, RuntimeError)):
        misuse(interpreter)


@BOTH
def test_invoke_before_allocation_is_refused(make: Make) -> None:
    with pytest.raises((RuntimeError, ValueError)):
        make(model_content=_two_inputs()).invoke()


@BOTH
@pytest.mark.parametrize("threads", [0, -3, 1.5])
def test_bad_thread_counts_are_refused(make: Make, threads: Any) -> None:
    with pytest.raises(ValueError, match="num_threads"):
        make(model_content=_two_inputs(), num_threads=threads)


@BOTH
def test_a_model_must_be_given_once(make: Make) -> None:
    with pytest.raises(ValueError, match="model_path"):
        make()


def test_errors_name_what_must_be_what() -> None:
    interpreter = CpuInterpreter(model_content=_two_inputs())
    with pytest.raises(InterpreterError, match="allocate_tensors must be called first"):
        interpreter.invoke()
    interpreter.allocate_tensors()
    with pytest.raises(InterpreterError, match=r"'x' must get shape \[1, 4\], got \[2, 4\]"):
        interpreter.set_tensor(0, np.zeros((2, 4), np.float32))
    with pytest.raises(InterpreterError, match=r"'x' must get values of type float32, got int8"):
        interpreter.set_tensor(0, np.zeros((1, 4), np.int8))
    with pytest.raises(InterpreterError, match=r"signature_key must be one of \['both'\], got 'nothing'"):
        interpreter.get_signature_runner("nothing")
    with pytest.raises(InterpreterError, match=r"subgraph index must be in \[0, 1\), got 4"):
        interpreter.get_tensor(0, 4)
    with pytest.raises(InterpreterError, match=r"must be one of the inputs \[0, 1\], got 2"):
        interpreter.resize_tensor_input(2, [1, 4])
    with pytest.raises(InterpreterError, match="not be negative"):
        interpreter.resize_tensor_input(0, [-1, 4])


def test_unsupported_types_are_refused_when_allocating() -> None:
    b = ModelBuilder()
    x = b.input((2,), DType.INT64)
    b.output(b.op("SOFTMAX", [x], (2,), DType.INT64, attributes=at.SoftmaxOptions(1.0)))
    interpreter = CpuInterpreter(model_content=b.build())
    with pytest.raises(InterpreterError, match=r"softmax \(op 0 of subgraph 0\): types must be one of .*, got i64 -> i64"):
        interpreter.allocate_tensors()


@pytest.mark.seed("T-N-4")
def test_operators_without_kernel_are_named() -> None:
    b = ModelBuilder()
    x = b.input((2, 2), DType.FLOAT32)
    b.output(b.op("CONCAT_EMBEDDINGS", [x], (2, 2), DType.FLOAT32))
    with pytest.raises(InterpreterError, match=r"concat_embeddings .* must be an operator that has a CPU kernel, got CONCAT"):
        CpuInterpreter(model_content=b.build()).allocate_tensors()


@pytest.mark.seed("T-N-4")
@pytest.mark.parametrize(
    ("kind", "inputs", "outputs"),
    [("EMBEDDING_LOOKUP_SPARSE", 5, 1), ("HASHTABLE_LOOKUP", 3, 2), ("LSH_PROJECTION", 2, 1), ("SKIP_GRAM", 1, 1)],
)
def test_operators_of_the_guide_that_are_not_ready_refuse_types_that_they_never_have(
    kind: str, inputs: int, outputs: int
) -> None:
    b = ModelBuilder()
    x = b.input((2, 2), DType.FLOAT32)
    made = [b.tensor((2, 2), DType.FLOAT32) for _ in range(outputs)]
    b.multi_op(kind, [x] * inputs, made)
    b.output(made[0])
    with pytest.raises(InterpreterError, match=rf"{kind.lower()} \(op 0 of subgraph 0\): types must be one of"):
        CpuInterpreter(model_content=b.build()).allocate_tensors()


def test_a_path_and_the_other_arguments_of_litert_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(_two_inputs())
    interpreter = CpuInterpreter(
        str(path),
        num_threads=2,
        experimental_preserve_all_tensors=True,
        experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
    )
    interpreter.allocate_tensors()
    assert interpreter.num_subgraphs() == 1
    assert [d["name"] for d in interpreter.get_tensor_details()] == ["x", "y", "total", "product"]


def test_results_are_copies_and_views_follow_the_buffer() -> None:
    interpreter = CpuInterpreter(model_content=_two_inputs())
    interpreter.allocate_tensors()
    before = interpreter.get_tensor(3)
    view = interpreter.tensor(0)
    view()[:] = 5
    interpreter.invoke()
    assert not before.any()
    np.testing.assert_array_equal(interpreter.get_tensor(0), np.full((1, 4), 5, np.float32))


def test_a_held_view_stops_calls_that_could_move_it() -> None:
    interpreter = CpuInterpreter(model_content=_two_inputs())
    interpreter.allocate_tensors()
    part = interpreter.tensor(0)()[0, 1:]
    for call in (interpreter.invoke, interpreter.allocate_tensors, lambda: interpreter.resize_tensor_input(0, [2, 4])):
        with pytest.raises(RuntimeError, match="arrays that it returned must be gone"):
            call()
    del part
    interpreter.invoke()


def test_kinds_of_op_resolvers_are_those_of_litert() -> None:
    for kind in (None, OpResolverType.BUILTIN_REF, LiteRtResolver.BUILTIN_WITHOUT_DEFAULT_DELEGATES):
        CpuInterpreter(model_content=_two_inputs(), experimental_op_resolver_type=kind)
    with pytest.raises(ValueError, match=r"op resolver type must be one of \['AUTO', .*\], got 'fast'"):
        CpuInterpreter(model_content=_two_inputs(), experimental_op_resolver_type="fast")


def test_what_operators_are_to_blame_for_is_a_runtime_error() -> None:
    """As from LiteRT's allocate_tensors and invoke; a file that is no model is a ValueError."""
    b = ModelBuilder()
    b.output(
        b.op("EMBEDDING_LOOKUP", [b.input((1,), DType.INT32), b.constant(np.eye(2, dtype=np.float32))], (1, 2), DType.FLOAT32)
    )
    for make in (CpuInterpreter, LiteRt):
        interpreter = make(model_content=b.build())
        interpreter.allocate_tensors()
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], np.array([7], np.int32))
        with pytest.raises(RuntimeError):
            interpreter.invoke()
        with pytest.raises(ValueError, match=r"(?i)model"):
            make(model_content=b"no model of any kind, only text")


def test_profile_names_every_step() -> None:
    interpreter = CpuInterpreter(model_content=_two_inputs())
    interpreter.allocate_tensors()
    interpreter.start_profile()
    interpreter.invoke()
    assert [(graph, node, name) for graph, node, name, _ in interpreter.take_profile()] == [(0, 0, "ADD"), (0, 1, "MUL")]


@BOTH
def test_shapes_computed_while_running(make: Make) -> None:
    b = ModelBuilder()
    x, size = b.input((2, 6), DType.FLOAT32), b.input((2,), DType.INT32)
    y = b.op("RESHAPE", [x, size], (1, 1), DType.FLOAT32, attributes=at.ReshapeOptions())
    b.output(b.op("NEG", [y], (1, 1), DType.FLOAT32))
    interpreter = make(model_content=b.build())
    interpreter.allocate_tensors()
    for shape in ([3, 4], [12, 1], [4, 3]):
        interpreter.set_tensor(x, np.arange(12, dtype=np.float32).reshape(2, 6))
        interpreter.set_tensor(size, np.array(shape, np.int32))
        interpreter.invoke()
        result = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
        np.testing.assert_array_equal(result, -np.arange(12, dtype=np.float32).reshape(shape))


def test_a_delegate_does_not_judge_shapes_of_the_last_run_after_a_resize() -> None:
    b = ModelBuilder()
    x, size, z = b.input((2, 6), DType.FLOAT32), b.input((2,), DType.INT32), b.input((3, 4), DType.FLOAT32)
    y = b.op("RESHAPE", [x, size], (3, 4), DType.FLOAT32, attributes=at.ReshapeOptions())
    b.output(b.op("PACK", [y, z], (2, 3, 4), DType.FLOAT32, attributes=at.PackOptions(2, 0)))
    interpreter = CpuInterpreter(model_content=b.build(), experimental_delegates=[create_dummy_delegate()])
    for rows, shape in ((2, (3, 4)), (3, (6, 3))):
        given, other = np.arange(rows * 6, dtype=np.float32), np.ones(shape, np.float32)
        interpreter.resize_tensor_input(x, (rows, 6))
        interpreter.resize_tensor_input(z, shape)
        interpreter.allocate_tensors()
        for index, value in ((x, given.reshape(rows, 6)), (size, np.array(shape, np.int32)), (z, other)):
            interpreter.set_tensor(index, value)
        interpreter.invoke()
        result = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
        np.testing.assert_array_equal(result, np.stack([given.reshape(shape), other]))


def _branch(kind: str) -> ModelBuilder:
    b = ModelBuilder(kind.lower())
    x = b.input((2,), DType.FLOAT32)
    y = b.input((2,), DType.FLOAT32)
    options = at.AddOptions() if kind == "ADD" else at.MulOptions()
    b.output(b.op(kind, [x, y], (2,), DType.FLOAT32, attributes=options))
    return b


@BOTH
def test_if_runs_the_chosen_branch(make: Make) -> None:
    b = ModelBuilder()
    condition, x, y = b.input((1,), DType.BOOL), b.input((2,), DType.FLOAT32), b.input((2,), DType.FLOAT32)
    then, other = b.subgraph(_branch("ADD")), b.subgraph(_branch("MUL"))
    b.output(b.op("IF", [condition, x, y], (2,), DType.FLOAT32, attributes=at.IfOptions(then, other)))
    interpreter = make(model_content=b.build())
    interpreter.allocate_tensors()
    for chosen, expected in ((True, [4.0, 6.0]), (False, [3.0, 8.0])):
        interpreter.set_tensor(condition, np.array([chosen]))
        interpreter.set_tensor(x, np.array([1, 2], np.float32))
        interpreter.set_tensor(y, np.array([3, 4], np.float32))
        interpreter.invoke()
        result = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
        np.testing.assert_array_equal(result, np.array(expected, np.float32))


def _while_model() -> bytes:
    condition = ModelBuilder("condition")
    count, _ = condition.input((1,), DType.INT32), condition.input((1,), DType.INT32)
    limit = condition.constant(np.array([5], np.int32))
    condition.output(condition.op("LESS", [count, limit], (1,), DType.BOOL))
    body = ModelBuilder("body")
    count, total = body.input((1,), DType.INT32), body.input((1,), DType.INT32)
    one = body.constant(np.array([1], np.int32))
    following = body.op("ADD", [count, one], (1,), DType.INT32, attributes=at.AddOptions())
    body.output(following, body.op("ADD", [total, following], (1,), DType.INT32, attributes=at.AddOptions()))
    b = ModelBuilder()
    inputs = [b.input((1,), DType.INT32), b.input((1,), DType.INT32)]
    outputs = [b.tensor((1,), DType.INT32), b.tensor((1,), DType.INT32)]
    b.multi_op("WHILE", inputs, outputs, attributes=at.WhileOptions(b.subgraph(condition), b.subgraph(body)))
    b.output(*outputs)
    return b.build()


@BOTH
def test_while_repeats_its_body(make: Make) -> None:
    interpreter = make(model_content=_while_model())
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.array([0], np.int32))
    interpreter.set_tensor(1, np.array([100], np.int32))
    interpreter.invoke()
    details = interpreter.get_output_details()
    assert [int(interpreter.get_tensor(d["index"])[0]) for d in details] == [5, 115]


def _counter() -> bytes:
    """Adds its input to a variable that an initialisation subgraph sets to 10."""
    start = ModelBuilder("start")
    handle = start.op("VAR_HANDLE", [], (), DType.RESOURCE, attributes=at.VarHandleOptions("", "count"))
    start.multi_op("ASSIGN_VARIABLE", [handle, start.constant(np.array([10.0], np.float32))], [])
    b = ModelBuilder()
    x = b.input((1,), DType.FLOAT32)
    b.multi_op("CALL_ONCE", [], [], attributes=at.CallOnceOptions(b.subgraph(start)))
    handle = b.op("VAR_HANDLE", [], (), DType.RESOURCE, attributes=at.VarHandleOptions("", "count"))
    value = b.op("READ_VARIABLE", [handle], (1,), DType.FLOAT32)
    total = b.op("ADD", [value, x], (1,), DType.FLOAT32, attributes=at.AddOptions())
    b.multi_op("ASSIGN_VARIABLE", [handle, total], [])
    b.output(total)
    return b.build()


def _running(content: bytes, make: Callable[..., Any]) -> list[Any]:
    """Last outputs of a recurrent operator over calls that keep and that reset its state."""
    interpreter = make(model_content=content)
    results = []
    for time in (3, 3, 2, 2):
        interpreter.resize_tensor_input(0, (1, time, 4))
        interpreter.allocate_tensors()
        interpreter.set_tensor(0, np.full((1, time, 4), 0.1, np.float32))
        interpreter.invoke()
        results.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"])[0, -1])
    return results


def test_a_new_shape_resets_variable_tensors_and_an_equal_one_does_not() -> None:
    b = ModelBuilder()
    generator = np.random.default_rng(0)
    x = b.input((1, 3, 4), DType.FLOAT32)
    weights = [b.constant(generator.standard_normal(shape).astype(np.float32)) for shape in ((5, 4), (5, 5), (5,))]
    state = b.variable((1, 5), DType.FLOAT32)
    options = at.SequenceRNNOptions(fused_activation_function=at.FusedActivation.RELU6)
    b.output(b.op("UNIDIRECTIONAL_SEQUENCE_RNN", [x, *weights, state], (1, 3, 5), DType.FLOAT32, attributes=options))
    content = b.build()
    expected = _running(content, partial(LiteRt, experimental_op_resolver_type=LiteRtResolver.BUILTIN_REF))
    for ours, reference in zip(_running(content, CpuInterpreter), expected, strict=True):
        np.testing.assert_allclose(ours, reference, rtol=1e-5)


@BOTH
def test_resource_variables_keep_their_value_between_runs(make: Make) -> None:
    interpreter = make(model_content=_counter())
    interpreter.allocate_tensors()
    totals = []
    for _ in range(3):
        interpreter.set_tensor(0, np.array([2.0], np.float32))
        interpreter.invoke()
        totals.append(float(interpreter.get_tensor(interpreter.get_output_details()[0]["index"])[0]))
    assert totals == [12.0, 14.0, 16.0]


def test_fully_connected_offers_the_rounding_of_the_npu() -> None:
    """An accumulator of -1 with factor 1/2 is a tie: -1 with ties away from zero in both rules; 2**-31 below it they differ."""
    b = ModelBuilder()
    x = b.input((1, 1), DType.INT8, scale=1.0)
    weights = b.constant(np.array([[1]], np.int8), scale=0.49999997)
    b.output(b.op("FULLY_CONNECTED", [x, weights, None], (1, 1), DType.INT8, scale=1.0, attributes=at.FullyConnectedOptions()))
    results = []
    for rounding in ("double", "npu"):
        interpreter = CpuInterpreter(model_content=b.build(), options=RuntimeOptions(fully_connected_rounding=rounding))
        interpreter.allocate_tensors()
        interpreter.set_tensor(0, np.array([[1]], np.int8))
        interpreter.invoke()
        results.append(int(interpreter.get_tensor(interpreter.get_output_details()[0]["index"])[0, 0]))
    assert results == [0, 1]
