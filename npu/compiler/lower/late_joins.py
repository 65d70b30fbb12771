"""Which inputs of joins are better copied into them than made there, where memory is dear.

A map that lives in the result of a join from the start has all of that in memory from then on: in a network that ends with what
it began with, several times what the map takes. Lives are those of tensors, before anything is cut in stripes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from npu.compiler.lower.tensor_lives import TensorLives

JOINING = frozenset({"CONCATENATION", "PACK"})
"""The operators whose inputs lie side by side in their result."""
_WORTH = 0.97
"""Of the peak, what copying the inputs of one more join leaves at most."""
_MOST_JOINS = 24
"""So many are looked at, the largest ones, and so many get copies: a file may have any number of them."""


class Joins(Enum):
    """When the memory of the result of a join is in use."""

    EARLY = "from its first input on"
    AT_THE_PEAK_LATE = "the same, but where copies of inputs lower the peak"
    LATE = "from its last input on"


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
