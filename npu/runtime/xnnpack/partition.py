"""The kernel of one partition: makes the operations, prepares them and runs them in order."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from npu.errors import InterpreterError, UserError
from npu.graph.dtype import DType
from npu.graph.graph import ABSENT
from npu.graph.ops import BY_NAME
from npu.numerics.arrays import Array
from npu.records import dataclass
from npu.runtime.arena import lifetimes, plan_arena
from npu.runtime.delegate import Context, DelegateParams, Node, SimpleDelegateKernel, Status
from npu.runtime.misuse import InterpreterStateError
from npu.runtime.operator import OperatorNode, Run, RuntimeOptions
from npu.runtime.tensor import MOVES, RuntimeTensor
from npu.runtime.xnnpack.acceptance import VARIABLE_KINDS, Acceptance
from npu.runtime.xnnpack.cascade import Cascade, find_cascades
from npu.runtime.xnnpack.convolution import Site, compile_weighted
from npu.runtime.xnnpack.direct import make_direct
from npu.runtime.xnnpack.half import FromHalf, HalfOperation, ToHalf
from npu.runtime.xnnpack.kernels.row import JOB
from npu.runtime.xnnpack.mean import make_mean
from npu.runtime.xnnpack.memory import TensorMemory, Workspace, guarded
from npu.runtime.xnnpack.operand import operand
from npu.runtime.xnnpack.operation import CompiledOperation, ReferenceOperation, Rows, XnnpackOperation
from npu.runtime.xnnpack.options import XnnpackOptions
from npu.runtime.xnnpack.pad import make_pad
from npu.runtime.xnnpack.pairs import KINDS, compile_pairs
from npu.runtime.xnnpack.pooling import make_max_pool
from npu.runtime.xnnpack.precision import has_floats
from npu.runtime.xnnpack.resize import Resize
from npu.runtime.xnnpack.sparse import SparseConvolution, sparse_operators
from npu.runtime.xnnpack.tables import UNARY, make_look_up
from npu.runtime.xnnpack.threads import Threads
from npu.runtime.xnnpack.variables import VariableOperation, VariableValues
from npu.runtime.xnnpack.weights_cache import WeightsCache

WEIGHTED = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


@dataclass(frozen=True, slots=True)
class Setting:
    """What a delegate gives its partitions. `half` is None for float32, else whether fp16 is native."""

    options: XnnpackOptions
    acceptance: Acceptance
    half: bool | None
    values: VariableValues
    threads: Threads
    workspace: Workspace
    memory: TensorMemory
    stripes: TensorMemory
    """Of maps that are not whole."""


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Bytes of one partition. Indirection buffers are `indirection_bytes` in all; transient ones share the workspace, and most
    tensors memory with those of other partitions."""

    packed_weight_bytes: int
    indirection_bytes: int
    persistent_indirection_bytes: int
    tensor_bytes: int


class _NoSubgraphs:
    """Services of operators inside a partition: control flow is never delegated."""

    resources: dict[tuple[str, str], Array]

    def __init__(self) -> None:
        self.resources = {}

    def prepare_subgraph(self, index: int, shapes: Any) -> list[tuple[int, ...]] | None:
        raise _no_subgraph(index)

    def signature_of(self, index: int) -> tuple[list[DType], list[DType]]:
        raise _no_subgraph(index)

    def run_subgraph(self, index: int, arguments: Any) -> list[Array]:
        raise _no_subgraph(index)

    def run_once(self, index: int) -> None:
        raise _no_subgraph(index)


def _no_subgraph(index: int) -> InterpreterError:
    return InterpreterError(f"xnnpack: an operator of a partition must not call subgraphs, got subgraph {index}")


_MAKERS: Mapping[str, Callable[[int, OperatorNode, Site], CompiledOperation | None]] = {
    "MEAN": make_mean, "MAX_POOL_2D": make_max_pool, "PAD": make_pad,
}  # fmt: skip
_SERVICES = _NoSubgraphs()
_GOOD = Status.OK
_NO_ROWS: Rows = np.zeros(0, JOB)


