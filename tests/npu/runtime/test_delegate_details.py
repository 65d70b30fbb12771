"""Single promises of the delegate protocol: what each callback is given, how often it is called, and what may be left out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from npu.errors import InterpreterError
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.runtime.delegate import (
    Context,
    Delegate,
    DelegateFlags,
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
from npu.runtime.dummy import DummyDelegate, DummyKernel
from npu.runtime.dummy import default_options as dummy_options
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.tensor import RuntimeTensor

from tests.support.builder import ModelBuilder
from tests.support.delegates import C, X, chain, run


class Kernel(SimpleDelegateKernel):
    """Adds c once per node, which is wrong for other operators than ADD: results tell who ran a node."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def init(self, context: Context, params: DelegateParams) -> Status:
        self.log.append(("init", params.nodes_to_replace, params.input_tensors, params.output_tensors))
        self.count = len(params.nodes_to_replace)
        return Status.OK

    def prepare(self, context: Context, node: Node) -> Status:
        self.log.append(("prepare", node.inputs, node.outputs))
        return Status.OK

    def eval(self, context: Context, node: Node) -> Status:
        self.log.append(("eval", node.inputs, node.outputs))
        source = next(index for index in node.inputs if index != 1)
        context.tensors[node.outputs[0]].array[...] = context.tensors[source].array + self.count * C
        return Status.OK

    def free(self, context: Context) -> None:
        self.log.append("free")


@dataclass
class Simple(SimpleDelegate):
    """Takes operators of some kinds; notes everything that it is asked."""

    kinds: tuple[str, ...] = ("ADD",)
    status: Status = Status.OK
    log: list[Any] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)

    def is_node_supported_by_delegate(self, registration: Registration, node: Node, context: Context) -> bool:
        types = [context.tensors[index].dtype for index in node.inputs]
        self.asked.append((node.index, registration.builtin_code, node.inputs, node.outputs, types))
        return registration.builtin_code in self.kinds

    def initialize(self, context: Context) -> Status:
        self.log.append("initialize")
        return self.status

    def name(self) -> str:
        return "Noting"

    def create_delegate_kernel_interface(self) -> SimpleDelegateKernel:
        self.log.append("create")
        return Kernel(self.log)


@pytest.mark.seed("D-S-1", "D-S-9")
def test_a_node_is_judged_by_its_operator_and_the_types_of_its_tensors() -> None:
    delegate = Simple()
    CpuInterpreter(model_content=chain("ADD", "MUL"), experimental_delegates=[delegate])
    floats = [DType.FLOAT32, DType.FLOAT32]
    assert delegate.asked == [(0, "ADD", (0, 1), (2,), floats), (1, "MUL", (2, 1), (3,), floats)]


@pytest.mark.seed("D-S-2")
@pytest.mark.parametrize("status", [Status.ERROR, Status.DELEGATE_ERROR])
def test_nothing_is_asked_after_initialise_has_failed(status: Status) -> None:
    delegate = Simple(status=status)
    interpreter = CpuInterpreter(model_content=chain("ADD"))
    with pytest.raises(InterpreterError, match=status.name):
        interpreter.modify_graph_with_delegate(delegate)
    assert (delegate.log, delegate.asked) == (["initialize"], [])


@pytest.mark.seed("D-S-4", "D-S-6", "D-S-7", "D-S-8", "D-C-5", "D-C-6")
def test_each_partition_has_a_kernel_of_its_own_with_its_nodes_and_borders() -> None:
    delegate = Simple()
    interpreter = CpuInterpreter(model_content=chain("ADD", "ADD", "MUL", "ADD"), experimental_delegates=[delegate])
    made = ["create", ("init", (0, 1), (0, 1), (3,)), "create", ("init", (3,), (1, 4), (5,))]
    assert delegate.log == ["initialize", *made]
    delegate.log.clear()
    interpreter.allocate_tensors()
    assert delegate.log == [("prepare", (0, 1), (3,)), ("prepare", (1, 4), (5,))]
    delegate.log.clear()
    np.testing.assert_array_equal(run(interpreter), (X + 2 * C) * C + C)
    interpreter.invoke()
    evaluated = [entry for entry in delegate.log if entry[0] == "eval"]
    assert evaluated == [("eval", (0, 1), (3,)), ("eval", (1, 4), (5,))] * 2
    assert [(step["op_name"], step["delegate"], step["replaces"]) for step in interpreter.execution_plan()] == [
        ("Noting", "Noting", [0, 1]), ("MUL", None, []), ("Noting", "Noting", [3]),
    ]  # fmt: skip
    delegate.log.clear()
    interpreter.close()
    assert delegate.log == ["free", "free"]


