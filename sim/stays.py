"""What lies where in a memory region while a command stream runs: feature maps and copies as boxes, address by time.

Told by the stream alone, so of any compiler's file: a box begins with the first operation that writes it and ends with the
last one that reads it. What operations of one operator write side by side is one box.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from npu.graph.ethos_u import Region
from npu.isa.operations import Dma, Operation
from npu.records import dataclass
from sim.arena import ByteRange, reads_of, writes_of

INPUT, MAP, COPY = "input", "map", "copy"
"""Kinds of boxes: what was there before the stream, what an operation computes, and what a transfer copies."""


@dataclass(frozen=True, slots=True)
class BufferLifetime:
    """Bytes [start, end) that operator `owner` has written (-1: nobody), in use from operation `first` to `last`."""

    kind: str
    owner: int
    start: int
    end: int
    first: int
    last: int


def stays(operations: Sequence[Operation], owners: Sequence[int], region: int = Region.ARENA) -> list[BufferLifetime]:
    """The boxes of a region in the order in which they end; what nobody reads stays to the end of the stream."""
    present: list[BufferLifetime] = []
    gone: list[tuple[int, BufferLifetime]] = []
    for index, (operation, owner) in enumerate(zip(operations, owners, strict=True)):
        for start, end in reads_of(operation, region):
            present = _read(present, start, end, index)
        kind = COPY if isinstance(operation, Dma) else MAP
        for start, end in writes_of(operation, region):
            present = _written(present, gone, BufferLifetime(kind, owner, start, end, index, index))
    end_of_stream = len(operations) - 1
    left = [stay if stay.last > stay.first else dataclasses.replace(stay, last=end_of_stream) for stay in present]
    return [*(stay for _, stay in gone), *left]


def _read(present: list[BufferLifetime], start: int, end: int, index: int) -> list[BufferLifetime]:
    """Boxes after a read: those that it touches are in use until now; what nobody wrote was there before."""
    remaining, unknown = [], [(start, end)]
    for stay in present:
        if stay.start < end and start < stay.end:
            unknown = [rest for part in unknown for rest in _without(part, stay.start, stay.end)]
            stay = dataclasses.replace(stay, last=index)
        remaining.append(stay)
    return remaining + [BufferLifetime(INPUT, -1, low, high, 0, index) for low, high in unknown]


def _written(
    present: list[BufferLifetime], gone: list[tuple[int, BufferLifetime]], new: BufferLifetime
) -> list[BufferLifetime]:
    """Boxes after a write: a box of the writer grows if its new bytes were free meanwhile, of others nothing is left there."""
    remaining, now = [], new.first
    for stay in present:
        is_own = stay.owner == new.owner and stay.kind == new.kind and stay.start <= new.end and new.start <= stay.end
        if is_own and _was_free(present, gone, stay, new):
            start, end = min(stay.start, new.start), max(stay.end, new.end)
            new = dataclasses.replace(new, start=start, end=end, first=stay.first)
        elif stay.start < new.end and new.start < stay.end:
            low, high = max(stay.start, new.start), min(stay.end, new.end)
            gone.append((now, dataclasses.replace(stay, start=low, end=high)))
            remaining += [dataclasses.replace(stay, start=a, end=b) for a, b in _without((stay.start, stay.end), low, high)]
        else:
            remaining.append(stay)
    return [*remaining, new]


def _was_free(
    present: list[BufferLifetime], gone: list[tuple[int, BufferLifetime]], stay: BufferLifetime, new: BufferLifetime
) -> bool:
    """Whether nothing else has been, since `stay` began, where `new` is and `stay` is not."""
    others = [other for other in present if other is not stay]
    for closed, other in reversed(gone):
        if closed < stay.first:
            break
        others.append(other)
    added = _without((new.start, new.end), stay.start, stay.end)
    return not any(
        start < other.end and other.start < end and other.last > stay.first for start, end in added for other in others
    )


def _without(part: ByteRange, start: int, end: int) -> list[ByteRange]:
    """What is left of a range outside [start, end)."""
    pieces = ((part[0], min(part[1], start)), (max(part[0], end), part[1]))
    return [piece for piece in pieces if piece[0] < piece[1]]
