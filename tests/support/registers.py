"""What fields of registers can say."""

from __future__ import annotations

from typing import Any

from npu.isa.ethos_u55_u65 import ETHOS_U55_U65

_HOLDING = {field.holds: field for command in ETHOS_U55_U65.commands for field in command.fields}


def members(holds: str) -> list[Any]:
    """The members of an enumeration that the register of an attribute has on Ethos-U55 and Ethos-U65."""
    return list(_HOLDING[holds].members())


def modes(command: str) -> list[Any]:
    """The modes of an operation on Ethos-U55 and Ethos-U65."""
    return list(ETHOS_U55_U65.by_name[command].fields[0].members())
