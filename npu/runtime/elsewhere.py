"""A delegate for operators that something else runs: it takes them out of the plan, so that the rest can be prepared."""

from __future__ import annotations

from collections.abc import Set

from npu.errors import InterpreterError
from npu.graph.graph import Model
from npu.runtime.delegate import Context, DelegateParams, Node, Registration, SimpleDelegate, SimpleDelegateKernel, Status
from npu.runtime.interpreter import CpuInterpreter


def prepare_only(model: Model, operators: Set[tuple[int, int]]) -> None:
    """Prepare these operators, by graph and index, as a run would. InterpreterError for the first that its kernel refuses."""
    delegates = [_Elsewhere(operators)]
    # Tensors that keep memory of their own need no plan of an arena.
    interpreter = CpuInterpreter(model=model, experimental_delegates=delegates, experimental_preserve_all_tensors=True)
    interpreter.allocate_tensors()


class _Elsewhere(SimpleDelegate):
    """Takes every operator but these."""

    def __init__(self, left: Set[tuple[int, int]]) -> None:
        self._left = left

    def is_node_supported_by_delegate(self, registration: Registration, node: Node, context: Context) -> bool:
        return (context.subgraph_index, node.index) not in self._left

    def initialize(self, context: Context) -> Status:
        return Status.OK

    def name(self) -> str:
        return "elsewhere"

    def create_delegate_kernel_interface(self) -> SimpleDelegateKernel:
        return _NothingRuns()


class _NothingRuns(SimpleDelegateKernel):
    def init(self, context: Context, params: DelegateParams) -> Status:
        return Status.OK

    def prepare(self, context: Context, node: Node) -> Status:
        return Status.OK

    def eval(self, context: Context, node: Node) -> Status:
        raise InterpreterError("operators that run elsewhere: must only be prepared, got a run")
