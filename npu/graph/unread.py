"""Operators whose results nobody reads: the only place that says which of them may be left out."""

from __future__ import annotations

from dataclasses import replace
from operator import is_

from npu.graph.graph import ABSENT, Graph, Model, Op
from npu.graph.partition import ORDERED_KINDS


def unread_operators(graph: Graph) -> frozenset[int]:
    """Operators that no output depends on, unless they have an effect of their own (variables, control flow, custom)."""
    needed = set(graph.outputs)
    unread = set()
    for index in range(len(graph.ops) - 1, -1, -1):
        op = graph.ops[index]
        if needed.isdisjoint(op.outputs) and not _has_effect(graph, op):
            unread.add(index)
        else:
            needed.update(set(op.inputs) - {ABSENT})
    return frozenset(unread)


def without_unread(model: Model) -> Model:
    """The model in which such operators need not run; they keep their places. Itself if there are none."""
    graphs = tuple(_without_unread(graph) for graph in model.graphs)
    return model if all(map(is_, graphs, model.graphs)) else replace(model, graphs=graphs)


def _without_unread(graph: Graph) -> Graph:
    unread = unread_operators(graph)
    return replace(graph, unneeded=graph.unneeded | unread) if unread - graph.unneeded else graph


def _has_effect(graph: Graph, op: Op) -> bool:
    touched = (graph.tensors[index] for index in (*op.inputs, *op.outputs) if index != ABSENT)
    special = op.kind in ORDERED_KINDS or op.kind == "CUSTOM" or op.kind.startswith("UNKNOWN")
    return special or not op.outputs or any(tensor.is_variable for tensor in touched)
