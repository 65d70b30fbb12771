"""Bits of a weight stream: slice headers, palettes and chunks. The mirror of the decoder's reading order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from npu.isa.weight_stream.kernels.bits import count_ones
from npu.isa.weight_stream.kernels.format import END_OF_STREAM, MAX_QUOTIENT, NO_ZERO_RUNS, UNCOMPRESSED
from npu.machine.kernels.arithmetic import inlined
from npu.native import types as ty
from npu.native.kernel import keep, kernel
from npu.native.memory import load_i64, store_64

TRUNCATED, RAW = 6, 12
"""Weight configurations: 0..5 divisor, 6..11 divisor with truncated quotients, 12 uncompressed."""
BUFFER = ty.uint32[::1]
STATE = ty.uint64[::1]
SYMBOLS = ty.int16[::1]
RUNS = ty.int32[::1]
ROWS = ty.uint64[:, ::1]
PAIRS = ty.uint64[:, ::1]
PAIR_ENTRIES = 2 * (MAX_QUOTIENT + 1) ** 2
"""Of one table: positions and codes of two quotients, and how many there are."""
POSITIONS, QUOTIENT_CODES, REMAINDERS, RUN_QUOTIENTS, RUN_REMAINDERS = range(5)
"""Rows of bits of a slice, of which chunks take their part."""
TOGETHER = 8
"""Symbols or runs that become bits at once: whole bytes of remainders."""
SPARE = 4
"""Words of a row that may be read or written behind its last bit."""
AT_ONCE = 56
"""Bits that are appended at once at most."""
LOW, BYTE, LAST = np.uint64(0xFFFFFFFF), np.uint64(0xFF), np.uint64(63)
ONES = np.uint64(0x0001000100010001)
"""A one in each of four symbols."""
EVEN = np.uint64(0x0000FFFF0000FFFF)


@inlined
def row_words(slice_symbols, section_codes):  # type: ignore[no-untyped-def]
    """Words of the longest row: quotients of MAX_QUOTIENT, or runs of zeros with an end each."""
    return max(slice_symbols * ((MAX_QUOTIENT + 1) // 2), section_codes + 1) // 64 + 2 * SPARE


@inlined
def _append(address, bits, held, value, count):  # type: ignore[no-untyped-def]
    """Append `count` <= AT_ONCE bits at an address, where `held` < 8 `bits` wait for the rest of their byte.

    All of it is kept in registers. A word is stored whether it is full or not: nothing to foresee for a CPU.
    """
    bits |= value << held
    store_64(address, np.int64(bits))
    held += count
    return address + np.int64(held >> np.uint64(3)), bits >> (held & ~np.uint64(7)), held & np.uint64(7)


@inlined
def _peek(row, position):  # type: ignore[no-untyped-def]
    """At least 57 bits from bit `position` on of a row at an address."""
    return np.uint64(load_i64(row + np.int64(position >> np.uint64(3)))) >> (position & np.uint64(7))


@inlined
def _low_bits(value, count):  # type: ignore[no-untyped-def]
    """The low `count` < 64 bits."""
    return value & ((np.uint64(1) << count) - np.uint64(1))


@kernel(ty.void(BUFFER, STATE, ty.uint64, ty.uint64))
def put(buffer, state, value, count):  # type: ignore[no-untyped-def]
    """Append `value` of `count` bits. `state` (uint64) is bits of a byte that is not full, how many, and bytes before it."""
    start = np.int64(buffer.ctypes.data)
    address, bits, held = _append(start + np.int64(state[2]), state[0], state[1], value, count)
    state[0], state[1], state[2] = bits, held, np.uint64(address - start)
    keep(buffer)


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
    put(buffer, state, UNCOMPRESSED if configuration == RAW else configuration % TRUNCATED, 3)
    put(buffer, state, 1 if TRUNCATED <= configuration < RAW else 0, 1)
    put(buffer, state, is_new, 1)


def make_pairs() -> NDArray[np.uint64]:
    """What two quotients are, per truncation (up to 2 then) and first + 32 * second: two words for each.

    The first is positions in its low half and codes in its high one, the second how many: in the lowest byte and in the next.
    q takes q // 2 positions of code 2 and one that ends it with code q % 2; with truncation it takes one position.
    """
    one = np.uint64(1)
    quotient = np.arange(MAX_QUOTIENT + 1, dtype=np.uint64)
    twos, odd = quotient >> one, quotient & one
    codes, coded = (one << twos) - one, twos + odd
    pairs = np.empty((2, PAIR_ENTRIES // 2, 2), np.uint64)
    for is_truncated in range(2):
        taken = np.ones_like(quotient) if is_truncated else twos + one
        bits = codes | odd << (taken - one)
        positions = _both(bits, taken) & LOW
        counts = taken + taken[:, None] | coded + coded[:, None] << np.uint64(8)
        pairs[is_truncated, :, 0] = (positions | _both(codes, coded) << np.uint64(32)).ravel()
        pairs[is_truncated, :, 1] = counts.ravel()
    return pairs.reshape(2, PAIR_ENTRIES)


def _both(bits: NDArray[np.uint64], counts: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Bits of all seconds behind those of all firsts."""
    return bits | bits[:, None] << counts


