"""How large the tensor arena of TensorFlow Lite Micro must be for a compiled file.

The arena has a head (feature maps where the file's plan puts them, and scratch of the running operator) and a tail (what the
interpreter keeps). Sources: docs/memory_management.md of TensorFlow Lite Micro for the sections, kernels/ethos_u/ethosu.cc for
the two tables of base addresses of an `ethos-u` operator, c/common.h for the structures, at the sizes of a 32-bit CPU.
"""

from __future__ import annotations

import numpy as np

from npu.graph.attributes import VarHandleOptions
from npu.graph.ethos_u import ARENA_METADATA, arena_offsets, is_npu_job
from npu.graph.graph import Graph, Model, Op, Tensor
from npu.records import dataclass

ALIGNMENT = 16
"""Bytes; of the arena and of every buffer in its head (`MicroArenaBufferAlignment`)."""
_BASE_ADDRESS_BYTES = 8 + 4
"""A 64-bit address and a 32-bit size for each input and output of an `ethos-u` operator."""
_INTERPRETER_BYTES = 1024
"""The allocator, the planner and the metadata of one graph."""
_TENSOR_BYTES = 16
"""`TfLiteEvalTensor` and its share of shapes that are copied."""
_OPERATOR_BYTES = 128
"""`TfLiteNode`, its registration, and the options and prepared parameters of a kernel."""
_RESOURCE_BYTES = 5 * 4
"""The entry of a resource variable: two names, its buffer, size and default value (micro_resource_variable.h)."""
_INTERFACE_BYTES = 128
"""`TfLiteTensor` with its quantization, for each input and output of the model."""


@dataclass(frozen=True, slots=True)
class ArenaSize:
    """Bytes of a tensor arena. `head` is exact where the file plans every map; `tail` is an upper estimate."""

    head: int
    tail: int

    @property
    def total(self) -> int:
        return self.head + self.tail


def arena_size(model: Model) -> ArenaSize:
    """What TensorFlow Lite Micro needs for `model`. ModelError for a plan of the arena that does not fit the model."""
    tensors = [tensor for graph in model.graphs for tensor in graph.tensors]
    planned = arena_offsets(model) if ARENA_METADATA in model.metadata else np.full(len(tensors), -1)
    head = max(
        (aligned(int(start) + tensor.bytes) for start, tensor in zip(planned, tensors, strict=True) if start >= 0), default=0
    )
    loose = sum(
        aligned(tensor.bytes) for start, tensor in zip(planned, tensors, strict=True) if start < 0 and _is_in_head(tensor)
    )
    scratch = max((_scratch_bytes(op) for graph in model.graphs for op in graph.ops if is_npu_job(op)), default=0)
    tail = sum(_tail_bytes(graph) for graph in model.graphs)
    resources = sum(_RESOURCE_BYTES + aligned(size) for size in resource_variables(model).values())
    return ArenaSize(head + loose + scratch, aligned(tail + resources))


def resource_variables(model: Model) -> dict[tuple[str, str], int]:
    """Bytes of each variable that `VAR_HANDLE` operators name by container and name: those of the largest value assigned."""
    sizes: dict[tuple[str, str], int] = {}
    for graph in model.graphs:
        names = {op.outputs[0]: _resource(op) for op in graph.ops if op.kind == "VAR_HANDLE"}
        sizes.update({name: sizes.get(name, 0) for name in names.values()})
        for op in graph.ops:
            if op.kind == "ASSIGN_VARIABLE" and op.inputs[0] in names:
                name = names[op.inputs[0]]
                sizes[name] = max(sizes[name], graph.tensors[op.inputs[1]].bytes)
    return sizes


def _resource(op: Op) -> tuple[str, str]:
    options = op.attributes or VarHandleOptions()
    assert isinstance(options, VarHandleOptions)
    return options.container, options.shared_name


def aligned(size: int) -> int:
    """Bytes of a buffer with the space up to the next one."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def _is_in_head(tensor: Tensor) -> bool:
    return not tensor.is_constant and not tensor.is_variable


def _scratch_bytes(op: Op) -> int:
    places = len(op.inputs) + len(op.outputs)
    return aligned(8 * places) + aligned((_BASE_ADDRESS_BYTES - 8) * places)


def _tail_bytes(graph: Graph) -> int:
    variables = sum(aligned(tensor.bytes) for tensor in graph.tensors if tensor.is_variable)
    interface = _INTERFACE_BYTES * (len(graph.inputs) + len(graph.outputs))
    return _INTERPRETER_BYTES + _TENSOR_BYTES * len(graph.tensors) + _OPERATOR_BYTES * len(graph.ops) + interface + variables
