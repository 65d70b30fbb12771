"""Operations to command words: the only place that makes a command stream.

A register write that would not change the register is left out, as every register keeps its value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from npu.errors import StreamError
from npu.hardware.variant import Product, Variant
from npu.isa.commands import COMMANDS_BY_NAME
from npu.isa.operations import Operation, Stop
from npu.isa.rules import check_operation
from npu.isa.store import KickOff, store


def encode(operations: Sequence[Operation], variant: Variant) -> NDArray[np.uint32]:
    """Command words of `operations`, the last of which, and only the last, must be a `Stop`.

    Returns one-dimensional uint32. Raises StreamError naming the operation, field, range and value of what does not fit.
    """
    stops = [index for index, operation in enumerate(operations) if isinstance(operation, Stop)]
    if stops != [len(operations) - 1]:
        raise StreamError(f"operations: the last, and only the last, must be Stop, got Stop at {stops} of {len(operations)}")
    words: list[int] = []
    written: dict[str, Mapping[str, int]] = {}
    for index, operation in enumerate(operations):
        try:
            check_operation(operation, variant)
            words += _kick_off_words(store(operation, variant), written, variant.accelerator.product)
        except StreamError as error:
            raise StreamError(f"operation {index} ({type(operation).__name__}): {error}") from error
    return np.array(words, dtype=np.uint32)


def _kick_off_words(kick_off: KickOff, written: dict[str, Mapping[str, int]], product: Product) -> list[int]:
    """Words of the register writes that change something, and of the kick-off; updates `written` (fields by command)."""
    words: list[int] = []
    for name, values in kick_off.writes:
        if written.get(name) != values:
            command = COMMANDS_BY_NAME[name]
            words += command.words(command.operand(values, product))
            written[name] = values
    command = COMMANDS_BY_NAME[kick_off.name]
    return words + list(command.words(command.operand(kick_off.values, product)))
