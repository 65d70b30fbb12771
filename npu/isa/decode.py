"""Command words to operations, one command after the other; `npu.isa.columns` reads whole streams that nothing is wrong with.

Everything that a real stream cannot contain is refused with a StreamError that names the command, its place and the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npu.errors import StreamError
from npu.hardware.variant import Product, Variant
from npu.isa.command import PARAMETER_SHIFT, WORD_BITS, Command, CommandKind
from npu.isa.decoded import Decoded, command_place
from npu.isa.entries import CODE_MASK, Entry, attributes_of, entries_of, fields_of
from npu.isa.families import family_of
from npu.isa.latch import attributes_at_power_on
from npu.isa.operations import Stop
from npu.records import dataclass


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
        yield RawCommand(entry.command, dict(_at_place(fields_of, entry, operand, product, index, position)), index, position)


def readable_commands(words: NDArray[np.uint32], product: Product) -> Iterator[RawCommand]:
    """`read_commands` of a stream that may be broken: words that are no command are left out."""
    stream, entries = _as_words(words), entries_of(product)
    position = index = 0
    while position < len(stream):
        entry = entries.get(stream[position] & CODE_MASK)
        length = 1 if entry is None else entry.length
        if entry is not None and position + length <= len(stream):
            operand = stream[position] >> PARAMETER_SHIFT
            if length == 2:
                operand = operand << WORD_BITS | stream[position + 1]
            with suppress(StreamError):
                yield RawCommand(entry.command, dict(fields_of(entry.command, operand, product)), index, position)
        position, index = position + length, index + 1


def _split(words: NDArray[np.uint32], product: Product) -> Iterator[tuple[Entry, int, int, int]]:
    """Command, operand, command index and word index of every command of a stream; operands are not checked."""
    stream, entries = _as_words(words), entries_of(product)
    position = index = 0
    count = len(stream)
    while position < count:
        word = stream[position]
        entry = entries.get(word & CODE_MASK)
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
    entry: Entry,
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
    family = family_of(product)
    held = dict(attributes_at_power_on(family, product))
    is_stopped = False
    for entry, operand, index, position in _split(words, product):
        command = entry.command
        if is_stopped:
            _at_place(fields_of, entry, operand, product, index, position)
            place = command_place(index, position)
            raise StreamError(f"{place}: NPU_OP_STOP must be the last command, got {command.name} after it")
        if command.kind is not CommandKind.OPERATION:
            if operand <= entry.limit:
                held[entry.holds] = operand + entry.offset
            else:
                held.update(_at_place(attributes_of, entry, operand, product, index, position))
            continue
        own = _at_place(attributes_of, entry, operand, product, index, position)
        try:
            operation = family.start(command, own, held, variant)
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
