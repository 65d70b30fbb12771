"""Planning of one arena for tensors that are not alive at the same time; the only place that chooses their offsets."""

from __future__ import annotations

from bisect import insort
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
    placed: list[tuple[int, int, int, int]] = []
    offsets: dict[int, int] = {}
    for lifetime in sorted(lifetimes, key=lambda lifetime: (-lifetime.size, lifetime.first, lifetime.tensor)):
        start = 0
        size, first, last = lifetime.size, lifetime.first, lifetime.last
        for begin, end, other_first, other_last in placed:
            if other_first <= last and first <= other_last:
                if start + size <= begin:
                    break
                start = max(start, end)
        offsets[lifetime.tensor] = start
        insort(placed, (start, start + _aligned(size), first, last))
    return offsets, max((end for _, end, _, _ in placed), default=0)


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
