"""A PAD in front of the reshape of a convolution's input goes behind it, where the convolution can carry it.

Converters write a causal convolution over a sequence so: PAD, a dimension of 1 more, CONV_2D, a dimension of 1 less.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npu.compiler.lower.geometry import pad_amounts
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Op, Tensor
from npu.graph.idle import VIEWS
from npu.graph.operands import Shape
from npu.graph.readers import readers_of
from npu.records import replace

_CONVOLUTIONS = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D"})


def with_near_pads(graph: Graph, ops: Sequence[int]) -> Graph:
    """The graph in which each such PAD and the view behind it, both among the operators `ops`, have changed places."""
    if all(graph.ops[index].kind != "PAD" for index in ops):
        return graph
    tensors, rewritten, inside, readers = list(graph.tensors), list(graph.ops), frozenset(ops), readers_of(graph)

    def sole_reader(tensor: int) -> int | None:
        """The operator that alone reads a tensor which nobody else sees."""
        (*others, first) = readers[tensor] or (None,)
        return None if others or first not in inside or tensor in graph.outputs else first

    for index in ops:
        pad = graph.ops[index]
        view = sole_reader(pad.outputs[0]) if pad.kind == "PAD" else None
        if view is None or graph.ops[view].kind not in VIEWS:
            continue
        target = graph.ops[view].outputs[0]
        convolution = sole_reader(target)
        full, shape = graph.tensors[pad.outputs[0]].shape, graph.tensors[target].shape
        if convolution is None or graph.ops[convolution].kind not in _CONVOLUTIONS or _extents(full) != _extents(shape):
            continue
        amounts = _among(shape, [pair for pair, extent in zip(pad_amounts(graph, pad), full, strict=True) if extent != 1])
        before = tuple(extent - sum(pair) for extent, pair in zip(shape, amounts, strict=True))
        table = np.array(amounts, np.int32)
        tensors.append(Tensor("paddings", table.shape, DType.INT32, None, table))
        tensors[pad.outputs[0]] = replace(graph.tensors[pad.inputs[0]], shape=before, shape_signature=None)
        rewritten[index] = Op("RESHAPE", pad.inputs[:1], pad.outputs)
        rewritten[view] = replace(pad, inputs=(pad.outputs[0], len(tensors) - 1), outputs=(target,))
    return replace(graph, tensors=tuple(tensors), ops=tuple(rewritten))


def _extents(shape: Shape) -> list[int]:
    """Those of the dimensions that are not 1."""
    return [extent for extent in shape if extent != 1]


def _among(shape: Shape, amounts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What is put around each dimension of a shape, by what is put around those that are not 1."""
    rest = iter(amounts)
    return [(0, 0) if extent == 1 else next(rest) for extent in shape]
