"""A command stream with its operations, worked out once and owned by whoever holds it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from npu.hardware.variant import Variant
from npu.isa.decoded import Alike, Decoded


class CommandStream:
    """Command words for a variant. Two streams are the same only if they are one object, so that it may be a key.

    `operations` are those of the words where they are known, from the encoder.
    """

    def __init__(self, words: NDArray[np.uint32], variant: Variant, operations: tuple[Decoded, ...] | None = None) -> None:
        self.words = words
        self.variant = variant
        self._operations = operations
        self._alike: Alike | None = None

    @property
    def operations(self) -> tuple[Decoded, ...]:
        """The operations in order. StreamError names the command at fault."""
        if self._operations is None:
            self._operations = tuple(self.alike.decoded)
        return self._operations

    @property
    def alike(self) -> Alike:
        """The operations, and which of them are alike, as far as anybody has looked. StreamError as `operations`."""
        if self._alike is None:
            from npu.isa.columns import read_columns  # which the compiler has no use for
            from npu.isa.decode import decode

            read = read_columns(self.words, self.variant) if self._operations is None else None
            self._alike = read or Alike.none(self._operations or decode(self.words, self.variant))
        return self._alike
