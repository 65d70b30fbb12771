"""Bits of a weight stream: slice headers, palettes and chunks. The mirror of the decoder's reading order."""

from __future__ import annotations

import numba as nb
import numpy as np

UNCOMPRESSED = 7
NO_ZERO_RUNS = 6
END_OF_STREAM = 7
MAX_SLICE = 32767
CONFIGURATIONS = 13
"""Weight configurations: 0..5 divisor, 6..11 divisor with truncated quotients, 12 uncompressed."""
RAW = 12


@nb.njit(cache=True, inline="always")
def put(buffer, state, value, count):  # type: ignore[no-untyped-def]
    """Append the low `count` <= 32 bits of `value`. `state` (uint64) is accumulator, bits in it, 32-bit words written."""
    state[0] |= np.uint64(value) << state[1]
    state[1] += np.uint64(count)
    if state[1] >= np.uint64(32):
        buffer[state[2]] = np.uint32(state[0] & np.uint64(0xFFFFFFFF))
        state[0] >>= np.uint64(32)
        state[1] -= np.uint64(32)
        state[2] += np.uint64(1)


@nb.njit(cache=True)
def put_palette(buffer, state, offset, palette, size, value_bits):  # type: ignore[no-untyped-def]
    """Palette block; `size` 0 is no palette."""
    put(buffer, state, offset, 5)
    put(buffer, state, size - 1 if size > 0 else 0, 5)
    put(buffer, state, value_bits - 2, 3)
    for k in range(size):
        put(buffer, state, palette[k], value_bits)


@nb.njit(cache=True)
def put_header(buffer, state, zdiv, count, configuration, is_new):  # type: ignore[no-untyped-def]
    """Slice header; zdiv < 0 is no zero runs."""
    put(buffer, state, zdiv if zdiv >= 0 else NO_ZERO_RUNS, 3)
    put(buffer, state, count - 1, 15)
    put(buffer, state, UNCOMPRESSED if configuration == RAW else configuration % 6, 3)
    put(buffer, state, 1 if 6 <= configuration < RAW else 0, 1)
    put(buffer, state, is_new, 1)


@nb.njit(cache=True)
def put_chunks(buffer, state, symbols, w_first, nw, runs, z_first, nz, configuration, zdiv, raw_bits):  # type: ignore[no-untyped-def]
    """Chunks of one slice: symbols[w_first : w_first + nw] and, if zdiv >= 0, runs[z_first : z_first + nz]."""
    is_raw, is_truncated, has_runs = configuration == RAW, 6 <= configuration < RAW, zdiv >= 0
    wbits = raw_bits if is_raw else configuration % 6
    zlen = 12 if zdiv < 3 else 8
    wmax = 8 if is_raw and wbits > 5 else 12
    w_mask, z_mask = (np.int64(1) << wbits) - 1, (np.int64(1) << max(zdiv, 0)) - 1
    # wp, zp: quotients finished (padding included); *_sent: remainders sent; *_due: remainders to send with the next chunk
    wp = zp = w_sent = z_sent = w_due = z_due = 0
    w_left = z_left = np.int64(-1)
    while True:
        balance = wp - zp if has_runs else 0
        has_w = balance < 8 and wp < nw
        has_z = has_runs and balance >= 0 and zp < nz
        w_stop, z_stop = min(w_due, nw), min(z_due, nz)
        second, second_count = np.int64(0), 0
        if has_w:
            if is_raw:
                wp += wmax
            else:
                first = np.int64(0)
                for k in range(12):
                    if w_left < 0:
                        w_left = np.int64(symbols[w_first + wp]) >> wbits if wp < nw else np.int64(0)
                    code = min(w_left, np.int64(2))
                    if code:
                        first |= np.int64(1) << k
                        second |= (code - 1) << second_count
                        second_count += 1
                    w_left -= code
                    if code < 2 or is_truncated:
                        w_left = np.int64(-1)
                        wp += 1
                put(buffer, state, first, 12)
            w_due = wp
        if has_z:
            bits = np.int64(0)
            for k in range(zlen):
                if z_left < 0:
                    z_left = np.int64(runs[z_first + zp]) >> zdiv if zp < nz else np.int64(0)
                if z_left > 0:
                    bits |= np.int64(1) << k
                    z_left -= 1
                else:
                    z_left = np.int64(-1)
                    zp += 1
            put(buffer, state, bits, zlen)
            z_due = zp
        put(buffer, state, second, second_count)
        while w_sent < w_stop:
            put(buffer, state, np.int64(symbols[w_first + w_sent]) & w_mask, wbits)
            w_sent += 1
        while z_sent < z_stop:
            put(buffer, state, np.int64(runs[z_first + z_sent]) & z_mask, zdiv)
            z_sent += 1
        if not has_w and not has_z:
            return


@nb.njit(cache=True)
def put_end(buffer, state):  # type: ignore[no-untyped-def]
    """End marker, then ones to a multiple of 16 bytes. Returns the number of 32-bit words."""
    put(buffer, state, END_OF_STREAM, 3)
    while state[1] != 0 or state[2] % np.uint64(4) != 0:
        put(buffer, state, 1, 1)
    return np.int64(state[2])
