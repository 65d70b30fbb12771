"""Command words to operations: the only place that reads a command stream.

Everything that a real stream cannot contain is refused with a StreamError that names command index, word index and rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npu.errors import StreamError
from npu.hardware.variant import Product, Variant
from npu.isa.commands import WORD_BITS, Command, Kind, find_command, split_word
from npu.isa.latch import RegisterFile, latch
from npu.isa.operations import Operation, Stop
from npu.isa.rules import check_operation


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
    stream = _as_words(words)
    position = index = 0
    while position < len(stream):
        where = f"command {index} (word {position})"
        opcode, reserved, command_class, parameter = split_word(stream[position])
        command = None if reserved else find_command(opcode, command_class)
        if command is None:
            raise StreamError(f"{where}: must be a known command, got {stream[position]:#010x}")
        if position + command.word_count > len(stream):
            raise StreamError(f"{where}: {command.name} must have {command.word_count} words, got {len(stream) - position}")
        operand = parameter << WORD_BITS | stream[position + 1] if command.is_wide else parameter
        try:
            values = command.values(operand, product)
        except StreamError as error:
            raise StreamError(f"{where}: {error}") from error
        yield RawCommand(command, values, index, position)
        position += command.word_count
        index += 1


def decode(words: NDArray[np.uint32], variant: Variant) -> tuple[Decoded, ...]:
    """Operations of a whole stream, the last one a `Stop`.

    `words` is one-dimensional uint32. Raises StreamError; see the module docstring.
    """
    product = variant.accelerator.product
    registers = RegisterFile(product)
    decoded: list[Decoded] = []
    is_stopped = False
    for raw in read_commands(words, product):
        where = f"command {raw.command_index} (word {raw.word_index})"
        if is_stopped:
            raise StreamError(f"{where}: NPU_OP_STOP must be the last command, got {raw.command.name} after it")
        if raw.command.kind is not Kind.OPERATION:
            registers.write(raw.command, raw.values)
            continue
        try:
            operation = latch(raw.command.name, raw.values, registers, variant)
            check_operation(operation, variant)
        except StreamError as error:
            raise StreamError(f"{where}: {raw.command.name}: {error}") from error
        decoded.append(Decoded(operation, raw.command_index, raw.word_index))
        is_stopped = isinstance(operation, Stop)
    if not is_stopped:
        raise StreamError(f"command stream of {len(words)} words: must end with NPU_OP_STOP")
    return tuple(decoded)


def _as_words(words: NDArray[np.uint32]) -> list[int]:
    if words.ndim != 1 or words.dtype != np.uint32:
        raise StreamError(f"command stream: must be a one-dimensional uint32 array, got {words.dtype} of shape {words.shape}")
    return [int(word) for word in words]
