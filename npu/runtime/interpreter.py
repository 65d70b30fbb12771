"""The interpreter that people use: the call shapes of the LiteRT Python interpreter over the subgraphs of a model."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from npu.arguments import BYTES, INTEGER, PATH, require_type, require_type_or_none, whole_numbers
from npu.errors import InterpreterError
from npu.graph.dtype import DType
from npu.graph.graph import Model, Signature
from npu.numerics.arrays import Array
from npu.progress import Progress
from npu.runtime.calls import check_calls
from npu.runtime.defaults import default_delegates
from npu.runtime.delegate import Delegate, SimpleDelegate, Status, Tensors, as_delegate
from npu.runtime.details import operator_details, tensor_details
from npu.runtime.misuse import InterpreterStateError, InterpreterValueError, litert_errors
from npu.runtime.operator import RuntimeOptions
from npu.runtime.plugins import load_delegate as load_delegate
from npu.runtime.signature import SignatureRunner
from npu.runtime.subgraph import Subgraph
from npu.runtime.tensor import RuntimeTensor
from npu.runtime.views import Views
from npu.tflite.reader import read_model
from npu.tflite.sparsity import is_sparse


class OpResolverType(Enum):
    """Which kernels a LiteRT script asks for. Ours are always the reference kernels; the names exist so that scripts run."""

    AUTO = 0
    BUILTIN = 1
    BUILTIN_REF = 2
    BUILTIN_WITHOUT_DEFAULT_DELEGATES = 3


_WITHOUT_DEFAULTS = ("BUILTIN_REF", "BUILTIN_WITHOUT_DEFAULT_DELEGATES")
"""Resolver types under which process-wide default delegates are not applied."""


class _SharedState:
    """What the subgraphs of one interpreter share: resources, options, the profile, who hears how far an inference is."""

    def __init__(self, model: Model, options: RuntimeOptions, *, preserve_all_tensors: bool) -> None:
        self.options = options
        self.preserve_all_tensors = preserve_all_tensors
        self.resources: dict[tuple[str, str], Array] = {}
        self.profile: list[tuple[int, int, str, float]] | None = None
        self.progress: Progress | None = None
        self.subgraphs = [Subgraph(model, index, self) for index in range(len(model.graphs))]
        self.executions = [0] * len(model.graphs)
        """How often operators executed each subgraph."""
        self._once: set[int] = set()
        self._calls_are_checked = False

    def subgraph(self, index: int) -> Subgraph:
        require_type("subgraph index", index, INTEGER, "a whole number")
        if not 0 <= index < len(self.subgraphs):
            raise InterpreterValueError(f"subgraph index must be in [0, {len(self.subgraphs)}), got {index}")
        return self.subgraphs[index]

    def run_subgraph(self, index: int, arguments: Sequence[Array]) -> list[Array]:
        graph = self.subgraph(index)
        if len(arguments) != len(graph.inputs):
            raise InterpreterValueError(f"subgraph {index}: must get {len(graph.inputs)} inputs, got {len(arguments)}")
        self.check_calls()
        self.executions[index] += 1
        return self._run(graph, arguments)

    def check_calls(self) -> None:
        """Refuse subgraphs that call themselves or nest too deep; once per interpreter."""
        if not self._calls_are_checked:
            check_calls(self.subgraphs[0].model)
            self._calls_are_checked = True

    def signature_of(self, index: int) -> tuple[list[DType], list[DType]]:
        graph = self.subgraph(index)
        return [graph.tensors[i].dtype for i in graph.inputs], [graph.tensors[i].dtype for i in graph.outputs]

    def prepare_subgraph(self, index: int, shapes: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]] | None:
        graph = self.subgraph(index)
        self._resize(graph, shapes)
        return None if graph.has_dynamic_shapes else [graph.tensors[i].shape for i in graph.outputs]

    @staticmethod
    def _resize(graph: Subgraph, shapes: Sequence[tuple[int, ...]]) -> None:
        stale = not graph.is_allocated
        for tensor_index, shape in zip(graph.inputs, shapes, strict=True):
            tensor = graph.tensors[tensor_index]
            if tensor.is_constant:
                raise InterpreterValueError(f"subgraph input {tensor_index} '{tensor.name}': must take a value, got a constant")
            if tensor.shape != shape:
                tensor.shape = shape
                stale = True
        if stale:
            graph.allocate()

    def _run(self, graph: Subgraph, arguments: Sequence[Array]) -> list[Array]:
        self._resize(graph, [value.shape for value in arguments])
        for tensor_index, value in zip(graph.inputs, arguments, strict=True):
            graph.tensors[tensor_index].array[...] = value
            graph.tensors[tensor_index].mark_written()
        graph.invoke()
        results = []
        for tensor_index in graph.outputs:
            graph.make_readable(graph.tensors[tensor_index])
            results.append(graph.tensors[tensor_index].array.copy())
        return results

    def run_once(self, index: int) -> None:
        if index not in self._once:
            self._once.add(index)
            self.run_subgraph(index, [])


class CpuInterpreter:
    """Runs a TFLite model on the reference kernels and on delegates.

    One of `model_path` and `model_content` (bytes) must be given. `num_threads` is that of default delegates: results and the
    kernels here do not depend on it. Intermediate tensors share memory by their lifetime, and reading one whose memory a later
    one has used is an InterpreterValueError; with `experimental_preserve_all_tensors` each keeps its value. `options` are
    choices of this project. The other arguments choose among LiteRT's ways to the same results and change nothing. Threads may
    share an interpreter: one call waits for another, though nothing keeps the calls of one thread together.

    Raises ModelError (a ValueError) for a malformed file, InterpreterError otherwise: a ValueError for wrong values, a
    RuntimeError where an operator or the order of calls is to blame.
    """

    def __init__(
        self,
        model_path: str | Path | None = None,
        model_content: bytes | None = None,
        experimental_delegates: Sequence[Delegate | SimpleDelegate] | None = None,
        num_threads: int | None = None,
        experimental_op_resolver_type: Any = OpResolverType.AUTO,
        experimental_preserve_all_tensors: bool = False,
        experimental_disable_delegate_clustering: bool = False,
        experimental_default_delegate_latest_features: bool = False,
        experimental_compress_quantization_zero_points: bool = False,
        experimental_disable_delegate_node_fusion: bool = False,
        experimental_force_delegate_node_profiling: bool = False,
        *,
        options: RuntimeOptions | None = None,
        model: Model | None = None,
    ) -> None:
        require_type_or_none("interpreter: model_path", model_path, PATH, "the path of a file")
        require_type_or_none("interpreter: model_content", model_content, BYTES, "the bytes of a file")
        require_type_or_none("interpreter: experimental_delegates", experimental_delegates, Sequence, "a list of delegates")
        require_type_or_none("interpreter: options", options, RuntimeOptions, "RuntimeOptions")
        require_type_or_none("interpreter: model", model, Model, "a Model")
        _check_threads(num_threads)
        resolver = _resolver_name(experimental_op_resolver_type)
        self.experimental_compress_quantization_zero_points = experimental_compress_quantization_zero_points
        if model is None:
            if (model_path is None) == (model_content is None):
                raise InterpreterValueError("interpreter: exactly one of model_path and model_content must be given")
            with litert_errors():
                model = read_model(Path(model_path) if model_path is not None else bytes(model_content or b""))
        if not model.graphs:
            raise InterpreterValueError("interpreter: the model must have a subgraph, got none")
        self._model = model
        self._state = _SharedState(model, options or RuntimeOptions(), preserve_all_tensors=experimental_preserve_all_tensors)
        self._views = Views()
        self._lock = threading.RLock()
        self._delegates: list[Delegate] = []
        self._is_allocated = False
        self._owned: list[SimpleDelegate] = []
        self._finalizer = weakref.finalize(self, _free_kernels, self._state.subgraphs, self._delegates, self._owned)
        self._finalizer.atexit = False
        for delegate in experimental_delegates or ():
            self.modify_graph_with_delegate(delegate)
        if self._state.options.use_xnnpack or resolver not in _WITHOUT_DEFAULTS:
            for made in default_delegates(num_threads or 1, use_xnnpack=self._state.options.use_xnnpack):
                self._owned.append(made)
                self.modify_graph_with_delegate(made)

    # --- delegates -----------------------------------------------------------------------------------------------------------

    def modify_graph_with_delegate(self, delegate: Delegate | SimpleDelegate) -> Status:
        """Let a delegate claim operators of every subgraph; only before allocate_tensors. OK, or an InterpreterError.

        If it fails, every delegate is undone, as in TFLite: the original execution plan is restored, the interpreter stays
        usable, and the error says why.
        """
        if self._is_allocated:
            raise InterpreterStateError("modify_graph_with_delegate: must be called before allocate_tensors, got it after")
        raw = as_delegate(delegate)
        raw.attach(self)
        self._delegates.append(raw)
        try:
            for subgraph in self._state.subgraphs:
                subgraph.apply_delegate(raw)
        except BaseException:
            self._undo_delegates()
            raise
        return Status.OK

    def _undo_delegates(self) -> None:
        for subgraph in self._state.subgraphs:
            subgraph.undo_delegates()
        self._release_delegates()

    def _release_delegates(self) -> None:
        for delegate in self._delegates:
            delegate.detach(self)
        self._delegates.clear()

    def execution_plan(self, subgraph_index: int = 0) -> list[dict[str, Any]]:
        """The steps of a subgraph in order: name, tensors, and the operators that each delegate node replaced."""
        graph = self._state.subgraph(subgraph_index)
        rows = []
        for index in graph.get_execution_plan():
            node, registration = graph.get_node_and_registration(index)
            rows.append(
                {
                    "index": index,
                    "op_name": registration.custom_name or registration.builtin_code,
                    "inputs": list(node.inputs),
                    "outputs": list(node.outputs),
                    "delegate": node.delegate.name() if node.delegate is not None else None,
                    "replaces": list(graph.replaced_nodes(index)),
                }
            )
        return rows

    def set_buffer_handle(self, tensor_index: int, handle: int, delegate: Delegate) -> None:
        """Attach a delegate's buffer to a tensor of subgraph 0; a former handle is freed."""
        self._state.subgraph(0).set_buffer_handle(self._tensor(tensor_index, 0), handle, delegate.executor())

    def close(self) -> None:
        """Free the kernels and buffer handles of delegates. The interpreter must not be used afterwards.

        The same happens when nothing refers to the interpreter any more.
        """
        used = tuple(self._delegates)  # a delegate that nobody else refers to must outlive its kernels
        self._finalizer()
        for delegate in used:
            delegate.detach(self)
        self._is_allocated = False

    # --- tensors -------------------------------------------------------------------------------------------------------------

    def allocate_tensors(self) -> None:
        """Prepare all operators for the current input shapes and give tensors buffers."""
        self._views.require_none()
        if not self._is_allocated or not self._state.subgraph(0).is_allocated:
            with self._lock, litert_errors():
                self._state.check_calls()
                self._state.subgraph(0).allocate()
            self._is_allocated = True

    def resize_tensor_input(self, input_index: int, tensor_size: Sequence[int], strict: bool = False) -> None:
        """Give an input a new shape; allocate_tensors must follow. `strict`: only dimensions that are -1 in the signature."""
        self._views.require_none()
        graph = self._state.subgraph(0)
        require_type("resize_tensor_input: input_index", input_index, INTEGER, "a whole number")
        shape = whole_numbers("resize_tensor_input: tensor_size", tensor_size)
        if input_index not in graph.inputs:
            raise InterpreterStateError(
                f"resize_tensor_input: tensor must be one of the inputs {list(graph.inputs)}, got {input_index}"
            )
        tensor = self._tensor(input_index, 0)
        if any(size < 0 for size in shape):
            raise InterpreterStateError(f"resize_tensor_input: dimensions must not be negative, got {list(shape)}")
        if strict:
            _check_strict(tensor, shape)
        if tensor.shape != shape:
            tensor.shape = shape
            tensor.data = None
            graph.is_allocated = False

    def set_tensor(self, tensor_index: int, value: Any) -> None:
        """Copy an array into a tensor; type and shape must fit exactly."""
        tensor = self._allocated(tensor_index, 0)
        array = np.asarray(value)
        if tensor.is_constant:
            raise InterpreterValueError(f"set_tensor: tensor {tensor_index} '{tensor.name}' must not be a constant")
        if tensor.dtype.numpy is not None and array.dtype != tensor.dtype.numpy:
            raise InterpreterValueError(
                f"set_tensor: tensor {tensor_index} '{tensor.name}' must get values of type {tensor.dtype}, got {array.dtype}"
            )
        if array.shape != tensor.shape:
            raise InterpreterValueError(
                f"set_tensor: tensor {tensor_index} '{tensor.name}' must get shape {list(tensor.shape)},"
                f" got {list(array.shape)}"
            )
        with self._lock:
            tensor.array[...] = array
            tensor.mark_written()

    def get_tensor(self, tensor_index: int, subgraph_index: int = 0) -> Array:
        """A copy of a tensor's current value; of a sparse constant what the file stores, flat, as LiteRT gives it."""
        with self._lock:
            array, source = self._readable(tensor_index, subgraph_index), self._tensor(tensor_index, subgraph_index).source
            return (source.data.reshape(-1) if source.data is not None and is_sparse(source) else array).copy()

    def tensor(self, tensor_index: int) -> Callable[[], Array]:
        """A function that returns a view of the tensor's buffer; call it again after each allocation, and before each write.

        While somebody holds such a view, allocate_tensors, resize_tensor_input and invoke raise a RuntimeError, as LiteRT's do.
        """
        tensor = self._tensor(tensor_index, 0)

        def view() -> Array:
            array = self._readable(tensor_index, 0)
            tensor.mark_written()  # what the caller does with a view that can be written is not known
            return self._views.lend(array)

        return view

    def invoke(self) -> None:
        """Run subgraph 0 once on the current inputs."""
        self._views.require_none()
        graph = self._state.subgraphs[0]
        if not graph.is_allocated:
            raise InterpreterStateError("invoke: allocate_tensors must be called first")
        self._lock.acquire()  # half the time of a `with`; a small model takes twenty times as long
        try:
            graph.invoke()
        except InterpreterError:
            with litert_errors():
                raise
        finally:
            self._lock.release()

    def invoke_many(self, given: Sequence[Sequence[Array]], made: Sequence[Sequence[Array]]) -> int:
        """Inferences in one call: of each the arrays of inputs and, to be written, of outputs; how many, from the first on, are
        done. Whoever calls must run the others one by one. The interpreter's own tensors are left as they were.
        """
        graph = self._state.subgraphs[0]
        if not graph.is_allocated or not all(map(graph.takes, given)):
            return 0
        with self._lock:
            return graph.invoke_many(_by_tensor(graph.inputs, given), _by_tensor(graph.outputs, made))

    def reset_all_variables(self) -> None:
        """Set variable tensors to zero (their zero point if quantized)."""
        for subgraph in self._state.subgraphs:
            subgraph.reset_variables()

    def start_profile(self) -> None:
        """Record (subgraph, node index, operator name, seconds) of every step from now on."""
        self._state.profile = []

    def take_profile(self) -> list[tuple[int, int, str, float]]:
        """The records since start_profile, which is over then."""
        records, self._state.profile = self._state.profile or [], None
        return records

    def tell(self, progress: Progress | None) -> None:
        """Let `progress` hear of every operator of subgraph 0 that has run, from now on."""
        self._state.progress = progress

    def executions(self) -> tuple[int, ...]:
        """How often operators have executed each subgraph, since the interpreter was made."""
        return tuple(self._state.executions)

    def arena_bytes(self) -> int:
        """Bytes of the arenas of intermediate tensors, of all subgraphs that are allocated."""
        return sum(graph.arena_bytes for graph in self._state.subgraphs)

    def tensor_bytes(self) -> int:
        """Bytes of all tensors that are no constants, those in arenas counted as they share memory; delegates hold more."""
        return sum(graph.tensor_bytes for graph in self._state.subgraphs)

    # --- description ---------------------------------------------------------------------------------------------------------

    @property
    def model(self) -> Model:
        """The model as it was read."""
        return self._model

    def num_subgraphs(self) -> int:
        """How many subgraphs the model has."""
        return len(self._state.subgraphs)

    def get_input_details(self) -> list[dict[str, Any]]:
        """One dictionary per input of subgraph 0, in model order."""
        graph = self._state.subgraph(0)
        return [tensor_details(graph.tensors[index]) for index in graph.inputs]

    def get_output_details(self) -> list[dict[str, Any]]:
        """One dictionary per output of subgraph 0, in model order."""
        graph = self._state.subgraph(0)
        return [tensor_details(graph.tensors[index]) for index in graph.outputs]

    def get_tensor_details(self, subgraph_index: int = 0) -> list[dict[str, Any]]:
        """One dictionary per tensor of a subgraph."""
        return [tensor_details(tensor) for tensor in self._state.subgraph(subgraph_index).tensors]

    def _get_op_details(self, op_index: int) -> dict[str, Any]:
        """The entry of `_get_ops_details` for one operator: LiteRT's experimental call."""
        graph = self._state.subgraph(0)
        require_type("op_index", op_index, INTEGER, "a whole number")
        if not 0 <= op_index < graph.node_count:
            raise InterpreterValueError(f"op_index must be in [0, {graph.node_count}), got {op_index}")
        return operator_details(graph, op_index)

    def _get_ops_details(self) -> list[dict[str, Any]]:
        """One dictionary per operator of subgraph 0, and per delegate node after them: LiteRT's experimental call."""
        graph = self._state.subgraph(0)
        return [operator_details(graph, index) for index in range(graph.node_count)]

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """The input and output names of every signature."""
        return {s.key: {"inputs": sorted(s.inputs), "outputs": sorted(s.outputs)} for s in self._model.signatures}

    def get_signature_runner(self, signature_key: str | None = None) -> SignatureRunner:
        """A callable for one signature; the key may be omitted if there is only one."""
        return SignatureRunner(self._state, self._signature(signature_key))

    def _signature(self, key: str | None) -> Signature:
        by_key: Mapping[str, Signature] = {signature.key: signature for signature in self._model.signatures}
        if key is None:
            if len(by_key) != 1:
                raise InterpreterValueError(
                    f"get_signature_runner: signature_key must be given, the model has {len(by_key)} signatures"
                )
            return next(iter(by_key.values()))
        if not isinstance(key, str) or key not in by_key:
            raise InterpreterValueError(f"get_signature_runner: signature_key must be one of {sorted(by_key)}, got '{key}'")
        return by_key[key]

    def _tensor(self, index: int, subgraph_index: int) -> RuntimeTensor:
        tensors = self._state.subgraph(subgraph_index).tensors
        require_type("tensor index", index, INTEGER, "a whole number")
        if not 0 <= index < len(tensors):
            raise InterpreterValueError(f"tensor index must be in [0, {len(tensors)}), got {index}")
        return tensors[index]

    def _allocated(self, index: int, subgraph_index: int) -> RuntimeTensor:
        tensor = self._tensor(index, subgraph_index)
        if tensor.data is None:
            raise InterpreterValueError(
                f"tensor {index} '{tensor.name}': has no data; call allocate_tensors (and invoke) first"
            )
        return tensor

    def _readable(self, index: int, subgraph_index: int) -> Array:
        tensor = self._allocated(index, subgraph_index)
        graph = self._state.subgraph(subgraph_index)
        if graph.is_overwritten(tensor):
            raise InterpreterValueError(
                f"tensor {index} '{tensor.name}': must not be read, later tensors use its memory;"
                " experimental_preserve_all_tensors=True keeps it"
            )
        graph.make_readable(tensor)
        return tensor.array


