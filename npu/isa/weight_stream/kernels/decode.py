"""The entropy decoder of weight streams. Never reads outside `words`, never writes outside `output`, always ends."""

from __future__ import annotations

import numba as nb
import numpy as np

OK = 0
TRUNCATED = 1
BAD_ZDIV = 2
BAD_WDIV = 3
NO_PALETTE = 4
ZERO_RUN_STATE = 5
SYMBOL_RANGE = 6
QUOTIENT_RANGE = 7
TOO_MANY = 8
TOO_FEW = 9

END_OF_STREAM = 7
NO_ZERO_RUNS = 6
MAX_ZDIV = 4
MAX_WDIV = 5
UNCOMPRESSED = 7
MAX_SLICE = 32768
SYMBOLS = 512
MAX_QUOTIENT = 31


@nb.njit(cache=True, inline="always")
def _peek(words, position):  # type: ignore[no-untyped-def]
    """The next 32 or more bits; `words` is padded with two zero words."""
    at = position >> 6
    shift = np.uint64(position & 63)
    low = words[at] >> shift
    if shift:
        low |= words[at + 1] << (np.uint64(64) - shift)
    return low


@nb.njit(cache=True, inline="always")
def _take(words, position, count):  # type: ignore[no-untyped-def]
    return np.int64(_peek(words, position) & ((np.uint64(1) << np.uint64(count)) - np.uint64(1)))


@nb.njit(cache=True)
def _ceil_log2(value):  # type: ignore[no-untyped-def]
    bits = 0
    while (1 << bits) < value:
        bits += 1
    return bits


@nb.njit(cache=True)
def _decode_slice(words, total, position, nw, nz, wdiv, is_truncated, wbits, zdiv, symbols, runs):  # type: ignore[no-untyped-def]
    """Chunks of one slice into `symbols` and `runs`; zdiv < 0 is off, wdiv < 0 uncompressed. Returns status and position."""
    w_now, w_before = np.empty(16, np.int64), np.empty(16, np.int64)
    z_now, z_before = np.empty(16, np.int64), np.empty(16, np.int64)
    w_before_count = z_before_count = 0
    w_carry = z_carry = np.int64(0)
    wp = zp = wd = zd = 0
    has_runs, is_raw = zdiv >= 0, wdiv < 0
    zlen = 12 if zdiv < 3 else 8
    wmax = 8 if is_raw and wbits > 5 else 12
    while True:
        balance = wp - zp if has_runs else 0
        has_w = balance < 8 and wp < nw
        has_z = has_runs and balance >= 0 and zp < nz
        unary = np.int64(0)
        w_count = z_count = 0
        if has_w and not is_raw:
            if position + 12 > total:
                return TRUNCATED, position
            unary = _take(words, position, 12)
            position += 12
        if has_z:
            if position + zlen > total:
                return TRUNCATED, position
            bits = _take(words, position, zlen)
            position += zlen
            for k in range(zlen):
                if (bits >> k) & 1:
                    z_carry += 1
                else:
                    z_now[z_count] = z_carry
                    z_count += 1
                    z_carry = np.int64(0)
            zp += z_count
        if has_w:
            if is_raw:
                for k in range(wmax):
                    w_now[k] = 0
                w_count = wmax
            else:
                second = _peek(words, position)
                used = 0
                for k in range(12):
                    code = np.int64(0)
                    if (unary >> k) & 1:
                        code = np.int64(1) + np.int64((second >> np.uint64(used)) & np.uint64(1))
                        used += 1
                    w_carry += code
                    if code < 2 or is_truncated:
                        w_now[w_count] = w_carry
                        w_count += 1
                        w_carry = np.int64(0)
                position += used
                if position > total:
                    return TRUNCATED, position
                if w_carry > MAX_QUOTIENT:
                    return QUOTIENT_RANGE, position
            wp += w_count
        for k in range(w_before_count):
            if wd >= nw:
                break
            if w_before[k] > MAX_QUOTIENT:
                return QUOTIENT_RANGE, position
            symbol = (w_before[k] << wbits) + _take(words, position, wbits)
            position += wbits
            if symbol >= SYMBOLS:
                return SYMBOL_RANGE, position
            symbols[wd] = symbol
            wd += 1
        for k in range(z_before_count):
            if zd >= nz:
                break
            runs[zd] = (z_before[k] << zdiv) + _take(words, position, zdiv)
            position += zdiv
            zd += 1
        if position > total:
            return TRUNCATED, position
        for k in range(w_count):
            w_before[k] = w_now[k]
        for k in range(z_count):
            z_before[k] = z_now[k]
        w_before_count, z_before_count = w_count, z_count
        if not has_w and not has_z:
            return OK, position