class XnnpackPartition(SimpleDelegateKernel):
    """Runs the nodes of one partition on tensors of its own; only the boundary uses the interpreter's buffers."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self.operations: list[XnnpackOperation] = []
        self.sparse: frozenset[int] = frozenset()
        self._own: dict[int, RuntimeTensor] = {}
        self._packed_bytes = 0
        self._groups: tuple[tuple[int, list[XnnpackOperation]], ...] = ()
        self._cascades: Mapping[int, Mapping[int, Cascade]] = {}
        self._steps: dict[int, Run] = {}
        self._arena_bytes = 0
        self._shared: Mapping[int, int] = {}
        self._is_placed = False
        self._boundary: tuple[tuple[RuntimeTensor, Array | None], ...] = ()
        self._seen: object = None

    def init(self, context: Context, params: DelegateParams) -> Status:
        try:
            self._make(context, params)
        except UserError as error:
            context.report_error(str(error))
            return Status.DELEGATE_ERROR
        return Status.OK

    def prepare(self, context: Context, node: Node) -> Status:
        try:
            for operation in self.operations:
                operation.prepare()
        except UserError as error:
            context.report_error(str(error))
            return Status.ERROR
        self._groups = tuple(enumerate(_grouped(self.operations, alone=self._setting.options.transient_indirection_buffer)))
        self._cascades = self._find_cascades()
        self._plan_memory()
        self._steps = {}
        return Status.OK

    def eval(self, context: Context, node: Node) -> Status:
        try:
            if self._seen is not MOVES.last or not self._steps:
                self._look_again()
            if context.is_profiling:
                self._run_timed(context)
            else:
                for position, group in self._groups:
                    (self._steps.get(position) or self._step(position, group))()
        except UserError as error:
            context.report_error(str(error))
            return Status.ERROR
        return _GOOD

    invoke = eval  # of small models a call in between would be felt

    def free(self, context: Context) -> None:
        """Let go of all that refers to this again: threads and memory go with the delegate, not when garbage is looked for."""
        self.operations, self._groups, self._steps, self._cascades = [], (), {}, {}

    def memory(self) -> MemoryReport:
        """Bytes held for this partition, after allocation and a first run."""
        compiled = [op for op in self.operations if isinstance(op, CompiledOperation)]
        kept = sum(cascade.table_bytes for cascades in self._cascades.values() for cascade in cascades.values())
        indirection = kept + sum(op.indirection_bytes for op in compiled)
        return MemoryReport(
            packed_weight_bytes=self._packed_bytes,
            indirection_bytes=indirection,
            persistent_indirection_bytes=0 if self._setting.options.transient_indirection_buffer else indirection,
            tensor_bytes=self._arena_bytes + self.unshared_bytes,
        )

    @property
    def unshared_bytes(self) -> int:
        """Bytes of the tensors of this partition that share no memory."""
        own = ((index, tensor) for index, tensor in self._own.items() if index not in self._shared and not tensor.is_constant)
        return sum(tensor.data.nbytes for _, tensor in own if tensor.data is not None)

    def _plan_memory(self) -> None:
        """Choose where the tensors of this partition will lie; those that do not live at the same time share bytes."""
        sizes = {
            index: tensor.data.nbytes
            for index, tensor in self._own.items()
            if tensor.data is not None and not (tensor.is_constant or tensor.is_variable) and tensor.data.dtype != object
        }
        all_cascades = (cascade for cascades in self._cascades.values() for cascade in cascades.values())
        late = {id(cascade.last): cascade.inputs for cascade in all_cascades}  # still read when the first results are written
        steps = [
            (
                [t.index for t in (*op.node.inputs, *late.get(id(op), ())) if t is not None and self._is_own(t)],
                [t.index for t in op.node.outputs if self._is_own(t)],
            )
            for op in self.operations
        ]
        self._shared, self._arena_bytes = plan_arena(lifetimes(steps, sizes))
        self._setting.memory.reserve(self._arena_bytes)
        self._is_placed = False
        tensors = {id(t): t for op in self.operations for t in (*op.node.inputs, *op.node.outputs) if t is not None}
        self._boundary = tuple((t, None) for t in tensors.values() if not t.is_constant and not self._is_own(t))

    def _find_cascades(self) -> Mapping[int, Mapping[int, Cascade]]:
        """Of each group, by their first operation."""
        if self._setting.options.transient_indirection_buffer:
            return {}
        uses = Counter(id(tensor) for op in self.operations for tensor in op.node.inputs if tensor is not None)
        uses.update(id(tensor) for op in self.operations for tensor in op.node.outputs if not self._is_own(tensor))
        threads, memory = self._setting.threads.count, self._setting.stripes
        return {position: dict(find_cascades(group, uses, threads, memory)) for position, group in self._groups}

    def _look_again(self) -> None:
        """Begin anew if a buffer of the interpreter has moved."""
        if any(tensor.data is not buffer for tensor, buffer in self._boundary):
            self._steps = {}
        if not self._steps:
            self._begin()
        self._seen = MOVES.last

    def _begin(self) -> None:
        """Note the buffers of the interpreter; when all partitions have planned, move tensors to where they shall be."""
        cache = self._setting.options.weights_cache
        if cache is not None and not cache.is_finalized:
            raise InterpreterStateError(
                f"xnnpack: the weights cache must be finalised before inference, got state '{cache.state.value}'"
            )
        self._boundary = tuple((tensor, tensor.data) for tensor, _ in self._boundary)
        if self._is_placed:
            return
        self._is_placed, arena = True, self._setting.memory.bytes_for(self._arena_bytes)
        for index, offset in self._shared.items():
            tensor = self._own[index]
            array = tensor.array
            tensor.data = arena[offset : offset + array.nbytes].view(array.dtype).reshape(tensor.shape)

    def _is_own(self, tensor: RuntimeTensor) -> bool:
        return self._own.get(tensor.index) is tensor

    # --- making operations ---------------------------------------------------------------------------------------------------

    def _make(self, context: Context, params: DelegateParams) -> None:
        boundary = {*params.input_tensors, *params.output_tensors}
        tensors = self._tensors(context, boundary)
        graph = context.model.graphs[context.subgraph_index]
        self.sparse = sparse_operators(graph, params.nodes_to_replace)
        half = self._setting.half is not None
        if half:
            self._convert(context, params.input_tensors, tensors)
        converted = self._half_outputs(params, tensors) if half else {}
        for index in params.nodes_to_replace:
            node = self._node(context, index, tensors)
            if node.kind != "DENSIFY" or node.output().index in boundary:
                self.operations.append(self._operation(index, node))
        for index, inside in converted.items():
            made = self._view("CONVERT", params.nodes_to_replace[-1], (inside,), (context.tensors[index],), context)
            self.operations.append(FromHalf(params.nodes_to_replace[-1], made))

    def _tensors(self, context: Context, boundary: set[int]) -> dict[int, RuntimeTensor]:
        """What the operations see under each index: unpacked constants, boundary tensors, or tensors of this partition."""
        unpacked = self._setting.acceptance.unpacked
        tensors: dict[int, RuntimeTensor] = {}
        for tensor in context.tensors:
            if tensor.index in unpacked:
                tensors[tensor.index] = RuntimeTensor(tensor.index, unpacked[tensor.index])
            elif tensor.is_constant or tensor.index in boundary:
                tensors[tensor.index] = tensor
            else:
                tensors[tensor.index] = self._own[tensor.index] = RuntimeTensor(tensor.index, tensor.source)
        return tensors

    def _convert(self, context: Context, indices: tuple[int, ...], tensors: dict[int, RuntimeTensor]) -> None:
        for index in indices:
            outside = tensors[index] if index != ABSENT else None
            if outside is None or outside.is_constant or outside.dtype is not DType.FLOAT32:
                continue
            tensors[index] = self._own[index] = RuntimeTensor(index, outside.source)
            made = self._view("CONVERT", -1, (outside,), (tensors[index],), context)
            self.operations.append(ToHalf(-1, made))

    def _half_outputs(self, params: DelegateParams, tensors: dict[int, RuntimeTensor]) -> Mapping[int, RuntimeTensor]:
        result = {}
        for index in params.output_tensors:
            if tensors[index].dtype is DType.FLOAT32:
                tensors[index] = self._own[index] = RuntimeTensor(index, tensors[index].source)
                result[index] = tensors[index]
        return result

    def _node(self, context: Context, index: int, tensors: Mapping[int, RuntimeTensor]) -> OperatorNode:
        node, registration = context.get_node_and_registration(index)
        inputs = tuple(None if i == ABSENT else tensors[i] for i in node.inputs)
        outputs = tuple(tensors[i] for i in node.outputs)
        made = self._view(registration.builtin_code, index, inputs, outputs, context)
        row = BY_NAME.get(registration.builtin_code)
        attributes = node.attributes
        if attributes is None and row is not None and row.attributes is not None:
            attributes = row.attributes()
        return replace(made, attributes=attributes, custom_options=node.custom_options)

    def _view(
        self, kind: str, index: int, inputs: tuple[RuntimeTensor | None, ...], outputs: tuple[RuntimeTensor, ...],
        context: Context,
    ) -> OperatorNode:  # fmt: skip
        def allocate(tensor: RuntimeTensor, shape: tuple[int, ...]) -> None:
            self._steps = {}
            if self._is_own(tensor):
                _allocate(tensor, shape)
            else:
                context.resize_tensor(tensor.index, shape)

        label = f"xnnpack {kind.lower()} (op {index} of subgraph {context.subgraph_index})"
        return OperatorNode(kind, label, inputs, outputs, None, _SERVICES, RuntimeOptions(), allocate)

    def _operation(self, index: int, node: OperatorNode) -> XnnpackOperation:
        if node.kind in VARIABLE_KINDS:
            return VariableOperation(index, node, self._setting.values)
        if self._setting.half is not None and has_floats((*filter(None, node.inputs), *node.outputs)):
            return HalfOperation(index, node, native=self._setting.half)
        return self._compiled(index, node) or ReferenceOperation(index, node)

    def _compiled(self, index: int, node: OperatorNode) -> XnnpackOperation | None:
        options = self._setting.options
        site = Site(self._store, self._setting.workspace, options.transient_indirection_buffer, self._is_own)
        if index in self.sparse and node.kind == "CONV_2D" and node.input(1).shape[1:3] == (1, 1):
            given = operand(node, 0)
            if given is not None:
                return SparseConvolution(index, node, given, self._store)
        if node.kind in WEIGHTED:
            return compile_weighted(index, node, site)
        if node.kind == "RESIZE_BILINEAR" and node.input(0).dtype is DType.FLOAT32:
            return Resize(index, node, site)
        if node.kind in _MAKERS:
            return _MAKERS[node.kind](index, node, site)
        made = make_look_up(index, node, site) if node.kind in UNARY else None
        if made is not None:
            return made
        pairs = compile_pairs(index, node, site) if node.kind in KINDS else None
        return pairs or make_direct(index, node, site)

    def _store(self, packed: Array) -> Array:
        self._packed_bytes += packed.nbytes
        cache: WeightsCache | None = self._setting.options.weights_cache
        if cache is not None:
            return cache.look_up(packed)
        packed.flags.writeable = False
        return packed

    # --- running -------------------------------------------------------------------------------------------------------------

    def _step(self, key: int, group: list[XnnpackOperation]) -> Run:
        """What runs an operation, or consecutive compiled ones as one list of rows; kept under `key` until a buffer moves."""
        first = group[0]
        if not (isinstance(first, CompiledOperation) and first.is_compiled):
            return first.run
        step = self._setting.threads.prepared(_bound_rows(group, self._cascades.get(key, {})))
        if not self._setting.options.transient_indirection_buffer:
            self._steps[key] = step
        return step

    def _run_timed(self, context: Context) -> None:
        for position, operation in enumerate(self.operations):
            start = time.perf_counter()
            (self._steps.get(-1 - position) or self._step(-1 - position, [operation]))()
            context.record_time(operation.index, f"XNNPACK/{operation.name}", time.perf_counter() - start)


def _bound_rows(group: list[XnnpackOperation], cascades: Mapping[int, Cascade]) -> Rows:
    """The rows of compiled operations for their current buffers; `cascades` by their first operation."""
    rows = []
    for operation in group:
        assert isinstance(operation, CompiledOperation)
        if operation.is_transient:
            operation.bind()
        else:
            operation.refresh()
        rows.append(operation.rows)
    for index, cascade in cascades.items():
        rows[index : index + 3] = cascade.bound_rows(), _NO_ROWS, _NO_ROWS
    return np.concatenate(rows)


def _grouped(operations: list[XnnpackOperation], *, alone: bool) -> list[list[XnnpackOperation]]:
    """Consecutive compiled operations run as one list of rows, unless each must run `alone`."""
    groups: list[list[XnnpackOperation]] = []
    open_group = False
    for operation in operations:
        compiled = isinstance(operation, CompiledOperation) and operation.is_compiled
        if compiled and open_group and not alone:
            groups[-1].append(operation)
        else:
            groups.append([operation])
        open_group = compiled
    return groups


def _allocate(tensor: RuntimeTensor, shape: tuple[int, ...]) -> None:
    """A buffer for a tensor of the partition; kept if it fits."""
    if tensor.is_constant or (tensor.data is not None and tensor.data.shape == shape):
        return
    tensor.shape = shape
    dtype = tensor.dtype.numpy
    tensor.data = np.zeros(shape, object) if dtype is None else guarded(shape, dtype)
