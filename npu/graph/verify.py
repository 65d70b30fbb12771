"""What every graph must fulfil, as a table of checks; run on what the reader read and between compiler passes.

A check yields one sentence per defect. `verify` raises for the first one, so that a broken graph stops where it is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from npu.errors import ModelError
from npu.graph.dtype import DType
from npu.graph.ethos_u import is_npu_job
from npu.graph.graph import ABSENT, Graph, Model, Op, Quantization, Tensor
from npu.graph.operands import count_defect
from npu.graph.ops import BY_NAME, code_of_kind
from npu.graph.versions import known_versions
from npu.graph.wire import NumberField, Vector, wire_fields

MAX_TENSOR_BYTES = 1 << 36
"""More than any tensor of a real model; keeps sums of sizes far from 64 bits."""
MAX_RANK = 64
MAX_EXTENT = (1 << 31) - 1
"""What files and operators count dimensions in: int32."""

GraphInvariant = Callable[[Graph], Iterator[str]]


def verify(graph: Graph, where: str = "") -> None:
    """Raises ModelError, prefixed with `where`, if the graph breaks a rule of `CHECKS`."""
    for check in CHECKS:
        for defect in check(graph):
            name = f"graph {graph.name!r}: " if graph.name else ""
            raise ModelError(f"{where}{': ' if where else ''}{name}{defect}")


def verify_model(model: Model, where: str = "") -> None:
    """Raises ModelError if a graph breaks a rule, or if references between graphs or of signatures are wrong."""
    prefix = f"{where}: " if where else ""
    if not model.graphs:
        raise ModelError(f"{prefix}a model must have a subgraph, got none")
    for graph in model.graphs:
        verify(graph, where)
    for defect in (*_calls(model), *_signatures(model)):
        raise ModelError(prefix + defect)


def storage_shape(tensor: Tensor) -> tuple[int, ...]:
    """Shape of `Tensor.data`: the tensor's, or one-dimensional for what is kept raw.

    Raw are packed elements of less than a byte (bytes), strings and other elements without fixed size (bytes), and the
    stored values of a sparse tensor.
    """
    if is_raw(tensor):
        return tensor.data.shape[:1] if tensor.data is not None else ()
    return tensor.shape


def is_raw(tensor: Tensor) -> bool:
    """Whether the data of the tensor are kept as the file has them, in one dimension."""
    return tensor.dtype.numpy is None or tensor.extra.get("sparsity") is not None


def raw_bytes(tensor: Tensor) -> int | None:
    """Bytes that the data of a tensor must have; None where the shape does not say."""
    if tensor.extra.get("sparsity") is not None or tensor.dtype.bits == 0:
        return None
    return tensor.bytes


def _tensors(graph: Graph) -> Iterator[str]:
    for index, tensor in enumerate(graph.tensors):
        defect = _shape_defect(tensor) or _quantization_defect(tensor) or _data_defect(tensor)
        if defect:
            yield f"tensor {index} {tensor.name!r}: {defect}"


def extents_defect(shape: Sequence[int], element_bytes: int) -> str | None:
    """Why no array can have the shape. An array without elements takes no memory, but NumPy multiplies its other dimensions."""
    if len(shape) > MAX_RANK:
        return f"must have at most {MAX_RANK} dimensions, got {len(shape)}"
    if any(not 0 <= size <= MAX_EXTENT for size in shape):
        return f"dimensions must be in [0, {MAX_EXTENT}], got {list(shape)}"
    if math.prod(size or 1 for size in shape) * element_bytes > MAX_TENSOR_BYTES:
        return f"must have at most {MAX_TENSOR_BYTES} bytes, dimensions of 0 aside, got shape {list(shape)}"
    return None


def _shape_defect(tensor: Tensor) -> str | None:
    defect = extents_defect(tensor.shape, max(tensor.dtype.bits, 8) // 8)
    if defect:
        return defect
    signature = tensor.shape_signature
    if signature is not None and any(size < -1 for size in signature):
        return f"shape signature must hold sizes or -1, got {list(signature)}"
    if signature and len(signature) != len(tensor.shape):
        return f"shape signature must have {len(tensor.shape)} dimensions, got {len(signature)}"
    return None


_ZERO_POINTS = {
    DType.INT8: (-128, 127),
    DType.UINT8: (0, 255),
    DType.INT16: (-(1 << 15), (1 << 15) - 1),
    DType.UINT16: (0, (1 << 16) - 1),
}


def _quantization_defect(tensor: Tensor) -> str | None:
    quantization = tensor.quantization
    if quantization is None:
        return None
    scales, zero_points = quantization.scales, quantization.zero_points
    low, high = _ZERO_POINTS.get(tensor.dtype, (-(1 << 31), (1 << 31) - 1))
    if scales.size == zero_points.size == 1 and 0 <= scales.item() < math.inf and low <= zero_points.item() <= high:
        return _axis_defect(tensor, quantization)  # as of most tensors, without a call of numpy for each question
    if not np.all(np.isfinite(scales) & (scales >= 0)):
        return "scales must be finite and not negative"
    if scales.size == 0 or zero_points.size != scales.size:
        return f"must have one zero point per scale, got {zero_points.size} for {scales.size}"
    if int(zero_points.min()) < low or int(zero_points.max()) > high:
        return f"zero points of {tensor.dtype} must be in [{low}, {high}], got {zero_points[:8].tolist()}"
    return _axis_defect(tensor, quantization)


def _axis_defect(tensor: Tensor, quantization: Quantization) -> str | None:
    if not quantization.is_per_channel or not tensor.shape:
        return None
    axis, rank = quantization.axis, len(tensor.shape)
    if not 0 <= axis < rank:
        return f"quantized dimension must be in [0, {rank}), got {axis}"
    if tensor.is_constant and quantization.scales.size != tensor.shape[axis]:  # kernels check what is computed
        return f"must have one scale or {tensor.shape[axis]} (dimension {axis}), got {quantization.scales.size}"
    return None


def _data_defect(tensor: Tensor) -> str | None:
    data = tensor.data
    if data is None:
        return None
    if tensor.is_variable:
        return "a variable tensor must not have constant data"
    expected = raw_bytes(tensor)
    if expected is not None and data.nbytes != expected:
        return f"data of shape {list(tensor.shape)} {tensor.dtype} must have {expected} bytes, got {data.nbytes}"
    if data.shape != storage_shape(tensor):
        return f"data must have shape {list(storage_shape(tensor))}, got {list(data.shape)}"
    if data.dtype != (tensor.dtype.numpy or np.dtype(np.uint8)):
        return f"data must be {tensor.dtype.numpy or 'bytes'}, got {data.dtype}"
    return None


def _boundary(graph: Graph) -> Iterator[str]:
    count = len(graph.tensors)
    for what, indices in (("inputs", graph.inputs), ("outputs", graph.outputs)):
        for index in indices:
            if not 0 <= index < count:
                yield f"{what} must be tensors in [0, {count}), got {index}"
    if len(set(graph.inputs)) != len(graph.inputs):
        yield f"inputs must be different tensors, got {list(graph.inputs)}"


def _op_indices(graph: Graph) -> Iterator[str]:
    count = len(graph.tensors)
    for index, op in enumerate(graph.ops):
        for what, indices, lowest in (
            ("inputs", op.inputs, ABSENT),
            ("outputs", op.outputs, 0),
            ("intermediates", op.intermediates, ABSENT),
        ):
            for tensor in indices:
                if not lowest <= tensor < count:
                    yield f"{_name(index, op)}: {what} must be tensors in [{lowest}, {count}), got {tensor}"


def _kinds(graph: Graph) -> Iterator[str]:
    for index, op in enumerate(graph.ops):
        try:
            code_of_kind(op.kind)
        except KeyError:
            yield f"{_name(index, op)}: kind must be a TFLite operator, got {op.kind!r}"
        versions = known_versions(op.kind)
        if versions is not None and op.version not in versions:
            known = f"[{versions[0]}, {versions[-1]}], the versions that TFLite has"
            yield f"{_name(index, op)}: version must be in {known}, got {op.version}"
        if (op.kind == "CUSTOM") != (op.custom_code is not None):
            yield f"{_name(index, op)}: a custom code must stand with kind CUSTOM and only there, got {op.custom_code!r}"


def _operands(graph: Graph) -> Iterator[str]:
    """Operators have the operands of their signature, and options of their own class or none."""
    for index, op in enumerate(graph.ops):
        row = BY_NAME.get(op.kind)
        if row is None:
            continue
        if op.attributes is not None and row.attributes is not None and not isinstance(op.attributes, row.attributes):
            yield f"{_name(index, op)}: must have {row.attributes.__name__}, got {type(op.attributes).__name__}"
        if row.signature is not None:
            given = [tensor != ABSENT for tensor in op.inputs]
            defect = count_defect(row.signature.inputs, given, "input")
            defect = defect or count_defect(row.signature.outputs, [True] * len(op.outputs), "output")
            if defect is not None:
                yield f"{_name(index, op)}: {defect}"


def _producers(graph: Graph) -> Iterator[str]:
    """Operators stand in execution order and every tensor has one source.

    Compiled NPU jobs may write one tensor in several parts: each later one completes it in the arena that they share.
    Only custom operators may read a tensor that nothing writes: their scratch areas are such tensors.
    """
    given = set(graph.inputs) | {index for index, tensor in enumerate(graph.tensors) if tensor.is_constant}
    writer: dict[int, int] = {}
    for index, op in enumerate(graph.ops):
        for tensor in op.outputs:
            if tensor in writer and not (is_npu_job(op) and is_npu_job(graph.ops[writer[tensor]])):
                yield f"{_name(index, op)}: must not write tensor {tensor}, op {writer[tensor]} does"
            if tensor in given:
                yield f"{_name(index, op)}: must not write tensor {tensor}, an input or constant of the graph"
            writer.setdefault(tensor, index)
    for index, op in enumerate(graph.ops):
        for tensor in op.inputs:
            source = writer.get(tensor, ABSENT)
            may_follow = graph.tensors[tensor].is_variable and (source > index or op.kind == "CUSTOM")
            if source >= index and not may_follow:
                yield f"{_name(index, op)}: must read what an earlier operator writes, got tensor {tensor} of op {source}"
            if tensor != ABSENT and source == ABSENT and tensor not in given and _needs_writer(op, graph.tensors[tensor]):
                yield f"{_name(index, op)}: must read what the file or an operator gives, got tensor {tensor} without data"
    for tensor in graph.outputs:
        if not (tensor in writer or tensor in given or graph.tensors[tensor].is_variable):
            yield f"output tensor {tensor} must be written by an operator"


def _needs_writer(op: Op, tensor: Tensor) -> bool:
    return op.kind != "CUSTOM" and tensor.elements > 0 and not tensor.is_variable


def _name(index: int, op: Op) -> str:
    return f"{op.name} (op {index})"


CHECKS: tuple[GraphInvariant, ...] = (_tensors, _boundary, _op_indices, _kinds, _producers, _operands)
"""In this order: a later check may use what an earlier one guarantees."""


def called_graphs(op: Op) -> tuple[int, ...]:
    """Indices of the subgraphs that the options of an operator name; the schema's default of options that the file lacks."""
    options, made = op.attributes, BY_NAME[op.kind].attributes if op.kind in _CALLERS else None
    if options is None and made is not None:
        options = made()
    if options is None:
        return ()
    called: list[int] = []
    for field in wire_fields(type(options)):
        if field.name == "subgraph" or field.name.endswith(("subgraph_index", "subgraph_indices")):
            value = getattr(options, field.name)
            if isinstance(field.wire, Vector):
                called.extend(value)
            elif isinstance(field.wire, NumberField):
                called.append(value)
    return tuple(called)


