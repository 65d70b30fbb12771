"""Bits of a weight stream: slice headers, palettes and chunks. The mirror of the decoder's reading order."""

from __future__ import annotations

import numpy as np

from npu.isa.weight_stream.kernels.format import END_OF_STREAM, MAX_QUOTIENT, NO_ZERO_RUNS, UNCOMPRESSED
from npu.machine.kernels.arithmetic import inlined
from npu.native import types as ty
from npu.native.kernel import kernel

CONFIGURATIONS = 13
"""Weight configurations: 0..5 divisor, 6..11 divisor with truncated quotients, 12 uncompressed."""
RAW = 12
BUFFER = ty.uint32[::1]
STATE = ty.uint64[::1]
SYMBOLS = ty.int16[::1]
RUNS = ty.int32[::1]
PARTS = ty.uint32[:, ::1]
LOW = np.uint64(0xFFFFFFFF)
SPARE = 4
"""Words that may be read behind the last bit."""


@inlined
def part_words(symbols):  # type: ignore[no-untyped-def]
    """Words of the longest row of bits of so many symbols: quotients of MAX_QUOTIENT."""
    return symbols * ((MAX_QUOTIENT + 1) // 2) // 32 + SPARE + 1


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


@inlined
def _append(buffer, bits, held, at, value, count):  # type: ignore[no-untyped-def]
    """`put` of what a caller keeps in registers. A word is stored whether it is full or not: nothing to foresee for a CPU."""
    bits |= value << held
    held += count
    buffer[at] = np.uint32(bits & LOW)
    full = held >> np.uint64(5)
    return bits >> (full << np.uint64(5)), held & np.uint64(31), at + full


@inlined
def _bits_at(words, position):  # type: ignore[no-untyped-def]
    """64 bits from bit `position` on."""
    word, shift = position >> np.uint64(5), position & np.uint64(31)
    low = np.uint64(words[word]) | np.uint64(words[word + np.uint64(1)]) << np.uint64(32)
    high = np.uint64(words[word + np.uint64(2)]) << np.uint64(1)
    return low >> shift | high << (np.uint64(63) - shift)


@inlined
def _low_bits(value, count):  # type: ignore[no-untyped-def]
    """The low `count` < 64 bits."""
    return value & ((np.uint64(1) << count) - np.uint64(1))


@kernel(ty.int64(ty.uint64))
def _ones(bits):  # type: ignore[no-untyped-def]
    """How many of 16 bits are set: without a loop, whose end no CPU foresees."""
    pairs = bits - ((bits >> np.uint64(1)) & np.uint64(0x5555))
    fours = (pairs & np.uint64(0x3333)) + ((pairs >> np.uint64(2)) & np.uint64(0x3333))
    eights = (fours + (fours >> np.uint64(4))) & np.uint64(0x0F0F)
    return np.int64((eights + (eights >> np.uint64(8))) & np.uint64(0x1F))


@inlined
def _quotient(quotient, is_truncated):  # type: ignore[no-untyped-def]
    """Positions of a quotient and how many, codes of those that have one and how many.

    q takes q // 2 positions of code 2 and one that ends it with code q % 2; with truncation it takes one position.
    """
    twos, odd = quotient >> np.uint64(1), quotient & np.uint64(1)
    ones = (np.uint64(1) << twos) - np.uint64(1)
    taken = np.uint64(1) if is_truncated else twos + np.uint64(1)
    return ones | odd << (taken - np.uint64(1)), taken, ones, twos + odd


@kernel(ty.void(SYMBOLS, ty.int64, ty.int64, ty.int64, ty.int64, PARTS))
def _split(symbols, first, count, configuration, wbits, parts):  # type: ignore[no-untyped-def]
    """symbols[first : first + count] as rows of bits: positions of quotients, codes of those that have one, remainders."""
    positions, codes, remainders = parts[0], parts[1], parts[2]
    is_raw, is_truncated = configuration == RAW, 6 <= configuration < RAW
    mask, divisor = np.uint64((1 << wbits) - 1), np.uint64(wbits)
    p = c = r = p_held = c_held = r_held = p_at = c_at = r_at = np.uint64(0)
    for k in range(first, first + count, 2):  # two at a time; one behind the last would be a 0, of which all bits are 0
        one = np.uint64(symbols[np.uint64(k)])
        other = np.uint64(symbols[np.uint64(k + 1)]) if k + 1 < first + count else np.uint64(0)
        if not is_raw:
            bits, taken, ones, coded = _quotient(one >> divisor, is_truncated)
            more_bits, more_taken, more_ones, more_coded = _quotient(other >> divisor, is_truncated)
            p, p_held, p_at = _append(positions, p, p_held, p_at, bits | more_bits << taken, taken + more_taken)
            c, c_held, c_at = _append(codes, c, c_held, c_at, ones | more_ones << coded, coded + more_coded)
        rest = one & mask | (other & mask) << divisor
        r, r_held, r_at = _append(remainders, r, r_held, r_at, rest, divisor + divisor)
    for spare in range(SPARE):
        position, code, remainder = (p, c, r) if spare == 0 else (np.uint64(0), np.uint64(0), np.uint64(0))
        positions[p_at + np.uint64(spare)] = np.uint32(position)
        codes[c_at + np.uint64(spare)] = np.uint32(code)
        remainders[r_at + np.uint64(spare)] = np.uint32(remainder)


@kernel(ty.void(BUFFER, STATE, SYMBOLS, ty.int64, ty.int64, RUNS, ty.int64, ty.int64, ty.int64, ty.int64, ty.int64, PARTS))
def put_chunks(buffer, state, symbols, w_first, nw, runs, z_first, nz, configuration, zdiv, raw_bits, parts):  # type: ignore[no-untyped-def]
    """Chunks of one slice: symbols[w_first : w_first + nw] and, if zdiv >= 0, runs[z_first : z_first + nz].

    `parts` has room for the bits of all symbols, see `_split`.
    """
    is_raw, is_truncated, has_runs = configuration == RAW, 6 <= configuration < RAW, zdiv >= 0
    wbits = raw_bits if is_raw else configuration % 6
    zlen = 12 if zdiv < 3 else 8
    wmax = 8 if is_raw and wbits > 5 else 12
    z_mask = (np.int64(1) << max(zdiv, 0)) - 1
    _split(symbols, w_first, nw, configuration, wbits, parts)
    positions, codes, remainders = parts[0], parts[1], parts[2]
    position_at, code_at, remainder_at = np.uint64(0), np.uint64(0), np.uint64(0)
    # wp, zp: quotients finished (padding included); *_sent: remainders sent; *_due: remainders to send with the next chunk
    wp = zp = w_sent = z_sent = w_due = z_due = 0
    z_left = np.int64(-1)
    out, held, at = state[0], state[1], state[2]
    while True:
        balance = wp - zp if has_runs else 0
        has_w = balance < 8 and wp < nw
        has_z = has_runs and balance >= 0 and zp < nz
        w_stop, z_stop = min(w_due, nw), min(z_due, nz)
        tail, tail_count = np.uint64(0), np.uint64(0)
        if has_w and is_raw:
            wp += wmax
        elif has_w:
            bits = _bits_at(positions, position_at) & np.uint64(0xFFF)
            position_at += np.uint64(12)
            out, held, at = _append(buffer, out, held, at, bits, np.uint64(12))
            tail_count = np.uint64(_ones(bits))
            tail = _low_bits(_bits_at(codes, code_at), tail_count)
            code_at += tail_count
            wp += 12
            if not is_truncated:
                wp -= _ones(tail)
        if has_w:
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
            out, held, at = _append(buffer, out, held, at, bits, np.uint64(zlen))
            z_due = zp
        out, held, at = _append(buffer, out, held, at, tail, tail_count)
        if w_sent < w_stop:
            count = np.uint64((w_stop - w_sent) * wbits)
            rest, low = _bits_at(remainders, remainder_at), min(count, np.uint64(32))
            high = min(count - low, np.uint64(32))
            out, held, at = _append(buffer, out, held, at, _low_bits(rest, low), low)
            out, held, at = _append(buffer, out, held, at, _low_bits(rest >> np.uint64(32), high), high)
            if count > np.uint64(64):  # 8 of 9 bits
                last = count - np.uint64(64)
                rest = _bits_at(remainders, remainder_at + np.uint64(64))
                out, held, at = _append(buffer, out, held, at, _low_bits(rest, last), last)
            remainder_at += count
            w_sent = w_stop
        while z_sent < z_stop:
            value = np.uint64(np.int64(runs[z_first + z_sent]) & z_mask)
            out, held, at = _append(buffer, out, held, at, value, np.uint64(zdiv))
            z_sent += 1
        if not has_w and not has_z:
            break
    state[0], state[1], state[2] = out, held, at


@kernel(ty.int64(BUFFER, STATE))
def put_end(buffer, state):  # type: ignore[no-untyped-def]
    """End marker, then ones to a multiple of 16 bytes. Returns the number of 32-bit words."""
    put(buffer, state, END_OF_STREAM, 3)
    while state[1] != 0 or state[2] % np.uint64(4) != 0:
        put(buffer, state, 1, 1)
    return np.int64(state[2])