@pytest.mark.seed("D-S-3", "D-S-5", "D-S-13")
def test_a_simple_delegate_has_defaults_and_becomes_a_raw_object_with_its_name() -> None:
    simple = Simple()
    assert simple.delegate_options() == SimpleDelegateOptions(max_delegated_partitions=0, min_nodes_per_partition=0)
    raw = as_delegate(simple)
    assert (raw.name(), raw.data, raw.flags) == ("Noting", simple, DelegateFlags.NONE)
    assert raw.partition_options() == simple.delegate_options()


@pytest.mark.seed("D-S-8", "Z-10")
def test_invoke_is_another_name_of_eval() -> None:
    class Older(Kernel):
        def invoke(self, context: Context, node: Node) -> Status:
            self.log.append("invoke")
            return super().invoke(context, node)

    class Delegating(Simple):
        def create_delegate_kernel_interface(self) -> SimpleDelegateKernel:
            return Older(self.log)

    delegate = Delegating()
    np.testing.assert_array_equal(run(CpuInterpreter(model_content=chain("ADD"), experimental_delegates=[delegate])), X + C)
    assert delegate.log[3:5] == ["invoke", ("eval", (0, 1), (2,))]


# The raw object


class Least(Delegate):
    """A raw delegate with nothing optional; takes the nodes that it is told to."""

    def __init__(self, nodes: list[int]) -> None:
        self.nodes, self.log = nodes, list[Any]()

    def prepare(self, context: Context) -> Status:
        self.plan = context.get_execution_plan()
        self.seen = [context.get_node_and_registration(index) for index in self.plan]
        registration = KernelRegistration("Least", self._init, self._prepare, self._invoke)
        assert (registration.builtin_code, registration.free) == ("DELEGATE", None)
        self.status = context.replace_node_subsets_with_delegate_kernels(registration, self.nodes, self)
        return self.status

    def _init(self, context: Context, params: DelegateParams) -> object:
        assert params.delegate is self
        self.log.append(("init", params.nodes_to_replace))
        return {"nodes": params.nodes_to_replace}

    def _prepare(self, context: Context, node: Node) -> Status:
        self.log.append(("prepare", node.user_data["nodes"]))
        return Status.OK

    def _invoke(self, context: Context, node: Node) -> Status:
        self.log.append(("invoke", node.user_data["nodes"]))
        source = next(index for index in node.inputs if index != 1)
        context.tensors[node.outputs[0]].array[...] = context.tensors[source].array + 100
        return Status.OK

    def copy_from_buffer_handle(self, context: Context, buffer_handle: int, tensor: RuntimeTensor) -> Status:
        return Status.ERROR


@pytest.mark.seed("D-R-1", "D-R-2")
def test_a_raw_delegate_needs_prepare_and_copy_from_and_has_no_flags() -> None:
    assert DelegateFlags(0) == DelegateFlags.NONE
    own = {DelegateFlags.FOLLOWS_BUFFERS, DelegateFlags.NONE}  # before Python 3.11 a flag of nothing is listed
    assert set(DelegateFlags) - own == {DelegateFlags.ALLOW_DYNAMIC_TENSORS, DelegateFlags.REQUIRE_PROPAGATED_SHAPES}
    delegate = Least([])
    assert (delegate.data, delegate.flags) == (None, DelegateFlags.NONE)
    assert (delegate.copy_to_buffer_handle, delegate.free_buffer_handle) == (None, None)
    for name in ("prepare", "copy_from_buffer_handle"):
        without = {other: getattr(Least, other) for other in ("prepare", "copy_from_buffer_handle") if other != name}
        with pytest.raises(TypeError, match=name):
            type("Without", (Delegate,), without)()