@nb.njit(cache=True)
def _weight(symbol, palette, palette_size, offset):  # type: ignore[no-untyped-def]
    """Weight of a symbol; out of int9 range (512) if the symbol means none."""
    value = palette[symbol] if symbol < palette_size else symbol - palette_size + offset
    if value >= SYMBOLS:
        return np.int64(SYMBOLS)
    return -(value >> 1) if value & 1 else value >> 1


@nb.njit(cache=True)
def decode_stream(words, total, output):  # type: ignore[no-untyped-def]
    """Decode `total` bits of `words` (uint64, two spare zero words at the end) into `output` (int16).

    Returns status, bit position and the number of weights. Weights must be exactly as many as `output` holds.
    """
    palette = np.zeros(32, np.int64)
    symbols = np.empty(MAX_SLICE, np.int64)
    runs = np.empty(MAX_SLICE + 1, np.int64)
    palette_size = offset = value_bits = 0
    has_palette = is_ended = has_runs = False
    position, count, limit = np.int64(0), np.int64(0), output.shape[0]
    while True:
        if position + 3 > total:
            break
        zdiv = _take(words, position, 3)
        position += 3
        if zdiv == END_OF_STREAM:
            position = (position + 7) & ~7
            is_ended, has_palette = True, False
            continue
        if zdiv > MAX_ZDIV and zdiv != NO_ZERO_RUNS:
            return BAD_ZDIV, position, count
        if position + 20 > total:
            return TRUNCATED, position, count
        is_ended = False
        nw = _take(words, position, 15) + 1
        wdiv = _take(words, position + 15, 3)
        is_truncated = _take(words, position + 18, 1) == 1
        is_new = _take(words, position + 19, 1) == 1
        position += 20
        if wdiv > MAX_WDIV and wdiv != UNCOMPRESSED:
            return BAD_WDIV, position, count
        if not is_new and not has_palette:
            return NO_PALETTE, position, count
        if not is_new and has_runs != (zdiv != NO_ZERO_RUNS):
            return ZERO_RUN_STATE, position, count
        has_runs = zdiv != NO_ZERO_RUNS
        if is_new:
            if position + 13 > total:
                return TRUNCATED, position, count
            offset = _take(words, position, 5)
            palette_size = _take(words, position + 5, 5)
            value_bits = _take(words, position + 10, 3) + 2
            position += 13
            palette_size = palette_size + 1 if palette_size > 0 else 0
            if position + palette_size * value_bits > total:
                return TRUNCATED, position, count
            for k in range(palette_size):
                palette[k] = _take(words, position, value_bits)
                position += value_bits
            has_palette = True
        wbits = wdiv
        if wdiv == UNCOMPRESSED:
            wbits = _ceil_log2(palette_size) if palette_size > 0 else value_bits
            wdiv = -1
        nz = nw + (1 if is_new else 0) if has_runs else 0
        if count + nw > limit:
            return TOO_MANY, position, count
        status, position = _decode_slice(
            words, total, position, nw, nz, wdiv, is_truncated, wbits, zdiv if has_runs else -1, symbols, runs
        )
        if status != OK:
            return status, position, count
        z = 0
        if has_runs and is_new:
            if runs[0] > limit - count:
                return TOO_MANY, position, count
            for _ in range(runs[0]):
                output[count] = 0
                count += 1
            z = 1
        for k in range(nw):
            if count >= limit:
                return TOO_MANY, position, count
            value = _weight(symbols[k], palette, palette_size, offset)
            if value == SYMBOLS:
                return SYMBOL_RANGE, position, count
            output[count] = value
            count += 1
            if has_runs:
                if runs[z] > limit - count:
                    return TOO_MANY, position, count
                for _ in range(runs[z]):
                    output[count] = 0
                    count += 1
                z += 1
    if not is_ended:
        return TRUNCATED, position, count
    return OK if count == limit else TOO_FEW, position, count
