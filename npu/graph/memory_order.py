"""In which order the nodes of a graph take little memory: what makes tensors larger runs late, what makes them smaller early.

A DEQUANTIZE in front of other work, as converters write it, keeps floats for as long as that takes, in place of bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate

from npu.graph.graph import ABSENT, Graph, Tensor
from npu.graph.partition import dependencies_of
from npu.memo import cached_property

NodeOps = tuple[int, ...]
"""Operators that run as one, in this order."""


class MemoryOrder:
    """Orders of nodes of one graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    @cached_property
    def _followers(self) -> Sequence[Collection[int]]:
        return dependencies_of(self.graph)

    def least(self, nodes: Sequence[NodeOps], share: float = 1.0) -> list[int]:
        """The positions of `nodes`, which are in an order in which they can run, in the best order that was found.

        It is the given order unless another one, made from the last node to the first, takes less than a share of its memory:
        see `_from_the_end`.
        """
        given, memory = list(range(len(nodes))), _LiveBytes(self.graph, nodes)
        peak = memory.peak(given)
        if share * peak <= memory.least:
            return given
        after = _nodes_after(self._followers, nodes)
        orders = [_from_the_end(memory, after, is_late=is_late) for is_late in (False, True)]
        peaks = [memory.peak(order) for order in orders]
        return orders[peaks.index(min(peaks))] if min(peaks) < share * peak else given


def peak_of(graph: Graph, nodes: Sequence[NodeOps], order: Iterable[int]) -> int:
    """The most bytes of tensors between nodes that are live at once when they run in an order: others may never be whole."""
    return _LiveBytes(graph, nodes).peak(order)


class _LiveBytes:
    """What nodes read and write, and its bytes."""

    def __init__(self, graph: Graph, nodes: Sequence[NodeOps]) -> None:
        self.graph = graph
        self.tensors = [_tensors_of(graph, node) for node in nodes]
        self._seen = {*graph.inputs, *graph.outputs}.union(*(reads for reads, _ in self.tensors))
        touched = self._seen.union(*(writes for _, writes in self.tensors))
        self.sizes = {index: 0 if index == ABSENT else _size(graph.tensors[index]) for index in touched}
        self.least = max(
            (self.bytes_of(set.union(*own)) for node, own in zip(nodes, self.tensors, strict=True) if len(node) == 1), default=0
        )
        """Of tensors without which a node of one operator cannot run, whatever the order."""

    def bytes_of(self, tensors: Iterable[int]) -> int:
        sizes = self.sizes
        return sum([sizes[tensor] for tensor in tensors])

    def peak(self, order: Iterable[int]) -> int:
        """The most bytes of tensors between nodes that are live at once."""
        spans: dict[int, list[int]] = {tensor: [0, 0] for tensor in self.graph.inputs}
        for event, position in enumerate(order):
            for tensor in set.union(*self.tensors[position]) & self._seen:
                spans.setdefault(tensor, [event, event])[1] = event
        for tensor in self.graph.outputs:
            spans.setdefault(tensor, [0, 0])[1] = len(self.tensors) - 1
        change = [0] * (len(self.tensors) + 1)
        for tensor, (first, last) in spans.items():
            change[first] += self.sizes[tensor]
            change[last + 1] -= self.sizes[tensor]
        return max(accumulate(change))


def _from_the_end(memory: _LiveBytes, after: Sequence[set[int]], *, is_late: bool) -> list[int]:
    """An order in which each node comes as late as it can if its results take more than what nobody reads after it.

    Of several of these the one that frees least is the last: it has the others' results beside it. Of the rest, which should
    come early, the one that takes most is the last. This is the best order of nodes that do not depend on each other
    (Abdel-Wahab and Kameda 1978). `is_late` says what those do whose results take as much: neither is always better.
    """
    before: list[list[int]] = [[] for _ in after]
    for position, followers in enumerate(after):
        for follower in followers:
            before[follower].append(position)
    waits = [len(followers) for followers in after]
    ready = {position for position, count in enumerate(waits) if count == 0}
    live, order = set(memory.graph.outputs), list[int]()

    def rank(position: int) -> tuple[bool, int, int]:
        """The least comes last."""
        reads, writes = memory.tensors[position]
        freed, made = memory.bytes_of(reads - live), memory.bytes_of(writes & live)
        is_early = freed > made or (freed == made and not is_late)
        return is_early, -made if is_early else freed, -position

    while ready:
        best = min(ready, key=rank)
        ready.remove(best)
        order.append(best)
        reads, writes = memory.tensors[best]
        live = live - writes | reads
        for position in before[best]:
            waits[position] -= 1
            if waits[position] == 0:
                ready.add(position)
    return order[::-1]


def _nodes_after(dependencies: Sequence[Collection[int]], nodes: Sequence[NodeOps]) -> list[set[int]]:
    """For each node, those that must run after it."""
    node_of = {index: position for position, node in enumerate(nodes) for index in node}
    after: list[set[int]] = [set() for _ in nodes]
    for index, followers in enumerate(dependencies):
        if index in node_of:
            after[node_of[index]].update(node_of[follower] for follower in followers if follower in node_of)
    return [followers - {position} for position, followers in enumerate(after)]


def _tensors_of(graph: Graph, node: NodeOps) -> tuple[set[int], set[int]]:
    """What a node reads that it has not written, and what it writes."""
    ops = [graph.ops[index] for index in node]
    writes = {tensor for op in ops for tensor in op.outputs}
    return {tensor for op in ops for tensor in op.inputs} - writes, writes


def _size(tensor: Tensor) -> int:
    """Bytes that a tensor takes while it is live; a variable takes its own always."""
    return 0 if tensor.is_constant or tensor.is_variable else tensor.bytes
