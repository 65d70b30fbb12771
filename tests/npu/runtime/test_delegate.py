"""The delegate protocol: the worked example of the guide, the raw delegate object, partitions, buffer handles, failures."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from npu.errors import InterpreterError
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.runtime.custom import CustomOperator, register_custom_operator, unregister_custom_operator
from npu.runtime.delegate import (
    Context,
    Delegate,
    DelegateParams,
    KernelRegistration,
    Node,
    Registration,
    SimpleDelegate,
    SimpleDelegateKernel,
    SimpleDelegateOptions,
    Status,
    as_delegate,
)
from npu.runtime.interpreter import Interpreter
from npu.runtime.plugins import LoadedDelegate
from npu.runtime.tensor import RuntimeTensor
from npu.tflite.reader import read_model

from tests.support.builder import ModelBuilder


class AddSubKernel(SimpleDelegateKernel):
    """The guide's kernel: ADD and SUB of equal float tensors, no activation."""

    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.steps: list[tuple[str, int, int, int]] = []

    def init(self, context: Context, params: DelegateParams) -> Status:
        self.log.append("init")
        for index in params.nodes_to_replace:
            node, registration = context.get_node_and_registration(index)
            self.steps.append((registration.builtin_code, *node.inputs, *node.outputs))
        return Status.OK

    def prepare(self, context: Context, node: Node) -> Status:
        self.log.append("prepare")
        self.values: dict[int, np.ndarray] = {}
        return Status.OK

    def eval(self, context: Context, node: Node) -> Status:
        self.log.append("eval")

        def value(index: int) -> np.ndarray:
            return self.values[index] if index in self.values else context.tensors[index].array

        for code, left, right, output in self.steps:
            if value(left).size != value(right).size:
                context.report_error("element counts differ")
                return Status.DELEGATE_ERROR
            self.values[output] = value(left) + value(right) if code == "ADD" else value(left) - value(right)
        for output in node.outputs:
            context.tensors[output].array[...] = self.values[output]
        self.values = {}
        return Status.OK


@dataclass
class AddSubDelegate(SimpleDelegate):
    """The guide's delegate."""

    kinds: tuple[str, ...] = ("ADD", "SUB")
    options: SimpleDelegateOptions = field(default_factory=SimpleDelegateOptions)
    fail: bool = False
    log: list[str] = field(default_factory=list)

    def is_node_supported_by_delegate(self, registration: Registration, node: Node, context: Context) -> bool:
        if registration.builtin_code not in self.kinds:
            return False
        return all(context.tensors[index].dtype is DType.FLOAT32 for index in node.inputs)

    def initialize(self, context: Context) -> Status:
        self.log.append("initialize")
        return Status.ERROR if self.fail else Status.OK

    def name(self) -> str:
        return f"AddSub{'+'.join(self.kinds)}"

    def create_delegate_kernel_interface(self) -> SimpleDelegateKernel:
        return AddSubKernel(self.log)

    def delegate_options(self) -> SimpleDelegateOptions:
        return self.options


def _chain(kinds: Sequence[str], dtype: DType = DType.FLOAT32) -> bytes:
    """y = (((x op c) op c) ...): one operator per entry."""
    b = ModelBuilder()
    y = b.input((1, 4), dtype, name="x")
    c = b.constant(np.array([[1, 2, 3, 4]], dtype.numpy))
    options = {"ADD": at.AddOptions(), "SUB": at.SubOptions(), "MUL": at.MulOptions()}
    for kind in kinds:
        y = b.op(kind, [y, c], (1, 4), dtype, attributes=options[kind])
    b.output(y)
    return b.build()


def _run(interpreter: Interpreter, values: np.ndarray) -> np.ndarray:
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, values)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


X = np.array([[10, 20, 30, 40]], np.float32)
C = np.array([[1, 2, 3, 4]], np.float32)


