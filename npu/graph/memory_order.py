"""In which order the nodes of a graph take little memory: what makes tensors larger runs late, what makes them smaller early.

A DEQUANTIZE in front of other work, as converters write it, keeps floats for as long as that takes, in place of bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat

from npu.graph.graph import ABSENT, Graph
from npu.graph.partition import dependencies_of

NodeOps = tuple[int, ...]
"""Operators that run as one, in this order."""


def in_least_memory(graph: Graph, nodes: Sequence[NodeOps]) -> list[int]:
    """The positions of `nodes`, which are in an order in which they can run, in the best order that was found.

    It is the given order unless the other one, made from the last node to the first, takes less memory: see `_from_the_end`.
    """
    given = list(range(len(nodes)))
    peak, least = peak_of(graph, nodes, given), max(map(_needed_by, repeat(graph), nodes), default=0)
    if peak <= least:
        return given
    other = _from_the_end(graph, nodes)
    return other if peak_of(graph, nodes, other) < peak else given


def peak_of(graph: Graph, nodes: Sequence[NodeOps], order: Iterable[int]) -> int:
    """The most bytes of tensors between nodes that are live at once when they run in an order: others may never be whole."""
    spans: dict[int, list[int]] = {tensor: [0, 0] for tensor in graph.inputs}
    tensors = [_tensors_of(graph, node) for node in nodes]
    seen = {*graph.inputs, *graph.outputs}.union(*(reads for reads, _ in tensors))
    for event, position in enumerate(order):
        for tensor in set.union(*tensors[position]) & seen:
            spans.setdefault(tensor, [event, event])[1] = event
    for tensor in graph.outputs:
        spans.setdefault(tensor, [0, 0])[1] = len(nodes) - 1
    change = [0] * (len(nodes) + 1)
    for tensor, (first, last) in spans.items():
        size = _size(graph, tensor)
        change[first] += size
        change[last + 1] -= size
    peak = live = 0
    for size in change:
        live += size
        peak = max(peak, live)
    return peak


def _from_the_end(graph: Graph, nodes: Sequence[NodeOps]) -> list[int]:
    """An order in which each node comes as late as it can if its results take more than what nobody reads after it.

    Of several of these the one that frees least is the last: it has the others' results beside it. Of the rest, which should
    come early, the one that takes most is the last. This is the best order of nodes that do not depend on each other
    (Abdel-Wahab and Kameda 1978).
    """
    after = _nodes_after(graph, nodes)
    before: list[list[int]] = [[] for _ in nodes]
    for position, followers in enumerate(after):
        for follower in followers:
            before[follower].append(position)
    reads, writes = zip(*(_tensors_of(graph, node) for node in nodes), strict=True) if nodes else ((), ())
    waits = [len(followers) for followers in after]
    ready = {position for position, count in enumerate(waits) if count == 0}
    live, order = set(graph.outputs), list[int]()
    while ready:
        ranked = [(_rank(graph, reads[position] - live, writes[position] & live), -position) for position in ready]
        best = -min(ranked)[1]
        ready.remove(best)
        order.append(best)
        live = live - writes[best] | reads[best]
        for position in before[best]:
            waits[position] -= 1
            if waits[position] == 0:
                ready.add(position)
    return order[::-1]


def _rank(graph: Graph, frees: set[int], makes: set[int]) -> tuple[bool, int]:
    """The least comes last."""
    freed, made = (sum(_size(graph, tensor) for tensor in tensors) for tensors in (frees, makes))
    return freed >= made, freed if freed < made else -made


def _nodes_after(graph: Graph, nodes: Sequence[NodeOps]) -> list[set[int]]:
    """For each node, those that must run after it."""
    node_of = {index: position for position, node in enumerate(nodes) for index in node}
    after: list[set[int]] = [set() for _ in nodes]
    for index, followers in enumerate(dependencies_of(graph)):
        if index in node_of:
            after[node_of[index]].update(node_of[follower] for follower in followers if follower in node_of)
    return [followers - {position} for position, followers in enumerate(after)]


def _tensors_of(graph: Graph, node: NodeOps) -> tuple[set[int], set[int]]:
    """What a node reads that it has not written, and what it writes."""
    ops = [graph.ops[index] for index in node]
    writes = {tensor for op in ops for tensor in op.outputs}
    return {tensor for op in ops for tensor in op.inputs} - writes, writes


def _needed_by(graph: Graph, node: NodeOps) -> int:
    """Bytes of tensors without which a node cannot run, whatever the order."""
    return sum(_size(graph, tensor) for tensor in set.union(*_tensors_of(graph, node))) if len(node) == 1 else 0


def _size(graph: Graph, tensor: int) -> int:
    """Bytes that a tensor takes while it is live; a variable takes its own always."""
    known = None if tensor == ABSENT else graph.tensors[tensor]
    return 0 if known is None or known.is_constant or known.is_variable else known.bytes
