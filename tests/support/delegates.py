"""Delegates for tests: the guide's ADD and SUB delegate, a raw one with buffers of its own, and chains of operators to run."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from npu.graph import attributes as at
from npu.graph.attributes import Attributes
from npu.graph.dtype import DType
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
)
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.tensor import RuntimeTensor

from tests.support.builder import ModelBuilder

X = np.array([[10, 20, 30, 40]], np.float32)
C = np.array([[1, 2, 3, 4]], np.float32)
OPTIONS: dict[str, Attributes] = {"ADD": at.AddOptions(), "SUB": at.SubOptions(), "MUL": at.MulOptions()}


def chain(*kinds: str, dtype: DType = DType.FLOAT32) -> bytes:
    """Tensor 0 is x and 1 the constant C; operator n computes tensor n + 2 = (tensor before it) op C."""
    b = ModelBuilder()
    y, c = b.input((1, 4), dtype), b.constant(C.astype(dtype.numpy))
    for kind in kinds:
        y = b.op(kind, [y, c], (1, 4), dtype, attributes=OPTIONS[kind])
    b.output(y)
    return b.build()


def run(interpreter: CpuInterpreter, values: np.ndarray = X) -> np.ndarray:
    """The first output for one input."""
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, values)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


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
