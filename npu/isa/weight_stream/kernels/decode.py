"""The entropy decoder of weight streams. Never reads outside `words`, never writes outside `output`, always ends."""

from __future__ import annotations

import numpy as np

from npu.isa.weight_stream.kernels.format import (
    BAD_WDIV,
    BAD_ZDIV,
    END_OF_STREAM,
    MAX_WDIV,
    MAX_ZDIV,
    NO_PALETTE,
    NO_ZERO_RUNS,
    OK,
    SYMBOL_RANGE,
    TOO_FEW,
    TOO_MANY,
    TRUNCATED,
    UNCOMPRESSED,
    ZERO_RUN_STATE,
)
from npu.isa.weight_stream.kernels.slices import WORDS, decode_slice, take
from npu.native import types as ty
from npu.native.kernel import keep, kernel
from npu.native.memory import load_u16_at, store_16_at

SYMBOLS = 512
_TABLE = 2048
"""More than any symbol, valid or not, with a quotient that one chunk can reach."""
SPARE_WORDS = 8
GROUP_TABLES = ty.uint64[:, ::1]


@kernel(ty.void(ty.int64[::1], ty.int64, ty.int64, ty.int16[::1]))
def _make_weights(palette, palette_size, offset, table):  # type: ignore[no-untyped-def]
    """table[symbol] is the symbol's weight; out of int9 range (512) if the symbol means none. Those from 512 on are there."""
    for symbol in range(SYMBOLS):
        value = palette[symbol] if symbol < palette_size else symbol - palette_size + offset
        table[symbol] = (-(value >> 1) if value & 1 else value >> 1) if value < SYMBOLS else SYMBOLS


@kernel(
    ty.several(ty.int64, 2)(
        ty.uint16[::1], ty.int64, ty.int64[::1], ty.boolean, ty.boolean, ty.int16[::1], ty.int16[::1], ty.int64
    )
)
def _expand(symbols, nw, runs, has_runs, is_new, table, output, count):  # type: ignore[no-untyped-def]
    """Weights and zeros of one slice into `output` from `count` on. Returns status and the new count."""
    limit = output.shape[0]
    worst = np.int16(0)
    if not has_runs:
        for k in range(nw):
            value = table[symbols[np.uint64(k)]]
            worst = max(worst, value)
            output[np.uint64(count) + np.uint64(k)] = value
        return SYMBOL_RANGE if worst == SYMBOLS else OK, count + nw
    z = 0
    if is_new:
        if runs[0] > limit - count:
            return TOO_MANY, count
        for _ in range(runs[0]):
            output[count] = 0
            count += 1
        z = 1
    for k in range(nw):
        value = table[symbols[k]]
        worst = max(worst, value)
        if runs[z + k] >= limit - count:
            return SYMBOL_RANGE if worst == SYMBOLS else TOO_MANY, count
        output[count] = value
        count += 1
        for _ in range(runs[z + k]):
            output[count] = 0
            count += 1
    return SYMBOL_RANGE if worst == SYMBOLS else OK, count


@kernel(ty.int64(ty.uint16[::1], ty.int64, ty.int64, ty.int16[::1], ty.int64))
def _expand_direct(symbols, nw, offset, output, count):  # type: ignore[no-untyped-def]
    """`_expand` of a slice without runs and palette, whose symbols are less by `offset` than their values. Returns status."""
    symbols_at, output_at, worst = np.int64(symbols.ctypes.data), np.int64(output.ctypes.data) + 2 * count, np.int64(0)
    for k in range(nw):
        value = load_u16_at(symbols_at, k) + offset
        worst |= value
        odd = value & 1
        store_16_at(output_at, k, ((value >> 1) ^ -odd) + odd)
    keep(output)
    return OK if worst < SYMBOLS else SYMBOL_RANGE


