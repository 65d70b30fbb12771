"""Observers of the passes: to look at a compilation, and to verify it while it runs."""

from __future__ import annotations

from collections.abc import Callable

from npu.compiler.pipeline import Observer, pass_names
from npu.compiler.state import State
from npu.errors import UserError
from npu.hardware.shipped import closest

EVERY_PASS = "all"


def watching(dump_after: str | None, *, verifies: bool, write: Callable[[str], None]) -> tuple[Observer, ...]:
    """Observers that give `write` the text of the state after pass `dump_after`, or after each, and verify every state.

    UserError if there is no such pass.
    """
    dumps = () if dump_after is None else (_dump(dump_after, write),)
    if not verifies:
        return dumps
    from npu.compiler.verify import ChangeVerifier

    return (*dumps, ChangeVerifier())


def _dump(after: str, write: Callable[[str], None]) -> Observer:
    names = (*pass_names(), EVERY_PASS)
    if after not in names:
        raise UserError(f"--dump-after: must be one of {', '.join(names)}, got '{after}'{closest(after, names)}")

    from npu.compiler.text import state_text  # only who asks for it

    def dump(name: str, state: State) -> None:
        if after in (name, EVERY_PASS):
            write(f"# after {name}\n{state_text(state)}")

    return dump
