"""The XNNPACK-like CPU delegate: takes what the `xnnpack` profile allows and runs it on kernels with packed weights.

Order of use, as with the C API: options, delegate, interpreter; afterwards close the interpreter, then the delegate, then the
weights cache.
"""

from __future__ import annotations

from collections.abc import Mapping

from npu.errors import InterpreterError
from npu.graph.placement import Violation
from npu.runtime.delegate import (
    Context,
    DelegateFlags,
    DelegateParams,
    Node,
    Registration,
    SimpleDelegate,
    SimpleDelegateKernel,
    Status,
)
from npu.runtime.misuse import InterpreterStateError, InterpreterValueError
from npu.runtime.xnnpack.acceptance import Acceptance
from npu.runtime.xnnpack.memory import TensorMemory, Workspace
from npu.runtime.xnnpack.options import HalfPrecision, XnnpackOptions, default_options
from npu.runtime.xnnpack.partition import MemoryReport, Setting, XnnpackPartition
from npu.runtime.xnnpack.precision import choose_half
from npu.runtime.xnnpack.threads import Threads
from npu.runtime.xnnpack.variables import VariableValues


class XnnpackDelegate(SimpleDelegate):
    """A delegate with `options` (None: `default_options()`), for one interpreter at a time.

    `refusals` says why a node was not taken. Raises InterpreterStateError if the options' weights cache is finalised hard.
    """

    flags = DelegateFlags.FOLLOWS_BUFFERS

    def __init__(self, options: XnnpackOptions | None = None) -> None:
        self.options = default_options() if options is None else options
        if not isinstance(self.options, XnnpackOptions):
            raise InterpreterValueError(f"xnnpack: options must be XnnpackOptions, got {options!r}")
        self.refusals: dict[tuple[int, int], tuple[Violation, ...]] = {}
        self._pending: Setting | None = None
        self._live: list[XnnpackPartition] = []
        self._values: VariableValues = {}
        self._threads = Threads(self.options.num_threads)
        self._workspace = Workspace()
        self._memory, self._stripes = TensorMemory(), TensorMemory()
        self._is_closed = False
        if self.options.weights_cache is not None:
            self.options.weights_cache.add_user(self)

    def name(self) -> str:
        return "XnnpackDelegate"

    def initialize(self, context: Context) -> Status:
        """Judge the nodes of one subgraph; fails if half precision is forced and cannot be had."""
        if self._is_closed:
            context.report_error("xnnpack: the delegate must be open, it was closed")
            return Status.DELEGATE_ERROR
        if not self._live:
            self._values.clear()  # those of an interpreter that is closed
        graph = context.model.graphs[context.subgraph_index]
        acceptance = Acceptance(graph, self.options)
        taken = []
        for index in context.get_execution_plan():
            _, registration = context.get_node_and_registration(index)
            if registration.builtin_code != "DELEGATE":
                violations = acceptance.violations(index)
                self.refusals[context.subgraph_index, index] = violations
                if not violations:
                    taken.append(index)
        try:
            half = choose_half(context.model, graph, taken, self.options)
        except InterpreterError as error:
            context.report_error(str(error))
            return Status.DELEGATE_ERROR
        native = None if half is None else half is HalfPrecision.NATIVE
        shared = self._values, self._threads, self._workspace, self._memory, self._stripes
        self._pending = Setting(self.options, acceptance, native, *shared)
        return Status.OK

    def is_node_supported_by_delegate(self, registration: Registration, node: Node, context: Context) -> bool:
        return not self.refusals[context.subgraph_index, node.index]

    def create_delegate_kernel_interface(self) -> SimpleDelegateKernel:
        assert self._pending is not None, "initialize comes first"
        return _Counted(self._pending, self._live)

    @property
    def partitions(self) -> tuple[XnnpackPartition, ...]:
        """The kernels that interpreters hold."""
        return tuple(self._live)

    def memory(self) -> MemoryReport:
        """Bytes of all partitions; what they share (tensors, a transient indirection workspace) is counted once, as it is."""
        reports = [partition.memory() for partition in self._live]
        return MemoryReport(
            packed_weight_bytes=sum(report.packed_weight_bytes for report in reports),
            indirection_bytes=sum(report.indirection_bytes for report in reports),
            persistent_indirection_bytes=sum(report.persistent_indirection_bytes for report in reports),
            tensor_bytes=self._memory.bytes + self._stripes.bytes + sum(partition.unshared_bytes for partition in self._live),
        )

    @property
    def workspace_bytes(self) -> int:
        """Bytes of the workspace of transient indirection buffers."""
        return self._workspace.bytes

    def close(self) -> None:
        """Release threads and the weights cache; InterpreterStateError while an interpreter still holds a kernel."""
        if self._live:
            raise InterpreterStateError(
                f"xnnpack: the interpreter must be closed before the delegate, got {len(self._live)} kernels in use"
            )
        self._threads.close()
        if self.options.weights_cache is not None and not self._is_closed:
            self.options.weights_cache.remove_user(self)
        self._is_closed = True

    def refusal_table(self) -> Mapping[tuple[int, int], str]:
        """(subgraph, node) to the reasons why it was refused, as one text; nodes that were taken are absent."""
        return {
            place: "; ".join(f"{violation.rule}: {violation.message}" for violation in violations)
            for place, violations in self.refusals.items()
            if violations
        }


class _Counted(XnnpackPartition):
    """A partition that is on the delegate's list from its set-up until the interpreter frees it."""

    def __init__(self, setting: Setting, live: list[XnnpackPartition]) -> None:
        super().__init__(setting)
        self._live = live

    def init(self, context: Context, params: DelegateParams) -> Status:
        status = super().init(context, params)
        if status is Status.OK:
            self._live.append(self)
        return status

    def free(self, context: Context) -> None:
        if self in self._live:
            self._live.remove(self)
        super().free(context)
