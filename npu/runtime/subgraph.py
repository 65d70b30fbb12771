"""One subgraph while it runs: execution plan, preparation, dynamic shapes and delegation; the interpreter's side of
`Context`."""

from __future__ import annotations

import functools
import math
import os
import time
from collections.abc import Callable, Sequence
from operator import is_not
from typing import Protocol

import numpy as np

from npu.errors import InterpreterError
from npu.graph.dtype import DType
from npu.graph.ethos_u import CUSTOM_CODE as ETHOS_U
from npu.graph.graph import ABSENT, Graph, Model, Op
from npu.graph.partition import ORDERED_CUSTOM_CODES, NodeSubset, orders, partition_nodes
from npu.graph.verify import extents_defect
from npu.numerics.arrays import Array
from npu.progress import Progress, counted
from npu.runtime.buffer_handles import BufferHandles
from npu.runtime.delegate import (
    Context,
    Delegate,
    DelegateFlags,
    DelegateParams,
    KernelRegistration,
    Node,
    Registration,
    SimpleDelegateOptions,
    Status,
    Tensors,
    require_ok,
)
from npu.runtime.nodes import attributes_of, node_of, storage_of
from npu.runtime.operator import OperatorNode, Run, RuntimeOptions, SubgraphServices
from npu.runtime.registry import find_custom, find_operator
from npu.runtime.shared_memory import SharedMemory
from npu.runtime.tensor import NO_BUFFER_HANDLE, RuntimeTensor

_NPU_HINT = "; compiled files run in npu.Interpreter, and in tools with --use_npu"


class InterpreterState(SubgraphServices, Protocol):
    """What all subgraphs of one interpreter share."""

    options: RuntimeOptions
    preserve_all_tensors: bool
    profile: list[tuple[int, int, str, float]] | None
    progress: Progress | None


