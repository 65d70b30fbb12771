"""Streams of weights to groups of 16 channels, one stream after the other."""

from __future__ import annotations

import numpy as np

from npu.isa.weight_stream.kernels.decode import GROUP_TABLES, SPARE_WORDS, decode_stream
from npu.isa.weight_stream.kernels.format import OK
from npu.isa.weight_stream.kernels.order import ORDER, TO_GROUPS, move
from npu.isa.weight_stream.kernels.slices import WORDS
from npu.machine.kernels.rows import integers
from npu.native import types as ty
from npu.native.kernel import RowsAt, keep, kernel
from npu.native.memory import copy_bytes

STREAM = np.dtype(
    [
        ("order", ORDER),
        *integers(
            "symbols",  # how many it must have
            "places",  # address, as that of the groups: see `order.move`
            *("data", "bytes", "groups"),
            # Filled in: where decoding ended, how many symbols there were then, what `order.move` returned, and what is there.
            *("status", "position", "decoded", "stray", "stray_symbol"),
        ),
    ]
)
"""One stream, and where its weights go."""
STREAM_BYTES = STREAM.itemsize
_orders_at, _words_at, _weights_at, _places_at, _groups_at = (
    RowsAt(element, has_length=True) for element in (ty.record(ORDER), ty.uint64, ty.int16, ty.int64, ty.int8)
)


@kernel(ty.void(ty.record(STREAM)[::1], GROUP_TABLES, WORDS, ty.uint16[::1], ty.int64[::1], ty.int16[::1]))
def decode_groups(streams, tables, words, symbols, runs, weights):  # type: ignore[no-untyped-def]
    """Decode `streams` into their groups; `words` has room for the longest with spare ones, `weights` for the most."""
    first, at = np.int64(streams.ctypes.data), np.int64(words.ctypes.data)
    for k in range(streams.shape[0]):
        stream = streams[k]
        used = stream.bytes // 8
        for spare in range(used, used + 1 + SPARE_WORDS):
            words[spare] = np.uint64(0)
        copy_bytes(at, stream.data, stream.bytes)
        own = _words_at(at, used + 1 + SPARE_WORDS)
        output = _weights_at(np.int64(weights.ctypes.data), stream.symbols)
        status, position, decoded = decode_stream(own, stream.bytes * 8, tables, symbols, runs, output)
        stream.status, stream.position, stream.decoded = status, position, decoded
        if status == OK:
            order = _orders_at(first + k * STREAM_BYTES, np.int64(1))
            places, groups = _places_at(stream.places, np.int64(0)), _groups_at(stream.groups, np.int64(0))
            stream.stray = move(output, output, groups, places, order, TO_GROUPS)
            stream.stray_symbol = output[stream.stray] if stream.stray >= 0 else np.int16(0)
    keep(words, weights)
