"""A PAD in front of reshapes of a convolution's input goes behind them, where the convolution can carry it.

Converters write a causal convolution over a sequence so: PAD, a dimension of 1 more, CONV_2D, a dimension of 1 less.
"""

from __future__ import annotations

from collections.abc import Sequence

from npu.compiler.lower.geometry import pad_amounts
from npu.compiler.lower.rewriting import CONVOLUTIONS, Rewriter, TensorUses, extents
from npu.graph.graph import Graph
from npu.graph.operands import Shape
from npu.records import replace


def with_near_pads(graph: Graph, ops: Sequence[int]) -> Graph:
    """The graph in which each such PAD of the operators `ops` is the last before its convolution, behind the views between."""
    pads = [index for index in ops if graph.ops[index].kind == "PAD"]
    if not pads:
        return graph
    uses = TensorUses(graph, ops)
    behind = {index: _views_before_convolution(uses, index) for index in pads}
    moved = [index for index in pads if behind[index] and _is_same(graph, index, behind[index][-1])]
    if not moved:
        return graph
    rewriter = Rewriter(graph)
    for index in moved:
        _move_behind(rewriter, index, behind[index])
    return rewriter.graph


def _is_same(graph: Graph, index: int, other: int) -> bool:
    """Whether what two operators make differs in dimensions of 1 alone."""
    return extents(_made(graph, index)) == extents(_made(graph, other))


def _made(graph: Graph, index: int) -> Shape:
    """The shape of what an operator makes."""
    return graph.tensors[graph.ops[index].outputs[0]].shape


def _views_before_convolution(uses: TensorUses, index: int) -> list[int]:
    """The views between an operator and a convolution that alone reads what comes out of them."""
    views = uses.views_behind(index)
    reader = uses.sole_reader(uses.graph.ops[views[-1]].outputs[0]) if views else None
    return views if reader is not None and uses.graph.ops[reader].kind in CONVOLUTIONS else []


def _move_behind(rewriter: Rewriter, index: int, views: list[int]) -> None:
    """Let the last of the views be the PAD, and what was in front of it views of what is not padded yet."""
    graph = rewriter.before
    pad, shape = graph.ops[index], _made(graph, views[-1])
    full = graph.tensors[pad.outputs[0]].shape
    around = iter([pair for pair, extent in zip(pad_amounts(graph, pad), full, strict=True) if extent != 1])
    amounts = [(0, 0) if extent == 1 else next(around) for extent in shape]
    before = tuple(extent - sum(pair) for extent, pair in zip(shape, amounts, strict=True))
    last = pad.inputs[0]
    for place in (index, *views[:-1]):
        made = graph.ops[place].outputs[0]
        rewriter.resize(made, before, like=pad.inputs[0])
        last = rewriter.put(place, "RESHAPE", (last,), made)
    rewriter.ops[views[-1]] = replace(pad, inputs=(last, rewriter.numbers(amounts)), outputs=graph.ops[views[-1]].outputs)
