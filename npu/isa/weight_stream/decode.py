"""Weight streams to weights. Strict: whatever an encoder cannot have made is refused."""

from __future__ import annotations

import functools
import threading

import numpy as np
from numpy.typing import NDArray

from npu.errors import StreamError
from npu.isa.weight_stream.kernels import decode as kernels
from npu.isa.weight_stream.kernels.format import MAX_QUOTIENT, MAX_SLICE
from npu.isa.weight_stream.order import WeightOrder, WeightShape, count_symbols, restore, restore_groups

Data = bytes | NDArray[np.uint8]
_WORD_BYTES = 8
_KEPT_WEIGHTS = 1 << 20
"""For how many there is room that is not given back."""
_RULES = {
    kernels.TRUNCATED: "must not end inside a slice or without an end marker",
    kernels.BAD_ZDIV: "zero-run divisor must be 0 to 4, 6 or 7",
    kernels.BAD_WDIV: "weight divisor must be 0 to 5 or 7",
    kernels.NO_PALETTE: "first slice must carry a palette",
    kernels.ZERO_RUN_STATE: "zero runs must not be switched without a new palette",
    kernels.SYMBOL_RANGE: "symbols must be below 512",
    kernels.QUOTIENT_RANGE: f"quotients must be at most {MAX_QUOTIENT}",
}


class _Room(threading.local):
    """The kernel's room for a stream, and for the symbols and runs of a slice. One per thread, as they run side by side."""

    def __init__(self) -> None:
        self.symbols = np.empty(MAX_SLICE + kernels.LANES, np.uint16)
        self.runs = np.empty(MAX_SLICE + 1, np.int64)
        self.words = np.empty(0, np.uint64)
        self.weights = np.empty(_KEPT_WEIGHTS, np.int16)

    def words_of(self, data: Data) -> NDArray[np.uint64]:
        """A stream as words with spare zeros; overwritten by the next one."""
        used = len(data) // _WORD_BYTES
        count = used + 1 + kernels.SPARE_WORDS
        if self.words.size < count:
            self.words = np.empty(2 * count, np.uint64)
        words = self.words[:count]
        words[used:] = 0
        words.view(np.uint8)[: len(data)] = np.frombuffer(data, dtype=np.uint8)
        return words


_ROOM = _Room()


@functools.cache
def _groups() -> NDArray[np.uint64]:
    """What the kernel looks up."""
    groups = np.empty((2, 256), np.uint64)
    kernels.make_groups(groups)
    return groups


def decode_symbols(data: Data, count: int, room: NDArray[np.int16] | None = None) -> NDArray[np.int16]:
    """The `count` weights of a stream in stream order, int16; StreamError if the stream is malformed or has another number.

    They are in `room`, if it is given and has room for them.
    """
    words = _ROOM.words_of(data)
    output = np.empty(count, dtype=np.int16) if room is None or room.size < count else room[:count]
    status, position, decoded = kernels.decode_stream(words, len(data) * 8, _groups(), _ROOM.symbols, _ROOM.runs, output)
    if status in (kernels.TOO_MANY, kernels.TOO_FEW):
        comparison = "more" if status == kernels.TOO_MANY else f"only {decoded}"
        raise StreamError(f"weight stream: must have {count} symbols, got {comparison} by bit {position}")
    if status != kernels.OK:
        raise StreamError(f"weight stream: {_RULES[status]}, broken before bit {position} of {len(data) * 8}")
    return output


def decode_weights(data: Data, shape: WeightShape, order: WeightOrder) -> NDArray[np.int16]:
    """Weights (O of `order.core`, KH, KW, I), int16, zero point removed, of one core's stream.

    `shape` is (O of all cores, KH, KW, I), I = 1 for depthwise. Raises StreamError.
    """
    return restore(decode_symbols(data, count_symbols(shape, order)), shape, order)


def decode_groups(
    data: Data, shape: WeightShape, order: WeightOrder, places: NDArray[np.int64], groups: NDArray[np.int8]
) -> bool:
    """Put the weights of one core's stream into `groups` of 16 channels, as `restore_groups`. Raises StreamError."""
    return restore_groups(decode_symbols(data, count_symbols(shape, order), _ROOM.weights), shape, order, places, groups)
