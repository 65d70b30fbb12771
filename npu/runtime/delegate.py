"""The delegate protocol: what an executor that takes over operators must offer, and what the interpreter offers to it.

Two levels, as in TFLite. `SimpleDelegate` with `SimpleDelegateKernel` says which operators it wants and runs one partition of
them per
kernel. `Delegate` is the raw object with a `prepare` that may call `Context.replace_node_subsets_with_delegate_kernels`
itself, and
with buffer handles. The interpreter accepts both. The interface is experimental and may change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum, Flag
from typing import Any, Protocol
from weakref import WeakSet

from npu.errors import InterpreterError
from npu.graph.attributes import Attributes
from npu.graph.graph import Model
from npu.numerics.arrays import Array
from npu.records import dataclass
from npu.runtime.misuse import InterpreterValueError
from npu.runtime.tensor import RuntimeTensor

Tensors = Mapping[int, Sequence[Array]]
"""The arrays of many inferences by the index of their tensor."""


class Status(Enum):
    """How a callback ended. DELEGATE_ERROR says that the delegate, not the model, is at fault."""

    OK = 0
    ERROR = 1
    DELEGATE_ERROR = 2


def require_ok(status: object, what: str, errors: list[str], *, wanted: str = "return OK") -> None:
    """InterpreterError with the reported `errors`, which are cleared, unless a callback ended with Status.OK."""
    if status is Status.OK:
        return
    reasons = "; ".join(errors) or "no reason given"
    errors.clear()
    got = status.name if isinstance(status, Status) else f"{status!r}, which is no Status"
    raise InterpreterError(f"{what}: must {wanted}, got {got}: {reasons}")


class DelegateFlags(Flag):
    """What a raw delegate can cope with; none by default.

    ALLOW_DYNAMIC_TENSORS is accepted and changes nothing: every delegate is offered graphs with dynamic tensors and decides
    node by node. REQUIRE_PROPAGATED_SHAPES has the shapes inside a partition worked out before its kernel is prepared.
    FOLLOWS_BUFFERS: kernels look up the numpy buffers of tensors in every run and use no buffer handles, so that what they read
    and write may share memory with other tensors.
    """

    NONE = 0
    ALLOW_DYNAMIC_TENSORS = 1
    REQUIRE_PROPAGATED_SHAPES = 2
    FOLLOWS_BUFFERS = 4


@dataclass(frozen=True, slots=True)
class Registration:
    """What a node executes: the builtin name ("ADD", "CUSTOM", "DELEGATE"), and the name of a custom operator."""

    builtin_code: str
    custom_name: str | None = None
    version: int = 1


@dataclass(slots=True, eq=False)
class Node:
    """One step of the execution plan. `inputs` may hold -1 (absent). `user_data` belongs to the kernel that runs the node."""

    index: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: Attributes | None = None
    custom_options: bytes = b""
    intermediates: tuple[int, ...] = ()
    name: str = ""
    user_data: Any = None
    delegate: Delegate | None = None


@dataclass(frozen=True, slots=True)
class DelegateParams:
    """One partition: the nodes it replaces in execution order, and the tensors that cross its boundary.

    `input_tensors` holds constants too, as in TFLite.
    """

    delegate: Delegate
    nodes_to_replace: tuple[int, ...]
    input_tensors: tuple[int, ...]
    output_tensors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KernelRegistration:
    """The kernel of a delegate node. `init` returns the user data, None to signal failure; the others get it as
    `node.user_data`."""

    custom_name: str
    init: Callable[[Context, DelegateParams], Any]
    prepare: Callable[[Context, Node], Status]
    invoke: Callable[[Context, Node], Status]
    free: Callable[[Context, Any], None] | None = None
    invoke_many: Callable[[Context, Node, Tensors, Tensors], int] | None = None
    """As `SimpleDelegateKernel.eval_many`."""
    builtin_code: str = "DELEGATE"


class Context(Protocol):
    """What the interpreter shows of one subgraph to delegates and kernels."""

    @property
    def model(self) -> Model:
        """The whole model as read: metadata such as OfflineMemoryAllocation, signatures, the other subgraphs."""

    @property
    def subgraph_index(self) -> int:
        """Which of `model.graphs` this context runs."""

    @property
    def tensors(self) -> Sequence[RuntimeTensor]:
        """All tensors by index, with shape, type, quantization and (once allocated) the buffer `data`."""

    @property
    def inputs(self) -> tuple[int, ...]:
        """Tensor indices of the subgraph's inputs."""

    @property
    def outputs(self) -> tuple[int, ...]:
        """Tensor indices of the subgraph's outputs."""

    def get_execution_plan(self) -> tuple[int, ...]:
        """Node indices in execution order, delegate nodes included."""

    def get_node_and_registration(self, node_index: int) -> tuple[Node, Registration]:
        """One node and what it executes; InterpreterError if the index names no node."""

    def replace_node_subsets_with_delegate_kernels(
        self, registration: KernelRegistration, nodes: Sequence[int], delegate: Delegate
    ) -> Status:
        """Partition `nodes`, replace every partition by one node that `registration` runs, and call its `init`."""

    def prepare_node(self, node_index: int) -> Callable[[], None]:
        """Set the output shapes of a node with its default kernel and return what runs it; for delegates that wrap kernels.

        An output that stays dynamic (`tensors[i].is_dynamic`) gets its shape when the returned function runs.
        """

    def resize_tensor(self, tensor_index: int, shape: Sequence[int]) -> None:
        """Give a non-constant tensor a new shape and buffer; for kernels whose output shapes are not those of the file."""

    @property
    def is_profiling(self) -> bool:
        """Whether a delegate kernel should time the operators inside it."""

    def record_time(self, node_index: int, name: str, seconds: float) -> None:
        """Add the time of one operator inside a delegate kernel to the profile; nothing if no profile is taken."""

    def report_error(self, message: str) -> None:
        """Say why the next status is not OK; the text ends up in the InterpreterError."""