@pytest.mark.seed("D-R-3", "D-R-4", "D-R-6", "D-R-7", "D-R-8", "D-R-9", "D-R-10", "D-R-13")
def test_prepare_sees_the_plan_and_claims_a_list_of_its_nodes() -> None:
    delegate = Least([0, 2])
    interpreter = CpuInterpreter(model_content=chain("ADD", "SUB", "MUL", "ADD"))
    assert interpreter.modify_graph_with_delegate(delegate) is Status.OK
    assert delegate.status is Status.OK
    assert delegate.plan == (0, 1, 2, 3)
    assert [registration.builtin_code for _, registration in delegate.seen] == ["ADD", "SUB", "MUL", "ADD"]
    assert [(node.index, node.inputs, node.outputs) for node, _ in delegate.seen] == [
        (0, (0, 1), (2,)), (1, (2, 1), (3,)), (2, (3, 1), (4,)), (3, (4, 1), (5,)),
    ]  # fmt: skip
    assert [(step["op_name"], step["replaces"]) for step in interpreter.execution_plan()] == [
        ("Least", [0]), ("SUB", []), ("Least", [2]), ("ADD", []),
    ]  # fmt: skip
    assert delegate.log == [("init", (0,)), ("init", (2,))]
    np.testing.assert_array_equal(run(interpreter), (X + 100 - C) + 100 + C)
    assert delegate.log[2:] == [("prepare", (0,)), ("prepare", (2,)), ("invoke", (0,)), ("invoke", (2,))]


@pytest.mark.seed("D-R-8")
@pytest.mark.parametrize("index", [-1, 4])
def test_a_node_that_does_not_exist_is_refused(index: int) -> None:
    class Curious(Least):
        def prepare(self, context: Context) -> Status:
            context.get_node_and_registration(index)
            return Status.OK

    with pytest.raises(InterpreterError, match=f"got {index}"):
        CpuInterpreter(model_content=chain("ADD", "SUB", "MUL", "ADD"), experimental_delegates=[Curious([])])


@pytest.mark.seed("D-R-1", "D-R-11")
def test_a_delegate_without_the_optional_copies_runs_on_the_arrays() -> None:
    delegate = Least([0])
    interpreter = CpuInterpreter(model_content=chain("ADD", "MUL"), experimental_delegates=[delegate])
    np.testing.assert_array_equal(run(interpreter), (X + 100) * C)
    interpreter.close()
    delegate.delete()


@pytest.mark.seed("D-R-2")
def test_shapes_inside_a_partition_are_propagated_for_a_delegate_that_asks() -> None:
    class Asking(Least):
        flags = DelegateFlags.REQUIRE_PROPAGATED_SHAPES

    found = []
    for kind in (Least, Asking):
        b = ModelBuilder()
        x = b.input((2, 4), DType.FLOAT32)
        shape = b.constant(np.array([4, 2], np.int32))
        inner = b.op("RESHAPE", [x, shape], (1, 1), DType.FLOAT32, attributes=at.ReshapeOptions())  # a shape that is not so
        b.output(b.op("NEG", [inner], (4, 2), DType.FLOAT32))

        class Looking(kind):  # type: ignore[misc, valid-type]
            def _prepare(self, context: Context, node: Node) -> Status:
                found.append(context.tensors[inner].shape)  # noqa: B023 - called at once
                return Status.OK

        interpreter = CpuInterpreter(model_content=b.build(), experimental_delegates=[Looking([0, 1])])
        interpreter.allocate_tensors()
    assert found == [(1, 1), (4, 2)]


class _Counting(DummyDelegate):
    """Counts how often a kernel is prepared."""

    prepared = 0

    def create_delegate_kernel_interface(self) -> SimpleDelegateKernel:
        delegate = self

        class Kernel(DummyKernel):
            def prepare(self, context: Context, node: Node) -> Status:
                delegate.prepared += 1
                return super().prepare(context, node)

        return Kernel(self.options)


def test_what_follows_a_computed_shape_is_prepared_again_only_for_another_shape() -> None:
    b = ModelBuilder()
    x, shape = b.input((2, 6), DType.FLOAT32), b.input((2,), DType.INT32)
    b.output(b.op("NEG", [b.op("RESHAPE", [x, shape], (2, 6), DType.FLOAT32)], (2, 6), DType.FLOAT32))
    delegate = _Counting(replace(dummy_options(), allowed_builtins=("NEG",)))
    interpreter = CpuInterpreter(model_content=b.build(), experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    values = np.arange(12, dtype=np.float32).reshape(2, 6)
    counts = []
    for wanted in ((3, 4), (3, 4), (3, 4), (12, 1), (12, 1), (3, 4)):
        interpreter.set_tensor(0, values)
        interpreter.set_tensor(1, np.array(wanted, np.int32))
        interpreter.invoke()
        output = interpreter.get_output_details()[0]["index"]
        np.testing.assert_array_equal(interpreter.get_tensor(output), -values.reshape(wanted))
        counts.append(delegate.prepared)
    assert [count - counts[0] for count in counts] == [0, 0, 0, 1, 1, 2]
