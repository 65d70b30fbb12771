"""Planning of one arena for tensors that are not alive at the same time; the only place that chooses their offsets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from npu.records import dataclass

ALIGNMENT = 64
"""Bytes; every tensor starts at a multiple."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A tensor of `size` bytes that is written first at step `first` and read last at step `last`, both included."""

    tensor: int
    size: int
    first: int
    last: int


def plan_arena(lifetimes: Sequence[Lifetime]) -> tuple[Mapping[int, int], int]:
    """Offset in bytes by tensor, and the bytes of the arena.

    The largest tensor first, each at the lowest offset where nothing that lives at the same time is: what TFLite's planner
    calls greedy by size. Equal sizes go in order of their first step.
    """
    placed: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    offsets: dict[int, int] = {}
    arena_bytes = 0
    for lifetime in sorted(lifetimes, key=lambda lifetime: (-lifetime.size, lifetime.first, lifetime.tensor)):
        start, steps = 0, range(lifetime.first, lifetime.last + 1)
        for begin, end in sorted({place for step in steps for place in placed[step]}):
            if start + lifetime.size <= begin:
                break
            start = max(start, end)
        offsets[lifetime.tensor] = start
        place = start, start + _aligned(lifetime.size)
        arena_bytes = max(arena_bytes, place[1])
        for step in steps:
            placed[step].append(place)
    return offsets, arena_bytes


def lifetimes(
    steps: Sequence[tuple[Iterable[int], Iterable[int]]], sizes: Mapping[int, int], *, kept: Iterable[int] = ()
) -> list[Lifetime]:
    """Lifetimes of the tensors in `sizes`, from the inputs and outputs of every step; `kept` ones live to the end.

    A tensor that is read before any step has written it lives from the start.
    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for position, (inputs, outputs) in enumerate(steps):
        for tensor in inputs:
            first.setdefault(tensor, 0)
            last[tensor] = position
        for tensor in outputs:
            first.setdefault(tensor, position)
            last[tensor] = position
    for tensor in kept:
        last[tensor] = len(steps)
    return [Lifetime(tensor, size, first.get(tensor, 0), last.get(tensor, 0)) for tensor, size in sizes.items()]


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
