"""Command words to operations: the only place that reads a command stream.

Everything that a real stream cannot contain is refused with a StreamError that names the command, its place and the rule.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npu.errors import StreamError
from npu.hardware.variant import Product, Variant
from npu.isa.command import PARAMETER_SHIFT, WORD_BITS, Command, CommandKind
from npu.isa.families import family_of
from npu.isa.family import Family
from npu.isa.latch import attributes_at_power_on, check_cores, latch
from npu.isa.operations import Operation, Stop
from npu.isa.rules import check_operation
from npu.records import dataclass

_CODE_MASK = (1 << PARAMETER_SHIFT) - 1
"""Bits of a first word that say which command it is."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """An operation and where its kick-off stands in the stream."""

    operation: Operation
    command_index: int
    """Number of commands before the kick-off."""
    word_index: int
    """Number of words before the kick-off."""

    @property
    def place(self) -> str:
        """The command and its address, for messages."""
        return command_place(self.command_index, self.word_index)


@dataclass(frozen=True, slots=True)
class RawCommand:
    """One command of a stream with its fields by name, before any register is latched."""

    command: Command
    values: dict[str, int]
    command_index: int
    word_index: int

    @property
    def place(self) -> str:
        """The command and its address, for messages."""
        return command_place(self.command_index, self.word_index)


def read_commands(words: NDArray[np.uint32], product: Product) -> Iterator[RawCommand]:
    """Split a stream into commands; StreamError for an unknown, truncated or out-of-range one."""
    for entry, operand, index, position in _split(words, product):
        yield RawCommand(entry.command, dict(_at_place(_fields, entry, operand, product, index, position)), index, position)


def readable_commands(words: NDArray[np.uint32], product: Product) -> Iterator[RawCommand]:
    """`read_commands` of a stream that may be broken: words that are no command are left out."""
    stream, entries = _as_words(words), _entries(product)
    position = index = 0
    while position < len(stream):
        entry = entries.get(stream[position] & _CODE_MASK)
        length = 1 if entry is None else entry.length
        if entry is not None and position + length <= len(stream):
            operand = stream[position] >> PARAMETER_SHIFT
            if length == 2:
                operand = operand << WORD_BITS | stream[position + 1]
            with suppress(StreamError):
                yield RawCommand(entry.command, dict(_fields(entry.command, operand, product)), index, position)
        position, index = position + length, index + 1


@dataclass(frozen=True, slots=True)
class _Entry:
    """A command as the loop over the words needs it."""

    command: Command
    holds: str
    """The attribute that it holds, if it is a number that the operand is but for an offset."""
    offset: int
    limit: int
    """Up to which operand that is so; -1 for never."""
    length: int
    """Number of words."""


def _entries(product: Product) -> dict[int, _Entry]:
    """Commands by the low half of their first word."""
    return _entries_of(family_of(product), product)


@functools.lru_cache(maxsize=16)
def _entries_of(family: Family, product: Product) -> dict[int, _Entry]:
    return {command.words(0)[0]: _entry(command, product) for command in family.commands}


def _entry(command: Command, product: Product) -> _Entry:
    holds, offset, limit = "", 0, -1
    one = command.fields[0] if len(command.fields) == 1 else None
    is_plain = one is not None and one.bits == tuple(range(len(one.bits))) and one.enum is None
    if one is not None and is_plain and one.code.offset is not None and product in command.products:
        holds, offset, limit = one.holds, one.code.offset, one.limits(product)[1]
    return _Entry(command, holds, offset, limit, command.word_count)


def _split(words: NDArray[np.uint32], product: Product) -> Iterator[tuple[_Entry, int, int, int]]:
    """Command, operand, command index and word index of every command of a stream; operands are not checked."""
    stream, entries = _as_words(words), _entries(product)
    position = index = 0
    count = len(stream)
    while position < count:
        word = stream[position]
        entry = entries.get(word & _CODE_MASK)
        if entry is None:
            raise StreamError(f"{command_place(index, position)}: must be a known command, got {word:#010x}")
        operand, length = word >> PARAMETER_SHIFT, entry.length
        if length == 2:
            if position + 1 >= count:
                place, left = command_place(index, position), count - position
                raise StreamError(f"{place}: {entry.command.name} must have {length} words, got {left}")
            operand = operand << WORD_BITS | stream[position + 1]
        yield entry, operand, index, position
        position += length
        index += 1


_RegisterReader = Callable[[Command, int, Product], Mapping[str, Any]]


def _at_place(
    read: _RegisterReader,
    entry: _Entry,
    operand: int,
    product: Product,
    index: int,
    position: int,
) -> Mapping[str, Any]:
    """What `read` finds in a command; StreamError naming the place in the stream if a field is out of range."""
    try:
        return read(entry.command, operand, product)
    except StreamError as error:
        raise StreamError(f"{command_place(index, position)}: {error}") from error


@functools.lru_cache(maxsize=1 << 12)
def _fields(command: Command, operand: int, product: Product) -> Mapping[str, int]:
    """Fields of a command; kept, because streams write few different values into registers of several fields."""
    return MappingProxyType(command.values(operand, product))


@functools.lru_cache(maxsize=1 << 12)
def _attributes(command: Command, operand: int, product: Product) -> Mapping[str, Any]:
    """What a register holds; kept, as `_fields`."""
    return MappingProxyType(command.attributes(operand, product))


def command_place(command_index: int, word_index: int) -> str:
    """What messages call a command: its number, and its address as listings show it, in words."""
    return f"command {command_index} at {address_text(word_index)}"


def address_text(word_index: int) -> str:
    """The address of a command in its stream as listings and messages write it."""
    return f"{word_index:06x}"


@dataclass(frozen=True, slots=True)
class RefusedOperation:
    """A kick-off that starts nothing the hardware has, and the rule that it breaks."""

    name: str
    reason: str
    command_index: int
    word_index: int

    @property
    def place(self) -> str:
        """The command and its address, for messages."""
        return command_place(self.command_index, self.word_index)


def decode(words: NDArray[np.uint32], variant: Variant) -> tuple[Decoded, ...]:
    """Operations of a whole stream, the last one a `Stop`.

    `words` is one-dimensional uint32. Raises StreamError; see the module docstring.
    """
    decoded: list[Decoded] = []
    for started in read_operations(words, variant):
        if isinstance(started, RefusedOperation):
            raise StreamError(f"{started.place}: {started.name}: {started.reason}")
        decoded.append(started)
    return tuple(decoded)


def read_operations(words: NDArray[np.uint32], variant: Variant) -> Iterator[Decoded | RefusedOperation]:
    """What every kick-off of a stream starts, in order: `decode` for those who look at a stream without running it.

    Raises StreamError if the words are not commands, or do not end with NPU_OP_STOP.
    """
    product = variant.accelerator.product
    held = dict(attributes_at_power_on(family_of(product), product))
    is_stopped = False
    for entry, operand, index, position in _split(words, product):
        command = entry.command
        if is_stopped:
            _at_place(_fields, entry, operand, product, index, position)
            place = command_place(index, position)
            raise StreamError(f"{place}: NPU_OP_STOP must be the last command, got {command.name} after it")
        if command.kind is not CommandKind.OPERATION:
            if operand <= entry.limit:
                held[entry.holds] = operand + entry.offset
            else:
                held.update(_at_place(_attributes, entry, operand, product, index, position))
            continue
        own = _at_place(_attributes, entry, operand, product, index, position)
        try:
            check_cores(command, held, variant)
            operation = latch(command, own, held)
            check_operation(operation, variant)
        except StreamError as error:
            yield RefusedOperation(command.name, str(error), index, position)
            continue
        yield Decoded(operation, index, position)
        is_stopped = isinstance(operation, Stop)
    if not is_stopped:
        raise StreamError(f"command stream of {len(words)} words: must end with NPU_OP_STOP")


def _as_words(words: NDArray[np.uint32]) -> list[int]:
    if words.ndim != 1 or words.dtype != np.uint32:
        raise StreamError(f"command stream: must be a one-dimensional uint32 array, got {words.dtype} of shape {words.shape}")
    stream: list[int] = words.tolist()
    return stream
