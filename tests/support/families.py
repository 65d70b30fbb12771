"""A made-up family of NPUs, to be put in the place of a product."""

from __future__ import annotations

from dataclasses import replace

from npu.hardware.variant import Product
from npu.isa.command import Command
from npu.isa.families import family_of
from npu.isa.family import Family


def sibling() -> Family:
    """A made-up family: every opcode is another one, a register has another name, operands are shifted less."""
    known = family_of(Product.ETHOS_U65)

    def other(command: Command) -> Command:
        name = "NPU_SET_INPUT_REGION" if command.name == "NPU_SET_IFM_REGION" else command.name
        return replace(command, name=name, opcode=1023 - command.opcode)

    made = {command.name: other(command) for command in known.commands}
    sections = tuple(replace(one, registers=tuple(made[command.name] for command in one.registers)) for one in known.sections)
    arithmetic = replace(known.arithmetic, operand_shifts={8: 18, 16: 13})
    return replace(known, architecture_id=0x20000000, commands=tuple(made.values()), sections=sections, arithmetic=arithmetic)
