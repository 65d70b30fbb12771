"""Data movement in a form that the NPU takes: TRANSPOSE that moves nothing as RESHAPE."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npu.fixes.edit import Accepts, Editor, is_static, same_quantization
from npu.graph.attributes import ReshapeOptions
from npu.graph.dtype import DType
from npu.graph.graph import ABSENT, Graph, Op, Tensor

_RESHAPE_VERSION = 1


def rewrite_movement(graph: Graph, accepts: Accepts) -> Editor:
    """TRANSPOSE that the target refuses, in an equal form that it takes; left alone where there is none."""
    editor = Editor(graph)
    for position, op in enumerate(graph.ops):
        if op.kind != "TRANSPOSE" or len(op.inputs) != 2 or ABSENT in (*op.inputs, *op.outputs):
            continue
        source, target = graph.tensors[op.inputs[0]], graph.tensors[op.outputs[0]]
        if not (is_static(source) and is_static(target) and same_quantization(source, target)) or accepts(graph, op):
            continue
        values = graph.tensors[op.inputs[1]].data
        if values is None or values.dtype.kind != "i":
            continue
        numbers = [int(value) for value in values.reshape(-1)]
        if _moves_nothing(source.shape, numbers):
            made = _reshape(editor, op.inputs[0], op.outputs[0])
            if accepts(editor.graph(), made):
                editor.put(position, [made], "RESHAPE, as the order of the elements stays")
    return editor


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
