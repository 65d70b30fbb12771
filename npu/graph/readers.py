"""Which operators read each tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from npu.graph.graph import ABSENT, Graph
from npu.memo import LastUsed

_KNOWN: LastUsed[int, tuple[Graph, Mapping[int, Sequence[int]]]] = LastUsed(4)
"""By the identity of a graph, which is kept: those who look at one partition after the other ask for all of it each time."""


def readers_of(graph: Graph) -> Mapping[int, Sequence[int]]:
    """The operators that read a tensor, as often as they do, in order. Those that need not run read nothing."""
    return _KNOWN.get(id(graph), lambda: (graph, _readers(graph)))[1]


def _readers(graph: Graph) -> dict[int, list[int]]:
    readers: dict[int, list[int]] = {tensor: [] for tensor in range(ABSENT, len(graph.tensors))}
    for index, op in enumerate(graph.ops):
        for tensor in op.inputs if index not in graph.unneeded else ():
            readers[tensor].append(index)
    return readers
