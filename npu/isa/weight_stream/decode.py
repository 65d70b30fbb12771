"""Weight streams to weights. Strict: whatever an encoder cannot have made is refused."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from npu.errors import StreamError
from npu.isa.weight_stream.kernels import decode as kernels
from npu.isa.weight_stream.kernels import format as fields
from npu.isa.weight_stream.kernels import groups as group_kernels
from npu.isa.weight_stream.kernels import slices
from npu.isa.weight_stream.kernels.order import NO_BYTE
from npu.isa.weight_stream.order import WeightOrder, WeightShape, check_padding, count_symbols, grouped_order, restore
from npu.native.call import array_address
from npu.numerics.arrays import Ints
from npu.records import dataclass

Data = bytes | NDArray[np.uint8]
GroupedStream = tuple[object, ...]
"""A `STREAM` of the kernel."""
GroupedStreams = NDArray[np.void]
"""Many of them."""
_WORD_BYTES = 8
_KEPT_WEIGHTS = 1 << 20
"""For how many there is room that is not given back."""
_RULES = {
    fields.TRUNCATED: "must not end inside a slice or without an end marker",
    fields.BAD_ZDIV: "zero-run divisor must be 0 to 4, 6 or 7",
    fields.BAD_WDIV: "weight divisor must be 0 to 5 or 7",
    fields.NO_PALETTE: "first slice must carry a palette",
    fields.ZERO_RUN_STATE: "zero runs must not be switched without a new palette",
    fields.SYMBOL_RANGE: "symbols must be below 512",
    fields.QUOTIENT_RANGE: f"quotients must be at most {fields.MAX_QUOTIENT}",
}


class _Room(threading.local):
    """The kernel's room for a stream, and for the symbols and runs of a slice. One per thread, as they run side by side."""

    def __init__(self) -> None:
        self.symbols = np.empty(fields.MAX_SLICE + slices.LANES, np.uint16)
        self.runs = np.empty(fields.MAX_SLICE + 1, np.int64)
        self.words = np.empty(0, np.uint64)
        self.weights = np.empty(_KEPT_WEIGHTS, np.int16)

    def words_of(self, size_bytes: int) -> NDArray[np.uint64]:
        """Room for a stream and, after it, spare zeros; overwritten by the next one."""
        used = size_bytes // _WORD_BYTES
        count = used + 1 + kernels.SPARE_WORDS
        if self.words.size < count:
            self.words = np.empty(2 * count, np.uint64)
        words = self.words[:count]
        words[used:] = 0
        return words

    def weights_of(self, count: int) -> NDArray[np.int16]:
        """Room for so many weights, kept unless they are very many."""
        return self.weights if count <= _KEPT_WEIGHTS else np.empty(count, np.int16)


_ROOM = _Room()


@functools.cache
def _groups() -> NDArray[np.uint64]:
    """What the kernel looks up."""
    groups = np.empty((2, 1 << 2 * slices.POSITIONS), np.uint64)
    slices.make_groups(groups)
    return groups


def decode_symbols(data: Data, count: int) -> NDArray[np.int16]:
    """The `count` weights of a stream in stream order, int16; StreamError if the stream is malformed or has another number."""
    words = _ROOM.words_of(len(data))
    words.view(np.uint8)[: len(data)] = np.frombuffer(data, dtype=np.uint8)
    output = np.empty(count, dtype=np.int16)
    status, position, decoded = kernels.decode_stream(words, len(data) * 8, _groups(), _ROOM.symbols, _ROOM.runs, output)
    _check(status, position, decoded, len(data), count)
    return output


def _check(status: int, position: int, decoded: int, size_bytes: int, count: int) -> None:
    """Raise StreamError if a kernel has found something wrong."""
    if status in (fields.TOO_MANY, fields.TOO_FEW):
        comparison = "more" if status == fields.TOO_MANY else f"only {decoded}"
        raise StreamError(f"weight stream: must have {count} symbols, got {comparison} by bit {position}")
    if status != fields.OK:
        raise StreamError(f"weight stream: {_RULES[status]}, broken before bit {position} of {size_bytes * 8}")


def decode_weights(data: Data, shape: WeightShape, order: WeightOrder) -> NDArray[np.int16]:
    """Weights (O of `order.core`, KH, KW, I), int16, zero point removed, of one core's stream.

    `shape` is (O of all cores, KH, KW, I), I = 1 for depthwise. Raises StreamError.
    """
    return restore(decode_symbols(data, count_symbols(shape, order)), shape, order)


@dataclass(frozen=True, slots=True, eq=False)
class GroupedWeights:
    """How the weights of one core lie in groups of 16 channels of all cores: four of every channel, then the next four.

    `places` says where the weights (KH, KW, I) of the first channel of a group are, which has `group_bytes`.
    """

    shape: WeightShape
    order: WeightOrder
    places: NDArray[np.int64]
    group_bytes: int
    _numbers: tuple[object, ...] = field(init=False)

    def __post_init__(self) -> None:
        order = grouped_order(self.shape, self.order, self.group_bytes)
        object.__setattr__(self, "_numbers", (order, count_symbols(self.shape, self.order), array_address(self.places)))

    def stream(self, address: int, size_bytes: int, groups: int) -> GroupedStream:
        """A stream at an address, and the address of its groups, 0 where no weight goes; the caller keeps the memory."""
        return *self._numbers, address, size_bytes, groups, 0, 0, 0, 0, 0


def grouped_streams(weights: Sequence[GroupedWeights], of: Ints, addresses: Ints, sizes: Ints, groups: Ints) -> GroupedStreams:
    """The `GroupedWeights.stream` of many, each of the weights of this number."""
    rows = np.array([one.stream(0, 0, 0) for one in weights], group_kernels.STREAM)[of]
    rows["data"], rows["bytes"], rows["groups"] = addresses, sizes, groups
    return rows


def decode_groups(streams: Sequence[GroupedStream] | GroupedStreams, num_threads: int = 1) -> NDArray[np.bool_]:
    """Put the weights of streams into their groups; False for each that has one of more than 8 bits. Raises StreamError."""
    rows = np.array(streams, group_kernels.STREAM)
    shares = [np.ascontiguousarray(rows[k::num_threads]) for k in range(min(num_threads, rows.size))]
    helpers = [threading.Thread(target=_decode_rows, args=(share,)) for share in shares[1:]]
    for helper in helpers:
        helper.start()
    for share in shares[:1]:
        _decode_rows(share)
    for helper in helpers:
        helper.join()
    for k, share in enumerate(shares):
        rows[k::num_threads] = share
    for k in np.flatnonzero((rows["status"] != fields.OK) | (rows["stray"] >= 0))[:1].tolist():
        _check(*(int(rows[name][k]) for name in ("status", "position", "decoded", "bytes", "symbols")))
        check_padding(*(int(rows[name][k]) for name in ("stray", "stray_symbol")))
    are_bytes: NDArray[np.bool_] = rows["stray"] != NO_BYTE
    return are_bytes


def _decode_rows(rows: NDArray[np.void]) -> None:
    words, weights = _ROOM.words_of(int(rows["bytes"].max())), _ROOM.weights_of(int(rows["symbols"].max()))
    group_kernels.decode_groups(rows, _groups(), words, _ROOM.symbols, _ROOM.runs, weights)
