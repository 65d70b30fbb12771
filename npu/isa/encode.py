"""Operations to command words: the only place that makes a command stream.

A register write that would not change the register is left out, as every register keeps its value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from npu.errors import StreamError
from npu.hardware.variant import Variant
from npu.isa.command import Command
from npu.isa.decode import Decoded
from npu.isa.families import family_of
from npu.isa.operations import AddressRange, Operation, Stop
from npu.isa.rules import check_operation
from npu.isa.stream import CommandStream
from npu.records import dataclass, replace

_AttributeReader = Callable[[Any], Any]
_Register: TypeAlias = tuple[Command, slice, Callable[[Sequence[Any]], int]]


@dataclass(frozen=True, slots=True)
class _SectionReader:
    """The registers of a section: where their attributes stand among those of all, and what makes their operands of these.

    `owners`: of each attribute the number of its register. `read` reads all of them of a record.
    """

    places: tuple[_Register, ...]
    owners: tuple[int, ...]
    read: Callable[[Any], tuple[Any, ...]]

    def changed(self, before: tuple[Any, ...] | None, after: tuple[Any, ...]) -> Iterable[_Register]:
        """The registers of whose attributes one is another than before."""
        if before is None:
            return self.places
        owners = [owner for owner, old, new in zip(self.owners, before, after, strict=True) if old != new]
        return [self.places[number] for number in dict.fromkeys(owners)]


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
    writer = _CommandWriter(variant)
    words: list[int] = []
    placed: list[Decoded] = []
    commands = 0
    for index, operation in enumerate(operations):
        try:
            check_operation(operation, variant)
            for written in writer.writes(operation):
                words += written
                commands += 1
            placed.append(Decoded(operation, commands, len(words)))
            words += writer.kick_off(operation)
            commands += 1
        except StreamError as error:
            raise StreamError(f"operation {index} ({type(operation).__name__}): {error}") from error
    return CommandStream(np.array(words, dtype=np.uint32), variant, tuple(placed))


class _CommandWriter:
    """Words of operations; remembers what the registers hold."""

    def __init__(self, variant: Variant) -> None:
        self._variant = variant
        self._family = family_of(variant.accelerator.product)
        self._sections = [pair for pair in enumerate(self._family.sections) if pair[1].is_in(variant.accelerator)]
        self._attributes: dict[int, tuple[Any, ...]] = {}
        """What was written last, by section as the records have it, and by command as its operand."""
        self._operands: dict[str, int] = {}
        self._readers: dict[tuple[int, type], _SectionReader] = {}

    def writes(self, operation: Operation) -> Iterator[Sequence[int]]:
        """Words of each register write that changes something."""
        for number, section in self._sections:
            if section.is_read_by(operation):
                yield from self._section_writes(number, operation)

    def kick_off(self, operation: Operation) -> Sequence[int]:
        """Words of the command that starts the operation."""
        command = self._family.kick_offs[type(operation)]
        values = {field.name: int(getattr(operation, field.holds)) for field in command.fields}
        return command.words(command.operand(values, self._variant.accelerator.product))

    def _section_writes(self, number: int, operation: Operation) -> Iterator[Sequence[int]]:
        section = self._section_of(number, type(operation))
        attributes = section.read(operation)
        before = self._attributes.get(number)
        if before == attributes:
            return
        self._attributes[number] = attributes
        for command, own, operand_of in section.changed(before, attributes):
            operand = operand_of(attributes[own])
            if self._operands.get(command.name) != operand:
                self._operands[command.name] = operand
                yield command.words(operand)

    def _section_of(self, number: int, kind: type) -> _SectionReader:
        """How section `number` reads records of type `kind`."""
        section = self._readers.get((number, kind))
        if section is None:
            section = self._readers[number, kind] = self._make_section(self._family.sections[number].registers, kind)
        return section

    def _make_section(self, registers: Sequence[Command], kind: type) -> _SectionReader:
        readers: list[_AttributeReader] = []
        places, owners = [], []
        for number, command in enumerate(registers):
            own = slice(len(readers), len(readers) + len(command.fields))
            places.append((command, own, command.operand_maker(self._variant.accelerator.product)))
            readers += [self._reader(field.holds, kind) for field in command.fields]
            owners += [number] * len(command.fields)
        if len(readers) > 1 and all(isinstance(read, attrgetter) for read in readers):
            read_all = attrgetter(*(field.holds for command in registers for field in command.fields))
            return _SectionReader(tuple(places), tuple(owners), read_all)
        return _SectionReader(tuple(places), tuple(owners), lambda operation: tuple([read(operation) for read in readers]))

    def _reader(self, path: str, kind: type) -> _AttributeReader:
        """Function of the attribute at `path` of a record of type `kind`; of 0 if that type has none."""
        root, _, rest = path.partition(".")
        if root == "variant":
            value = attrgetter(rest)(self._variant)
            return lambda _operation: value
        if not hasattr(kind, root.partition("[")[0]):
            return lambda _operation: 0
        return attrgetter(path) if "[" not in path else _element_reader(path)


def _element_reader(path: str) -> _AttributeReader:
    """As `_reader`, of an element of a tuple or of one of its attributes: `ifm.addresses[0]`, `weights[1].address`."""
    before, _, after = path.partition("[")
    index, _, rest = after.partition("]")
    read_tuple, number = attrgetter(before), int(index)
    if not rest:
        return lambda operation: read_tuple(operation)[number]
    read_rest = attrgetter(rest.removeprefix("."))
    return lambda operation: read_rest(_range_of_core(read_tuple(operation), number))


def _range_of_core(ranges: Sequence[AddressRange], core: int) -> AddressRange:
    """Range of a core; one without work gets the address of core 0 and length 0."""
    return ranges[core] if core < len(ranges) else replace(ranges[0], length_bytes=0)