@pytest.mark.seed("D-S-1", "D-S-2", "D-S-3", "D-S-4", "D-S-6", "D-S-8", "D-S-9", "D-S-11", "D-C-1", "D-C-5")
def test_the_add_sub_delegate_of_the_guide_runs_the_whole_graph() -> None:
    delegate = AddSubDelegate()
    interpreter = Interpreter(model_content=_chain(["ADD", "SUB", "ADD"]), experimental_delegates=[delegate])
    np.testing.assert_array_equal(_run(interpreter, X), X + C)
    (step,) = interpreter.execution_plan()
    assert step["replaces"] == [0, 1, 2]
    assert step["delegate"] == "AddSubADD+SUB"
    assert delegate.log == ["initialize", "init", "prepare", "eval"]


@pytest.mark.seed("D-S-12")
def test_other_types_and_operators_stay_on_the_cpu() -> None:
    interpreter = Interpreter(model_content=_chain(["ADD", "SUB"], DType.INT32), experimental_delegates=[AddSubDelegate()])
    assert [step["delegate"] for step in interpreter.execution_plan()] == [None, None]
    np.testing.assert_array_equal(_run(interpreter, X.astype(np.int32)), X.astype(np.int32))


@pytest.mark.seed("D-C-3", "D-C-6", "D-C-8", "X-L-1")
def test_an_unsupported_operator_splits_the_partition() -> None:
    interpreter = Interpreter(model_content=_chain(["ADD", "MUL", "SUB", "ADD"]), experimental_delegates=[AddSubDelegate()])
    assert [step["replaces"] for step in interpreter.execution_plan()] == [[0], [], [2, 3]]
    np.testing.assert_array_equal(_run(interpreter, X), (X + C) * C)


@pytest.mark.seed("D-C-9", "D-S-5")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (SimpleDelegateOptions(min_nodes_per_partition=2), [[], [], [2, 3]]),
        (SimpleDelegateOptions(max_delegated_partitions=1), [[], [], [2, 3]]),
        (SimpleDelegateOptions(min_nodes_per_partition=3), [[], [], [], []]),
    ],
)
def test_options_limit_the_partitions(options: SimpleDelegateOptions, expected: list[list[int]]) -> None:
    content = _chain(["ADD", "MUL", "SUB", "ADD"])
    interpreter = Interpreter(model_content=content, experimental_delegates=[AddSubDelegate(options=options)])
    assert [step["replaces"] for step in interpreter.execution_plan()] == expected
    np.testing.assert_array_equal(_run(interpreter, X), (X + C) * C)


