"""Chains of steps that can be computed in stripes of rows: what `npu.compiler.kernels.cascades` finds in rows of numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from npu.compiler.ir import ElementwiseStep, Step, Storage, View, WindowStep
from npu.compiler.layout import reads
from npu.compiler.step_rows import is_divisible

_LONGEST = 12
"""Maps that a chain makes at most, the last one included."""
_MOST_STEPS = 64
"""Steps that make them: parts of maps and borders have their own."""


def chains_around(steps: Sequence[Step], number: int, *, has_branches: bool) -> Iterator[tuple[int, int]]:
    """First and last step of every chain that has step `number` or a neighbour of it in it.

    `has_branches` tells whether a map may have readers that do not make the next one, all in the chain: branches that meet
    again.
    """
    uses = uses_of(steps)
    for first in range(max(number - _MOST_STEPS, 0), min(number + 1, len(steps) - 2) + 1):
        for last in _ends(steps, uses, first, has_branches=has_branches):
            if last >= number - 1:
                yield first, last


class MapUses:
    """The steps that write and read a map, and whether it can be made in stripes if they all are."""

    def __init__(self, storage: Storage) -> None:
        self.writers, self.readers = list[int](), list[int]()
        self.is_divisible = not storage.is_boundary and storage.data is None and not storage.is_rolling

    def add(self, number: int, step: Step, view: View) -> None:
        """A step that writes or reads it as a view.

        A map of one row that is broadcast over the step's rows is needed whole for each of them.
        """
        (self.writers if view is step.ofm else self.readers).append(number)
        is_broadcast = isinstance(step, ElementwiseStep) and view.shape[0] != step.ofm.shape[0]
        self.is_divisible = self.is_divisible and is_divisible(step) and view.row_places is not None and not is_broadcast


def uses_of(steps: Sequence[Step]) -> dict[Storage, MapUses]:
    """How each storage is used."""
    uses: dict[Storage, MapUses] = {}
    for number, step in enumerate(steps):
        for view in (*reads(step), step.ofm):
            if view.storage not in uses:
                uses[view.storage] = MapUses(view.storage)
            uses[view.storage].add(number, step, view)
    return uses


def _ends(steps: Sequence[Step], uses: Mapping[Storage, MapUses], first: int, *, has_branches: bool) -> Iterator[int]:
    """The last step of every chain that begins at `first`."""
    latest = 0
    made = [steps[first].ofm.storage]
    if first and steps[first - 1].ofm.storage is made[0]:
        return
    for last in range(first, min(first + _MOST_STEPS, len(steps))):
        step, storage = steps[last], steps[last].ofm.storage
        if last > first and storage is not steps[last - 1].ofm.storage:
            before = uses[steps[last - 1].ofm.storage]
            if not before.is_divisible or before.writers[0] < first:
                return
            latest = max(latest, before.writers[-1], *before.readers)
            made += [storage] if storage not in made else []
        is_line = all(view.storage in (made[-2:]) for view in reads(step) if view.storage in made)
        if not is_divisible(step) or len(made) > _LONGEST or not (has_branches or is_line):
            return
        goes_on = last + 1 < len(steps) and steps[last + 1].ofm.storage is storage and is_divisible(steps[last + 1])
        if len(made) > 1 and latest <= last and not goes_on and _has_rows(steps[first : last + 1]):
            yield last


def _has_rows(chain: Sequence[Step]) -> bool:
    """Whether what a chain makes of its result can be cut in rows."""
    views = [step.ofm for step in chain if step.ofm.storage is chain[-1].ofm.storage]
    return len(views) == 1 or all(view.row_places for view in views)


def is_line(steps: Sequence[Step]) -> bool:
    """Whether every step of a chain makes all of a map from that of the one before it, which nobody else reads."""
    uses = uses_of(steps)
    return not any(isinstance(step, WindowStep) and step.upscaling > 1 for step in steps) and all(
        step.ofm.is_whole
        and uses[step.ofm.storage].writers == [number]
        and uses[step.ofm.storage].readers == [number + 1]
        and all(view.is_whole for view in reads(steps[number + 1]) if view.storage is step.ofm.storage)
        for number, step in enumerate(steps[:-1])
    )
