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
    """The next 32 or more bits; `words` has spare zero words."""
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
    """Chunks of one slice into `symbols` and `runs`; zdiv < 0 is off, wdiv < 0 uncompressed. Returns status and position.

    Up to 144 bits are read beyond `total` before that is noticed, so `words` needs spare ones. The loops over unary bits are
    branchless, because those bits are as good as random.
    """
    w_quotients, z_quotients = np.zeros((2, 16), np.int64), np.zeros((2, 16), np.int64)
    w_before = z_before = np.int64(0)
    w_carry = z_carry = np.int64(0)
    wp = zp = wd = zd = np.int64(0)
    now = 0
    has_runs, is_raw = zdiv >= 0, wdiv < 0
    zlen = 12 if zdiv < 3 else 8
    wmax = 8 if is_raw and wbits > 5 else 12
    ends_always = np.int64(1 if is_truncated else 0)
    w_mask, z_mask = (np.uint64(1) << np.uint64(wbits)) - np.uint64(1), (np.uint64(1) << np.uint64(max(zdiv, 0))) - np.uint64(1)
    seen = largest = np.int64(0)
    while True:
        balance = wp - zp if has_runs else 0
        has_w = balance < 8 and wp < nw
        has_z = has_runs and balance >= 0 and zp < nz
        w_now, z_now = w_quotients[now], z_quotients[now]
        w_count = z_count = np.int64(0)
        unary = np.uint64(0)
        if has_w and not is_raw:
            unary = _peek(words, position)
            position += 12
        if has_z:
            bits = _peek(words, position)
            position += zlen
            for _ in range(zlen):
                bit = np.int64(bits & np.uint64(1))
                bits >>= np.uint64(1)
                z_now[z_count] = z_carry
                z_count += 1 - bit
                z_carry = (z_carry + 1) * bit
            zp += z_count
        if has_w:
            w_count = np.int64(wmax)
            if not is_raw:
                w_count = np.int64(0)
                second = _peek(words, position)
                for _ in range(12):
                    bit = np.int64(unary & np.uint64(1))
                    unary >>= np.uint64(1)
                    two = np.int64(second & np.uint64(1)) & bit
                    second >>= np.uint64(bit)
                    position += bit
                    w_carry += bit + two
                    w_now[w_count] = w_carry
                    ends = np.int64(1) - two | ends_always
                    w_count += ends
                    largest = max(largest, w_carry)
                    w_carry *= np.int64(1) - ends
            wp += w_count
        w_read, z_read = min(w_before, nw - wd), min(z_before, nz - zd)
        bits, left = np.uint64(0), 0
        for k in range(w_read):
            if left < wbits:
                bits, left = _peek(words, position), 64
            symbol = (w_quotients[1 - now, k] << wbits) + np.int64(bits & w_mask)
            bits >>= np.uint64(wbits)
            left -= wbits
            position += wbits
            seen |= symbol
            symbols[wd + k] = symbol
        wd += w_read
        bits = _peek(words, position)
        for k in range(z_read):
            runs[zd + k] = (z_quotients[1 - now, k] << zdiv) + np.int64(bits & z_mask)
            bits >>= np.uint64(zdiv)
        position += z_read * max(zdiv, 0)
        zd += z_read
        if position > total:
            return TRUNCATED, position
        if largest > MAX_QUOTIENT:
            return QUOTIENT_RANGE, position
        w_before, z_before = w_count, z_count
        now = 1 - now
        if not has_w and not has_z:
            break
    return SYMBOL_RANGE if seen >= SYMBOLS else OK, position


@nb.njit(cache=True)
def _make_weights(palette, palette_size, offset, table):  # type: ignore[no-untyped-def]
    """table[symbol] is the symbol's weight; out of int9 range (512) if the symbol means none."""
    for symbol in range(SYMBOLS):
        value = palette[symbol] if symbol < palette_size else symbol - palette_size + offset
        table[symbol] = SYMBOLS if value >= SYMBOLS else (-(value >> 1) if value & 1 else value >> 1)


@nb.njit(cache=True)
def _expand(symbols, nw, runs, has_runs, is_new, table, output, count):  # type: ignore[no-untyped-def]
    """Weights and zeros of one slice into `output` from `count` on. Returns status and the new count."""
    limit = output.shape[0]
    if not has_runs:
        worst = np.int64(0)
        for k in range(nw):
            value = table[symbols[k]]
            worst = max(worst, value)
            output[count + k] = value
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
        if value == SYMBOLS:
            return SYMBOL_RANGE, count
        if runs[z + k] >= limit - count:
            return TOO_MANY, count
        output[count] = value
        count += 1
        for _ in range(runs[z + k]):
            output[count] = 0
            count += 1
    return OK, count


@nb.njit(cache=True)
def decode_stream(words, total, output):  # type: ignore[no-untyped-def]
    """Decode `total` bits of `words` (uint64, four spare zero words at the end) into `output` (int16).

    Returns status, bit position and the number of weights. Weights must be exactly as many as `output` holds.
    """
    palette = np.zeros(32, np.int64)
    table = np.empty(SYMBOLS, np.int64)
    symbols = np.empty(MAX_SLICE, np.int16)
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
            _make_weights(palette, palette_size, offset, table)
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
        status, count = _expand(symbols, nw, runs, has_runs, is_new, table, output, count)
        if status != OK:
            return status, position, count
    if not is_ended:
        return TRUNCATED, position, count
    return OK if count == limit else TOO_FEW, position, count
