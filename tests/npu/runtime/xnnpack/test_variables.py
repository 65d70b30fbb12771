"""Resource variables in the delegate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npu.errors import InterpreterError
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.runtime.interpreter import CpuInterpreter

from tests.support.builder import ModelBuilder
from tests.support.interpreters import run
from tests.support.litert import run_reference
from tests.support.xnnpack import delegated

F32 = DType.FLOAT32


def counter(shape: tuple[int, ...] = (3,), read_shape: tuple[int, ...] = (3,)) -> bytes:
    """state = state + x; the output is the new state."""
    b = ModelBuilder()
    x = b.input(shape, F32)
    handle = b.op("VAR_HANDLE", [], (), DType.RESOURCE, attributes=at.VarHandleOptions("", "state"))
    old = b.op("READ_VARIABLE", [handle], read_shape, F32, attributes=at.ReadVariableOptions())
    new = b.op("ADD", [old, x], shape, F32, attributes=at.AddOptions())
    b.multi_op("ASSIGN_VARIABLE", [handle, new], [], attributes=at.AssignVariableOptions())
    b.output(new)
    return b.build()


def resources(interpreter: CpuInterpreter) -> dict[Any, Any]:
    return interpreter._state.resources


@pytest.mark.seed("X-R-1")
def test_variable_operators_are_taken_only_with_the_option() -> None:
    for on in (False, True):
        interpreter, delegate = delegated(counter(), variable_operators=on)
        taken = {index for step in interpreter.execution_plan() for index in step["replaces"]}
        assert taken == ({0, 1, 2, 3} if on else {2})
        assert ("X-R-1" in " ".join(delegate.refusal_table().values())) is not on


@pytest.mark.seed("X-R-2")
@pytest.mark.parametrize("on", [False, True])
def test_values_live_in_the_delegate_or_in_the_interpreter(on: bool) -> None:
    interpreter, _ = delegated(counter(), variable_operators=on)
    x = np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(run(interpreter, [x])[0], x)
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]), 2 * x)
    assert bool(resources(interpreter)) is not on


@pytest.mark.seed("X-R-1")
def test_an_assigned_value_is_read_as_by_the_reference() -> None:
    b = ModelBuilder()
    x = b.input((3,), F32)
    handle = b.op("VAR_HANDLE", [], (), DType.RESOURCE, attributes=at.VarHandleOptions("", "state"))
    b.multi_op("ASSIGN_VARIABLE", [handle, x], [], attributes=at.AssignVariableOptions())
    old = b.op("READ_VARIABLE", [handle], (3,), F32, attributes=at.ReadVariableOptions())
    b.output(b.op("NEG", [old], (3,), F32))
    content, value = b.build(), np.array([1, 2, 3], np.float32)
    interpreter, _ = delegated(content, variable_operators=True)
    np.testing.assert_array_equal(run(interpreter, [value])[0], run_reference(content, [value])[0])


def test_interpreters_with_delegates_of_their_own_have_variables_of_their_own() -> None:
    x = np.ones(3, np.float32)
    first, second = (delegated(counter(), variable_operators=True)[0] for _ in range(2))
    run(first, [x])
    np.testing.assert_array_equal(run(second, [x])[0], x)


def test_a_delegate_forgets_the_variables_of_an_interpreter_that_is_closed() -> None:
    x = np.ones(3, np.float32)
    first, delegate = delegated(counter(), variable_operators=True)
    run(first, [x])
    first.close()
    second = CpuInterpreter(model_content=counter(), experimental_delegates=[delegate])
    np.testing.assert_array_equal(run(second, [x])[0], x)


def test_a_value_of_another_shape_is_refused() -> None:
    interpreter, _ = delegated(counter((2, 3), (3,)), variable_operators=True)
    x = np.ones((2, 3), np.float32)
    run(interpreter, [x])
    with pytest.raises(InterpreterError, match=r"value must be float32 of shape \[3\], got float32 of shape \[2, 3\]"):
        interpreter.invoke()