@kernel(ty.several(ty.int64, 5)(WORDS, ty.int64, ty.int64, ty.int16[::1]))
def _read_palette(words, total, position, table):  # type: ignore[no-untyped-def]
    """The weight of every symbol into `table`. Returns status, position, size of the palette, bits of its values and offset."""
    if position + 13 > total:
        return TRUNCATED, position, np.int64(0), np.int64(0), np.int64(0)
    offset = take(words, position, 5)
    size = take(words, position + 5, 5)
    bits = take(words, position + 10, 3) + 2
    position += 13
    size += np.int64(1) if size > 0 else np.int64(0)
    if position + size * bits > total:
        return TRUNCATED, position, size, bits, offset
    palette = np.zeros(32, np.int64)
    for k in range(size):
        palette[k] = take(words, position, bits)
        position += bits
    _make_weights(palette, size, offset, table)
    return OK, position, size, bits, offset


@kernel(ty.int64(ty.int64, ty.int64, ty.int64))
def _remainder_bits(wdiv, palette_size, value_bits):  # type: ignore[no-untyped-def]
    """Bits of a symbol's remainder: of the whole symbol if it is uncompressed."""
    if wdiv != UNCOMPRESSED:
        return wdiv
    if palette_size == 0:
        return value_bits
    bits = np.int64(0)
    while (np.int64(1) << bits) < palette_size:
        bits += 1
    return bits


@kernel(ty.several(ty.int64, 3)(WORDS, ty.int64, GROUP_TABLES, ty.uint16[::1], ty.int64[::1], ty.int16[::1]))
def decode_stream(words, total, groups, symbols, runs, output):  # type: ignore[no-untyped-def]
    """Decode `total` bits of `words` (uint64, `SPARE_WORDS` zero words at the end) into `output` (int16).

    `symbols` (MAX_SLICE + LANES) and `runs` (MAX_SLICE + 1) are room for a slice. Returns status, bit position and the number
    of weights. Weights must be exactly as many as `output` holds.
    """
    table = np.full(_TABLE, SYMBOLS, np.int16)
    palette_size = value_bits = offset = position = count = np.int64(0)
    has_palette = is_ended = has_runs = False
    limit = output.shape[0]
    while position + 3 <= total:
        zdiv = take(words, position, 3)
        position += 3
        if zdiv == END_OF_STREAM:
            position = (position + 7) & ~7
            is_ended, has_palette = True, False
            continue
        if zdiv > MAX_ZDIV and zdiv != NO_ZERO_RUNS:
            return BAD_ZDIV, position, count
        if position + 20 > total:
            return TRUNCATED, position, count
        nw, wdiv = take(words, position, 15) + 1, take(words, position + 15, 3)
        is_truncated, is_new = take(words, position + 18, 1), take(words, position + 19, 1) == 1
        position += 20
        if wdiv > MAX_WDIV and wdiv != UNCOMPRESSED:
            return BAD_WDIV, position, count
        if not is_new and not has_palette:
            return NO_PALETTE, position, count
        if not is_new and has_runs != (zdiv != NO_ZERO_RUNS):
            return ZERO_RUN_STATE, position, count
        if is_new:
            status, position, palette_size, value_bits, offset = _read_palette(words, total, position, table)
            if status != OK:
                return status, position, count
        is_ended, has_palette, has_runs = False, True, zdiv != NO_ZERO_RUNS
        if count + nw > limit:
            return TOO_MANY, position, count
        nz = nw + (1 if is_new else 0) if has_runs else np.int64(0)
        wbits = _remainder_bits(wdiv, palette_size, value_bits)
        zbits, zlen = zdiv if has_runs else np.int64(-1), np.int64(12 if zdiv < 3 else 8)
        is_raw, group = wdiv == UNCOMPRESSED, groups[is_truncated]
        status, position = decode_slice(words, total, position, nw, nz, wbits, zbits, is_raw, zlen, group, symbols, runs)
        if status == OK and not has_runs and palette_size == 0:
            status = _expand_direct(symbols, nw, offset, output, count)
            count += nw
        elif status == OK:
            status, count = _expand(symbols, nw, runs, has_runs, is_new, table, output, count)
        if status != OK:
            return status, position, count
    if not is_ended:
        return TRUNCATED, position, count
    return OK if count == limit else TOO_FEW, position, count
