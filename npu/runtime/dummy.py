"""A delegate that runs operators on the default kernels; the worked example of a delegate, and of its failures.

It shows all parts that a delegate of one's own needs: options, the two interfaces, create and delete functions, the plug-in
functions. Its results are those of the default kernels, so tests that run with it prove the way through the delegate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npu.graph.graph import ABSENT
from npu.graph.ops import BY_NAME
from npu.records import dataclass
from npu.runtime.delegate import (
    Context,
    Delegate,
    DelegateParams,
    Node,
    Registration,
    SimpleDelegate,
    SimpleDelegateKernel,
    SimpleDelegateOptions,
    Status,
    as_delegate,
)
from npu.runtime.misuse import InterpreterValueError
from npu.runtime.plugins import ReportError, parse_options


@dataclass(frozen=True, slots=True)
class DummyOptions:
    """Choices of the dummy delegate; make them with `default_options` and `dataclasses.replace`.

    `allowed_builtins` names the operators to take, () for all. The flags make one callback fail.
    """

    allowed_builtins: tuple[str, ...] = ()
    error_during_init: bool = False
    error_during_prepare: bool = False
    error_during_invoke: bool = False
    max_delegated_partitions: int = 0
    min_nodes_per_partition: int = 0

    def __post_init__(self) -> None:
        unknown = [name for name in self.allowed_builtins if name not in BY_NAME]
        if unknown:
            raise InterpreterValueError(f"dummy options: allowed_builtins must be names of operators, got '{unknown[0]}'")


def default_options() -> DummyOptions:
    """Every operator, no failure, no limit."""
    return DummyOptions()


class DummyDelegate(SimpleDelegate):
    """The capabilities: which operators, and what fails."""

    def __init__(self, options: DummyOptions) -> None:
        self.options = options

    def is_node_supported_by_delegate(self, registration: Registration, node: Node, context: Context) -> bool:
        allowed = self.options.allowed_builtins
        return registration.builtin_code in allowed if allowed else registration.builtin_code != "CUSTOM"

    def initialize(self, context: Context) -> Status:
        return Status.OK

    def name(self) -> str:
        return "DummyDelegate"

    def create_delegate_kernel_interface(self) -> SimpleDelegateKernel:
        return DummyKernel(self.options)

    def delegate_options(self) -> SimpleDelegateOptions:
        return SimpleDelegateOptions(self.options.max_delegated_partitions, self.options.min_nodes_per_partition)


class DummyKernel(SimpleDelegateKernel):
    """One partition, operator by operator."""

    def __init__(self, options: DummyOptions) -> None:
        self._options = options
        self._nodes: tuple[int, ...] = ()
        self._steps: list[Callable[[], None]] = []

    def init(self, context: Context, params: DelegateParams) -> Status:
        self._nodes = params.nodes_to_replace
        return _status(context, "init", self._options.error_during_init)

    def prepare(self, context: Context, node: Node) -> Status:
        """Prepare operators up to the first whose output shape is not known yet."""
        self._steps = []
        for index in self._nodes:
            self._steps.append(context.prepare_node(index))
            if _has_dynamic_output(context, index):
                for output in node.outputs:
                    context.tensors[output].is_dynamic = True
                break
        return _status(context, "prepare", self._options.error_during_prepare)

    def eval(self, context: Context, node: Node) -> Status:
        for position, index in enumerate(self._nodes):
            step = self._steps[position] if position < len(self._steps) else context.prepare_node(index)
            step()
        return _status(context, "invoke", self._options.error_during_invoke)


def _has_dynamic_output(context: Context, index: int) -> bool:
    node, _ = context.get_node_and_registration(index)
    return any(context.tensors[output].is_dynamic for output in node.outputs if output != ABSENT)


def _status(context: Context, callback: str, is_failing: bool) -> Status:
    if is_failing:
        context.report_error(f"dummy delegate: error during {callback}, as its options ask for")
    return Status.DELEGATE_ERROR if is_failing else Status.OK


def create_dummy_delegate(options: DummyOptions | None = None) -> Delegate:
    """The raw delegate object; None takes the default options. End its life with `delete_dummy_delegate`."""
    return as_delegate(DummyDelegate(options or default_options()))


def delete_dummy_delegate(delegate: Delegate) -> None:
    """Delete the delegate; InterpreterError while an interpreter uses it."""
    delegate.delete()


def tflite_plugin_create_delegate(
    keys: Sequence[str], values: Sequence[str], count: int, report_error: ReportError
) -> Delegate | None:
    """The plug-in's create function: options as text, None after an error was reported."""
    options = parse_options(keys[:count], values[:count], default_options(), report_error)
    return None if options is None else create_dummy_delegate(options)


def tflite_plugin_destroy_delegate(delegate: Delegate) -> None:
    """The plug-in's destroy function."""
    delete_dummy_delegate(delegate)
