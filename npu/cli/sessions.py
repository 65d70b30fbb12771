"""From options to a session: hardware, rules of placement and goal."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from npu.toolchain.session import Session

OTHER = "b_"
"""What the options of the second one of two models begin with."""
_HARDWARE = ("target", "config", "set", "memory_mode", "system", "arena_cache_size", "optimise", "lstm_gates")


def session_of(options: argparse.Namespace) -> Session:
    """The hardware and rules of placement that the options ask for."""
    from npu.hardware.choice import Hardware
    from npu.toolchain.session import DEFAULT_PROFILE, Session

    sections = {name: getattr(options, name, None) for name in ("memory_mode", "system")}
    hardware = Hardware(
        options.target,
        options.config,
        **sections,
        changes=tuple(options.set or ()),
        arena_cache_bytes=getattr(options, "arena_cache_size", None),
    )
    profile, goal = getattr(options, "profile", DEFAULT_PROFILE), getattr(options, "optimise", "performance")
    return Session(hardware, profile, goal, getattr(options, "lstm_gates", "exact"))


def other_session(options: argparse.Namespace) -> Session:
    """The session of the second model: as that of the first one, but for what options that begin with --b- say."""
    other = argparse.Namespace(**vars(options))
    for name in _HARDWARE:
        given = getattr(options, OTHER + name)
        if given is not None:
            setattr(other, name, given)
            if name in ("target", "config"):  # one replaces the other
                setattr(other, "config" if name == "target" else "target", None)
    return session_of(other)
