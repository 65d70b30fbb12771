"""What a compilation aims at."""

from __future__ import annotations

from enum import Enum

from npu.errors import UserError


class Goal(Enum):
    """What is kept small: the names and meanings of Vela's `--optimise`."""

    PERFORMANCE = "performance"
    """Cycles, within the bytes that the memory mode gives the arena."""
    SIZE = "size"
    """SRAM, however many bytes there are."""


def goal_named(goal: Goal | str) -> Goal:
    """The goal of this name; itself if it is one already. UserError for another name."""
    try:
        return Goal(goal)
    except ValueError:
        names = ", ".join(one.value for one in Goal)
        raise UserError(f"optimise: must be one of {names}, got {goal!r}") from None
