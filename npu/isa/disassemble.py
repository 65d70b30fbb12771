"""Command streams as text and back: the only place that knows the listing format.

A listing has one command per line, fields by name, and behind a semicolon its address and what a kick-off does. Its first
line, `.product`, says for which product fields are checked. A command whose words are not the ones that its fields would be
encoded to is listed as `.word`, so `assemble(str(disassemble(words, variant)))` gives the same words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from npu.errors import StreamError
from npu.hardware.shipped import closest
from npu.hardware.variant import Product, Variant
from npu.isa.command import Command, Field
from npu.isa.decode import RawCommand, RefusedOperation, read_operations, readable_commands
from npu.isa.decoded import Decoded, address_text
from npu.isa.families import family_of
from npu.isa.summary import summarise
from npu.records import dataclass

_PRODUCT = ".product"
_WORD = ".word"
_WIDEST_BITS = 64
_NUMBER_BITS = 20
"""Wider unsigned fields are written in hexadecimal."""
_COLUMN = 76


@dataclass(frozen=True, slots=True)
class Line:
    """One command of a listing; `comment` is empty or says what the kick-off does."""

    word_index: int
    text: str
    comment: str = ""

    def __str__(self) -> str:
        note = f"; {address_text(self.word_index)} {self.comment}".rstrip()
        return f"{self.text:<{_COLUMN}} {note}"


@dataclass(frozen=True, slots=True)
class Listing:
    """A disassembled stream and its operations, without those that break a rule; `str()` is its text.

    `fault` says why a stream is none: words that are no command, listed as such, or no NPU_OP_STOP at its end. Operations
    behind it are not known.
    """

    product: Product
    lines: tuple[Line, ...]
    operations: tuple[Decoded, ...]
    fault: StreamError | None = None

    def __str__(self) -> str:
        return "\n".join([f"{_PRODUCT} {self.product.name}", *(str(line) for line in self.lines)]) + "\n"


def disassemble(words: NDArray[np.uint32], variant: Variant) -> Listing:
    """Listing of a command stream (one-dimensional uint32); operations that break a rule say which."""
    product = variant.accelerator.product
    kick_offs: list[Decoded | RefusedOperation] = []
    fault = None
    try:
        kick_offs.extend(read_operations(words, variant))
    except StreamError as error:
        fault = error
    operations = tuple(one for one in kick_offs if isinstance(one, Decoded))
    summaries = {
        one.word_index: f"REFUSED {one.reason}" if isinstance(one, RefusedOperation) else summarise(one.operation)
        for one in kick_offs
    }
    return Listing(product, tuple(_lines(words, product, summaries)), operations, fault)


def _lines(words: NDArray[np.uint32], product: Product, summaries: Mapping[int, str]) -> Iterator[Line]:
    position = 0
    for raw in readable_commands(words, product):
        yield from _unread(words, position, raw.word_index)
        yield Line(raw.word_index, _command_text(raw, words, product), summaries.get(raw.word_index, ""))
        position = raw.word_index + raw.command.word_count
    yield from _unread(words, position, len(words))


def _unread(words: NDArray[np.uint32], start: int, end: int) -> Iterator[Line]:
    """Words that are no command."""
    return (Line(index, f"{_WORD} {words[index]:#010x}", "REFUSED no command") for index in range(start, end))


def assemble(text: str, made_for: Product | None = None) -> NDArray[np.uint32]:
    """Command words, uint32, of a listing; StreamError names the line of what is wrong, another product than `made_for` too."""
    product: Product | None = None
    words: list[int] = []
    for number, line in enumerate(text.splitlines(), start=1):
        tokens = line.partition(";")[0].split()
        if not tokens:
            continue
        try:
            if tokens[0] == _PRODUCT:
                product = _product(tokens)
                if made_for is not None and product is not made_for:
                    raise StreamError(f"{_PRODUCT}: must be that of the base file, {made_for.name}, got {product.name}")
            elif product is None:
                raise StreamError(f"must begin with {_PRODUCT}, got {tokens[0]}")
            else:
                words += _line_words(tokens, product)
        except StreamError as error:
            raise StreamError(f"listing line {number}: {error}") from error
    return np.array(words, dtype=np.uint32)


def _command_text(raw: RawCommand, words: NDArray[np.uint32], product: Product) -> str:
    command = raw.command
    result = tuple(int(word) for word in words[raw.word_index : raw.word_index + command.word_count])
    if command.words(command.operand(raw.values, product)) != result:
        return " ".join([_WORD, *(f"{word:#010x}" for word in result)])
    return command_text(command, raw.values)


def command_text(command: Command, values: Mapping[str, int]) -> str:
    """A command with the values of its fields, as a listing shows it."""
    return " ".join([command.name, *(f"{field.name}={_value_text(field, values[field.name])}" for field in command.fields)])


def _value_text(field: Field, value: int) -> str:
    if field.enum is not None:
        return field.enum(value).name
    return hex(value) if len(field.bits) >= _NUMBER_BITS else str(value)


def _product(tokens: list[str]) -> Product:
    names = [product.name for product in Product]
    if len(tokens) != 2 or tokens[1] not in names:
        raise StreamError(f"{_PRODUCT}: must be one of {', '.join(names)}, got {' '.join(tokens[1:])}")
    return Product[tokens[1]]


def _line_words(tokens: list[str], product: Product) -> tuple[int, ...]:
    name, rest = tokens[0], tokens[1:]
    if name == _WORD:
        return tuple(_raw_word(token) for token in rest)
    commands = family_of(product).by_name
    command = commands.get(name)
    if command is None:
        raise StreamError(f"must be a known command, got {name}{closest(name.upper(), commands)}")
    return command.words(command.operand(_values(command, rest), product))


def _raw_word(token: str) -> int:
    value = _number(token, _WORD)
    if not 0 <= value < 1 << 32:
        raise StreamError(f"{_WORD}: must fit in 32 bits, got {token}")
    return value


def _values(command: Command, tokens: list[str]) -> dict[str, int]:
    fields = {field.name: field for field in command.fields}
    values: dict[str, int] = {}
    for token in tokens:
        name, _, text = token.partition("=")
        if name not in fields or name in values:
            raise StreamError(f"{command.name}: fields must be {', '.join(fields) or 'none'}, each once, got {token}")
        values[name] = _field_value(fields[name], text, f"{command.name}: {name}")
    return values


def _field_value(field: Field, text: str, where: str) -> int:
    if field.enum is None:
        return _number(text, where)
    known = {member.name: int(member) for member in field.members()}
    if text in known:
        return known[text]
    return _number(text, where, f"one of {', '.join(known)}, or a number")


def _number(text: str, where: str, what: str = "a number") -> int:
    try:
        value = int(text, 0)
    except ValueError as error:
        raise StreamError(f"{where}: must be {what}, got {text!r}") from error
    if value.bit_length() > _WIDEST_BITS:
        raise StreamError(f"{where}: must be a number of at most {_WIDEST_BITS} bits, got one of {value.bit_length()}")
    return value
