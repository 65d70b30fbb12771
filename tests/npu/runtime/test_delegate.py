"""The delegate protocol: the worked example of the guide, partitions, life cycle, failures."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np
import pytest

from npu.errors import InterpreterError
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.runtime.delegate import (
    Context,
    KernelRegistration,
    SimpleDelegateKernel,
    SimpleDelegateOptions,
    Status,
    as_delegate,
)
from npu.runtime.interpreter import CpuInterpreter
from npu.tflite.reader import read_model

from tests.support.builder import ModelBuilder
from tests.support.delegates import AddSubDelegate, AddSubKernel, C, RawDelegate, RawDelegateWithFree, X, chain, run


@pytest.mark.seed("D-S-1", "D-S-2", "D-S-3", "D-S-4", "D-S-6", "D-S-8", "D-S-9", "D-S-11", "D-C-1", "D-C-5")
def test_the_add_sub_delegate_of_the_guide_runs_the_whole_graph() -> None:
    delegate = AddSubDelegate()
    interpreter = CpuInterpreter(model_content=chain("ADD", "SUB", "ADD"), experimental_delegates=[delegate])
    np.testing.assert_array_equal(run(interpreter), X + C)
    (step,) = interpreter.execution_plan()
    assert step["replaces"] == [0, 1, 2]
    assert step["delegate"] == "AddSubADD+SUB"
    assert delegate.log == ["initialize", "init", "prepare", "eval"]


@pytest.mark.seed("D-S-12")
def test_other_types_and_operators_stay_on_the_cpu() -> None:
    interpreter = CpuInterpreter(
        model_content=chain("ADD", "SUB", dtype=DType.INT32), experimental_delegates=[AddSubDelegate()]
    )
    assert [step["delegate"] for step in interpreter.execution_plan()] == [None, None]
    np.testing.assert_array_equal(run(interpreter, X.astype(np.int32)), X.astype(np.int32))


@pytest.mark.seed("D-C-3", "D-C-6", "D-C-8", "X-L-1")
def test_an_unsupported_operator_splits_the_partition() -> None:
    interpreter = CpuInterpreter(model_content=chain("ADD", "MUL", "SUB", "ADD"), experimental_delegates=[AddSubDelegate()])
    assert [step["replaces"] for step in interpreter.execution_plan()] == [[0], [], [2, 3]]
    np.testing.assert_array_equal(run(interpreter), (X + C) * C)


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
    content = chain("ADD", "MUL", "SUB", "ADD")
    interpreter = CpuInterpreter(model_content=content, experimental_delegates=[AddSubDelegate(options=options)])
    assert [step["replaces"] for step in interpreter.execution_plan()] == expected
    np.testing.assert_array_equal(run(interpreter), (X + C) * C)


@pytest.mark.seed("D-S-7", "Z-11")
def test_prepare_runs_again_after_a_resize_and_init_does_not() -> None:
    b = ModelBuilder()
    x, y = b.input((1, 4), DType.FLOAT32), b.input((1, 4), DType.FLOAT32)
    b.output(b.op("ADD", [x, y], (1, 4), DType.FLOAT32, attributes=at.AddOptions()))
    delegate = AddSubDelegate()
    interpreter = CpuInterpreter(model_content=b.build(), experimental_delegates=[delegate])
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
    interpreter = CpuInterpreter(model_content=b.build(), experimental_delegates=[AddSubDelegate()])
    interpreter.allocate_tensors()
    with pytest.raises(InterpreterError, match=r"delegate kernel 'AddSub.*DELEGATE_ERROR: element counts differ"):
        interpreter.invoke()


@pytest.mark.seed("D-S-2", "D-R-16", "X-E-6")
def test_a_failing_delegate_leaves_an_interpreter_that_can_be_used() -> None:
    interpreter = CpuInterpreter(model_content=chain("ADD", "SUB"))
    with pytest.raises(InterpreterError, match=r"delegate 'AddSub.*must accept the graph, got ERROR"):
        interpreter.modify_graph_with_delegate(AddSubDelegate(fail=True))
    assert [step["op_name"] for step in interpreter.execution_plan()] == ["ADD", "SUB"]
    assert interpreter.modify_graph_with_delegate(AddSubDelegate()) is Status.OK
    np.testing.assert_array_equal(run(interpreter), X)


@pytest.mark.seed("D-R-16")
def test_a_failing_delegate_undoes_those_before_it_too() -> None:
    first = RawDelegateWithFree()
    interpreter = CpuInterpreter(model_content=chain("ADD", "MUL", "SUB"), experimental_delegates=[first])
    assert [step["op_name"] for step in interpreter.execution_plan()] == ["Raw", "MUL", "SUB"]
    with pytest.raises(InterpreterError, match="must accept the graph"):
        interpreter.modify_graph_with_delegate(AddSubDelegate(fail=True))
    assert [step["op_name"] for step in interpreter.execution_plan()] == ["ADD", "MUL", "SUB"]
    assert first.events == ["init [0]", "free kernel"]
    first.delete()
    np.testing.assert_array_equal(run(interpreter), (X + C) * C - C)


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
    interpreter = CpuInterpreter(model=model)
    with pytest.raises(InterpreterError, match="on subgraph 1: must accept the graph, got DELEGATE_ERROR"):
        interpreter.modify_graph_with_delegate(OnlyMain())
    assert [step["op_name"] for step in interpreter.execution_plan(0)] == ["ADD"]


@pytest.mark.seed("X-E-8", "D-R-14", "D-X-8")
def test_a_delegate_must_outlive_its_interpreters() -> None:
    delegate = RawDelegate()
    first = CpuInterpreter(model_content=chain("ADD"), experimental_delegates=[delegate])
    second = CpuInterpreter(model_content=chain("ADD"), experimental_delegates=[delegate])
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
        CpuInterpreter(model_content=chain("ADD"), experimental_delegates=[delegate])


@pytest.mark.seed("D-S-13")
def test_the_raw_object_owns_the_simple_delegate() -> None:
    class Closing(AddSubDelegate):
        def close(self) -> None:
            self.log.append("close")

    simple = Closing()
    raw = as_delegate(simple)
    assert as_delegate(raw) is raw
    interpreter = CpuInterpreter(model_content=chain("ADD"), experimental_delegates=[raw])
    interpreter.close()
    raw.delete()
    assert simple.log == ["initialize", "init", "close"]


@pytest.mark.seed("X-E-7")
def test_a_delegate_after_allocation_is_refused() -> None:
    interpreter = CpuInterpreter(model_content=chain("ADD"))
    interpreter.allocate_tensors()
    with pytest.raises(InterpreterError, match="must be called before allocate_tensors"):
        interpreter.modify_graph_with_delegate(AddSubDelegate())


@pytest.mark.seed("D-R-15")
def test_a_second_delegate_sees_what_the_first_left() -> None:
    delegates = [AddSubDelegate(("ADD",)), AddSubDelegate(("ADD", "SUB"))]
    interpreter = CpuInterpreter(model_content=chain("ADD", "SUB", "MUL", "ADD"), experimental_delegates=delegates)
    assert [(s["delegate"], s["replaces"]) for s in interpreter.execution_plan()] == [
        ("AddSubADD", [0]), ("AddSubADD+SUB", [1]), (None, []), ("AddSubADD", [3]),
    ]  # fmt: skip
    np.testing.assert_array_equal(run(interpreter), X * C + C)


@pytest.mark.seed("D-R-4", "D-R-16")
def test_a_kernel_that_cannot_initialise_undoes_the_delegation() -> None:
    interpreter = CpuInterpreter(model_content=chain("ADD", "MUL", "ADD"))
    with pytest.raises(InterpreterError, match=r"kernel 'Raw' must initialise for nodes \[0\]"):
        interpreter.modify_graph_with_delegate(RawDelegate(fail_init=True))
    assert [step["op_name"] for step in interpreter.execution_plan()] == ["ADD", "MUL", "ADD"]
    np.testing.assert_array_equal(run(interpreter), (X + C) * C + C)


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
        run(CpuInterpreter(model_content=chain("ADD"), experimental_delegates=[_Forgetful(log=[callback])]))


@pytest.mark.parametrize("wrong", ["xnnpack", None, AddSubDelegate])
def test_what_is_no_delegate_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="must be a Delegate or a SimpleDelegate, got"):
        CpuInterpreter(model_content=chain("ADD"), experimental_delegates=[wrong])  # type: ignore[list-item]


def test_a_delegate_may_only_claim_nodes_of_the_plan() -> None:
    class Greedy(RawDelegate):
        def prepare(self, context: Context) -> Status:
            registration = KernelRegistration("Greedy", self._init, self._prepare, self._invoke)
            return context.replace_node_subsets_with_delegate_kernels(registration, [0, 17], self)

    with pytest.raises(InterpreterError, match=r"must be in the execution plan, got \[17\]"):
        CpuInterpreter(model_content=chain("ADD"), experimental_delegates=[Greedy()])
