"""Weights to weight streams: the only place that makes them.

The stream is the shortest of several: sections found by merging neighbouring segments, one section, and the naive encoding
without palette and zero runs, which is therefore an upper bound.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from npu.digests import blake2b
from npu.errors import StreamError
from npu.hardware.variant import Accelerator
from npu.isa.weight_stream.kernels import configurations, emit
from npu.isa.weight_stream.kernels import encode as kernels
from npu.isa.weight_stream.order import WeightOrder, reorder
from npu.isa.weight_stream.use import WeightUse

Encoder: TypeAlias = Callable[[Accelerator, WeightUse, NDArray[np.int16], int], bytes]
"""The weight stream of this number of weights (O, KH, KW, I); or as many bytes, where a stream is needed for its size alone."""

_ALIGNMENT = 16
_MAX_SYMBOLS = 1 << 31


def encode_weights(values: NDArray[np.int16], order: WeightOrder) -> bytes:
    """Compressed stream of `order.core`, a multiple of 16 bytes.

    `values` are the weights of all cores minus their zero point, (O, KH, KW, I) with I = 1 for depthwise, -255..255.
    Raises StreamError.
    """
    return encode_symbols(reorder(values, order))


def encode_symbols(symbols: NDArray[np.int16]) -> bytes:
    """Compressed stream, a multiple of 16 bytes, of weights that are in stream order already."""
    symbols = _listed(symbols)
    rooms = _room(symbols), _room(symbols)
    words, held = kernels.encode(symbols, *_tables(), *rooms)
    return _bytes(rooms[held], words, symbols)


def encode_naively(symbols: NDArray[np.int16]) -> bytes:
    """Stream without palette and zero runs; only the divisors are chosen."""
    symbols = _listed(symbols)
    room = _room(symbols)
    return _bytes(room, kernels.encode_naively(symbols, *_tables(), room), symbols)


def stand_in(values: NDArray[np.int16], order: WeightOrder) -> bytes:
    """As many bytes as `encode_weights` is expected to give, which tell one stream from another but decode to nothing."""
    return stand_in_symbols(reorder(values, order))


def stand_in_symbols(symbols: NDArray[np.int16]) -> bytes:
    """`stand_in` of weights that are in stream order already."""
    size = -(-_checked(kernels.expected_bits(_listed(symbols)), symbols) // (8 * _ALIGNMENT)) * _ALIGNMENT
    return blake2b(symbols.data, digest_size=_ALIGNMENT).digest() + bytes(size - _ALIGNMENT)


def expected_bytes(values: NDArray[np.int16]) -> float:
    """Bytes of a stream of weights in any order, about, without what fills it up: quick, no sections are looked for."""
    symbols = _listed(values.ravel())
    return _checked(kernels.one_section_bits(symbols), symbols) / 8


def padding_bytes(zeros: int, weights: int) -> float:
    """Expected bytes of zeros that fill up so many weights in a stream: what tells them apart, or a run behind every weight.

    A run has a quotient in ones and up to three bits of remainder.
    """
    if not zeros:
        return 0.0
    both = zeros + weights
    told = zeros * math.log2(both / zeros) + weights * math.log2(both / weights)
    return min(told, *(weights * (1 + bits) + zeros / (1 << bits) for bits in range(4))) / 8


@functools.cache
def _tables() -> tuple[NDArray[np.uint64], NDArray[np.uint16]]:
    """What two quotients are, and what each symbol costs."""
    return emit.make_pairs(), configurations.make_costs()


def _listed(symbols: NDArray[np.int16]) -> NDArray[np.int16]:
    if symbols.ndim != 1 or symbols.size == 0:
        raise StreamError(f"weights: must be a list of at least one weight, got shape {symbols.shape}")
    if symbols.size >= _MAX_SYMBOLS:
        raise StreamError(f"weights: must be fewer than 2**31 with what fills them up, got {symbols.size}")
    return np.require(symbols, np.int16, ["C", "W"])


def _checked(count: int, symbols: NDArray[np.int16]) -> int:
    if count == kernels.TOO_LARGE:
        limit = kernels.WEIGHT_LIMIT
        raise StreamError(f"weights: must be in [-{limit}, {limit}], got {symbols.min()} to {symbols.max()}")
    return count


def _room(symbols: NDArray[np.int16]) -> NDArray[np.uint32]:
    """For the longest stream: two words a symbol, and what begins and ends sections."""
    sections = -(-len(symbols) // kernels.SEGMENT)
    return np.empty(len(symbols) * 2 + 64 * sections + 64, np.uint32)


def _bytes(room: NDArray[np.uint32], words: int, symbols: NDArray[np.int16]) -> bytes:
    return room[: _checked(words, symbols)].astype("<u4", copy=False).tobytes()
