"""The commands of a product as those need them who read many: by their first words, with what their operands hold."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from npu.hardware.variant import Product
from npu.isa.command import PARAMETER_SHIFT, Command
from npu.isa.families import family_of
from npu.isa.family import Family
from npu.records import dataclass

CODE_MASK = (1 << PARAMETER_SHIFT) - 1
"""Bits of a first word that say which command it is."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A command as loops over many need it."""

    command: Command
    holds: str
    """The attribute that it holds, if it is a number that the operand is but for an offset."""
    offset: int
    limit: int
    """Up to which operand that is so; -1 for never."""
    length: int
    """Number of words."""


def entries_of(product: Product) -> dict[int, Entry]:
    """Commands by the low half of their first word, in the order of the family's table."""
    return _entries_of(family_of(product), product)


@functools.lru_cache(maxsize=16)
def _entries_of(family: Family, product: Product) -> dict[int, Entry]:
    return {command.words(0)[0]: _entry(command, product) for command in family.commands}


def _entry(command: Command, product: Product) -> Entry:
    holds, offset, limit = "", 0, -1
    one = command.fields[0] if len(command.fields) == 1 else None
    is_plain = one is not None and one.bits == tuple(range(len(one.bits))) and one.enum is None
    if one is not None and is_plain and one.code.offset is not None and product in command.products:
        holds, offset, limit = one.holds, one.code.offset, one.limits(product)[1]
    return Entry(command, holds, offset, limit, command.word_count)


@functools.lru_cache(maxsize=1 << 12)
def fields_of(command: Command, operand: int, product: Product) -> Mapping[str, int]:
    """Fields of a command; kept, because streams write few different values into registers of several fields."""
    return MappingProxyType(command.values(operand, product))


@functools.lru_cache(maxsize=1 << 12)
def attributes_of(command: Command, operand: int, product: Product) -> Mapping[str, Any]:
    """What a register holds; kept, as `fields_of`."""
    return MappingProxyType(command.attributes(operand, product))
