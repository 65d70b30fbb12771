"""Buffer handles: which copy of a tensor is newer, when it is copied, and when a handle is freed."""

from __future__ import annotations

import numpy as np
import pytest

from npu.errors import InterpreterError
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.runtime.delegate import Context, Node, Status
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.plugins import LoadedDelegate
from npu.runtime.tensor import RuntimeTensor

from tests.support.builder import ModelBuilder
from tests.support.delegates import C, RawDelegate, RawDelegateWithFree, X, chain, run


@pytest.mark.seed("D-R-1", "D-R-2", "D-R-3", "D-R-4", "D-R-6", "D-R-7", "D-R-8", "D-R-9", "D-R-10", "D-R-11", "D-R-13", "Z-12")
def test_a_raw_delegate_hands_out_buffers_that_are_copied_only_when_read() -> None:
    delegate = RawDelegate()
    interpreter = CpuInterpreter(model_content=chain("ADD"), experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, X)
    interpreter.invoke()
    assert delegate.events == ["init [0]"]
    np.testing.assert_array_equal(interpreter.get_tensor(2), X + C)
    np.testing.assert_array_equal(interpreter.get_tensor(2), X + C)
    assert delegate.events == ["init [0]", "copy from 7"]


@pytest.mark.seed("D-R-11")
def test_cpu_operators_see_the_data_of_a_delegate_before_them() -> None:
    delegate = RawDelegate()
    interpreter = CpuInterpreter(model_content=chain("ADD", "MUL"), experimental_delegates=[delegate])
    np.testing.assert_array_equal(run(interpreter), (X + C) * C)
    assert delegate.events == ["init [0]", "copy from 7"]


class Store(RawDelegateWithFree):
    """Keeps every tensor in its own memory and notes each copy."""

    def _invoke(self, context: Context, node: Node) -> Status:
        (index,) = node.user_data["nodes"]
        step, _ = context.get_node_and_registration(index)
        source, output = context.tensors[step.inputs[0]], context.tensors[step.outputs[0]]
        left = self.buffers[source.buffer_handle] if source.delegate is self else source.array
        self.buffers[7] = left + context.tensors[step.inputs[1]].array
        output.delegate, output.buffer_handle, output.data_is_stale = self, 7, True
        return Status.OK

    def copy_to_buffer_handle(self, context: Context, buffer_handle: int, tensor: RuntimeTensor) -> Status:  # type: ignore[override]
        self.events.append(f"copy to {buffer_handle}")
        self.buffers[buffer_handle] = tensor.array.copy()
        return Status.OK


@pytest.mark.seed("D-R-1", "D-R-11", "D-C-7")
def test_data_are_copied_into_a_buffer_only_when_the_delegate_reads_newer_ones() -> None:
    delegate = Store()
    interpreter = CpuInterpreter(model_content=chain("ADD"), experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    interpreter.set_buffer_handle(0, 3, delegate)
    interpreter.set_tensor(0, X)
    interpreter.set_tensor(0, 2 * X)
    assert delegate.events == ["init [0]"]
    interpreter.invoke()
    assert delegate.events == ["init [0]", "copy to 3"]
    interpreter.invoke()
    assert delegate.events == ["init [0]", "copy to 3"]
    np.testing.assert_array_equal(interpreter.get_tensor(2), 2 * X + C)
    interpreter.tensor(0)()[...] = X
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(2), X + C)
    assert delegate.events == ["init [0]", "copy to 3", "copy from 7", "copy to 3", "copy from 7"]


@pytest.mark.seed("D-R-11")
def test_what_a_cpu_operator_writes_is_newer_than_the_buffer() -> None:
    delegate = Store()
    interpreter = CpuInterpreter(model_content=chain("MUL", "ADD"), experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    interpreter.set_buffer_handle(2, 4, delegate)
    for values in (X, 3 * X):
        interpreter.set_tensor(0, values)
        interpreter.invoke()
        np.testing.assert_array_equal(interpreter.get_tensor(3), values * C + C)
    assert delegate.events == ["init [1]", "copy to 4", "copy from 7", "copy to 4", "copy from 7"]


@pytest.mark.seed("D-R-11")
@pytest.mark.parametrize("direction", ["to", "from"])
def test_a_copy_that_fails_is_an_error(direction: str) -> None:
    class Broken(Store):
        def copy_from_buffer_handle(self, context: Context, buffer_handle: int, tensor: RuntimeTensor) -> Status:
            context.report_error("no link")
            return Status.ERROR

        def copy_to_buffer_handle(self, context: Context, buffer_handle: int, tensor: RuntimeTensor) -> Status:  # type: ignore[override]
            return Status.DELEGATE_ERROR if direction == "to" else super().copy_to_buffer_handle(context, buffer_handle, tensor)

    delegate = Broken()
    interpreter = CpuInterpreter(model_content=chain("ADD"), experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    interpreter.set_buffer_handle(0, 3, delegate)
    interpreter.set_tensor(0, X)
    message = "copy to buffer handle 3 of tensor 0" if direction == "to" else "copy from buffer handle 7 of tensor 2.*no link"

    def read() -> None:
        interpreter.invoke()
        interpreter.get_tensor(2)

    with pytest.raises(InterpreterError, match=message):
        read()


@pytest.mark.seed("D-R-5", "D-R-12")
def test_closing_frees_kernels_and_buffer_handles() -> None:
    delegate = RawDelegateWithFree()
    interpreter = CpuInterpreter(model_content=chain("ADD"), experimental_delegates=[delegate])
    run(interpreter)
    interpreter.close()
    assert delegate.events == ["init [0]", "copy from 7", "free kernel", "free 7"]


@pytest.mark.seed("D-R-12")
def test_a_new_buffer_handle_frees_the_old_one() -> None:
    delegate = RawDelegateWithFree()
    interpreter = CpuInterpreter(model_content=chain("ADD"), experimental_delegates=[delegate])
    interpreter.set_buffer_handle(0, 3, delegate)
    interpreter.set_buffer_handle(0, 4, delegate)
    assert delegate.events[-1] == "free 3"


@pytest.mark.seed("D-R-11")
def test_a_tensor_of_a_loaded_delegate_refers_to_what_the_plugin_created() -> None:
    inner = Store()
    loaded = LoadedDelegate(inner, lambda: None)
    interpreter = CpuInterpreter(model_content=chain("ADD"), experimental_delegates=[loaded])
    interpreter.allocate_tensors()
    interpreter.set_buffer_handle(0, 3, loaded)
    interpreter.set_tensor(0, X)
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(2), X + C)
    assert inner.events == ["init [0]", "copy to 3", "copy from 7"]


@pytest.mark.seed("D-R-11")
def test_the_arguments_of_a_signature_are_newer_than_the_buffers_of_a_delegate() -> None:
    b = ModelBuilder()
    x, c = b.input((1, 4), DType.FLOAT32), b.constant(C)
    y = b.op("ADD", [x, c], (1, 4), DType.FLOAT32, attributes=at.AddOptions())
    b.output(y)
    b.signature("run", {"x": x}, {"y": y})
    delegate = Store()
    interpreter = CpuInterpreter(model_content=b.build(), experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    interpreter.set_buffer_handle(x, 3, delegate)
    runner = interpreter.get_signature_runner("run")
    for values in (X, 5 * X):
        np.testing.assert_array_equal(runner(x=values)["y"], values + C)
    assert delegate.events.count("copy to 3") == 2
