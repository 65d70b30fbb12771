"""Bits of a weight stream: slice headers, palettes and chunks. The mirror of the decoder's reading order."""

from __future__ import annotations

import numpy as np

from npu.isa.weight_stream.kernels.format import END_OF_STREAM, NO_ZERO_RUNS, UNCOMPRESSED
from npu.native import types as ty
from npu.native.kernel import kernel

CONFIGURATIONS = 13
"""Weight configurations: 0..5 divisor, 6..11 divisor with truncated quotients, 12 uncompressed."""
RAW = 12
BUFFER = ty.uint32[::1]
STATE = ty.uint64[::1]
SYMBOLS = ty.int16[::1]
RUNS = ty.int32[::1]


@kernel(ty.void(BUFFER, STATE, ty.uint64, ty.uint64))
def put(buffer, state, value, count):  # type: ignore[no-untyped-def]
    """Append the low `count` <= 32 bits of `value`. `state` (uint64) is accumulator, bits in it, 32-bit words written."""
    state[0] |= np.uint64(value) << state[1]
    state[1] += np.uint64(count)
    if state[1] >= np.uint64(32):
        buffer[state[2]] = np.uint32(state[0] & np.uint64(0xFFFFFFFF))
        state[0] >>= np.uint64(32)
        state[1] -= np.uint64(32)
        state[2] += np.uint64(1)


@kernel(ty.void(BUFFER, STATE, ty.int64, ty.int64[::1], ty.int64, ty.int64))
def put_palette(buffer, state, offset, palette, size, value_bits):  # type: ignore[no-untyped-def]
    """Palette block; `size` 0 is no palette."""
    put(buffer, state, offset, 5)
    put(buffer, state, size - 1 if size > 0 else 0, 5)
    put(buffer, state, value_bits - 2, 3)
    for k in range(size):
        put(buffer, state, palette[k], value_bits)


@kernel(ty.void(BUFFER, STATE, ty.int64, ty.int64, ty.int64, ty.int64))
def put_header(buffer, state, zdiv, count, configuration, is_new):  # type: ignore[no-untyped-def]
    """Slice header; zdiv < 0 is no zero runs."""
    put(buffer, state, zdiv if zdiv >= 0 else NO_ZERO_RUNS, 3)
    put(buffer, state, count - 1, 15)
    put(buffer, state, UNCOMPRESSED if configuration == RAW else configuration % 6, 3)
    put(buffer, state, 1 if 6 <= configuration < RAW else 0, 1)
    put(buffer, state, is_new, 1)


@kernel(ty.void(BUFFER, STATE, ty.uint64, ty.int64))
def _put_wide(buffer, state, value, count):  # type: ignore[no-untyped-def]
    """Append `count` <= 64 bits of a uint64."""
    if count > 32:
        put(buffer, state, value & np.uint64(0xFFFFFFFF), 32)
        put(buffer, state, value >> np.uint64(32), count - 32)
    else:
        put(buffer, state, value, count)


@kernel(ty.int64(ty.uint64))
def _ones(bits):  # type: ignore[no-untyped-def]
    """How many of 16 bits are set: without a loop, whose end no CPU foresees."""
    pairs = bits - ((bits >> np.uint64(1)) & np.uint64(0x5555))
    fours = (pairs & np.uint64(0x3333)) + ((pairs >> np.uint64(2)) & np.uint64(0x3333))
    eights = (fours + (fours >> np.uint64(4))) & np.uint64(0x0F0F)
    return np.int64((eights + (eights >> np.uint64(8))) & np.uint64(0x1F))