@pytest.mark.seed("D-S-7", "Z-11")
def test_prepare_runs_again_after_a_resize_and_init_does_not() -> None:
    b = ModelBuilder()
    x, y = b.input((1, 4), DType.FLOAT32), b.input((1, 4), DType.FLOAT32)
    b.output(b.op("ADD", [x, y], (1, 4), DType.FLOAT32, attributes=at.AddOptions()))
    delegate = AddSubDelegate()
    interpreter = Interpreter(model_content=b.build(), experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    for index in (x, y):
        interpreter.resize_tensor_input(index, [3, 4])
    interpreter.allocate_tensors()
    for index in (x, y):
        interpreter.set_tensor(index, np.ones((3, 4), np.float32))
    interpreter.invoke()
    assert delegate.log == ["initialize", "init", "prepare", "prepare", "eval"]
    np.testing.assert_array_equal(interpreter.get_tensor(2), np.full((3, 4), 2, np.float32))


@pytest.mark.seed("D-S-10")
def test_a_delegate_error_while_running_names_the_kernel() -> None:
    b = ModelBuilder()
    x, y = b.input((2, 4), DType.FLOAT32), b.input((1, 4), DType.FLOAT32)
    b.output(b.op("ADD", [x, y], (2, 4), DType.FLOAT32, attributes=at.AddOptions()))
    interpreter = Interpreter(model_content=b.build(), experimental_delegates=[AddSubDelegate()])
    interpreter.allocate_tensors()
    with pytest.raises(InterpreterError, match=r"delegate kernel 'AddSub.*DELEGATE_ERROR: element counts differ"):
        interpreter.invoke()


@pytest.mark.seed("D-S-2", "D-R-16", "X-E-6")
def test_a_failing_delegate_leaves_an_interpreter_that_can_be_used() -> None:
    interpreter = Interpreter(model_content=_chain(["ADD", "SUB"]))
    with pytest.raises(InterpreterError, match=r"delegate 'AddSub.*must accept the graph, got ERROR"):
        interpreter.modify_graph_with_delegate(AddSubDelegate(fail=True))
    assert [step["op_name"] for step in interpreter.execution_plan()] == ["ADD", "SUB"]
    assert interpreter.modify_graph_with_delegate(AddSubDelegate()) is Status.OK
    np.testing.assert_array_equal(_run(interpreter, X), X)


@pytest.mark.seed("D-R-16")
def test_a_failing_delegate_undoes_those_before_it_too() -> None:
    first = RawDelegateWithFree()
    interpreter = Interpreter(model_content=_chain(["ADD", "MUL", "SUB"]), experimental_delegates=[first])
    assert [step["op_name"] for step in interpreter.execution_plan()] == ["Raw", "MUL", "SUB"]
    with pytest.raises(InterpreterError, match="must accept the graph"):
        interpreter.modify_graph_with_delegate(AddSubDelegate(fail=True))
    assert [step["op_name"] for step in interpreter.execution_plan()] == ["ADD", "MUL", "SUB"]
    assert first.events == ["init [0]", "free kernel"]
    first.delete()
    np.testing.assert_array_equal(_run(interpreter, X), (X + C) * C - C)


@pytest.mark.seed("D-R-16")
def test_a_delegate_that_fails_in_a_later_subgraph_is_undone_in_all() -> None:
    class OnlyMain(AddSubDelegate):
        def initialize(self, context: Context) -> Status:
            return Status.OK if context.subgraph_index == 0 else Status.DELEGATE_ERROR

    b = ModelBuilder()
    x = b.input((1, 4), DType.FLOAT32)
    b.output(b.op("ADD", [x, x], (1, 4), DType.FLOAT32, attributes=at.AddOptions()))
    other = ModelBuilder("other")
    y = other.input((1, 4), DType.FLOAT32)
    other.output(other.op("ADD", [y, y], (1, 4), DType.FLOAT32, attributes=at.AddOptions()))
    model = read_model(b.build())
    model = replace(model, graphs=(*model.graphs, *read_model(other.build()).graphs))
    interpreter = Interpreter(model=model)
    with pytest.raises(InterpreterError, match="on subgraph 1: must accept the graph, got DELEGATE_ERROR"):
        interpreter.modify_graph_with_delegate(OnlyMain())
    assert [step["op_name"] for step in interpreter.execution_plan(0)] == ["ADD"]


@pytest.mark.seed("X-E-8", "D-R-14", "D-X-8")
def test_a_delegate_must_outlive_its_interpreters() -> None:
    delegate = RawDelegate()
    first = Interpreter(model_content=_chain(["ADD"]), experimental_delegates=[delegate])
    second = Interpreter(model_content=_chain(["ADD"]), experimental_delegates=[delegate])
    with pytest.raises(InterpreterError, match="'RawDelegate': must outlive its interpreters, got delete while 2 use it"):
        delegate.delete()
    first.close()
    with pytest.raises(InterpreterError, match="got delete while 1 use it"):
        delegate.delete()
    del second
    gc.collect()
    delegate.delete()
    assert delegate.is_deleted
    with pytest.raises(InterpreterError, match="must be deleted once"):
        delegate.delete()
    with pytest.raises(InterpreterError, match="must be used before it is deleted"):
        Interpreter(model_content=_chain(["ADD"]), experimental_delegates=[delegate])


@pytest.mark.seed("D-S-13")
def test_the_raw_object_owns_the_simple_delegate() -> None:
    class Closing(AddSubDelegate):
        def close(self) -> None:
            self.log.append("close")

    simple = Closing()
    raw = as_delegate(simple)
    assert as_delegate(raw) is raw
    interpreter = Interpreter(model_content=_chain(["ADD"]), experimental_delegates=[raw])
    interpreter.close()
    raw.delete()
    assert simple.log == ["initialize", "init", "close"]


@pytest.mark.seed("X-E-7")
def test_a_delegate_after_allocation_is_refused() -> None:
    interpreter = Interpreter(model_content=_chain(["ADD"]))
    interpreter.allocate_tensors()
    with pytest.raises(InterpreterError, match="must be called before allocate_tensors"):
        interpreter.modify_graph_with_delegate(AddSubDelegate())


@pytest.mark.seed("D-R-15")
def test_a_second_delegate_sees_what_the_first_left() -> None:
    delegates = [AddSubDelegate(("ADD",)), AddSubDelegate(("ADD", "SUB"))]
    interpreter = Interpreter(model_content=_chain(["ADD", "SUB", "MUL", "ADD"]), experimental_delegates=delegates)
    assert [(s["delegate"], s["replaces"]) for s in interpreter.execution_plan()] == [
        ("AddSubADD", [0]), ("AddSubADD+SUB", [1]), (None, []), ("AddSubADD", [3]),
    ]  # fmt: skip
    np.testing.assert_array_equal(_run(interpreter, X), X * C + C)


@dataclass
class RawDelegate(Delegate):
    """Claims every operator of some kinds; keeps its results in buffers of its own until somebody asks."""

    kinds: tuple[str, ...] = ("ADD",)
    fail_init: bool = False
    events: list[str] = field(default_factory=list)
    buffers: dict[int, np.ndarray] = field(default_factory=dict)

    def prepare(self, context: Context) -> Status:
        plan = context.get_execution_plan()
        wanted = [i for i in plan if context.get_node_and_registration(i)[1].builtin_code in self.kinds]
        registration = KernelRegistration("Raw", self._init, self._prepare, self._invoke, self._free)
        return context.replace_node_subsets_with_delegate_kernels(registration, wanted, self)

    def _init(self, context: Context, params: DelegateParams) -> object:
        self.events.append(f"init {list(params.nodes_to_replace)}")
        return None if self.fail_init else {"nodes": params.nodes_to_replace}

    def _prepare(self, context: Context, node: Node) -> Status:
        assert node.user_data["nodes"]
        return Status.OK

    def _invoke(self, context: Context, node: Node) -> Status:
        (index,) = node.user_data["nodes"]
        step, _ = context.get_node_and_registration(index)
        left, right = (context.tensors[i].array for i in step.inputs)
        output = context.tensors[step.outputs[0]]
        self.buffers[7] = left + right
        output.delegate, output.buffer_handle, output.data_is_stale = self, 7, True
        return Status.OK

    def _free(self, context: Context, user_data: object) -> None:
        self.events.append("free kernel")

    def copy_from_buffer_handle(self, context: Context, buffer_handle: int, tensor: RuntimeTensor) -> Status:
        self.events.append(f"copy from {buffer_handle}")
        tensor.array[...] = self.buffers[buffer_handle]
        return Status.OK


class RawDelegateWithFree(RawDelegate):
    """With the optional callback."""

    def free_buffer_handle(self, context: Context, buffer_handle: int) -> None:  # type: ignore[override]
        self.events.append(f"free {buffer_handle}")


@pytest.mark.seed("D-R-1", "D-R-2", "D-R-3", "D-R-4", "D-R-6", "D-R-7", "D-R-8", "D-R-9", "D-R-10", "D-R-11", "D-R-13", "Z-12")
def test_a_raw_delegate_hands_out_buffers_that_are_copied_only_when_read() -> None:
    delegate = RawDelegate()
    interpreter = Interpreter(model_content=_chain(["ADD"]), experimental_delegates=[delegate])
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
    interpreter = Interpreter(model_content=_chain(["ADD", "MUL"]), experimental_delegates=[delegate])
    np.testing.assert_array_equal(_run(interpreter, X), (X + C) * C)
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
    interpreter = Interpreter(model_content=_chain(["ADD"]), experimental_delegates=[delegate])
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
    interpreter = Interpreter(model_content=_chain(["MUL", "ADD"]), experimental_delegates=[delegate])
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
    interpreter = Interpreter(model_content=_chain(["ADD"]), experimental_delegates=[delegate])
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
    interpreter = Interpreter(model_content=_chain(["ADD"]), experimental_delegates=[delegate])
    _run(interpreter, X)
    interpreter.close()
    assert delegate.events == ["init [0]", "copy from 7", "free kernel", "free 7"]


@pytest.mark.seed("D-R-12")
def test_a_new_buffer_handle_frees_the_old_one() -> None:
    delegate = RawDelegateWithFree()
    interpreter = Interpreter(model_content=_chain(["ADD"]), experimental_delegates=[delegate])
    interpreter.set_buffer_handle(0, 3, delegate)
    interpreter.set_buffer_handle(0, 4, delegate)
    assert delegate.events[-1] == "free 3"


@pytest.mark.seed("D-R-4", "D-R-16")
def test_a_kernel_that_cannot_initialise_undoes_the_delegation() -> None:
    interpreter = Interpreter(model_content=_chain(["ADD", "MUL", "ADD"]))
    with pytest.raises(InterpreterError, match=r"kernel 'Raw' must initialise for nodes \[0\]"):
        interpreter.modify_graph_with_delegate(RawDelegate(fail_init=True))
    assert [step["op_name"] for step in interpreter.execution_plan()] == ["ADD", "MUL", "ADD"]
    np.testing.assert_array_equal(_run(interpreter, X), (X + C) * C + C)


class _Forgetful(AddSubDelegate):
    """One of its callbacks returns nothing."""

    def initialize(self, context: Context) -> Status:
        return None if "initialize" in self.log else Status.OK  # type: ignore[return-value]

    def create_delegate_kernel_interface(self) -> SimpleDelegateKernel:
        if "create" in self.log:
            return None  # type: ignore[return-value]
        kernel = AddSubKernel([])
        for callback in {"init", "prepare", "eval"}.intersection(self.log):
            setattr(kernel, callback, lambda *arguments: None)
        return kernel


FORGOTTEN = {
    "initialize": "must accept the graph, got None, which is no Status",
    "create": "create_delegate_kernel_interface: must return a SimpleDelegateKernel, got None",
    "init": "init: must return a Status, got None",
    "prepare": "prepare of delegate kernel 'AddSub.* must return OK, got None, which is no Status",
    "eval": "delegate kernel 'AddSub.* must return OK, got None, which is no Status",
}


@pytest.mark.seed("D-S-2", "D-S-4", "D-S-10")
@pytest.mark.parametrize("callback", FORGOTTEN)
def test_a_callback_must_return_a_status(callback: str) -> None:
    with pytest.raises(InterpreterError, match=FORGOTTEN[callback]):
        _run(Interpreter(model_content=_chain(["ADD"]), experimental_delegates=[_Forgetful(log=[callback])]), X)


@pytest.mark.parametrize("wrong", ["xnnpack", None, AddSubDelegate])
def test_what_is_no_delegate_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="must be a Delegate or a SimpleDelegate, got"):
        Interpreter(model_content=_chain(["ADD"]), experimental_delegates=[wrong])  # type: ignore[list-item]