@dataclass(frozen=True, slots=True)
class SimpleDelegateOptions:
    """Limits on partitions: at most `max_delegated_partitions` (0: all), each of at least `min_nodes_per_partition` nodes (0:
    any)."""

    max_delegated_partitions: int = 0
    min_nodes_per_partition: int = 0


class Delegate(ABC):
    """The raw delegate object: claims nodes in `prepare`, and moves tensor data between its own memory and numpy buffers.

    Buffer handles are integers that the delegate hands out with `Interpreter.set_buffer_handle` or by setting
    `tensor.buffer_handle`, `tensor.delegate` and `tensor.data_is_stale`; the interpreter then calls the functions below lazily.

    A delegate must outlive the interpreters that use it: `delete` refuses while one is open.
    """

    data: Any = None
    flags: DelegateFlags = DelegateFlags.NONE

    def name(self) -> str:
        """How reports call the delegate."""
        return type(self).__name__

    @abstractmethod
    def prepare(self, context: Context) -> Status:
        """Claim nodes; called once per subgraph when the delegate is applied."""

    @abstractmethod
    def copy_from_buffer_handle(self, context: Context, buffer_handle: int, tensor: RuntimeTensor) -> Status:
        """Copy the delegate's buffer into `tensor.data`; called when the CPU reads a tensor whose data are stale."""

    copy_to_buffer_handle: Callable[[Context, int, RuntimeTensor], Status] | None = None
    """Optional: copy `tensor.data` into the delegate's buffer."""

    free_buffer_handle: Callable[[Context, int], None] | None = None
    """Optional: the handle is no longer used by any tensor."""

    def partition_options(self) -> SimpleDelegateOptions:
        """Limits on partitions; none by default."""
        return SimpleDelegateOptions()

    def executor(self) -> Delegate:
        """The object that nodes and tensors refer to: another one if this one only wraps it."""
        return self

    def delete(self) -> None:
        """Release what the delegate holds; exactly once, after every interpreter that uses it is closed or gone."""
        users = len(self._users)
        if users:
            raise InterpreterError(f"delegate '{self.name()}': must outlive its interpreters, got delete while {users} use it")
        if self.is_deleted:
            raise InterpreterError(f"delegate '{self.name()}': must be deleted once, got a second time")
        self.__dict__["_is_deleted"] = True
        self.destroy()

    def destroy(self) -> None:  # noqa: B027 - most delegates hold nothing
        """What `delete` does; for delegates that hold resources."""

    @property
    def is_deleted(self) -> bool:
        """Whether `delete` was called."""
        return bool(self.__dict__.get("_is_deleted", False))

    def attach(self, user: object) -> None:
        """An interpreter begins to use the delegate; InterpreterError if it is deleted."""
        if self.is_deleted:
            raise InterpreterError(f"delegate '{self.name()}': must be used before it is deleted, got it after")
        self._users.add(user)

    def detach(self, user: object) -> None:
        """An interpreter no longer uses the delegate."""
        self._users.discard(user)

    @property
    def _users(self) -> WeakSet[object]:
        users: WeakSet[object] = self.__dict__.setdefault("_users_of_delegate", WeakSet())
        return users


