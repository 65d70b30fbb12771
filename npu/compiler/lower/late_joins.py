"""Which inputs of joins are better copied into them than made there, where memory is dear.

A map that lives in the result of a join from the start has all of that in memory from then on: in a network that ends with what
it began with, several times what the map takes. Lives are those of tensors, before anything is cut in stripes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from itertools import accumulate

from npu.graph.graph import Graph

_WORTH = 0.97
"""Of the peak, what copying the inputs of one more join leaves at most."""
_MOST_JOINS = 24
"""So many are looked at, the largest ones, and so many get copies: a file may have any number of them."""


class Joins(Enum):
    """When the memory of the result of a join is in use."""

    EARLY = "from its first input on"
    AT_THE_PEAK_LATE = "the same, but where copies of inputs lower the peak"
    LATE = "from its last input on"


class TensorLives:
    """When the memory of each tensor is in use while operators run one after the other, and its bytes.

    `same` are pairs of tensors that use the same memory: views, operands that are replaced, what is fused.
    """

    def __init__(self, graph: Graph, ops: Sequence[int], outputs: Iterable[int], same: Iterable[tuple[int, int]]) -> None:
        self._spans: dict[int, list[int]] = {}
        for event, index in enumerate(ops):
            for tensor in (*graph.ops[index].inputs, *graph.ops[index].outputs):
                if tensor >= 0 and not graph.tensors[tensor].is_constant:
                    self._spans.setdefault(tensor, [event if tensor in graph.ops[index].outputs else 0, event])[1] = event
        for tensor in self._spans.keys() & set(outputs):
            self._spans[tensor][1] = len(ops) - 1
        self._count, self._bytes = len(ops), {tensor: graph.tensors[tensor].bytes for tensor in self._spans}
        self._owner: dict[int, int] = {tensor: tensor for tensor in self._spans}
        for one, other in same:
            if one in self._owner and other in self._owner:
                self._owner[self._root(self._owner, one)] = self._root(self._owner, other)

    def size(self, tensor: int) -> int:
        """Bytes of a tensor."""
        return self._bytes[tensor]

    def made(self, tensor: int) -> int:
        """The event that makes a tensor."""
        return self._spans[tensor][0]

    def usage(self, nest: Mapping[int, int]) -> list[int]:
        """Bytes at every event, where tensors live inside others."""
        owner = dict(self._owner)
        for tensor, parent in nest.items():
            owner[self._root(owner, tensor)] = self._root(owner, parent)
        spans, sizes = dict[int, tuple[int, int]](), dict[int, int]()
        for tensor, (first, last) in self._spans.items():
            root = self._root(owner, tensor)
            begin, end = spans.get(root, (first, last))
            spans[root] = min(begin, first), max(end, last)
            sizes[root] = max(sizes.get(root, 0), self._bytes[tensor])
        change = [0] * (self._count + 1)
        for root, (first, last) in spans.items():
            change[first] += sizes[root]
            change[last + 1] -= sizes[root]
        return list(accumulate(change[:-1]))

    @staticmethod
    def _root(owner: Mapping[int, int], tensor: int) -> int:
        while owner[tensor] != tensor:
            tensor = owner[tensor]
        return tensor


def all_but_last(lives: TensorLives, joins: Mapping[int, Sequence[int]]) -> set[int]:
    """The inputs that are copied for results that are made as late as can be."""
    lasts = {max(parts, key=lives.made) for parts in joins.values() if parts}
    return {part for parts in joins.values() for part in parts}.difference(lasts)


def early_parts(lives: TensorLives, joins: Mapping[int, Sequence[int]], nest: Mapping[int, int]) -> set[int]:
    """The inputs that are copied. `joins`: result -> inputs that would live in it; `nest`: tensor -> what it would live in.

    One join after the other, of those whose results are not complete when most memory is in use.
    """
    inside, usage = dict(nest), lives.usage(nest)
    for _ in range(_MOST_JOINS):
        peak, trials = max(usage), list[tuple[int, dict[int, int], list[int]]]()
        event = usage.index(peak)
        for early in _incomplete(lives, joins, inside, event)[:_MOST_JOINS]:
            kept = {part: parent for part, parent in inside.items() if part not in early}
            tried = lives.usage(kept)
            trials.append((max(tried), kept, tried))
        least, kept, tried = min(trials, key=lambda trial: trial[0], default=(peak, inside, usage))
        if least > peak * _WORTH:
            break
        inside, usage = kept, tried
    return nest.keys() - inside.keys()


def _incomplete(lives: TensorLives, joins: Mapping[int, Sequence[int]], nest: Mapping[int, int], event: int) -> list[set[int]]:
    """The inputs that live in the result of a join before it is complete, of each for which they do at an event."""
    waiting = []
    for result in sorted(joins, key=lives.size, reverse=True):
        early = {part for part in joins[result] if part in nest and lives.made(part) <= event}
        if early and any(lives.made(tensor) > event for tensor in (result, *joins[result])):
            waiting.append(early)
    return waiting
