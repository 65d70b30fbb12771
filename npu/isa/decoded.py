"""Operations that are alike: equal but for the addresses and lengths in memory.

A stream has a few of them over and over, with other data or for another part of it. What holds for one wherever it is need be
found out once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npu.isa.operations import AddressRange, Dma, KernelOperation, Operation, WeightedOperation
from npu.memo import cached_property
from npu.numerics.arrays import Ints
from npu.records import replace

MAPS = ("ifm", "ofm", "ifm2")
RANGES = ("weights", "scales")
_TILES, _CORES = range(4), range(2)
_OF_MAPS = {name: [f"{name}.addresses[{tile}]" for tile in _TILES] for name in MAPS}
_OF_RANGES = {name: [f"{name}[{core}].{part}" for core in _CORES for part in ("address", "length_bytes")] for name in RANGES}
_OF_DMA = ["source.address", "destination.address", "length_bytes"]
PLACES = tuple(path for paths in (*_OF_MAPS.values(), *_OF_RANGES.values(), _OF_DMA) for path in paths)
"""The attributes in which operations that are alike may differ."""


def _columns(paths: Sequence[str]) -> slice:
    """Where attributes stand among PLACES."""
    return slice(PLACES.index(paths[0]), PLACES.index(paths[-1]) + 1)


PLACES_OF: dict[str, slice] = {name: _columns(paths) for name, paths in (_OF_MAPS | _OF_RANGES | {"dma": _OF_DMA}).items()}
"""Columns of the tiles of a map; of address and length of each core; of source, destination and length of a transfer."""


def places_of(operation: Operation) -> list[int]:
    """PLACES of an operation, 0 for what it does not have."""
    places = [0] * len(PLACES)
    if isinstance(operation, Dma):
        places[PLACES_OF["dma"]] = operation.source.address, operation.destination.address, operation.length_bytes
    if isinstance(operation, KernelOperation):
        for name in MAPS:
            if (fm := getattr(operation, name, None)) is not None:
                places[PLACES_OF[name]] = fm.addresses
    if isinstance(operation, WeightedOperation):
        for name in RANGES:
            for core, part in zip(_CORES, getattr(operation, name), strict=False):
                first = PLACES_OF[name].start + 2 * core
                places[first : first + 2] = part.address, part.length_bytes
    return places


def placed(operation: Operation, places: Sequence[int]) -> Operation:
    """An operation like this one, at other places."""
    if isinstance(operation, Dma):
        source, destination, length = places[PLACES_OF["dma"]]
        sides = replace(operation.source, address=source), replace(operation.destination, address=destination)
        return replace(operation, source=sides[0], destination=sides[1], length_bytes=length)
    if not isinstance(operation, KernelOperation):
        return operation
    changes: dict[str, Any] = {}
    for name in MAPS:
        if (fm := getattr(operation, name, None)) is not None:
            changes[name] = replace(fm, addresses=tuple(places[PLACES_OF[name]]))
    if isinstance(operation, WeightedOperation):
        changes |= {name: _placed_ranges(getattr(operation, name), places[PLACES_OF[name]]) for name in RANGES}
    return replace(operation, **changes)


def _placed_ranges(ranges: Sequence[AddressRange], places: Sequence[int]) -> tuple[AddressRange, ...]:
    return tuple(AddressRange(one.region, *places[2 * core : 2 * core + 2]) for core, one in enumerate(ranges))


def command_place(command_index: int, word_index: int) -> str:
    """What messages call a command: its number, and its address as listings show it, in words."""
    return f"command {command_index} at {address_text(word_index)}"


def address_text(word_index: int) -> str:
    """The address of a command in its stream as listings and messages write it."""
    return f"{word_index:06x}"


class Decoded:
    """An operation and where its kick-off stands in the stream: the numbers of commands and of words before it.

    With `places`, of many operations, it is like the given one, at those of a row; its record is made when it is looked at.
    """

    __slots__ = ("_operation", "_places", "_row", "command_index", "word_index")

    def __init__(
        self, operation: Operation, command_index: int, word_index: int, places: Ints | None = None, row: int = 0
    ) -> None:
        self._operation, self._places, self._row = operation, places, row
        self.command_index, self.word_index = command_index, word_index

    @property
    def operation(self) -> Operation:
        """The record."""
        if self._places is not None:
            self._operation, self._places = placed(self._operation, self._places[self._row].tolist()), None
        return self._operation

    @property
    def place(self) -> str:
        """The command and its address, for messages."""
        return command_place(self.command_index, self.word_index)

    def _key(self) -> tuple[Operation, int, int]:
        return self.operation, self.command_index, self.word_index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Decoded) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[type[Decoded], tuple[Operation, int, int]]:
        return Decoded, self._key()

    def __repr__(self) -> str:
        return f"Decoded(operation={self.operation!r}, command_index={self.command_index}, word_index={self.word_index})"


class Alike:
    """The operations of a stream, and which of them are alike.

    of: the kind of every operation. firsts: of every kind the first operation, by its index. places: PLACES of every operation.
    """

    def __init__(self, decoded: Sequence[Decoded], firsts: Sequence[int], of: Ints, places: Ints) -> None:
        self.decoded = decoded
        self.firsts, self.of, self.places = firsts, of, places

    @cached_property
    def records(self) -> Sequence[Operation]:
        """The first operation of each kind."""
        return [self.decoded[first].operation for first in self.firsts]

    @staticmethod
    def none(operations: Sequence[Decoded] | Sequence[Operation]) -> Alike:
        """Operations that nobody has compared, each its own command unless it says where it stands."""
        decoded = [one if isinstance(one, Decoded) else Decoded(one, k, k) for k, one in enumerate(operations)]
        count = len(decoded)
        places = np.array([places_of(one.operation) for one in decoded], np.int64).reshape(count, len(PLACES))
        return Alike(decoded, range(count), np.arange(count), places)
