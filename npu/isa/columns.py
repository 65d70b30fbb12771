"""Command words of a whole stream to operations, with registers as columns: those that are alike are made and checked once.

`npu.isa.decode` reads one command after the other, and says what is wrong with a stream. Nothing is said here: a stream with
which something may be wrong is handed back.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npu.errors import StreamError
from npu.hardware.variant import Product, Variant
from npu.isa.command import PARAMETER_SHIFT, WORD_BITS, CommandKind
from npu.isa.decoded import PLACES, Alike, Decoded
from npu.isa.entries import CODE_MASK, Entry, attributes_of, entries_of
from npu.isa.families import family_of
from npu.isa.family import Family
from npu.isa.latch import attributes_at_power_on
from npu.isa.operations import Operation, Stop
from npu.isa.rules import ALIGNMENT_BYTES
from npu.memo import LazySequence
from npu.numerics.arrays import Ints
from npu.records import dataclass

_MAX_OPERATIONS = 1 << 14
"""Each of which has a row of all registers; longer streams are read one command after the other."""
_KICK_OFF = 1 << 62
"""Beyond all operands."""


@dataclass(frozen=True, slots=True, eq=False)
class _ProductCommands:
    """The commands of a product; columns are in this order."""

    entries: tuple[Entry, ...]
    number_of: NDArray[np.int16]
    """By the low half of a first word; -1 if there is none."""
    is_wide: NDArray[np.bool_]
    is_kick_off: NDArray[np.bool_]
    limits: Ints
    offsets: Ints
    reads: NDArray[np.bool_]
    """Which registers a kick-off may read; of the kick-offs only itself."""
    places: Ints
    """The registers of PLACES."""
    stop: int


@functools.lru_cache(maxsize=16)
def _commands_of(family: Family, product: Product) -> _ProductCommands:
    entries = entries_of(product)
    table = [entry.command for entry in entries.values()]
    numbers = {command.name: number for number, command in enumerate(table)}
    number_of = np.full(CODE_MASK + 1, -1, np.int16)
    number_of[list(entries)] = range(len(table))
    is_kick_off = np.array([command.kind is CommandKind.OPERATION for command in table])
    reads = np.diag(is_kick_off)
    for kind, command in family.kick_offs.items():
        read = (register for one in family.sections if issubclass(kind, one.reader) for register in one.registers)
        reads[numbers[command.name], [numbers[register.name] for register in read]] = True
    return _ProductCommands(
        entries=tuple(entries.values()),
        number_of=number_of,
        is_wide=np.array([command.is_wide for command in table]),
        is_kick_off=is_kick_off,
        limits=np.array([entry.limit for entry in entries.values()]),
        offsets=np.array([entry.offset for entry in entries.values()]),
        reads=reads,
        places=np.array([numbers[one] for path in PLACES for one in _holders(table, path)]),
        stop=numbers[family.kick_offs[Stop].name],
    )


def _holders(table: Sequence[Any], path: str) -> Iterator[str]:
    return (command.name for command in table if any(field.holds == path for field in command.fields))


@dataclass(frozen=True, slots=True, eq=False)
class _StreamColumns:
    """The commands of a stream: their numbers, operands and first words."""

    numbers: NDArray[np.int16]
    operands: Ints
    positions: Ints


def read_columns(words: NDArray[np.uint32], variant: Variant) -> Alike | None:
    """The operations of a stream; None if it may be a broken one, is very long, or its family has no fixed places."""
    product = variant.accelerator.product
    family = family_of(product)
    if not family.has_fixed_places:
        return None
    commands = _commands_of(family, product)
    written = _split(words, commands)
    if written is None or not _are_valid(written, commands, product):
        return None
    kick_offs = np.flatnonzero(commands.is_kick_off[written.numbers])
    stops = np.flatnonzero(written.numbers == commands.stop)
    if kick_offs.size > _MAX_OPERATIONS or stops.tolist() != [written.numbers.size - 1]:
        return None
    held, kinds = _latched(written, commands), written.numbers[kick_offs].astype(np.int64)
    read = held * commands.reads[kinds]
    places = np.ascontiguousarray(read[:, commands.places])
    read[:, commands.places] = _without_places(places, variant.accelerator.address_bits)
    of, firsts = _compared(read, kinds)
    try:
        made = list(_made(kinds[firsts].tolist(), held[firsts], commands, variant))
    except StreamError:
        return None
    starts, positions = kick_offs.tolist(), written.positions[kick_offs].tolist()

    def started(index: int) -> Decoded:
        kind = int(of[index])
        is_first = firsts[kind] == index
        return Decoded(made[kind], starts[index], positions[index], None if is_first else places, index)

    return Alike(LazySequence(len(starts), started), firsts, of, places)


def _split(words: NDArray[np.uint32], commands: _ProductCommands) -> _StreamColumns | None:
    """The commands; None if there are none, or one is unknown or cut off."""
    if words.size == 0 or words.ndim != 1 or words.dtype != np.uint32:
        return None
    looks_like = commands.number_of[words & CODE_MASK]
    places = np.arange(words.size)
    is_wide = (looks_like >= 0) & commands.is_wide[looks_like]
    # In words that look like wide commands, one after the other, every second one is a payload.
    before = np.maximum.accumulate(np.where(is_wide, -1, places))
    is_first = np.ones(words.size, np.bool_)
    is_first[1:] = (places[1:] - 1 - before[:-1]) % 2 == 0
    positions = np.flatnonzero(is_first)
    numbers = looks_like[positions]
    with_payload = is_wide[positions]
    if numbers.min() < 0 or (with_payload[-1] and positions[-1] == words.size - 1):
        return None
    operands = (words[positions] >> PARAMETER_SHIFT).astype(np.int64)
    operands[with_payload] = operands[with_payload] << WORD_BITS | words[positions[with_payload] + 1]
    return _StreamColumns(numbers, operands, positions)


def _are_valid(written: _StreamColumns, commands: _ProductCommands, product: Product) -> bool:
    """Whether registers can hold what is written to them."""
    is_plain = written.operands <= commands.limits[written.numbers]
    others = zip(written.numbers[~is_plain].tolist(), written.operands[~is_plain].tolist(), strict=True)
    try:
        for number, operand in set(others):
            attributes_of(commands.entries[number].command, operand, product)
    except StreamError:
        return False
    return True


def _latched(written: _StreamColumns, commands: _ProductCommands) -> Ints:
    """The operands that all registers have at each kick-off."""
    is_kick_off = commands.is_kick_off[written.numbers]
    rows: Ints = np.cumsum(is_kick_off) - is_kick_off
    last = np.zeros((rows[-1] + 1, len(commands.entries)), np.int64)
    last[rows, written.numbers] = np.arange(1, rows.size + 1)  # of those for one place the last counts
    np.maximum.accumulate(last, axis=0, out=last)
    return np.concatenate(([0], written.operands))[last]


def _without_places(places: Ints, address_bits: int) -> Ints:
    """The same number for all addresses and for all lengths, but for those that could break a rule."""
    is_length = np.array(["length" in path for path in PLACES])
    is_good = (places % ALIGNMENT_BYTES == 0) & np.where(is_length, places > 0, places >> address_bits == 0)
    return np.where(is_good, np.where(is_length, ALIGNMENT_BYTES, 0), places)


def _compared(read: Ints, kick_offs: Ints) -> tuple[Ints, list[int]]:
    """Which operations are alike, by their kick-offs, which are marked, and what these read; and the first of each kind."""
    read[np.arange(kick_offs.size), kick_offs] |= _KICK_OFF
    known: dict[bytes, int] = {}
    rows = read.view(f"V{read.strides[0]}")[:, 0].tolist()
    like = [known.setdefault(row, index) for index, row in enumerate(rows)]
    firsts = list(known.values())
    return np.searchsorted(firsts, like), firsts


def _made(kinds: Sequence[int], held: Ints, commands: _ProductCommands, variant: Variant) -> Iterator[Operation]:
    """The operations that kick-offs start with these operands of all registers. Raises StreamError."""
    product = variant.accelerator.product
    family = family_of(product)
    attributes = dict(attributes_at_power_on(family, product))
    rows, columns = np.nonzero(np.diff(held, axis=0, prepend=0))
    changes, offsets = held[rows, columns], commands.offsets[columns]
    is_plain = changes <= commands.limits[columns]
    paths = [commands.entries[number].holds for number in columns[is_plain].tolist()]
    plain = zip(paths, (changes + offsets)[is_plain].tolist(), strict=True)
    others = zip(columns[~is_plain].tolist(), changes[~is_plain].tolist(), strict=True)
    counts = [np.bincount(rows[own], minlength=len(kinds)).tolist() for own in (is_plain, ~is_plain)]
    for kind, own, plain_count, count in zip(kinds, held[range(len(kinds)), kinds].tolist(), *counts, strict=True):
        attributes.update(islice(plain, plain_count))
        for number, operand in islice(others, count):
            attributes.update(attributes_of(commands.entries[number].command, operand, product))
        command = commands.entries[kind].command
        yield family.start(command, attributes_of(command, own, product), attributes, variant)