@kernel(ty.void(BUFFER, STATE, SYMBOLS, ty.int64, ty.int64, RUNS, ty.int64, ty.int64, ty.int64, ty.int64, ty.int64))
def put_chunks(buffer, state, symbols, w_first, nw, runs, z_first, nz, configuration, zdiv, raw_bits):  # type: ignore[no-untyped-def]
    """Chunks of one slice: symbols[w_first : w_first + nw] and, if zdiv >= 0, runs[z_first : z_first + nz].

    A quotient q takes q // 2 positions of code 2 and one that ends it with code q % 2; with truncation it takes one position.
    """
    is_raw, is_truncated, has_runs = configuration == RAW, 6 <= configuration < RAW, zdiv >= 0
    wbits = raw_bits if is_raw else configuration % 6
    zlen = 12 if zdiv < 3 else 8
    wmax = 8 if is_raw and wbits > 5 else 12
    w_mask, z_mask = (np.int64(1) << wbits) - 1, (np.int64(1) << max(zdiv, 0)) - 1
    # wp, zp: quotients finished (padding included); *_sent: remainders sent; *_due: remainders to send with the next chunk
    wp = zp = w_sent = z_sent = w_due = z_due = w_next = 0
    first, second = np.uint64(0), np.uint64(0)
    first_count = second_count = 0
    z_left = np.int64(-1)
    while True:
        balance = wp - zp if has_runs else 0
        has_w = balance < 8 and wp < nw
        has_z = has_runs and balance >= 0 and zp < nz
        w_stop, z_stop = min(w_due, nw), min(z_due, nz)
        tail, tail_count = np.uint64(0), 0
        if has_w:
            if is_raw:
                wp += wmax
            else:
                while first_count < 12 and w_next < nw:
                    quotient = np.int64(symbols[w_first + w_next]) >> wbits
                    w_next += 1
                    twos, odd = quotient >> 1, quotient & 1
                    ones = (np.uint64(1) << np.uint64(twos)) - np.uint64(1)
                    if is_truncated:
                        first |= np.uint64(twos | odd) << np.uint64(first_count)
                        first_count += 1
                    else:
                        first |= (ones | np.uint64(odd) << np.uint64(twos)) << np.uint64(first_count)
                        first_count += twos + 1
                    second |= ones << np.uint64(second_count)
                    second_count += twos + odd
                bits = first & np.uint64(0xFFF)
                put(buffer, state, bits, 12)
                tail_count = _ones(bits)
                tail = second & ((np.uint64(1) << np.uint64(tail_count)) - np.uint64(1))
                first >>= np.uint64(12)
                first_count = max(0, first_count - 12)
                second >>= np.uint64(tail_count)
                second_count -= tail_count
                wp += 12
                if not is_truncated:
                    wp -= _ones(tail)
            w_due = wp
        if has_z:
            bits, room = np.uint64(0), np.int64(zlen)
            while room > 0:
                if z_left < 0:
                    z_left = np.int64(runs[z_first + zp]) >> zdiv if zp < nz else np.int64(0)
                ones_count = z_left if z_left < room else room
                bits |= ((np.uint64(1) << np.uint64(ones_count)) - np.uint64(1)) << np.uint64(zlen - room)
                room -= ones_count
                z_left -= ones_count
                if room > 0:
                    room -= 1
                    zp += 1
                    z_left = np.int64(-1)
            put(buffer, state, bits, zlen)
            z_due = zp
        put(buffer, state, tail, tail_count)
        rest, rest_count = np.uint64(0), 0
        while w_sent < w_stop:
            if rest_count + wbits > 64:
                _put_wide(buffer, state, rest, rest_count)
                rest, rest_count = np.uint64(0), 0
            rest |= np.uint64(np.int64(symbols[w_first + w_sent]) & w_mask) << np.uint64(rest_count)
            rest_count += wbits
            w_sent += 1
        _put_wide(buffer, state, rest, rest_count)
        rest, rest_count = np.uint64(0), 0
        while z_sent < z_stop:
            rest |= np.uint64(np.int64(runs[z_first + z_sent]) & z_mask) << np.uint64(rest_count)
            rest_count += zdiv
            z_sent += 1
        _put_wide(buffer, state, rest, rest_count)
        if not has_w and not has_z:
            return


@kernel(ty.int64(BUFFER, STATE))
def put_end(buffer, state):  # type: ignore[no-untyped-def]
    """End marker, then ones to a multiple of 16 bytes. Returns the number of 32-bit words."""
    put(buffer, state, END_OF_STREAM, 3)
    while state[1] != 0 or state[2] % np.uint64(4) != 0:
        put(buffer, state, 1, 1)
    return np.int64(state[2])