class Subgraph:
    """The run-time state of `model.graphs[index]`."""

    def __init__(self, model: Model, index: int, state: InterpreterState) -> None:
        self._model = model
        self._index = index
        self._state = state
        graph: Graph = model.graphs[index]
        self.graph = graph
        self._tensors = tuple(RuntimeTensor(i, tensor) for i, tensor in enumerate(graph.tensors))
        self._nodes: list[Node] = [node_of(i, op) for i, op in enumerate(graph.ops)]
        self._registrations: list[Registration] = [Registration(op.kind, op.custom_code, op.version) for op in graph.ops]
        self._kernels: dict[int, tuple[KernelRegistration, DelegateParams]] = {}
        self._plan: list[int] = list(range(len(graph.ops)))
        self._steps: list[Run] = []
        self._dynamic: dict[int, tuple[Array | None, ...]] = {}
        """Steps that decide the shapes of their outputs, with the buffers for which those after them are prepared."""
        self._errors: list[str] = []
        self._custom_ready: set[int] = set()
        self.is_allocated = False
        self._memory = SharedMemory()
        self._handles = BufferHandles(self, self._check)
        self._uses_handles = False

    # --- Context -------------------------------------------------------------------------------------------------------------

    @property
    def model(self) -> Model:
        return self._model

    @property
    def subgraph_index(self) -> int:
        return self._index

    @property
    def tensors(self) -> Sequence[RuntimeTensor]:
        return self._tensors

    @property
    def inputs(self) -> tuple[int, ...]:
        return self.graph.inputs

    @property
    def outputs(self) -> tuple[int, ...]:
        return self.graph.outputs

    def get_execution_plan(self) -> tuple[int, ...]:
        return tuple(self._plan)

    def get_node_and_registration(self, node_index: int) -> tuple[Node, Registration]:
        if not 0 <= node_index < len(self._nodes):
            raise InterpreterError(f"subgraph {self._index}: node index must be in [0, {len(self._nodes)}), got {node_index}")
        return self._nodes[node_index], self._registrations[node_index]

    def resize_tensor(self, tensor_index: int, shape: Sequence[int]) -> None:
        tensor = self._tensors[tensor_index]
        if tensor.is_constant:
            raise InterpreterError(f"tensor {tensor_index} '{tensor.name}': must not be a constant to be resized")
        self._allocate(tensor, tuple(int(size) for size in shape))

    @property
    def is_profiling(self) -> bool:
        return self._state.profile is not None

    def record_time(self, node_index: int, name: str, seconds: float) -> None:
        if self._state.profile is not None:
            self._state.profile.append((self._index, node_index, name, seconds))

    def prepare_node(self, node_index: int) -> Run:
        node, _ = self.get_node_and_registration(node_index)
        for index in node.outputs:
            self._tensors[index].is_dynamic = False
        return self._prepare_node(node)

    def report_error(self, message: str) -> None:
        self._errors.append(message)

    def replace_node_subsets_with_delegate_kernels(
        self, registration: KernelRegistration, nodes: Sequence[int], delegate: Delegate
    ) -> Status:
        unknown = sorted(set(nodes) - set(self._plan))
        if unknown:
            self.report_error(f"subgraph {self._index}: delegated nodes must be in the execution plan, got {unknown}")
            return Status.ERROR
        options = delegate.partition_options()
        steps = [(self._nodes[i].inputs, self._nodes[i].outputs) for i in self._plan]
        chosen = {self._plan.index(node) for node in nodes}
        subsets = partition_nodes(steps, chosen, self.graph.outputs, order=orders(self._op(i) for i in self._plan))
        kept = _within_limits([s for s in subsets if s.delegated], options)
        plan: list[int] = []
        for subset in subsets:
            members = [self._plan[position] for position in subset.nodes]
            if not any(subset is other for other in kept):
                plan.extend(members)
                continue
            params = DelegateParams(delegate, tuple(members), subset.inputs, subset.outputs)
            index = self._add_delegate_node(registration, params)
            if index is None:
                return Status.DELEGATE_ERROR
            plan.append(index)
        self._plan = plan
        return Status.OK

    def _op(self, index: int) -> Op:
        """The operator of a node, as the partitioner asks for it; a delegate's node is one too."""
        node, registration = self._nodes[index], self._registrations[index]
        return Op(registration.builtin_code, node.inputs, node.outputs, node.attributes, custom_code=registration.custom_name)

    # --- delegation ----------------------------------------------------------------------------------------------------------

    def apply_delegate(self, delegate: Delegate) -> None:
        """Let the delegate claim nodes. On failure an InterpreterError says why; `undo_delegates` must follow."""
        self._errors.clear()
        what = f"delegate '{delegate.name()}' on subgraph {self._index}"
        require_ok(delegate.prepare(self), what, self._errors, wanted="accept the graph")

    def undo_delegates(self) -> None:
        """Put the execution plan back to the operators of the file; kernels and buffer handles are freed."""
        self.release()
        count = len(self.graph.ops)
        self._plan = list(range(count))
        del self._nodes[count:], self._registrations[count:]

    def _free_kernel(self, index: int) -> None:
        registration, _ = self._kernels.pop(index)
        node = self._nodes[index]
        data, node.user_data, node.delegate = node.user_data, None, None  # a delegate that nobody else holds is gone at once
        if registration.free is not None:
            registration.free(self, data)

    def release(self) -> None:
        """Free kernels and buffer handles of delegates; the subgraph must not run afterwards."""
        for index in list(self._kernels):
            self._free_kernel(index)
        for tensor in self._tensors:
            self.set_buffer_handle(tensor, NO_BUFFER_HANDLE, None)

    def _add_delegate_node(self, registration: KernelRegistration, params: DelegateParams) -> int | None:
        user_data = registration.init(self, params)
        if user_data is None:
            self.report_error(f"kernel '{registration.custom_name}' must initialise for nodes {list(params.nodes_to_replace)}")
            return None
        node = Node(
            index=len(self._nodes),
            inputs=params.input_tensors,
            outputs=params.output_tensors,
            name=registration.custom_name,
            user_data=user_data,
            delegate=params.delegate,
        )
        self._nodes.append(node)
        self._registrations.append(Registration("DELEGATE", registration.custom_name))
        self._kernels[node.index] = (registration, params)
        return node.index

    def replaced_nodes(self, node_index: int) -> tuple[int, ...]:
        """The operators that a delegate node stands for, () for an ordinary node."""
        return self._kernels[node_index][1].nodes_to_replace if node_index in self._kernels else ()

    def set_buffer_handle(self, tensor: RuntimeTensor, handle: int, delegate: Delegate | None) -> None:
        """Attach a delegate's buffer to a tensor; a former handle is freed."""
        self._handles.attach(tensor, handle, delegate)
        self._uses_handles |= delegate is not None

    def make_readable(self, tensor: RuntimeTensor) -> None:
        """Copy a delegate's newer data into the numpy buffer."""
        self._handles.make_readable(tensor)

    # --- preparation ---------------------------------------------------------------------------------------------------------

    def allocate(self) -> None:
        """Prepare every operator whose shapes are known and give all tensors buffers."""
        self.is_allocated = False
        self._custom_ready.clear()
        self._handles.forget()
        self._steps = []
        self._dynamic = {}
        for tensor in self._tensors:
            tensor.is_dynamic = False
            if not tensor.is_constant and tensor.is_variable:
                self._allocate(tensor, tensor.shape)
        for index in self.graph.inputs:
            if not self._tensors[index].is_constant:
                self._allocate(self._tensors[index], self._tensors[index].shape)
        self._prepare_from(0)
        self._share_memory()
        self._uses_handles = not all(map(self._follows_buffers, self._kernels)) or any(t.delegate for t in self._tensors)
        self.reset_variables()  # as LiteRT does when shapes have changed
        self.is_allocated = True

    # --- memory --------------------------------------------------------------------------------------------------------------

    def _share_memory(self) -> None:
        """Let intermediate tensors share memory; not inputs and outputs, nor what custom operators and most delegates read or
        write, which may keep addresses."""
        foreign = {*self.graph.inputs, *self.graph.outputs}
        nodes = [self._nodes[index] for index in self._plan]
        for node in nodes:
            if self._registrations[node.index].custom_name and not self._follows_buffers(node.index):
                foreign.update((*node.inputs, *node.outputs))
        self._memory.place(self._tensors, nodes, foreign, share=not self._state.preserve_all_tensors)

    def _follows_buffers(self, node_index: int) -> bool:
        """Whether a node is one of a delegate that says so."""
        kernel = self._kernels.get(node_index)
        return kernel is not None and DelegateFlags.FOLLOWS_BUFFERS in kernel[1].delegate.flags

    @property
    def arena_bytes(self) -> int:
        """Bytes of the arena of intermediate tensors."""
        return self._memory.bytes

    @property
    def tensor_bytes(self) -> int:
        """Bytes of the arena and of all other buffers that are no constants."""
        return self._memory.bytes_of(self._tensors)

    def is_overwritten(self, tensor: RuntimeTensor) -> bool:
        """Whether later tensors use the memory of this one, so that nothing can be read after a run."""
        return self._memory.is_overwritten(tensor)

    @property
    def node_count(self) -> int:
        """Operators of the file and delegate nodes."""
        return len(self._nodes)

    @property
    def has_dynamic_shapes(self) -> bool:
        """Whether the shape of a tensor is known only in the run."""
        return bool(self._dynamic)

    def reset_variables(self) -> None:
        """Fill variable tensors with their zero point. What is zero is not written: it needs no memory until then."""
        for tensor in self._tensors:
            if tensor.is_variable and tensor.data is not None and not tensor.is_constant:
                value = tensor.zero_point if tensor.dtype is DType.INT8 else 0
                if value or tensor.data.reshape(-1).view(np.uint8).any():
                    tensor.data.fill(value)

    def _prepare_from(self, start: int) -> None:
        del self._steps[start:]
        for position in range(start, len(self._plan)):
            node = self._nodes[self._plan[position]]
            for index in node.outputs:
                self._tensors[index].is_dynamic = False
            self._steps.append(self._prepare_node(node))
            if any(self._tensors[index].is_dynamic for index in node.outputs):
                self._dynamic[position] = ()
                break

    def _prepare_node(self, node: Node) -> Run:
        if node.index in self._kernels:
            return self._prepare_delegate(node)
        registration = self._registrations[node.index]
        if registration.builtin_code == "CUSTOM":
            return self._prepare_custom(node, registration)
        return self._prepare_builtin(node)

    def _prepare_builtin(self, node: Node) -> Run:
        op = self.graph.ops[node.index]
        label = f"{op.name.lower()} (op {node.index} of subgraph {self._index})"
        view = OperatorNode(
            kind=op.kind,
            label=label,
            inputs=tuple(None if i == ABSENT else self._tensors[i] for i in op.inputs),
            outputs=tuple(self._tensors[i] for i in op.outputs),
            attributes=attributes_of(op, label),
            services=self._state,
            options=self._state.options,
            allocate=self._allocate,
            intermediates=tuple(self._tensors[i] for i in op.intermediates if i != ABSENT),
            custom_options=op.custom_options,
        )
        return find_operator(op.kind, label).prepare(view)

    def _prepare_custom(self, node: Node, registration: Registration) -> Run:
        name = registration.custom_name or ""
        operator = self._state.options.custom_operators.get(name) or find_custom(name)
        if operator is None:
            raise InterpreterError(
                f"custom operator '{name}' (op {node.index} of subgraph {self._index}): must have a registered kernel"
                f" or be taken by a delegate, got neither{_NPU_HINT if name == ETHOS_U else ''}"
            )
        if operator.init is not None and node.index not in self._custom_ready:
            node.user_data = operator.init(self, node.custom_options)
            self._custom_ready.add(node.index)
        self._allocate_outputs(node)
        if operator.prepare is not None:
            self._check(operator.prepare(self, node), f"prepare of custom operator '{name}'")
        return self._checked(operator.invoke, node, f"custom operator '{name}'")

    def _prepare_delegate(self, node: Node) -> Run:
        registration, params = self._kernels[node.index]
        resized = any(self._tensors[i].shape != self.graph.tensors[i].shape for i in node.inputs if i != ABSENT)
        if resized or DelegateFlags.REQUIRE_PROPAGATED_SHAPES in params.delegate.flags:
            for index in params.nodes_to_replace:
                if not self._has_fixed_shapes(index):
                    self.prepare_node(index)
                if any(self._tensors[i].is_dynamic for i in self._nodes[index].outputs):
                    break  # shapes from here on are those of the run
        self._allocate_outputs(node)
        self._check(registration.prepare(self, node), f"prepare of delegate kernel '{registration.custom_name}'")
        return self._checked(registration.invoke, node, f"delegate kernel '{registration.custom_name}'")

    def _has_fixed_shapes(self, index: int) -> bool:
        """Whether an operator takes its inputs as so many elements: compiled jobs, where only reshapes were left out.

        InterpreterError if it does and an input has more or fewer.
        """
        name = self._registrations[index].custom_name
        if name not in ORDERED_CUSTOM_CODES:
            return False
        for operand in self._nodes[index].inputs:
            if operand != ABSENT and self._tensors[operand].elements != self.graph.tensors[operand].elements:
                tensor, made = self._tensors[operand], list(self.graph.tensors[operand].shape)
                raise InterpreterError(
                    f"compiled operator '{name}' (op {index} of subgraph {self._index}): input {operand} '{tensor.name}' must "
                    f"have the shape {made} that it was compiled for, got {list(tensor.shape)}"
                )
        return True

    def _allocate_outputs(self, node: Node) -> None:
        for index in node.outputs:
            if not self._tensors[index].is_constant:
                self._allocate(self._tensors[index], self._tensors[index].shape)

    def _checked(self, function: Callable[[Context, Node], Status], node: Node, what: str) -> Run:
        good = Status.OK  # which takes longer to find than a call takes

        def run() -> None:
            status = function(self, node)
            if status is not good:
                self._check(status, what)

        return run

    def _check(self, status: Status, what: str) -> None:
        require_ok(status, f"{what} in subgraph {self._index}", self._errors)

    def _allocate(self, tensor: RuntimeTensor, shape: tuple[int, ...]) -> None:
        if tensor.data is not None and tensor.data.shape == shape and tensor.shape == shape:
            return
        if tensor.is_constant:
            raise InterpreterError(f"tensor {tensor.index} '{tensor.name}': must not be a constant to be written")
        dtype = storage_of(tensor.dtype)
        defect = extents_defect(shape, dtype.itemsize)
        if defect:
            raise InterpreterError(f"tensor {tensor.index} '{tensor.name}': {defect}")
        needed, limit = math.prod(shape) * dtype.itemsize, largest_tensor_bytes()
        if needed > limit:
            where = f"tensor {tensor.index} '{tensor.name}' of shape {list(shape)}"
            raise InterpreterError(
                f"{where}: must take at most {limit} bytes, a sixteenth of this machine's memory, got {needed}"
            )
        tensor.shape = shape
        tensor.data = self._memory.own(shape, dtype)

    # --- execution -----------------------------------------------------------------------------------------------------------

    def invoke(self) -> None:
        """Run the execution plan once."""
        if self._errors:
            self._errors.clear()
        if self._dynamic or self._uses_handles or self._is_watched:
            self._invoke_step_by_step()
            return
        for step in self._steps:
            step()

    def takes(self, arrays: Sequence[Array]) -> bool:
        """Whether arrays are values of the inputs, without gaps."""
        tensors = [self._tensors[index] for index in self.graph.inputs]
        return len(arrays) == len(tensors) and all(
            array.dtype == tensor.array.dtype and array.shape == tensor.shape and array.flags.c_contiguous
            for array, tensor in zip(arrays, tensors, strict=True)
        )

    def invoke_many(self, given: Tensors, made: Tensors) -> int:
        """Inferences from inputs to outputs of each, if one delegate kernel runs the graph and does so in one call; how many
        are done."""
        kernel = self._kernels.get(self._plan[0]) if len(self._plan) == 1 else None
        if kernel is None or kernel[0].invoke_many is None or self._dynamic or self._is_watched:
            return 0
        if len(given) < len(self.inputs) or len(made) < len(self.outputs):
            return 0  # one tensor twice
        if any(tensor.is_variable or tensor.delegate is not None for tensor in self._tensors):
            return 0
        return kernel[0].invoke_many(self, self._nodes[self._plan[0]], given, made)

    @property
    def _is_watched(self) -> bool:
        """Whether somebody wants to know how far an inference is."""
        return self._state.profile is not None or self._state.progress is not None

    def _invoke_step_by_step(self) -> None:
        """With what there may be to do between two steps."""
        told = self._state.progress if self._index == 0 and len(self._plan) > 1 else None
        for position, index in enumerate(counted(self._plan, "operators of the model", told)):
            if position >= len(self._steps):
                self._prepare_from(position)
            if self._uses_handles:
                self._handles.before(self._nodes[index])
            if self._state.profile is None:
                self._steps[position]()
            else:
                self._timed(position, index)
            if position in self._dynamic:
                self._follow(position)

    def _follow(self, position: int) -> None:
        """Let what comes after a step that has decided the shapes of its outputs be prepared again, if they are others."""
        made = tuple(self._tensors[index].data for index in self._nodes[self._plan[position]].outputs)
        before = self._dynamic[position]
        if len(before) != len(made) or any(map(is_not, before, made)):
            del self._steps[position + 1 :]
            self._dynamic = {earlier: buffers for earlier, buffers in self._dynamic.items() if earlier < position}
            self._dynamic[position] = made

    def _timed(self, position: int, index: int) -> None:
        assert self._state.profile is not None
        start = time.perf_counter()
        self._steps[position]()
        seconds = time.perf_counter() - start
        registration = self._registrations[index]
        self._state.profile.append((self._index, index, registration.custom_name or registration.builtin_code, seconds))


def _within_limits(subsets: Sequence[NodeSubset], options: SimpleDelegateOptions) -> list[NodeSubset]:
    """The partitions that a delegate may keep: the largest ones first, as TFLite chooses them."""
    large = [subset for subset in subsets if len(subset.nodes) >= options.min_nodes_per_partition]
    large.sort(key=lambda subset: -len(subset.nodes))
    return large[: options.max_delegated_partitions] if options.max_delegated_partitions > 0 else large


@functools.cache
def largest_tensor_bytes() -> int:
    """What a tensor that is no constant may take: kernels hold some of them at once, and their elements in 64 bits."""
    return _memory_bytes() // 16


def _memory_bytes() -> int:
    """The memory of this computer; 8 GiB where Python does not tell, as on Windows."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 8 << 30