@inlined
def _pair(pairs, quotients):  # type: ignore[no-untyped-def]
    """The two words for the first two of some quotients, of 16 bits each."""
    at = (quotients | quotients >> np.uint64(11)) & np.uint64(PAIR_ENTRIES // 2 - 1)
    return pairs[at + at], pairs[at + at + np.uint64(1)]


@kernel(ty.void(SYMBOLS, ty.int64, ty.int64, ty.uint64, ty.uint64[::1], ROWS))
def _make_quotients(symbols, first, count, divisor, pairs, rows):  # type: ignore[no-untyped-def]
    """The quotients of symbols[first : first + count] as positions and codes; zeros follow. TOGETHER more symbols are read."""
    p_at, c_at = np.int64(rows[POSITIONS].ctypes.data), np.int64(rows[QUOTIENT_CODES].ctypes.data)
    p = c = p_held = c_held = np.uint64(0)
    source, last = np.int64(symbols.ctypes.data) + 2 * first, first + count
    mask, half, eight = ONES * np.uint64(MAX_QUOTIENT), np.uint64(32), np.uint64(8)
    for k in range(first, last, TOGETHER):
        low = np.uint64(load_i64(source)) >> divisor & mask
        high = np.uint64(load_i64(source + 8)) >> divisor & mask
        source += 2 * TOGETHER
        one, first_end = _pair(pairs, low)
        two, counts = _pair(pairs, low >> half)
        second_end = first_end + counts
        three, counts = _pair(pairs, high)
        third_end = second_end + counts
        four, counts = _pair(pairs, high >> half)
        end = third_end + counts
        if k + TOGETHER <= last and end & BYTE <= np.uint64(AT_ONCE):
            bits = (one & LOW) | (two & LOW) << (first_end & LAST)
            bits |= (three & LOW) << (second_end & LAST) | (four & LOW) << (third_end & LAST)
            p_at, p, p_held = _append(p_at, p, p_held, bits, end & BYTE)
            bits = one >> half | two >> half << (first_end >> eight)
            bits |= three >> half << (second_end >> eight) | four >> half << (third_end >> eight)
            c_at, c, c_held = _append(c_at, c, c_held, bits, end >> eight)
            continue
        for j in range(k, min(k + TOGETHER, last)):  # the other one of the pair is 0, a position without a code
            entry, counts = _pair(pairs, np.uint64(symbols[np.uint64(j)]) >> divisor)
            p_at, p, p_held = _append(p_at, p, p_held, entry & LOW, (counts & BYTE) - np.uint64(1))
            c_at, c, c_held = _append(c_at, c, c_held, entry >> half, counts >> eight)
    store_64(p_at, np.int64(p))
    store_64(p_at + 8, np.int64(0))
    keep(symbols, rows)


@inlined
def _joined(four, width):  # type: ignore[no-untyped-def]
    """Four numbers of `width` < 16 bits one behind the other, from four of 16 bits."""
    two = (four & EVEN) | (four & ~EVEN) >> (np.uint64(16) - width)
    return (two & LOW) | two >> np.uint64(32) << (width + width)


@kernel(ty.void(SYMBOLS, ty.int64, ty.int64, ty.uint64, ROWS))
def _make_remainders(symbols, first, count, width, rows):  # type: ignore[no-untyped-def]
    """The low `width` <= 9 bits of symbols[first : first + count]."""
    target, source = np.int64(rows[REMAINDERS].ctypes.data), np.int64(symbols.ctypes.data) + 2 * first
    bits, whole = np.uint64(0), count - count % TOGETHER
    mask, shift = (np.uint64(1) << width) - np.uint64(1), np.uint64(4) * width
    for k in range(0, whole, TOGETHER):
        low = _joined(np.uint64(load_i64(source + 2 * k)) & (ONES * mask), width)
        high = _joined(np.uint64(load_i64(source + 2 * k + 8)) & (ONES * mask), width)
        store_64(target, np.int64(low | high << shift))
        if width > np.uint64(8):
            store_64(target + 8, np.int64(high >> (np.uint64(64) - shift)))
        target += np.int64(width)
    for k in range(whole, count):
        bits |= (np.uint64(symbols[np.uint64(first + k)]) & mask) << (np.uint64(k - whole) * width)
    store_64(target, np.int64(bits))
    keep(symbols, rows)


@inlined
def _run_bits(runs, first, count, zdiv):  # type: ignore[no-untyped-def]
    """Ones and the ends of `count` <= TOGETHER runs, all bits of which are fewer than 64, their number, and the remainders."""
    ends, total, rest = np.uint64(0), np.int64(0), np.int64(0)
    for j in range(count):
        run = np.int64(runs[np.uint64(first + j)])
        quotient = run >> zdiv
        rest |= (run - (quotient << zdiv)) << (zdiv * j)
        total += quotient
        ends |= np.uint64(1) << (np.uint64(total) & np.uint64(63))
        total += 1
    return ((np.uint64(1) << (np.uint64(total) & np.uint64(63))) - np.uint64(1)) ^ ends, total, rest


@kernel(ty.void(RUNS, ty.int64, ty.int64, ty.int64, ROWS))
def _make_runs(runs, first, count, zdiv, rows):  # type: ignore[no-untyped-def]
    """runs[first : first + count] as quotients, ones with a zero behind them, and remainders of `zdiv` bits; zeros follow."""
    at, target = np.int64(rows[RUN_QUOTIENTS].ctypes.data), np.int64(rows[RUN_REMAINDERS].ctypes.data)
    one, last, bits, held = np.uint64(1), first + count, np.uint64(0), np.uint64(0)
    for k in range(first, last, TOGETHER):
        if k + TOGETHER <= last:
            unary, total, rest = _run_bits(runs, k, TOGETHER, zdiv)  # of a number that the compiler knows
        else:
            unary, total, rest = _run_bits(runs, k, last - k, zdiv)
        store_64(target, rest)
        target += zdiv
        if total <= AT_ONCE:
            at, bits, held = _append(at, bits, held, unary, np.uint64(total))
            continue
        for j in range(k, min(k + TOGETHER, last)):
            left = np.int64(runs[np.uint64(j)]) >> zdiv
            while left >= AT_ONCE:
                at, bits, held = _append(at, bits, held, (one << np.uint64(AT_ONCE)) - one, np.uint64(AT_ONCE))
                left -= AT_ONCE
            at, bits, held = _append(at, bits, held, (one << np.uint64(left)) - one, np.uint64(left + 1))
    store_64(at, np.int64(bits))
    store_64(at + 8, np.int64(0))
    keep(rows)


@inlined
def _append_remainders(out, bits, held, head, count, row, at, rest):  # type: ignore[no-untyped-def]
    """Append the `count` <= 36 bits of `head`, then `rest` <= 72 bits from bit `at` of the row of remainders."""
    low = min(rest, np.uint64(20))
    out, bits, held = _append(out, bits, held, head | _low_bits(_peek(row, at), low) << count, count + low)
    return _append(out, bits, held, _low_bits(_peek(row, at + low), rest - low), rest - low)


CHUNKS = (BUFFER, STATE, ROWS, ty.int64, ty.uint64, ty.int64, ty.uint64, ty.uint64)


@kernel(ty.void(*CHUNKS))
def _put_without_runs(buffer, state, rows, nw, width, started, unary, counted):  # type: ignore[no-untyped-def]
    """Chunks of `nw` symbols with remainders of `width` bits: `unary` positions each, which start `started` symbols.

    Those less for which a code of 2 has a one in `counted`.
    """
    start = np.int64(buffer.ctypes.data)
    out, bits, held = start + np.int64(state[2]), state[0], state[1]
    positions, codes = np.int64(rows[POSITIONS].ctypes.data), np.int64(rows[QUOTIENT_CODES].ctypes.data)
    remainders = np.int64(rows[REMAINDERS].ctypes.data)
    position_at = code_at = remainder_at = np.uint64(0)
    wp, sent = np.int64(0), np.int64(0)
    while sent < nw:
        w_stop, head, count = min(wp, nw), np.uint64(0), np.uint64(0)
        if wp < nw:
            head = _low_bits(_peek(positions, position_at), unary)
            position_at += unary
            ones = count_ones(head)
            tail = _low_bits(_peek(codes, code_at), ones)
            code_at += ones
            wp += started - np.int64(count_ones(tail & counted))
            head, count = head | tail << unary, unary + ones
        rest = np.uint64(w_stop - sent) * width
        out, bits, held = _append_remainders(out, bits, held, head, count, remainders, remainder_at, rest)
        remainder_at += rest
        sent = w_stop
    state[0], state[1], state[2] = bits, held, np.uint64(out - start)
    keep(buffer, rows)


@kernel(ty.void(*CHUNKS, ty.int64, ty.uint64))
def _put_with_runs(buffer, state, rows, nw, width, started, unary, counted, nz, z_width):  # type: ignore[no-untyped-def]
    """`_put_without_runs` of symbols between `nz` runs with remainders of `z_width` bits. No CPU foresees who has its turn."""
    start = np.int64(buffer.ctypes.data)
    out, bits, held = start + np.int64(state[2]), state[0], state[1]
    positions, codes = np.int64(rows[POSITIONS].ctypes.data), np.int64(rows[QUOTIENT_CODES].ctypes.data)
    remainders, z_remainders = np.int64(rows[REMAINDERS].ctypes.data), np.int64(rows[RUN_REMAINDERS].ctypes.data)
    quotients, z_unary = np.int64(rows[RUN_QUOTIENTS].ctypes.data), np.uint64(12 if z_width < 3 else 8)
    position_at = code_at = remainder_at = quotient_at = z_remainder_at = np.uint64(0)
    wp, zp, w_sent, z_sent, turns = np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(1)
    while turns:
        has_w = np.int64(wp - zp < 8) & np.int64(wp < nw)
        has_z = np.int64(wp >= zp) & np.int64(zp < nz)
        turns = has_w | has_z
        w_stop, z_stop = min(wp, nw), min(zp, nz)
        count, z_count = unary * np.uint64(has_w), z_unary * np.uint64(has_z)
        head, zeros = _low_bits(_peek(positions, position_at), count), _low_bits(_peek(quotients, quotient_at), z_count)
        position_at += count
        quotient_at += z_count
        ones = count_ones(head)
        tail = _low_bits(_peek(codes, code_at), ones)
        code_at += ones
        wp += started * has_w - np.int64(count_ones(tail & counted))
        zp += np.int64(z_count) - np.int64(count_ones(zeros))
        head |= zeros << count | tail << (count + z_count)
        rest, z_rest = np.uint64(w_stop - w_sent) * width, np.uint64(z_stop - z_sent) * z_width
        count += z_count + ones
        out, bits, held = _append_remainders(out, bits, held, head, count, remainders, remainder_at, rest)
        out, bits, held = _append(out, bits, held, _low_bits(_peek(z_remainders, z_remainder_at), z_rest), z_rest)
        remainder_at += rest
        z_remainder_at += z_rest
        w_sent, z_sent = w_stop, z_stop
    state[0], state[1], state[2] = bits, held, np.uint64(out - start)
    keep(buffer, rows)


@kernel(
    ty.void(
        *(BUFFER, STATE, SYMBOLS, ty.int64, ty.int64, RUNS, ty.int64, ty.int64),
        *(ty.int64, ty.int64, ty.int64, PAIRS, ROWS),
    )
)
def put_chunks(  # type: ignore[no-untyped-def]
    buffer, state, symbols, w_first, nw, runs, z_first, nz, configuration, zdiv, raw_bits, pairs, rows
):
    """Chunks of one slice: symbols[w_first : w_first + nw] and, if zdiv >= 0, runs[z_first : z_first + nz].

    `rows` has room for the bits of all, see `row_words`; `symbols` for TOGETHER more.
    """
    is_raw, is_truncated = configuration == RAW, TRUNCATED <= configuration < RAW
    width = np.uint64(raw_bits if is_raw else configuration % TRUNCATED)
    started, unary = np.int64(8 if is_raw and width > np.uint64(5) else 12), np.uint64(0 if is_raw else 12)
    counted = np.uint64(0) if is_truncated else ~np.uint64(0)
    if not is_raw:
        _make_quotients(symbols, w_first, nw, width, pairs[1 if is_truncated else 0], rows)
    _make_remainders(symbols, w_first, nw, width, rows)
    if zdiv < 0:
        _put_without_runs(buffer, state, rows, nw, width, started, unary, counted)
        return
    _make_runs(runs, z_first, nz, zdiv, rows)
    _put_with_runs(buffer, state, rows, nw, width, started, unary, counted, nz, np.uint64(zdiv))


@kernel(ty.int64(BUFFER, STATE))
def put_end(buffer, state):  # type: ignore[no-untyped-def]
    """End marker, then ones to a multiple of 16 bytes. Returns the number of 32-bit words."""
    put(buffer, state, END_OF_STREAM, 3)
    while state[1] != 0 or state[2] % np.uint64(16) != 0:
        put(buffer, state, 1, 1)
    return np.int64(state[2] >> np.uint64(2))
