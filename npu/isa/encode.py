"""Operations to command words: the only place that makes a command stream.

A register write that would not change the register is left out, as every register keeps its value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress, count
from operator import attrgetter, getitem, itemgetter, ne
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from npu.errors import StreamError
from npu.hardware.variant import Variant
from npu.isa.command import Command
from npu.isa.decoded import Decoded
from npu.isa.families import family_of
from npu.isa.family import AttributeValues, Family
from npu.isa.operations import AddressRange, Operation, Stop
from npu.isa.stream import CommandStream
from npu.memo import LastUsed
from npu.records import dataclass, replace

_Register: TypeAlias = tuple[str, slice | int, Callable[[Any], int], Callable[[int], Sequence[int]]]
"""The name of a command, where the attributes of its fields stand, its operand of these, and the words of an operand.

Most have one field: then it is that of its one attribute, not of a tuple.
"""


@dataclass(frozen=True, slots=True)
class _SectionReader:
    """The registers of a section: where their attributes stand among those of all, and what makes their operands of these.

    `owners`: of each attribute the number of its register. `read` reads all of them of a record, or of what is held for it.
    """

    places: tuple[_Register, ...]
    owners: tuple[int, ...]
    read: Callable[[Any], tuple[Any, ...]]

    def changed(self, before: tuple[Any, ...] | None, after: tuple[Any, ...]) -> Iterable[_Register]:
        """The registers of whose attributes one is another than before."""
        if before is None:
            return self.places
        return [self.places[number] for number in dict.fromkeys(compress(self.owners, map(ne, before, after)))]


def encode(operations: Sequence[Operation], variant: Variant) -> NDArray[np.uint32]:
    """Command words of `operations`, the last of which, and only the last, must be a `Stop`.

    Returns one-dimensional uint32. Raises StreamError naming the operation, field, range and value of what does not fit.
    """
    return encode_stream(operations, variant).words


def encode_stream(operations: Sequence[Operation], variant: Variant) -> CommandStream:
    """The command stream of `operations`, as `encode`, that need not be decoded again."""
    stops = [index for index, operation in enumerate(operations) if isinstance(operation, Stop)]
    if stops != [len(operations) - 1]:
        raise StreamError(f"operations: the last, and only the last, must be Stop, got Stop at {stops} of {len(operations)}")
    family = family_of(variant.accelerator.product)
    writer = _CommandWriter(variant)
    words: list[int] = []
    placed: list[Decoded] = []
    commands = 0
    for index, operation in enumerate(operations):
        try:
            family.check(operation, variant)
            held = operation if family.hold is None else family.hold(operation)
            for written in writer.writes(operation, held):
                words += written
                commands += 1
            placed.append(Decoded(operation, commands, len(words)))
            words += writer.kick_off(operation, held)
            commands += 1
        except StreamError as error:
            raise StreamError(f"operation {index} ({type(operation).__name__}): {error}") from error
    return CommandStream(np.array(words, dtype=np.uint32), variant, tuple(placed))


_Section: TypeAlias = tuple[int, Callable[[Any], bool] | None, _SectionReader]
"""The number of a section, whether a record needs it (None if all do), and how it is read."""


class _CommandWriter:
    """Words of operations; remembers what the registers hold.

    What is held for an operation is a mapping, or the operation itself where registers hold its own attributes.
    """

    def __init__(self, variant: Variant) -> None:
        family = family_of(variant.accelerator.product)
        self._readers = _READERS.get((id(variant), id(family)), lambda: _Readers(variant, family))
        self._attributes: dict[int, tuple[Any, ...]] = {}
        """What was written last, by section as the records have it, and by command as its operand."""
        self._operands: dict[str, int] = {}

    def writes(self, operation: Operation, held: Operation | AttributeValues) -> list[Sequence[int]]:
        """Words of each register write that changes something."""
        result: list[Sequence[int]] = []
        for number, is_needed, section in self._readers.of(type(operation)):
            if is_needed is None or is_needed(operation):
                attributes = section.read(held)
                before = self._attributes.get(number)
                if before != attributes:
                    self._attributes[number] = attributes
                    self._write(section.changed(before, attributes), attributes, result)
        return result

    def kick_off(self, operation: Operation, held: Operation | AttributeValues) -> Sequence[int]:
        """Words of the command that starts the operation."""
        return self._readers.kick_off(type(operation), held)

    def _write(self, registers: Iterable[_Register], attributes: tuple[Any, ...], result: list[Sequence[int]]) -> None:
        operands = self._operands
        for name, own, operand_of, words_of in registers:
            operand = operand_of(attributes[own])
            if operands.get(name) != operand:
                operands[name] = operand
                result.append(words_of(operand))


class _Readers:
    """How the sections of a variant read records; made once for all streams."""

    def __init__(self, variant: Variant, family: Family) -> None:
        self._variant, self._product, self._family = variant, variant.accelerator.product, family
        self._value: Callable[[Any, str], Any] = getattr if family.hold is None else getitem
        self._known: dict[type, list[_Section]] = {}
        self._kick_offs: dict[tuple[type, tuple[int, ...]], Sequence[int]] = {}

    def of(self, kind: type) -> list[_Section]:
        """The sections that records of type `kind` may read, in order."""
        known = self._known.get(kind)
        if known is None:
            known = self._known[kind] = [
                (number, section.is_needed, self._make(section.registers, kind))
                for number, section in enumerate(self._family.sections)
                if issubclass(kind, section.reader) and section.is_in(self._variant.accelerator)
            ]
        return known

    def kick_off(self, kind: type, held: Operation | AttributeValues) -> Sequence[int]:
        """Words of the command that starts an operation of that type."""
        command = self._family.kick_offs[kind]
        values = tuple([int(self._value(held, field.holds)) for field in command.fields])
        known = self._kick_offs.get((kind, values))
        if known is None:
            named = {field.name: value for field, value in zip(command.fields, values, strict=True)}
            known = self._kick_offs[kind, values] = command.words(command.operand(named, self._product))
        return known

    def _make(self, registers: Sequence[Command], kind: type) -> _SectionReader:
        fields = [(number, field.holds) for number, command in enumerate(registers) for field in command.fields]
        places, start = list[_Register](), 0
        for command in registers:
            end = start + len(command.fields)
            is_one = len(command.fields) == 1
            operand_of = command.number_maker(self._product) if is_one else command.operand_maker(self._product)
            places.append((command.name, start if is_one else slice(start, end), operand_of, command.words_maker()))
            start = end
        paths = [path for _, path in fields]
        read = self._reader(paths, kind) if self._family.hold is None else _held_reader(paths)
        return _SectionReader(tuple(places), tuple(number for number, _ in fields), read)

    def _reader(self, paths: Sequence[str], kind: type) -> Callable[[Any], tuple[Any, ...]]:
        """Function of the attributes at these paths of a record of type `kind`."""
        steps = [self._step(path, kind) for path in paths]
        fixed = tuple(value for attribute, value in steps if not attribute)
        read = attrgetter(*(attribute for attribute, _ in steps if attribute), "__class__", "__class__")  # a tuple of any size
        moving, still = count(), count(len(steps) - len(fixed) + 2)
        arrange = itemgetter(*(next(moving if attribute else still) for attribute, _ in steps), -1)
        later = [(position, make) for position, (attribute, make) in enumerate(steps) if attribute and make is not None]
        if not later:
            return lambda operation: arrange(read(operation) + fixed)[:-1]

        def read_all(operation: Any) -> tuple[Any, ...]:
            values = list(arrange(read(operation) + fixed)[:-1])
            for position, make in later:
                values[position] = make(values[position])
            return tuple(values)

        return read_all

    def _step(self, path: str, kind: type) -> tuple[str, Any]:
        """An attribute of a record of type `kind`, and what makes what stands at the path of it, None if it does itself.

        Without an attribute, what stands there for all records: of the variant, or 0 if that type has no such attribute.
        """
        root, _, rest = path.partition(".")
        if root == "variant":
            return "", attrgetter(rest)(self._variant)
        if not hasattr(kind, root.partition("[")[0]):
            return "", 0
        before, bracket, after = path.partition("[")
        return before, _element_reader(*after.split("]")) if bracket else None


_READERS: LastUsed[tuple[int, int], _Readers] = LastUsed(8)
"""By the identities of the variant and of its family, which they keep."""


def _held_reader(paths: Sequence[str]) -> Callable[[AttributeValues], tuple[Any, ...]]:
    """Function of what is held at these paths."""
    read = itemgetter(*paths, *paths[:1])  # a tuple of any size
    return lambda held: read(held)[:-1]


def _element_reader(index: str, rest: str) -> Callable[[Any], Any]:
    """Of an element of a tuple, or of one of its attributes: `[0]`, `[1].address`."""
    number = int(index)
    if not rest:
        return itemgetter(number)
    read_rest = attrgetter(rest.removeprefix("."))
    return lambda ranges: read_rest(_range_of_core(ranges, number))


def _range_of_core(ranges: Sequence[AddressRange], core: int) -> AddressRange:
    """Range of a core; one without work gets the address of core 0 and length 0."""
    return ranges[core] if core < len(ranges) else replace(ranges[0], length_bytes=0)
