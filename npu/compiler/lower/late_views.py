"""A view between an operator and functions of its result goes behind them, so that they can ride on what makes the values.

Converters write a product of a map of four dimensions as that of a matrix, and put its rows apart before the function.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from npu.compiler.lower.geometry import fold_shape
from npu.compiler.lower.late_joins import JOINING
from npu.compiler.lower.pair_tables import is_pair
from npu.compiler.lower.rewriting import FUNCTIONS, Rewriter, TensorUses
from npu.graph.graph import Graph
from npu.graph.idle import VIEWS
from npu.records import replace

_MOST = 8
"""Operators behind a view that are looked at."""


def with_late_views(graph: Graph, ops: Sequence[int]) -> tuple[Graph, dict[int, int]]:
    """The graph in which views have changed places with the functions behind them.

    And which operator of the graph before each of these is.
    """
    if all(graph.ops[index].kind not in VIEWS for index in ops):
        return graph, {}
    uses, order = TensorUses(graph, ops), {index: place for place, index in enumerate(ops)}
    rewriter, moved = Rewriter(graph), dict[int, int]()
    for index in ops:
        source = graph.ops[index].inputs[0] if graph.ops[index].kind in VIEWS else None
        if index in moved or source not in uses.producer or graph.tensors[source].dtype.bits != 8:
            continue
        views = uses.views_behind(uses.producer[source])
        functions = _functions_behind(uses, graph.ops[views[-1]].outputs[0], order) if views else []
        if functions and moved.keys().isdisjoint(functions) and not _is_copied(uses, source, views, functions[-1]):
            moved.update(zip((*views, *functions), (*functions, *views), strict=True))
            _move_behind(rewriter, views, functions)
    return (rewriter.graph if moved else graph), moved


def _functions_behind(uses: TensorUses, tensor: int, order: dict[int, int]) -> list[int]:
    """The most functions of a tensor, in order, of which nobody sees anything but the last result; none if there are none."""
    graph, known, group, closed = uses.graph, {tensor}, list[int](), list[int]()
    while len(group) < _MOST and all(uses.are_all_readers_inside(one) for one in known):
        waiting = {reader for one in known for reader in uses.readers[one]}.difference(group)
        following = min(waiting, key=order.__getitem__, default=None)
        if following is None or not _is_function(graph, following, known):
            break
        group.append(following)
        result = graph.ops[following].outputs[0]
        if all(group_readers.issubset(group) for group_readers in (set(uses.readers[one]) for one in known)):
            closed = list(group)
        known.add(result)
    return closed


def _is_copied(uses: TensorUses, source: int, views: Sequence[int], last: int) -> bool:
    """Whether the views would be copied behind the functions.

    A join reads the last result, and it has other rows, columns and channels; or others see it, and there are several views.
    """
    result = uses.graph.ops[last].outputs[0]
    is_joined = any(uses.graph.ops[reader].kind in JOINING for reader in uses.readers[result])
    is_other = fold_shape(uses.graph.tensors[source].shape) != fold_shape(uses.graph.tensors[result].shape)
    return (is_joined and is_other) or (len(views) > 1 and not uses.are_all_readers_inside(result))


def _is_function(graph: Graph, index: int, known: Collection[int]) -> bool:
    """Whether an operator makes something of values that are known, one by one."""
    op = graph.ops[index]
    return (op.kind in FUNCTIONS and len(op.inputs) == 1) or is_pair(graph, op, known)


def _move_behind(rewriter: Rewriter, views: Sequence[int], functions: Sequence[int]) -> None:
    """Let the functions be in the first of the places of all, in order, and the views in the others."""
    graph, places = rewriter.before, (*views, *functions)
    source, *between, seen = (graph.ops[views[0]].inputs[0], *(graph.ops[view].outputs[0] for view in views))
    shape, result = graph.tensors[source].shape, graph.ops[functions[-1]].outputs[0]
    for place, function in zip(places, functions, strict=False):
        op = graph.ops[function]
        made = seen if function == functions[-1] else op.outputs[0]
        rewriter.resize(made, shape, like=op.outputs[0])
        inputs = tuple(source if tensor == seen else tensor for tensor in op.inputs)
        rewriter.ops[place] = replace(op, inputs=inputs, outputs=(made,))
    last = seen
    for place, made in zip(places[len(functions) :], (*between, result), strict=True):
        rewriter.resize(made, graph.tensors[made].shape, like=result)
        last = rewriter.put(place, "RESHAPE", (last,), made)