def _free_kernels(subgraphs: Sequence[Subgraph], delegates: list[Delegate], owned: list[SimpleDelegate]) -> None:
    """End the use of delegates: at `close`, or when the interpreter is gone. `delegates` keeps them alive until then."""
    for subgraph in subgraphs:
        subgraph.release()
    for delegate in owned:
        delegate.close()
    owned.clear()
    delegates.clear()


def _by_tensor(indices: Sequence[int], arrays: Sequence[Sequence[Array]]) -> Tensors:
    """The arrays of inferences by tensor."""
    return dict(zip(indices, zip(*arrays, strict=True), strict=True))


def _resolver_name(resolver: Any) -> str:
    """The name of an op resolver type, of this project's enumeration or of LiteRT's; None stands for AUTO."""
    name = "AUTO" if resolver is None else getattr(resolver, "name", None)
    if name not in OpResolverType.__members__:
        names = list(OpResolverType.__members__)
        raise InterpreterValueError(f"interpreter: op resolver type must be one of {names}, got {resolver!r}")
    return str(name)


def _check_threads(num_threads: int | None) -> None:
    if num_threads is None:
        return
    if not isinstance(num_threads, int):
        raise InterpreterValueError(f"interpreter: num_threads must be an integer, got {num_threads!r}")
    if num_threads < 1:
        raise InterpreterValueError(f"interpreter: num_threads must be at least 1, got {num_threads}")


def _check_strict(tensor: RuntimeTensor, shape: tuple[int, ...]) -> None:
    signature = tensor.source.shape_signature or tensor.source.shape
    if len(signature) != len(shape) or any(s not in (-1, n) for s, n in zip(signature, shape, strict=True)):
        raise InterpreterStateError(
            f"resize_tensor_input: only dimensions that are -1 in {list(signature)} must change, got {list(shape)}"
        )