class SimpleDelegateKernel(ABC):
    """Runs one partition. `init` is called once, `prepare` after every (re)allocation of tensors, `eval` on each invoke."""

    @abstractmethod
    def init(self, context: Context, params: DelegateParams) -> Status:
        """One-time set-up; `context.get_node_and_registration(i)` describes the nodes of `params.nodes_to_replace`."""

    @abstractmethod
    def prepare(self, context: Context, node: Node) -> Status:
        """Allocate for the current tensor shapes."""

    @abstractmethod
    def eval(self, context: Context, node: Node) -> Status:
        """Read the partition's input tensors, write its output tensors."""

    def eval_many(self, context: Context, node: Node, given: Tensors, made: Tensors) -> int:
        """Inferences one after another, of arrays by the index of their tensor; how many, from the first on, are done.

        Asked only where the partition is the whole graph, after `eval`. What is not done is left to `eval`.
        """
        return 0

    def invoke(self, context: Context, node: Node) -> Status:
        """The name that the older guide uses for `eval`."""
        return self.eval(context, node)

    def free(self, context: Context) -> None:  # noqa: B027 - most kernels have nothing to release
        """The interpreter gives the kernel up; it is not called any more afterwards."""


class SimpleDelegate(ABC):
    """The capabilities of an executor: which nodes it supports, and a factory of kernels, one per partition."""

    flags: DelegateFlags = DelegateFlags.NONE

    @abstractmethod
    def is_node_supported_by_delegate(self, registration: Registration, node: Node, context: Context) -> bool:
        """Decide by operator, options and tensors (types, shapes, constants) whether this delegate takes the node."""

    @abstractmethod
    def initialize(self, context: Context) -> Status:
        """Called once before any other method; anything but OK stops the delegation."""

    @abstractmethod
    def name(self) -> str:
        """How reports call the delegate."""

    @abstractmethod
    def create_delegate_kernel_interface(self) -> SimpleDelegateKernel:
        """A new kernel, once per partition."""

    def delegate_options(self) -> SimpleDelegateOptions:
        """Limits on partitions; none by default."""
        return SimpleDelegateOptions()

    def close(self) -> None:  # noqa: B027 - most delegates hold nothing
        """Called once when the raw delegate object is deleted."""


class _FromSimple(Delegate):
    """A SimpleDelegate as the raw delegate object."""

    def __init__(self, simple: SimpleDelegate) -> None:
        self.data, self.flags = simple, simple.flags

    def name(self) -> str:
        simple: SimpleDelegate = self.data
        return simple.name()

    def partition_options(self) -> SimpleDelegateOptions:
        simple: SimpleDelegate = self.data
        return simple.delegate_options()

    def prepare(self, context: Context) -> Status:
        simple: SimpleDelegate = self.data
        status = simple.initialize(context)
        if status is not Status.OK:
            return status
        supported = [index for index in context.get_execution_plan() if _supports(simple, context, index)]
        return context.replace_node_subsets_with_delegate_kernels(_kernel_registration(simple), supported, self)

    def copy_from_buffer_handle(self, context: Context, buffer_handle: int, tensor: RuntimeTensor) -> Status:
        context.report_error(f"delegate {self.name()}: has no buffer handles")
        return Status.DELEGATE_ERROR

    def destroy(self) -> None:
        simple: SimpleDelegate = self.data
        simple.close()


