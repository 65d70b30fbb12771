"""A PAD in front of reshapes of a convolution's input goes behind them, where the convolution can carry it.

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
    """The graph in which each such PAD of the operators `ops` is the last before its convolution, behind the views between."""
    if all(graph.ops[index].kind != "PAD" for index in ops):
        return graph
    tensors, rewritten, inside, readers = list(graph.tensors), list(graph.ops), frozenset(ops), readers_of(graph)

    def sole_reader(tensor: int) -> int | None:
        """The operator that alone reads a tensor which nobody else sees."""
        (*others, first) = readers[tensor] or (None,)
        return None if others or first not in inside or tensor in graph.outputs else first

    def views_behind(index: int) -> list[int]:
        """The views between an operator and a convolution that alone reads what comes out of them."""
        views: list[int] = []
        following = sole_reader(graph.ops[index].outputs[0])
        while following is not None and graph.ops[following].kind in VIEWS:
            views.append(following)
            following = sole_reader(graph.ops[following].outputs[0])
        return views if following is not None and graph.ops[following].kind in _CONVOLUTIONS else []

    for index in ops:
        pad = graph.ops[index]
        views = views_behind(index) if pad.kind == "PAD" else []
        if not views:
            continue
        (*between, target) = [graph.ops[view].outputs[0] for view in views]
        full, shape = graph.tensors[pad.outputs[0]].shape, graph.tensors[target].shape
        if _extents(full) != _extents(shape):
            continue
        amounts = _among(shape, [pair for pair, extent in zip(pad_amounts(graph, pad), full, strict=True) if extent != 1])
        before = tuple(extent - sum(pair) for extent, pair in zip(shape, amounts, strict=True))
        table = np.array(amounts, np.int32)
        tensors.append(Tensor("paddings", table.shape, DType.INT32, None, table))
        last = pad.inputs[0]
        for place, made in zip((index, *views), (pad.outputs[0], *between), strict=False):
            tensors[made] = replace(graph.tensors[pad.inputs[0]], shape=before, shape_signature=None)
            rewritten[place] = Op("RESHAPE", (last,), (made,))
            last = made
        rewritten[views[-1]] = replace(pad, inputs=(last, len(tensors) - 1), outputs=(target,))
    return replace(graph, tensors=tuple(tensors), ops=tuple(rewritten))


def _extents(shape: Shape) -> list[int]:
    """Those of the dimensions that are not 1."""
    return [extent for extent in shape if extent != 1]


def _among(shape: Shape, amounts: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What is put around each dimension of a shape, by what is put around those that are not 1."""
    rest = iter(amounts)
    return [(0, 0) if extent == 1 else next(rest) for extent in shape]
