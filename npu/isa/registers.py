"""What the registers hold at a command of a stream, for people and tools that look inside."""

from __future__ import annotations

from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from npu.hardware.variant import Product
from npu.isa.command import CommandKind
from npu.isa.decode import read_commands


def registers_before(words: NDArray[np.uint32], product: Product, command_index: int) -> dict[str, dict[str, int]]:
    """Fields of every register written before a command, by the name of the command that writes it, in order of the writes.

    `words` is a whole one-dimensional uint32 stream; a register that is not listed holds zero, its value at power-on.
    Raises StreamError for an unknown, truncated or out-of-range command.
    """
    held: dict[str, dict[str, int]] = {}
    for written in takewhile(lambda command: command.command_index < command_index, read_commands(words, product)):
        if written.command.kind is not CommandKind.OPERATION:
            held.pop(written.command.name, None)
            held[written.command.name] = dict(written.values)
    return held
