"""Control flow and resource variables against LiteRT over several runs, and what is refused before it could hang."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRt
from ai_edge_litert.interpreter import OpResolverType

from npu.errors import InterpreterError, UserError
from npu.graph import attributes as at
from npu.graph.attributes import Attributes
from npu.graph.dtype import DType
from npu.numerics.arrays import Array
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.operator import RuntimeOptions

from tests.support.builder import ModelBuilder
from tests.support.interpreters import invoke

F32, I32, BOOL, RESOURCE = DType.FLOAT32, DType.INT32, DType.BOOL, DType.RESOURCE


def _float(*values: float) -> Array:
    return np.array(values, np.float32)


def _count(value: int) -> Array:
    return np.array([value], np.int32)


def _binary(kind: str, constant: float, *, shape: int = 2) -> ModelBuilder:
    """A subgraph of one input: input (ADD or MUL) constant."""
    b = ModelBuilder(f"{kind} {constant}")
    options = at.AddOptions() if kind == "ADD" else at.MulOptions()
    x = b.input((shape,), F32)
    b.output(b.op(kind, [x, b.constant(_float(constant))], (shape,), F32, attributes=options))
    return b


def _repeat() -> ModelBuilder:
    """A subgraph of one input that gives it twice: another shape than its input."""
    b = ModelBuilder("twice")
    x = b.input((2,), F32)
    b.output(b.op("CONCATENATION", [x, x], (4,), F32, attributes=at.ConcatenationOptions(0)))
    return b


def _choice(then: ModelBuilder, other: ModelBuilder) -> bytes:
    b = ModelBuilder()
    c, x = b.input((1,), BOOL), b.input((2,), F32)
    b.output(b.op("IF", [c, x], (2,), F32, attributes=at.IfOptions(b.subgraph(then), b.subgraph(other))))
    return b.build()


def _below(limit: int) -> ModelBuilder:
    b = ModelBuilder("condition")
    count = b.input((1,), I32)
    b.input((2,), F32)
    b.output(b.op("LESS", [count, b.constant(_count(limit))], (1,), BOOL))
    return b


def _loop(body: Callable[[ModelBuilder, int], int], limit: int = 4) -> bytes:
    """A WHILE over a counter and a vector; `body` adds the operators that change the vector."""
    inner = ModelBuilder("body")
    count, x = inner.input((1,), I32), inner.input((2,), F32)
    following = inner.op("ADD", [count, inner.constant(_count(1))], (1,), I32, attributes=at.AddOptions())
    inner.output(following, body(inner, x))
    b = ModelBuilder()
    inputs = [b.input((1,), I32), b.input((2,), F32)]
    outputs = [b.tensor((1,), I32), b.tensor((2,), F32)]
    condition = b.subgraph(_below(limit))
    b.multi_op("WHILE", inputs, outputs, attributes=at.WhileOptions(condition, b.subgraph(inner)))
    b.output(*outputs)
    return b.build()


def _double(b: ModelBuilder, x: int) -> int:
    return b.op("ADD", [x, x], (2,), F32, attributes=at.AddOptions())


def _grow(b: ModelBuilder, x: int) -> int:
    one = b.constant(_float(7))
    return b.op("CONCATENATION", [x, one], (3,), F32, attributes=at.ConcatenationOptions(0))


def _nested() -> bytes:
    """A WHILE whose body is an IF whose branch is a WHILE."""
    b = ModelBuilder()
    inputs = [b.input((1,), I32), b.input((2,), F32)]
    inner_condition = b.subgraph(_below(3))
    inner_body = ModelBuilder("inner body")
    count, x = inner_body.input((1,), I32), inner_body.input((2,), F32)
    following = inner_body.op("ADD", [count, inner_body.constant(_count(1))], (1,), I32, attributes=at.AddOptions())
    inner_body.output(following, inner_body.op("NEG", [x], (2,), F32))
    inner = at.WhileOptions(inner_condition, b.subgraph(inner_body))
    looping = ModelBuilder("looping branch")
    x = looping.input((2,), F32)
    made = [looping.tensor((1,), I32), looping.tensor((2,), F32)]
    looping.multi_op("WHILE", [looping.constant(_count(0)), x], made, attributes=inner)
    looping.output(made[1])
    branches = at.IfOptions(b.subgraph(looping), b.subgraph(_binary("ADD", 10)))
    body = ModelBuilder("body")
    count, x = body.input((1,), I32), body.input((2,), F32)
    early = body.op("LESS", [count, body.constant(_count(2))], (1,), BOOL)
    result = body.op("IF", [early, x], (2,), F32, attributes=branches)
    body.output(body.op("ADD", [count, body.constant(_count(1))], (1,), I32, attributes=at.AddOptions()), result)
    outputs = [b.tensor((1,), I32), b.tensor((2,), F32)]
    options = at.WhileOptions(b.subgraph(_below(5)), b.subgraph(body))
    b.multi_op("WHILE", inputs, outputs, attributes=options)
    b.output(*outputs)
    return b.build()


def _handle(b: ModelBuilder, name: str) -> int:
    return b.op("VAR_HANDLE", [], (), RESOURCE, attributes=at.VarHandleOptions("box", name))


def _two_variables(*, initialised: bool) -> bytes:
    """Two resource variables that take turns, and a variable tensor beside them."""
    b = ModelBuilder()
    x = b.input((2,), F32)
    if initialised:
        start = ModelBuilder("start")
        for name, value in (("a", 1.0), ("b", 2.0)):
            start.multi_op("ASSIGN_VARIABLE", [_handle(start, name), start.constant(_float(value, -value))], [])
        b.multi_op("CALL_ONCE", [], [], attributes=at.CallOnceOptions(b.subgraph(start)))
    else:
        for name in "ab":
            b.multi_op("ASSIGN_VARIABLE", [_handle(b, name), x], [])
    first, second = _handle(b, "a"), _handle(b, "b")
    old = [b.op("READ_VARIABLE", [item], (2,), F32) for item in (first, second)]
    total = b.op("ADD", [old[0], x], (2,), F32, attributes=at.AddOptions())
    b.multi_op("ASSIGN_VARIABLE", [second, total], [])
    b.multi_op("ASSIGN_VARIABLE", [first, old[1]], [])
    weights = [b.constant(np.eye(2, dtype=np.float32)), b.constant(np.eye(2, dtype=np.float32)), b.constant(_float(0, 0))]
    row = b.op("RESHAPE", [total, b.constant(np.array([1, 2], np.int32))], (1, 2), F32, attributes=at.ReshapeOptions((1, 2)))
    b.output(b.op("RNN", [row, *weights, b.variable((1, 2), F32)], (1, 2), F32, attributes=at.RNNOptions()))
    b.output(total)
    return b.build()


def _signatures_share() -> bytes:
    """One signature writes a variable, the other reads it."""
    reader = ModelBuilder("read")
    value = reader.op("READ_VARIABLE", [_handle(reader, "v")], (2,), F32)
    reader.output(reader.op("NEG", [value], (2,), F32))
    b = ModelBuilder()
    x = b.input((2,), F32)
    b.multi_op("ASSIGN_VARIABLE", [_handle(b, "v"), x], [])
    y = b.op("NEG", [x], (2,), F32)
    b.output(y)
    other = b.subgraph(reader)
    b.signature("write", {"x": x}, {"y": y})
    b.signature("read", {}, {"y": len(reader.tensors) - 1}, graph=other)
    return b.build()


MODELS: dict[str, tuple[bytes, list[list[Array]]]] = {
    "if, one shape": (
        _choice(_binary("ADD", 3), _binary("MUL", 5)),
        [[np.array([c]), _float(1, 2)] for c in (True, False, True)],
    ),
    "if, two shapes": (_choice(_repeat(), _binary("MUL", 5)), [[np.array([c]), _float(1, 2)] for c in (True, False, True)]),
    "while, one shape": (_loop(_double), [[_count(n), _float(1, 2)] for n in (0, 3, 9)]),
    "while, growing": (_loop(_grow), [[_count(n), _float(1, 2)] for n in (0, 3, 9, 1)]),
    "nested": (_nested(), [[_count(n), _float(1, 2)] for n in (0, 1, 4, 9)]),
    "variables": (_two_variables(initialised=True), [[_float(i, -i)] for i in range(5)]),
    "variables assigned in the run": (_two_variables(initialised=False), [[_float(i, -i)] for i in range(3)]),
}


def _both(content: bytes) -> tuple[Any, Any]:
    reference = LiteRt(model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    return reference, CpuInterpreter(model_content=content)


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("reset", [False, True], ids=["running on", "variables reset between runs"])
def test_runs_equal_litert(name: str, reset: bool) -> None:
    content, turns = MODELS[name]
    reference, ours = _both(content)
    for interpreter in (reference, ours):
        interpreter.allocate_tensors()
    for inputs in turns:
        for expected, result in zip(invoke(reference, inputs), invoke(ours, inputs), strict=True):
            assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
            np.testing.assert_array_equal(result, expected)
        if reset:
            reference.reset_all_variables()
            ours.reset_all_variables()


@pytest.mark.parametrize("name", sorted(set(MODELS) - {"variables", "variables assigned in the run"}))
def test_outputs_have_litert_shapes_before_the_first_run(name: str) -> None:
    reference, ours = _both(MODELS[name][0])
    for interpreter in (reference, ours):
        interpreter.allocate_tensors()
    for expected, result in zip(reference.get_output_details(), ours.get_output_details(), strict=True):
        if "two shapes" not in name and "growing" not in name:
            assert result["shape"].tolist() == expected["shape"].tolist()


def test_signatures_share_variables() -> None:
    reference, ours = _both(_signatures_share())
    for value in (_float(1, 2), _float(5, 6)):
        results = []
        for interpreter in (reference, ours):
            interpreter.get_signature_runner("write")(x=value)
            results.append(interpreter.get_signature_runner("read")()["y"])
        np.testing.assert_array_equal(results[0], results[1])


# --- what is refused ----------------------------------------------------------------------------------------------------------


def _caller(kind: str, options: Attributes, inputs: list[tuple[Any, DType]]) -> ModelBuilder:
    b = ModelBuilder()
    given = [b.input(shape, dtype) for shape, dtype in inputs]
    made = [] if kind == "CALL_ONCE" else [b.tensor(shape, dtype) for shape, dtype in inputs[1 if kind == "IF" else 0 :]]
    b.multi_op(kind, given, made, attributes=options)
    b.output(*made)
    return b


IF_INPUTS = [((1,), BOOL), ((2,), F32)]
LOOP_INPUTS = [((1,), I32), ((2,), F32)]
REFUSED = {
    "itself": (_caller("IF", at.IfOptions(0, 0), IF_INPUTS), [], "must not call themselves"),
    "in a ring": (
        _caller("IF", at.IfOptions(1, 1), IF_INPUTS),
        [_caller("IF", at.IfOptions(2, 2), IF_INPUTS), _caller("IF", at.IfOptions(1, 1), IF_INPUTS)],
        r"must not call themselves, got a cycle through \[0, 1, 2\]",
    ),
    "missing": (_caller("IF", at.IfOptions(1, 7), IF_INPUTS), [_binary("ADD", 1)], r"in \[0, 2\), got 7"),
    "negative": (_caller("IF", at.IfOptions(-1, 1), IF_INPUTS), [_binary("ADD", 1)], r"in \[0, 2\), got -1"),
    "types": (_caller("IF", at.IfOptions(1, 1), [((1,), BOOL), ((2,), I32)]), [_binary("ADD", 1)], "must have the types"),
    "count": (_caller("IF", at.IfOptions(1, 1), [((1,), BOOL)]), [_binary("ADD", 1)], "inputs must have the types"),
    "condition of two": (
        _caller("IF", at.IfOptions(1, 1), [((2,), BOOL), ((2,), F32)]), [_binary("ADD", 1)], "condition must have one element",
    ),
    "one subgraph for both": (_caller("WHILE", at.WhileOptions(1, 1), LOOP_INPUTS), [_below(3)], "must be two subgraphs"),
    "condition without bool": (
        _caller("WHILE", at.WhileOptions(1, 2), LOOP_INPUTS), [_binary("ADD", 1), _below(3)], "must have one bool output",
    ),
    "results of the body": (
        _caller("WHILE", at.WhileOptions(1, 2), LOOP_INPUTS),
        [_below(3), _below(4)],
        "subgraph 2 must have 2 outputs, got 1",
    ),
    "arguments of an initialisation": (
        _caller("CALL_ONCE", at.CallOnceOptions(1), []), [_binary("ADD", 1)], "must have neither inputs nor outputs",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_calls_that_cannot_work_are_refused_when_allocating(case: str) -> None:
    main, others, message = REFUSED[case]
    b = ModelBuilder()
    b.__dict__.update(main.__dict__, more_graphs=[])
    for other in others:
        b.subgraph(other)
    with pytest.raises(UserError, match=message):
        CpuInterpreter(model_content=b.build()).allocate_tensors()


def test_an_unsupported_branch_is_refused_when_allocating() -> None:
    branch = ModelBuilder("branch")
    x = branch.input((2,), F32)
    branch.output(branch.op("CONCAT_EMBEDDINGS", [x], (2,), F32))
    with pytest.raises(InterpreterError, match=r"concat_embeddings \(op 0 of subgraph 1\)"):
        CpuInterpreter(model_content=_choice(branch, _binary("ADD", 1))).allocate_tensors()


@pytest.mark.parametrize(("count", "fits"), [(62, True), (500, False)])
def test_deep_nesting_is_refused_before_anything_runs(count: int, fits: bool) -> None:
    b = _caller("IF", at.IfOptions(1, 1), IF_INPUTS)
    for index in range(1, count + 1):
        inner = ModelBuilder(f"level {index}")
        x = inner.input((2,), F32)
        options = at.CallOptions(index + 1)
        inner.output(inner.op("CALL", [x], (2,), F32, attributes=options))
        b.subgraph(inner)
    b.subgraph(_binary("ADD", 1))
    interpreter = CpuInterpreter(model_content=b.build())
    if not fits:
        with pytest.raises(InterpreterError, match="calls must nest at most 64 deep"):
            interpreter.allocate_tensors()
        return
    interpreter.allocate_tensors()
    np.testing.assert_array_equal(invoke(interpreter, [np.array([True]), _float(1, 2)])[0], _float(2, 3))


@pytest.mark.parametrize(("levels", "fits"), [(5, True), (40, False)])
def test_calls_that_double_at_every_level_are_refused_before_anything_runs(levels: int, fits: bool) -> None:
    b = ModelBuilder()
    b.output(b.op("CALL", [b.input((2,), F32)], (2,), F32, attributes=at.CallOptions(1)))
    for index in range(1, levels):
        inner = ModelBuilder(f"level {index}")
        x = inner.input((2,), F32)
        for _ in range(2):
            x = inner.op("CALL", [x], (2,), F32, attributes=at.CallOptions(index + 1))
        inner.output(x)
        b.subgraph(inner)
    b.subgraph(_binary("ADD", 1))
    interpreter = CpuInterpreter(model_content=b.build())
    if not fits:
        with pytest.raises(InterpreterError, match=r"one inference must make at most 1,000,000 calls, got 1\.1e\+12"):
            interpreter.allocate_tensors()
        return
    interpreter.allocate_tensors()
    np.testing.assert_array_equal(invoke(interpreter, [_float(1, 2)])[0], _float(17, 18))


def test_a_branch_whose_input_is_a_constant_is_refused() -> None:
    branch = ModelBuilder("branch")
    x = branch.constant(_float(1, 2), F32)
    branch.inputs.append(x)
    branch.output(branch.op("NEG", [x], (2,), F32))
    with pytest.raises(InterpreterError, match="must take a value, got a constant"):
        CpuInterpreter(model_content=_choice(branch, _binary("ADD", 1))).allocate_tensors()


def test_a_loop_can_be_limited() -> None:
    interpreter = CpuInterpreter(model_content=_loop(_double, 10), options=RuntimeOptions(while_limit=6))
    interpreter.allocate_tensors()
    invoke(interpreter, [_count(4), _float(1, 2)])
    with pytest.raises(InterpreterError, match=r"while \(op 0 .*must end within 6 iterations \(option while_limit\)"):
        invoke(interpreter, [_count(3), _float(1, 2)])
    np.testing.assert_array_equal(invoke(interpreter, [_count(9), _float(1, 2)])[1], _float(2, 4))


def test_an_endless_loop_can_be_interrupted() -> None:
    """Ctrl-C, and every other signal whose handler raises, ends an invoke; the interpreter stays usable."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    interpreter = CpuInterpreter(model_content=_loop(_double, 2**31 - 1))
    interpreter.allocate_tensors()
    former = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            invoke(interpreter, [_count(0), _float(0, 0)])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
    np.testing.assert_array_equal(invoke(interpreter, [_count(2**31 - 2), _float(1, 2)])[1], _float(2, 4))
