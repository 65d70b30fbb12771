"""Data movement in a form that the NPU takes: GATHER of neighbours as SLICE, TRANSPOSE that moves nothing as RESHAPE."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from npu.fixes.edit import Accepts, Editor, is_static, same_quantization
from npu.graph.attributes import GatherOptions, ReshapeOptions, SliceOptions
from npu.graph.dtype import DType
from npu.graph.graph import ABSENT, Graph, Op, Tensor

_RESHAPE_VERSION = 1


def rewrite_movement(graph: Graph, accepts: Accepts) -> Editor:
    """GATHER and TRANSPOSE that the target refuses, in an equal form that it takes; left alone where there is none."""
    editor = Editor(graph)
    for position, op in enumerate(graph.ops):
        if op.kind not in ("GATHER", "TRANSPOSE") or len(op.inputs) != 2 or ABSENT in (*op.inputs, *op.outputs):
            continue
        source, target = graph.tensors[op.inputs[0]], graph.tensors[op.outputs[0]]
        if not (is_static(source) and is_static(target) and same_quantization(source, target)) or accepts(graph, op):
            continue
        values = graph.tensors[op.inputs[1]].data
        if values is None or values.dtype.kind != "i":
            continue
        numbers = [int(value) for value in values.reshape(-1)]
        if op.kind == "GATHER":
            _gather(editor, graph, position, numbers, accepts)
        elif _moves_nothing(source.shape, numbers):
            made = _reshape(editor, op.inputs[0], op.outputs[0])
            if accepts(editor.graph(), made):
                editor.put(position, [made], "RESHAPE, as the order of the elements stays")
    return editor


def _gather(editor: Editor, graph: Graph, position: int, indices: list[int], accepts: Accepts) -> None:
    """Flatten to rank 3 around the axis, take neighbours, give the result its shape."""
    op = graph.ops[position]
    source = graph.tensors[op.inputs[0]]
    axis = _plain_axis(op, len(source.shape))
    if axis is None or not indices or indices != list(range(indices[0], indices[0] + len(indices))):
        return
    outer, extent, inner = math.prod(source.shape[:axis]), source.shape[axis], math.prod(source.shape[axis + 1 :])
    if indices[0] < 0 or indices[-1] >= extent or graph.tensors[op.outputs[0]].elements != outer * len(indices) * inner:
        return
    added = len(editor.tensors)
    flat = editor.add(_like(source, "flat", (outer, extent, inner)))
    part = editor.add(_like(graph.tensors[op.outputs[0]], "part", (outer, len(indices), inner)))
    begin = editor.add(_constant(f"{source.name}_begin", (0, indices[0], 0)))
    size = editor.add(_constant(f"{source.name}_size", (outer, len(indices), inner)))
    made = [
        _reshape(editor, op.inputs[0], flat),
        Op("SLICE", (flat, begin, size), (part,), SliceOptions(), 1 if source.dtype is DType.UINT8 else 2),
        _reshape(editor, part, op.outputs[0]),
    ]
    if all(accepts(editor.graph(), op) for op in made):
        editor.put(position, made, f"SLICE, as {'the indices are neighbours' if len(indices) > 1 else 'there is one index'}")
    else:
        del editor.tensors[added:]


def _plain_axis(op: Op, rank: int) -> int | None:
    """The axis of a GATHER without batch dimensions, counted from the first."""
    options = op.attributes if isinstance(op.attributes, GatherOptions) else GatherOptions()
    axis = options.axis + rank if options.axis < 0 else options.axis
    return axis if options.batch_dims == 0 and 0 <= axis < rank else None


def _moves_nothing(shape: Sequence[int], order: list[int]) -> bool:
    """Whether a permutation keeps the order of all dimensions larger than 1."""
    if sorted(order) != list(range(len(shape))):
        return False
    large = [axis for axis in order if shape[axis] > 1]
    return large == sorted(large)


def _reshape(editor: Editor, source: int, target: int) -> Op:
    shape = editor.tensors[target].shape
    table = editor.add(_constant(f"{editor.tensors[target].name}_shape", shape))
    return Op("RESHAPE", (source, table), (target,), ReshapeOptions(tuple(shape)), _RESHAPE_VERSION)


def _constant(name: str, values: Sequence[int]) -> Tensor:
    data = np.array(values, np.int32)
    return Tensor(name, data.shape, DType.INT32, data=data)


def _like(tensor: Tensor, suffix: str, shape: tuple[int, ...]) -> Tensor:
    return replace(tensor, name=f"{tensor.name}_{suffix}", shape=shape, shape_signature=None, data=None)
