"""Models whose floats between 8-bit tensors are looked up: `npu.graph.lookups` finds them, the interpreter gives the values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npu.errors import UserError
from npu.graph.graph import ABSENT, Graph, Lookup, Model, Op, Tensor
from npu.graph.lookups import Island, islands
from npu.numerics.arrays import Ints
from npu.runtime.interpreter import CpuInterpreter
from npu.tflite.writer import write_model

_VALUES = 256


def with_lookups(model: Model) -> Model:
    """The model in which each such QUANTIZE reads the 8-bit tensor, with the entries of its table.

    What was in front of it keeps its place: it need not run if nobody else reads it.
    """
    return replace(model, graphs=tuple(map(_with_lookups, model.graphs)))


def _with_lookups(graph: Graph) -> Graph:
    ops = list(graph.ops)
    for island in islands(graph):
        entries = _entries(graph, island)
        if entries is not None:
            whole = ops[island.end]
            ops[island.end] = replace(whole, inputs=(island.source,), lookup=Lookup(entries, whole, island.before))
    return replace(graph, ops=tuple(ops))


def _entries(graph: Graph, island: Island) -> Ints | None:
    """The results for all values of the source, ascending; None if the interpreter refuses one of the operators."""
    positions = (*island.before, island.end)
    touched = (index for at in positions for index in (*graph.ops[at].inputs, *graph.ops[at].outputs))
    used = dict.fromkeys(index for index in touched if index != ABSENT)
    numbers = {index: number for number, index in enumerate(used)}
    tensors = tuple(_of_values(graph.tensors[index]) for index in used)
    ops = tuple(_renumbered(graph.ops[at], numbers) for at in positions)
    source, target = numbers[island.source], numbers[graph.ops[island.end].outputs[0]]
    alone = Graph("island", tensors, ops, (source,), (target,))
    try:
        interpreter = CpuInterpreter(model_content=write_model(Model((alone,))))
        interpreter.allocate_tensors()
        dtype = tensors[source].dtype.numpy
        assert dtype is not None
        first = np.iinfo(dtype).min
        values = np.arange(first, first + _VALUES).astype(dtype)
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], values.reshape(tensors[source].shape))
        interpreter.invoke()
    except UserError:
        return None  # an operator that fails at run time keeps doing so
    results = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    return results.reshape(-1).astype(np.int64)


def _of_values(tensor: Tensor) -> Tensor:
    """A map with one element for each value, of the same rank; constants stay."""
    if tensor.is_constant:
        return tensor
    shape = (*[1] * (len(tensor.shape) - 1), _VALUES)
    return replace(tensor, shape=shape, shape_signature=None, extra={})


def _renumbered(op: Op, numbers: dict[int, int]) -> Op:
    inputs = tuple(numbers.get(index, ABSENT) for index in op.inputs)
    return replace(op, inputs=inputs, outputs=tuple(numbers[index] for index in op.outputs))
