"""Constants that the file computes: SHAPE of fixed shapes, exact arithmetic and data movement on constants alone, DENSIFY."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from npu.errors import UserError
from npu.fixes.edit import Editor, is_static
from npu.graph.dtype import DType
from npu.graph.graph import ABSENT, Graph, Model, Op, Tensor
from npu.graph.known import MOVED, is_of_constants
from npu.graph.open_shapes import settled_outputs
from npu.graph.quantizations import QUANTIZED
from npu.runtime.interpreter import CpuInterpreter
from npu.tflite.sparsity import densify, is_sparse
from npu.tflite.writer import write_model

_PLAIN = (DType.INT32, DType.INT64)
_LARGEST_ELEMENTS = 1 << 16
_LARGEST_REAL_ELEMENTS = 16
"""Of floats, by which models compute how often a frame fits."""
_LARGEST_QUANTIZED_ELEMENTS = 1 << 10
"""Of quantized maps that are only moved, as the zeros with which an unrolled recurrent network begins."""
_PADS = ("MIRROR_PAD", "PAD", "PADV2")


def fold_constants(graph: Graph, *, settles: bool = False) -> Editor:
    """Operators that compute constants of type int32 or int64, or few floats, that move few quantized ones, or unpack weights,
    become constants. Outputs stay computed.

    `settles`: the shapes of the graph's inputs are its only ones, and decide the sizes that the file leaves open.
    """
    editor = Editor(graph)
    for position, op in enumerate(graph.ops):
        if settles:
            for index, tensor in settled_outputs(editor.tensors, op):
                editor.tensors[index] = tensor
        if any(index in graph.outputs or index == ABSENT for index in op.outputs):
            continue
        values = known_outputs(editor.tensors, op, settles=settles)
        if values is not None:
            for index, value in zip(op.outputs, values, strict=True):
                tensor = replace(editor.tensors[index], shape=value.shape, data=value, shape_signature=None)
                editor.tensors[index] = tensor
            editor.put(position, [], "computed once, its result is a constant now")
    return editor


def with_folded_shapes(model: Model) -> Model:
    """The model in which what was computed of fixed shapes is a constant where it is read, and no size of the entry is open.

    The operators that computed it keep their places, so that numbers of operators stay those of the file.
    """
    graphs = (_with_folded_shapes(graph, settles=number == 0) for number, graph in enumerate(model.graphs))
    return replace(model, graphs=tuple(graphs))


def with_settled_sizes(model: Model) -> Model:
    """The model without open sizes in its entry, in which every operator still computes what it computed."""
    entry = model.graphs[0]
    made = fold_constants(entry, settles=True).tensors
    tensors = (
        before if now.shape == before.shape else replace(before, shape=now.shape, shape_signature=None)
        for before, now in zip(entry.tensors, made, strict=True)
    )
    return replace(model, graphs=(replace(entry, tensors=tuple(tensors)), *model.graphs[1:]))


def _with_folded_shapes(graph: Graph, *, settles: bool) -> Graph:
    editor = fold_constants(graph, settles=settles)
    folded = frozenset(position for position, ops in enumerate(editor.ops) if not ops)
    written = {index for position in folded for index in graph.ops[position].outputs}
    constants = {index: editor.add(editor.tensors[index]) for index in sorted(written)}
    ops = tuple(
        op if position in folded else replace(op, inputs=tuple(constants.get(index, index) for index in op.inputs))
        for position, op in enumerate(graph.ops)
    )
    tensors = tuple(graph.tensors[index] if index in written else tensor for index, tensor in enumerate(editor.tensors))
    return replace(graph, tensors=tensors, ops=ops, unneeded=folded)


def known_outputs(tensors: Sequence[Tensor], op: Op, *, settles: bool = True) -> list[npt.NDArray[Any]] | None:
    """The outputs of an operator that are known before the model runs."""
    if op.kind == "SHAPE":
        return _shape(tensors, op, settles=settles)
    if op.kind == "DENSIFY":
        return _dense(tensors, op)
    return _computed(tensors, op)


def _dense(tensors: Sequence[Tensor], op: Op) -> list[npt.NDArray[Any]] | None:
    """Weights as the NPU reads them; those of floats stay sparse, for which kernels of the CPU have a use."""
    source, target = tensors[op.inputs[0]], tensors[op.outputs[0]]
    if not is_sparse(source) or (source.shape, source.dtype) != (target.shape, target.dtype) or source.dtype is not DType.INT8:
        return None
    return [densify(source)]


def _shape(tensors: Sequence[Tensor], op: Op, *, settles: bool) -> list[npt.NDArray[Any]] | None:
    """The shape, where the file declares one: without dimensions it may also leave open how many there are."""
    source, target = tensors[op.inputs[0]], tensors[op.outputs[0]]
    if not source.shape or not (settles or is_static(source)) or target.dtype not in _PLAIN:
        return None
    return [np.array(source.shape, target.dtype.numpy)]


def _computed(tensors: Sequence[Tensor], op: Op) -> list[npt.NDArray[Any]] | None:
    """The outputs of an operator on constants, by the interpreter; None if it is not one to fold."""
    if not is_of_constants(tensors, op):
        return None
    used = [tensors[index] for index in (*op.inputs, *op.outputs) if index != ABSENT]
    if any(tensor.elements > _room(tensor.dtype, is_moved=op.kind in MOVED) for tensor in used):
        return None
    alone = Graph("constant", tuple(tensors[index] for index in (*_present(op.inputs), *op.outputs)), (), (), ())
    numbers = {index: position for position, index in enumerate((*_present(op.inputs), *op.outputs))}
    inputs = tuple(numbers.get(index, ABSENT) for index in op.inputs)
    outputs = tuple(numbers[index] for index in op.outputs)
    model = Model((replace(alone, ops=(replace(op, inputs=inputs, outputs=outputs),), outputs=outputs),))
    try:
        interpreter = CpuInterpreter(model_content=write_model(model))
        interpreter.allocate_tensors()
        interpreter.invoke()
    except UserError:
        return None  # an operator that fails at run time keeps doing so
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def _room(dtype: DType, *, is_moved: bool) -> int:
    """The most elements of a constant that is computed."""
    if dtype in QUANTIZED:
        return _LARGEST_QUANTIZED_ELEMENTS if is_moved else -1
    return _LARGEST_ELEMENTS if dtype in _PLAIN else _LARGEST_REAL_ELEMENTS if dtype is DType.FLOAT32 else -1


def _present(indices: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(index for index in indices if index != ABSENT))


def narrow_paddings(graph: Graph) -> Editor:
    """Constant padding tables of type int64 become int32."""
    editor = Editor(graph)
    for position, op in enumerate(graph.ops):
        if op.kind not in _PADS or len(op.inputs) < 2 or op.inputs[1] == ABSENT:
            continue
        table = graph.tensors[op.inputs[1]]
        if table.dtype is DType.INT64 and table.data is not None and np.all(np.abs(table.data) < 1 << 31):
            made = replace(table, name=f"{table.name}_int32", dtype=DType.INT32, data=table.data.astype(np.int32))
            changed = replace(op, inputs=(op.inputs[0], editor.add(made), *op.inputs[2:]))
            editor.put(position, [changed], "padding table as int32")
    return editor