@pytest.mark.seed("D-R-11")
def test_a_tensor_of_a_loaded_delegate_refers_to_what_the_plugin_created() -> None:
    inner = Store()
    loaded = LoadedDelegate(inner, lambda: None)
    interpreter = Interpreter(model_content=_chain(["ADD"]), experimental_delegates=[loaded])
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
    interpreter = Interpreter(model_content=b.build(), experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    interpreter.set_buffer_handle(x, 3, delegate)
    runner = interpreter.get_signature_runner("run")
    for values in (X, 5 * X):
        np.testing.assert_array_equal(runner(x=values)["y"], values + C)
    assert delegate.events.count("copy to 3") == 2


def test_a_delegate_may_only_claim_nodes_of_the_plan() -> None:
    class Greedy(RawDelegate):
        def prepare(self, context: Context) -> Status:
            registration = KernelRegistration("Greedy", self._init, self._prepare, self._invoke)
            return context.replace_node_subsets_with_delegate_kernels(registration, [0, 17], self)

    with pytest.raises(InterpreterError, match=r"must be in the execution plan, got \[17\]"):
        Interpreter(model_content=_chain(["ADD"]), experimental_delegates=[Greedy()])


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
        result = _run(Interpreter(model_content=content), np.ones((2, 3), np.float32))
    finally:
        unregister_custom_operator("double-it")
    np.testing.assert_array_equal(result, np.full((2, 3), 2, np.float32))
    with pytest.raises(InterpreterError, match="must be registered before it is removed"):
        unregister_custom_operator("double-it")
