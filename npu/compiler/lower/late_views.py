"""A view between an operator and functions of its result goes behind them, so that they can ride on what makes the values.

Converters write a product of a map of four dimensions as that of a matrix, and put its rows apart before the function.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from npu.compiler.lower.geometry import fold_shape
from npu.compiler.lower.late_joins import JOINING
from npu.compiler.lower.pair_tables import is_pair
from npu.compiler.lower.rewriting import Rewriter, TensorUses
from npu.graph.graph import Graph
from npu.graph.idle import VIEWS
from npu.graph.ops import OPS
from npu.records import replace

_FUNCTIONS = frozenset(row.name for row in OPS if row.is_lut)
_MOST = 8
"""Operators behind a view that are looked at."""


def with_late_views(graph: Graph, ops: Sequence[int]) -> tuple[Graph, dict[int, int]]:
    """The graph in which views of other rows, columns and channels have changed places with the functions behind them.

    And which operator of the graph before each of these is.
    """
    if all(graph.ops[index].kind not in VIEWS for index in ops):
        return graph, {}
    uses, order = TensorUses(graph, ops), {index: place for place, index in enumerate(ops)}
    rewriter, moved = Rewriter(graph), dict[int, int]()
    for index in ops:
        op = graph.ops[index]
        if op.kind not in VIEWS or op.inputs[0] not in uses.producer or uses.sole_reader(op.inputs[0]) != index:
            continue
        before, after = graph.tensors[op.inputs[0]], graph.tensors[op.outputs[0]]
        if before.dtype.bits != 8 or fold_shape(before.shape) == fold_shape(after.shape):
            continue
        functions = _functions_behind(uses, op.outputs[0], order)
        if functions and moved.keys().isdisjoint(functions) and not _is_joined(uses, functions[-1]):
            moved.update(zip((index, *functions), (*functions, index), strict=True))
            _move_behind(rewriter, index, functions)
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


def _is_joined(uses: TensorUses, index: int) -> bool:
    """Whether a join reads what an operator makes, which would have to copy a view."""
    return any(uses.graph.ops[reader].kind in JOINING for reader in uses.readers[uses.graph.ops[index].outputs[0]])


def _is_function(graph: Graph, index: int, known: Collection[int]) -> bool:
    """Whether an operator makes something of values that are known, one by one."""
    op = graph.ops[index]
    return (op.kind in _FUNCTIONS and len(op.inputs) == 1) or is_pair(graph, op, known)


def _move_behind(rewriter: Rewriter, index: int, functions: Sequence[int]) -> None:
    """Let the functions be where the view was and each of the others, in order, and the view the last."""
    graph = rewriter.before
    view = graph.ops[index]
    source, seen = view.inputs[0], view.outputs[0]
    shape, result = graph.tensors[source].shape, graph.ops[functions[-1]].outputs[0]
    for place, function in zip((index, *functions), functions, strict=False):
        op = graph.ops[function]
        made = seen if function == functions[-1] else op.outputs[0]
        rewriter.resize(made, shape, like=op.outputs[0])
        inputs = tuple(source if tensor == seen else tensor for tensor in op.inputs)
        rewriter.ops[place] = replace(op, inputs=inputs, outputs=(made,))
    rewriter.put(functions[-1], "RESHAPE", (seen,), result)