_CALLERS = frozenset({"CALL", "CALL_ONCE", "IF", "WHILE"})
"""Operators that run another subgraph even where the file leaves their options out."""


def _calls(model: Model) -> Iterator[str]:
    """Subgraphs exist and do not call themselves."""
    count = len(model.graphs)
    callees: list[set[int]] = []
    for number, graph in enumerate(model.graphs):
        callees.append(set())
        for index, op in enumerate(graph.ops):
            for callee in called_graphs(op):
                if not 0 <= callee < count:
                    yield f"subgraph {number}: {_name(index, op)}: must call subgraphs in [0, {count}), got {callee}"
                    return
                callees[number].add(callee)
    waiting = [set(graphs) for graphs in callees]
    free = [number for number, graphs in enumerate(waiting) if not graphs]
    callers: dict[int, list[int]] = {}
    for number, graphs in enumerate(callees):
        for callee in graphs:
            callers.setdefault(callee, []).append(number)
    for callee in free:  # grows while it is walked
        for caller in callers.get(callee, ()):
            waiting[caller].discard(callee)
            if not waiting[caller]:
                free.append(caller)
    if len(free) != count:
        yield f"subgraphs must not call themselves, got a cycle through {sorted(set(range(count)) - set(free))}"


def _signatures(model: Model) -> Iterator[str]:
    for signature in model.signatures:
        if not 0 <= signature.graph < len(model.graphs):
            yield f"signature {signature.key!r}: subgraph must be in [0, {len(model.graphs)}), got {signature.graph}"
            continue
        count = len(model.graphs[signature.graph].tensors)
        for what, entries in (("input", signature.inputs), ("output", signature.outputs)):
            for name, tensor in entries.items():
                if not 0 <= tensor < count:
                    yield f"signature {signature.key!r}: {what} {name!r} must be a tensor in [0, {count}), got {tensor}"
