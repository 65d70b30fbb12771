"""The reference page of the command stream, generated from the command table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from npu.hardware.variant import Product
from npu.isa.command import Command, CommandKind, Field
from npu.isa.family import Family

_HEAD = """\
# Command stream reference

Every command of each family of NPUs with its opcode, fields and ranges. Generated from `npu/isa/commands.py` (Ethos-U55 and
Ethos-U65) and `npu/isa/ethos_u85/commands.py`; do not edit.

A command stream is a list of 32-bit words. The first word of a command has the opcode in bits 9..0, zeros in bits 13..10, the
number of further words (0 or 1) in bits 15..14 and a parameter in bits 31..16. A command of two words is followed by a 32-bit
payload. Every register keeps its value until it is rewritten; at power-on all are zero.

Bits of one-word commands count from the parameter's lowest bit. Bits of two-word commands count from the payload's lowest bit;
bits 32 and up are in the parameter. Bits that belong to no field must be zero. A command that only one product of a family has
may be written on the other one with zero only. "Holds" is the attribute of the operation (`npu/isa/operations.py`), or of the
hardware that runs it, that the field holds.
"""
_SECTIONS = {
    CommandKind.OPERATION: "Operations",
    CommandKind.REGISTER: "Registers of one word",
    CommandKind.WIDE_REGISTER: "Registers of two words",
}
_COLUMNS = ("Opcode", "Command", "Products", "Field", "Bits", "Values", "Holds", "Meaning")


def reference_page(families: Iterable[Family]) -> str:
    """Markdown text of the page of some families."""
    return "\n".join([_HEAD, *(line for family in families for kind in CommandKind for line in _section(family, kind))])


def _section(family: Family, kind: CommandKind) -> Iterator[str]:
    names = " and ".join(f"Ethos-{name}" for name in family.products.values())
    yield f"## {_SECTIONS[kind]} of {names}\n"
    yield _row(_COLUMNS)
    yield _row(("---",) * len(_COLUMNS))
    for command in sorted((one for one in family.commands if one.kind is kind), key=lambda one: one.opcode):
        yield from _command(command, family.products)
    yield ""


def _command(command: Command, product_names: Mapping[Product, str]) -> Iterator[str]:
    products = ", ".join(name for product, name in product_names.items() if product in command.products)
    head = (f"{command.opcode} ({command.opcode:#05x})", f"`{command.name}`", products)
    if len(command.fields) == 1:
        field = command.fields[0]
        yield _row((*head, *_field(field, product_names), "; ".join(filter(None, (command.doc, field.doc)))))
        return
    yield _row((*head, "", "", "", "", command.doc))
    for field in command.fields:
        yield _row(("", "", "", *_field(field, product_names), field.doc))


def _field(field: Field, product_names: Mapping[Product, str]) -> tuple[str, str, str, str]:
    return f"`{field.name}`", _bits(field.bits), _values(field, product_names), field.code.text.format(f"`{field.holds}`")


def _bits(bits: tuple[int, ...]) -> str:
    if len(bits) > 1 and bits == tuple(range(bits[0], bits[-1] + 1)):
        return f"{bits[-1]}..{bits[0]}"
    return ", ".join(str(bit) for bit in reversed(bits))


def _values(field: Field, product_names: Mapping[Product, str]) -> str:
    if field.enum is not None:
        return ", ".join(f"{member.value} {member.name}" for member in field.members())
    limits = {product: field.limits(product) for product in product_names}
    if len(set(limits.values())) == 1:
        low, high = next(iter(limits.values()))
        return f"{low}..{high}"
    signed = "signed" if field.is_signed else "unsigned"
    return ", ".join(f"{product_names[product]}: {signed} {field.widths[product]} bits" for product in limits)


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"
