"""Chains of steps that can be computed in stripes of rows, because nobody else sees the maps between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from npu.compiler.ir import ConvolutionStep, ElementwiseStep, PoolingStep, Step, Storage
from npu.compiler.layout import reads, views
from npu.isa.operations import PoolingMode, Upscale

_LONGEST = 8
"""Steps of the longest chain that is tried."""
_LONGEST_WITH_BRANCHES = 12


def chains_around(steps: Sequence[Step], number: int, *, has_branches: bool) -> Iterator[tuple[int, int]]:
    """First and last step of every chain that has step `number` or a neighbour of it in it.

    `has_branches` tells whether a map may have several readers, all in the chain: branches that meet again.
    """
    readers, longest = readers_of(steps), _LONGEST_WITH_BRANCHES if has_branches else _LONGEST
    for first in range(max(number - longest, 0), min(number + 1, len(steps) - 2) + 1):
        latest = 0
        for last in range(first + 1, min(first + longest, len(steps))):
            own = readers[last - 1]
            if not own or not (has_branches or own == (last,)):
                break
            latest = max(latest, own[-1])
            if latest <= last and last >= number - 1:
                yield first, last


def is_line(steps: Sequence[Step]) -> bool:
    """Whether every step of a chain reads the result of the one before it, and nobody else does."""
    return all(own == (number + 1,) for number, own in enumerate(readers_of(steps)[:-1]))


def readers_of(steps: Sequence[Step]) -> list[tuple[int, ...]]:
    """For every step those behind it that read its result; none where anything else does, or where it cannot be cut in rows."""
    uses, readers = _uses(steps), [list[int]() for _ in steps]
    made = {step.ofm.storage: number for number, step in enumerate(steps)}
    for number, step in enumerate(steps):
        for storage in {view.storage for view in reads(step)}:
            if made.get(storage, number) < number:
                readers[made[storage]].append(number)
    return [
        tuple(own) if own and _is_read_by_rows(step, [steps[number] for number in own], uses) else ()
        for step, own in zip(steps, readers, strict=True)
    ]


def _uses(steps: Sequence[Step]) -> Mapping[Storage, int]:
    """How many views of each storage there are."""
    count: dict[Storage, int] = {}
    for step in steps:
        for view in views(step):
            count[view.storage] = count.get(view.storage, 0) + 1
    return count


def _is_read_by_rows(producer: Step, consumers: Sequence[Step], uses: Mapping[Storage, int]) -> bool:
    """Whether the map between steps is theirs alone and can be made in stripes.

    A map of one row that is broadcast over the consumer's rows is needed whole for each of them.
    """
    storage = producer.ofm.storage
    if storage.is_boundary or not all(map(_is_divisible, (producer, *consumers))):
        return False
    inputs = [(step, view) for step in consumers for view in reads(step) if view.storage is storage]
    if any(isinstance(step, ElementwiseStep) and view.shape[0] != step.ofm.shape[0] for step, view in inputs):
        return False
    is_all = uses[storage] == 1 + len(inputs)
    return is_all and all(view.is_whole for view in (producer.ofm, *(view for _, view in inputs)))


def _is_divisible(step: Step) -> bool:
    """Whether rows of the step's result depend on a window of rows of its inputs.

    An average without a scale divides by the elements that are no padding, whichever rows are made with it.
    """
    if isinstance(step, PoolingStep):
        return step.mode is not PoolingMode.REDUCE_SUM and step.upscale is Upscale.NONE
    if isinstance(step, ConvolutionStep):
        return step.upscale is Upscale.NONE
    return isinstance(step, ElementwiseStep)
