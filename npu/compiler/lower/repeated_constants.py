"""Constants that say the same again and again along an axis, once: the NPU repeats what is broadcast.

Converters write a number out for every channel (the slopes of a PRELU) or for a whole map (a mean that is taken away). One
number decides a table of 256 entries, and a row of channels is read in a fraction of the time of a map.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from npu.compiler.lower.rewriting import BROADCASTING, Rewriter
from npu.graph.graph import Graph
from npu.graph.operands import Shape
from npu.records import replace


def without_repetitions(graph: Graph, ops: Sequence[int]) -> Graph:
    """The graph in which constants of `ops` that broadcast two operands are of length 1 along every axis that only repeats.

    The other operand has the extent of the result: the NPU repeats one of them, or only slowly both.
    """
    rewriter, made = Rewriter(graph), dict[tuple[int, Shape], int]()
    for index in ops:
        op = graph.ops[index]
        if op.kind not in BROADCASTING or len(op.inputs) != 2:
            continue
        inputs = list(op.inputs)
        for place, constant in enumerate(op.inputs):
            tensor, other = graph.tensors[constant], graph.tensors[op.inputs[1 - place]]
            is_single = tensor.quantization is None or tensor.quantization.scales.size == 1
            if tensor.data is None or other.is_constant or tensor.elements <= 1 or not is_single:
                continue
            if other.shape != graph.tensors[op.outputs[0]].shape:
                continue
            data = _without_repetition(tensor.data)
            if data.shape != tensor.shape:
                key = constant, data.shape
                inputs[place] = made[key] = made.get(key) or rewriter.with_data(constant, data)
        if inputs != list(op.inputs):
            rewriter.ops[index] = replace(op, inputs=tuple(inputs))
    return rewriter.graph if made else graph


def _without_repetition(data: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """One of all that is the same along an axis."""
    for axis, extent in enumerate(data.shape):
        first = data.take([0], axis)
        if extent > 1 and np.array_equal(data.take([-1], axis), first) and (data == first).all():
            data = first
    return data
