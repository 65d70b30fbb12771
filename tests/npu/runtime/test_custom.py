"""Custom operators that are registered by name."""

from __future__ import annotations

import numpy as np
import pytest

from npu.errors import InterpreterError
from npu.graph.dtype import DType
from npu.runtime.custom import CustomOperator, register_custom_operator, unregister_custom_operator
from npu.runtime.delegate import Context, Node, Status
from npu.runtime.interpreter import Interpreter

from tests.support.builder import ModelBuilder
from tests.support.delegates import run


@pytest.mark.seed("T-N-3")
def test_custom_operators_run_by_name() -> None:
    b = ModelBuilder()
    x = b.input((2, 3), DType.FLOAT32)
    b.output(b.op("CUSTOM", [x], (1,), DType.FLOAT32, custom_code="double-it", custom_options=b"\x02"))
    content = b.build()
    with pytest.raises(
        InterpreterError, match=r"custom operator 'double-it'.*must have a registered kernel or be taken by a delegate"
    ):
        Interpreter(model_content=content).allocate_tensors()

    def prepare(context: Context, node: Node) -> Status:
        context.resize_tensor(node.outputs[0], context.tensors[node.inputs[0]].shape)
        return Status.OK

    def invoke(context: Context, node: Node) -> Status:
        context.tensors[node.outputs[0]].array[...] = context.tensors[node.inputs[0]].array * node.user_data
        return Status.OK

    register_custom_operator("double-it", CustomOperator(invoke, prepare, lambda context, options: options[0]))
    try:
        with pytest.raises(InterpreterError, match="must be registered once"):
            register_custom_operator("double-it", CustomOperator(invoke))
        result = run(Interpreter(model_content=content), np.ones((2, 3), np.float32))
    finally:
        unregister_custom_operator("double-it")
    np.testing.assert_array_equal(result, np.full((2, 3), 2, np.float32))
    with pytest.raises(InterpreterError, match="must be registered before it is removed"):
        unregister_custom_operator("double-it")
