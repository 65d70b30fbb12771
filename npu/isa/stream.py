"""A command stream with its operations, decoded once and owned by whoever holds it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from npu.hardware.variant import Variant
from npu.isa.decode import Decoded, decode


@dataclass(frozen=True, eq=False)
class CommandStream:
    """Command words for a variant. Two streams are the same only if they are one object, so that it may be a key."""

    words: NDArray[np.uint32]
    variant: Variant

    @cached_property
    def operations(self) -> tuple[Decoded, ...]:
        """The operations in order. StreamError names the command at fault."""
        return decode(self.words, self.variant)
