"""Command words to operations: the only place that reads a command stream.

Everything that a real stream cannot contain is refused with a StreamError that names command index, word index and rule.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npu.errors import StreamError
from npu.hardware.variant import Product, Variant
from npu.isa.commands import COMMANDS, WORD_BITS, Command, Kind
from npu.isa.latch import RegisterFile, latch
from npu.isa.operations import Operation, Stop
from npu.isa.rules import check_operation

_CODE_MASK, _CLASS_MASK, _PARAMETER_SHIFT = 0xFFFF, 0xC000, 16


@dataclass(frozen=True, slots=True)
class Decoded:
    """An operation and where its kick-off stands in the stream."""

    operation: Operation
    command_index: int
    """Number of commands before the kick-off."""
    word_index: int
    """Number of words before the kick-off."""


@dataclass(frozen=True, slots=True)
class RawCommand:
    """One command of a stream with its fields by name, before any register is latched."""

    command: Command
    values: dict[str, int]
    command_index: int
    word_index: int


def read_commands(words: NDArray[np.uint32], product: Product) -> Iterator[RawCommand]:
    """Split a stream into commands; StreamError for an unknown, truncated or out-of-range one."""
    for command, values, index, position in _split(words, product):
        yield RawCommand(command, values, index, position)


@functools.cache
def _plain_commands(product: Product) -> dict[int, tuple[Command, int]]:
    """Commands by the low half of their first word, and up to which operand that is the only field's value as it stands."""
    found = {}
    for command in COMMANDS:
        limit = -1
        if product in command.products and len(command.fields) == 1 and command.fields[0].enum is None:
            one = command.fields[0]
            if one.bits == tuple(range(len(one.bits))):
                limit = one.limits(product)[1]
        found[command.words(0)[0]] = command, limit
    return found


def _split(words: NDArray[np.uint32], product: Product) -> Iterator[tuple[Command, dict[str, int], int, int]]:
    """Command, fields by name, command index and word index of every command of a stream."""
    stream, plain = _as_words(words), _plain_commands(product)
    position = index = 0
    while position < len(stream):
        word = stream[position]
        command, limit = plain.get(word & _CODE_MASK, (None, -1))
        if command is None:
            raise StreamError(f"{_where(index, position)}: must be a known command, got {word:#010x}")
        operand, length = word >> _PARAMETER_SHIFT, 1
        if word & _CLASS_MASK:
            length = 2
            if position + 1 >= len(stream):
                left = len(stream) - position
                raise StreamError(f"{_where(index, position)}: {command.name} must have {length} words, got {left}")
            operand = operand << WORD_BITS | stream[position + 1]
        if operand <= limit:
            values = {command.fields[0].name: operand}
        else:
            try:
                values = command.values(operand, product)
            except StreamError as error:
                raise StreamError(f"{_where(index, position)}: {error}") from error
        yield command, values, index, position
        position += length
        index += 1


def _where(index: int, position: int) -> str:
    return f"command {index} (word {position})"


def decode(words: NDArray[np.uint32], variant: Variant) -> tuple[Decoded, ...]:
    """Operations of a whole stream, the last one a `Stop`.

    `words` is one-dimensional uint32. Raises StreamError; see the module docstring.
    """
    product = variant.accelerator.product
    registers = RegisterFile(product)
    decoded: list[Decoded] = []
    is_stopped = False
    for command, values, index, position in _split(words, product):
        if is_stopped:
            raise StreamError(f"{_where(index, position)}: NPU_OP_STOP must be the last command, got {command.name} after it")
        if command.kind is not Kind.OPERATION:
            registers.write(command, values)
            continue
        try:
            operation = latch(command.name, values, registers, variant)
            check_operation(operation, variant)
        except StreamError as error:
            raise StreamError(f"{_where(index, position)}: {command.name}: {error}") from error
        decoded.append(Decoded(operation, index, position))
        is_stopped = isinstance(operation, Stop)
    if not is_stopped:
        raise StreamError(f"command stream of {len(words)} words: must end with NPU_OP_STOP")
    return tuple(decoded)


def _as_words(words: NDArray[np.uint32]) -> list[int]:
    if words.ndim != 1 or words.dtype != np.uint32:
        raise StreamError(f"command stream: must be a one-dimensional uint32 array, got {words.dtype} of shape {words.shape}")
    stream: list[int] = words.tolist()
    return stream
