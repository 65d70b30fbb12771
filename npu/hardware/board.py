"""What a description says of a board besides its hardware: the section `board`, which has no effect on results."""

from __future__ import annotations

from npu.hardware.build import build_record
from npu.hardware.overlay import Description
from npu.records import dataclass

BOARD = "board"
"""Name of the section."""


@dataclass(frozen=True, slots=True)
class Board:
    """A board, chip or model of one that can be bought or downloaded, for one of its NPUs."""

    title: str
    """What people call it, and which of its NPUs is meant."""
    vendor: str
    page: str
    """Address of a public page about it."""


def board_of(description: Description) -> Board | None:
    """The board of a description, None if it is none. ConfigError for what the section does not have."""
    section = description.values.get(BOARD)
    return None if section is None else build_record(Board, section, (BOARD,), description.where)