def _supports(simple: SimpleDelegate, context: Context, index: int) -> bool:
    node, registration = context.get_node_and_registration(index)
    return registration.builtin_code != "DELEGATE" and simple.is_node_supported_by_delegate(registration, node, context)


def _kernel_registration(simple: SimpleDelegate) -> KernelRegistration:
    def init(context: Context, params: DelegateParams) -> SimpleDelegateKernel | None:
        kernel = simple.create_delegate_kernel_interface()
        if not isinstance(kernel, SimpleDelegateKernel):
            context.report_error(f"create_delegate_kernel_interface: must return a SimpleDelegateKernel, got {kernel!r}")
            return None
        status = kernel.init(context, params)
        if not isinstance(status, Status):
            context.report_error(f"init: must return a Status, got {status!r}")
        return kernel if status is Status.OK else None

    def prepare(context: Context, node: Node) -> Status:
        kernel: SimpleDelegateKernel = node.user_data
        return kernel.prepare(context, node)

    def invoke(context: Context, node: Node) -> Status:
        kernel: SimpleDelegateKernel = node.user_data
        return kernel.invoke(context, node)

    def free(context: Context, kernel: SimpleDelegateKernel) -> None:
        kernel.free(context)

    def invoke_many(context: Context, node: Node, given: Tensors, made: Tensors) -> int:
        kernel: SimpleDelegateKernel = node.user_data
        return kernel.eval_many(context, node, given, made)

    return KernelRegistration(
        custom_name=simple.name(), init=init, prepare=prepare, invoke=invoke, invoke_many=invoke_many, free=free
    )


def as_delegate(delegate: Delegate | SimpleDelegate) -> Delegate:
    """The raw delegate object that owns a SimpleDelegate (`delete` closes it); raw delegates are returned as they are.

    InterpreterValueError for anything else.
    """
    if isinstance(delegate, SimpleDelegate):
        return _FromSimple(delegate)
    if not isinstance(delegate, Delegate):
        raise InterpreterValueError(
            f"delegate: must be a Delegate or a SimpleDelegate, got {delegate!r}; load_delegate loads one by name"
        )
    return delegate


class WrappedDelegate(Delegate):
    """Another delegate, to which everything is passed on that a subclass does not change."""

    def __init__(self, inner: Delegate) -> None:
        self._inner = inner
        self.flags = inner.flags

    def executor(self) -> Delegate:
        return self._inner.executor()

    def partition_options(self) -> SimpleDelegateOptions:
        return self._inner.partition_options()

    def name(self) -> str:
        return self._inner.name()

    def prepare(self, context: Context) -> Status:
        return self._inner.prepare(context)

    def copy_from_buffer_handle(self, context: Context, buffer_handle: int, tensor: RuntimeTensor) -> Status:
        return self._inner.copy_from_buffer_handle(context, buffer_handle, tensor)


class RestrictedDelegate(WrappedDelegate):
    """A delegate that may only see some nodes; for finding the operator at which results begin to differ."""

    def __init__(self, inner: Delegate, nodes: Collection[int]) -> None:
        super().__init__(inner)
        self._nodes = frozenset(nodes)

    def prepare(self, context: Context) -> Status:
        return super().prepare(_PlanView(context, self._nodes))


class _PlanView:
    """A context whose execution plan has only some nodes."""

    def __init__(self, context: Context, nodes: frozenset[int]) -> None:
        self._context = context
        self._nodes = nodes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def get_execution_plan(self) -> tuple[int, ...]:
        return tuple(index for index in self._context.get_execution_plan() if index in self._nodes)
