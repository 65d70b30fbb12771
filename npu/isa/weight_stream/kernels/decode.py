"""The entropy decoder of weight streams. Never reads outside `words`, never writes outside `output`, always ends."""

from __future__ import annotations

import numpy as np

from npu.isa.weight_stream.kernels.format import END_OF_STREAM, MAX_QUOTIENT, MAX_WDIV, MAX_ZDIV, NO_ZERO_RUNS, UNCOMPRESSED
from npu.native import types as ty
from npu.native.kernel import IrValue, intrinsic, keep, kernel
from npu.native.memory import load_i64_at, small_buffer, store_32, store_64_at

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

SYMBOLS = 512
_TABLE = 2048
"""More than any symbol, valid or not, with a quotient that one chunk can reach."""
SPARE_WORDS = 8
WORDS = ty.uint64[::1]
GROUPS = ty.uint64[::1]
GROUP_TABLES = ty.uint64[:, ::1]


@kernel(ty.uint64(WORDS, ty.uint64))
def _peek(words, position):  # type: ignore[no-untyped-def]
    """The next 64 bits; `words` has spare zero words."""
    at, shift = position >> np.uint64(6), position & np.uint64(63)
    return words[at] >> shift | words[at + np.uint64(1)] << np.uint64(1) << (np.uint64(63) - shift)


@kernel(ty.int64(WORDS, ty.int64, ty.int64))
def _take(words, position, count):  # type: ignore[no-untyped-def]
    return np.int64(_peek(words, np.uint64(position)) & ((np.uint64(1) << np.uint64(count)) - np.uint64(1)))


@intrinsic(ty.uint64(ty.uint64))
def _count_ones(builder: IrValue, bits: IrValue) -> IrValue:
    """Number of ones in a 64-bit number."""
    return builder.ctpop(bits)


LANES = 16
"""Symbols that `_put_symbols` stores; one chunk starts at most 12."""


@intrinsic(ty.void(ty.int64, ty.int64, ty.uint64, ty.uint64))
def _put_symbols(builder: IrValue, symbols: IrValue, quotients: IrValue, bits: IrValue, width: IrValue) -> None:
    """Symbols (uint16) of 12 quotients (uint8) and as many remainders of `width` <= 5 bits; those after are of no meaning."""
    from llvmlite import ir

    wide, narrow, byte = (ir.VectorType(ir.IntType(size), LANES) for size in (64, 16, 8))

    def splat(value: IrValue, kind: IrValue) -> IrValue:
        first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.IntType(32)(0))
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), lanes)

    places = builder.mul(splat(width, wide), ir.Constant(wide, [k if k < 12 else 0 for k in range(LANES)]))
    one, width_16 = ir.IntType(16)(1), builder.trunc(width, ir.IntType(16))
    mask = builder.sub(builder.shl(one, width_16), one)
    remainders = builder.and_(builder.trunc(builder.lshr(splat(bits, wide), places), narrow), splat(mask, narrow))
    source = builder.load(builder.inttoptr(quotients, byte.as_pointer()))
    source.align = 1
    whole = builder.or_(builder.shl(builder.zext(source, narrow), splat(width_16, narrow)), remainders)
    builder.store(whole, builder.inttoptr(symbols, narrow.as_pointer())).align = 1


@kernel(ty.void(ty.uint64[:, ::1]))
def make_groups(groups):  # type: ignore[no-untyped-def]
    """What four positions of unary weight code mean, per truncation and per 4 first bits + 16 * the next 4 second bits.

    Bytes 0..3: quotients that end here, byte 0 without what came before (if none ends: what is added to it); then nibbles:
    how many end (8 if none), what is left over of those that do, second bits used.
    """
    for is_truncated in range(2):
        for bits in range(256):
            entry, count, carry, used = np.uint64(0), 0, 0, 0
            for k in range(4):
                if bits >> k & 1:
                    two = bits >> (4 + used) & 1
                    used += 1
                    carry += 1 + two
                    if two and not is_truncated:
                        continue
                entry |= np.uint64(carry) << np.uint64(8 * count)
                count, carry = count + 1, 0
            flags = count | carry << 4 | used << 8
            if count == 0:
                entry, flags = np.uint64(carry), 8 | used << 8
            groups[is_truncated, bits] = entry | np.uint64(flags) << np.uint64(32)


ROW_BYTES = 32
"""Of the quotients of a chunk."""
PAIR = ty.several(ty.int64, 2)


@kernel(
    PAIR(
        *(WORDS, ty.int64, ty.int64),
        *(ty.int64, ty.int64, ty.int64, ty.int64, ty.boolean, ty.int64),
        *(GROUPS, ty.uint16[::1], ty.int64[::1]),
    )
)
def _decode_slice(words, total, start, nw, nz, wbits, zdiv, is_raw, zlen, groups, symbols, runs):  # type: ignore[no-untyped-def]
    """Chunks of one slice into `symbols` and `runs`. Returns status and position.

    `nw` symbols and `nz` runs, with `wbits` and `zdiv` (-1: no runs) remainder bits, and `zlen` zero-run bits in a chunk. Up to
    192 bits are read beyond `total` before that is noticed, so `words` needs spare ones, and up to 15 symbols too many are
    written. The loops over unary bits are branchless, because those bits are as good as random.
    """
    position, limit = np.uint64(start), np.uint64(total)
    has_runs = zdiv >= 0
    w_quotients, z_quotients, symbols_at = small_buffer(), small_buffer(), np.int64(symbols.ctypes.data)
    for k in range(2 * ROW_BYTES // 8):  # raw symbols have quotients as well: 0
        store_64_at(w_quotients, k, 0)
    w_before = z_before = w_carry = z_carry = wp = zp = wd = zd = now = np.int64(0)
    w_bits, z_bits = np.uint64(wbits), np.uint64(max(zdiv, np.int64(0)))
    one, four = np.uint64(1), np.uint64(4)
    w_mask, z_mask = (one << w_bits) - one, (one << z_bits) - one
    largest = np.int64(0)
    while True:
        balance = wp - zp if has_runs else np.int64(0)
        has_w = balance < 8 and wp < nw
        has_z = has_runs and balance >= 0 and zp < nz
        w_now, z_now = w_quotients + now * ROW_BYTES, z_quotients + now * ROW_BYTES * 8
        w_count = z_count = np.int64(0)
        unary = second = np.uint64(0)
        if has_w and not is_raw:
            bits = _peek(words, position)
            unary, second = bits & np.uint64(0xFFF), bits >> np.uint64(12)
            position += np.uint64(12)
        if has_z:
            bits = _peek(words, position)
            position += np.uint64(zlen)
            for _ in range(zlen):
                bit = np.int64(bits & one)
                bits >>= one
                store_64_at(z_now, z_count, z_carry)
                z_count += 1 - bit
                z_carry = (z_carry + 1) * bit
            zp += z_count
        if has_w:
            w_count = np.int64(8 if wbits > 5 else 12)
            if not is_raw:
                w_count = np.int64(0)
                if has_z:
                    second = _peek(words, position)
                position += _count_ones(unary)
                for _ in range(3):
                    group = groups[unary & np.uint64(15) | (second & np.uint64(15)) << four] + np.uint64(w_carry)
                    unary >>= four
                    second >>= group >> np.uint64(40)
                    value = np.int64(group & np.uint64(255))
                    largest = max(largest, value)
                    store_32(w_now + w_count, np.int64(group))
                    w_count += np.int64(group >> np.uint64(32) & np.uint64(7))
                    is_whole = np.int64(group >> np.uint64(35) & one)
                    w_carry = np.int64(group >> np.uint64(36) & np.uint64(15)) + value * is_whole
            wp += w_count
        w_read, z_read = min(w_before, nw - wd), min(z_before, nz - zd)
        if w_read > 0:
            if wbits <= 5:
                before = w_quotients + (1 - now) * ROW_BYTES
                _put_symbols(symbols_at + 2 * wd, before, _peek(words, position), w_bits)
            else:
                for k in range(w_read):
                    symbols[wd + k] = np.int64(_peek(words, position + np.uint64(k) * w_bits) & w_mask)
            position += np.uint64(w_read) * w_bits
            wd += w_read
        if z_read > 0:
            bits = _peek(words, position)
            before = z_quotients + (1 - now) * ROW_BYTES * 8
            for k in range(z_read):
                runs[zd + k] = load_i64_at(before, k) << zdiv | np.int64(bits & z_mask)
                bits >>= z_bits
            position += np.uint64(z_read) * z_bits
            zd += z_read
        if position > limit:
            return TRUNCATED, np.int64(position)
        if largest > MAX_QUOTIENT:
            return QUOTIENT_RANGE, np.int64(position)
        w_before, z_before = w_count, z_count
        now = 1 - now
        if not has_w and not has_z:
            keep(symbols)
            return OK, np.int64(position)


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


@kernel(ty.several(ty.int64, 4)(WORDS, ty.int64, ty.int64, ty.int16[::1]))
def _read_palette(words, total, position, table):  # type: ignore[no-untyped-def]
    """The weight of every symbol into `table`. Returns status, position, size of the palette and bits of its values."""
    if position + 13 > total:
        return TRUNCATED, position, np.int64(0), np.int64(0)
    offset = _take(words, position, 5)
    size = _take(words, position + 5, 5)
    bits = _take(words, position + 10, 3) + 2
    position += 13
    size += np.int64(1) if size > 0 else np.int64(0)
    if position + size * bits > total:
        return TRUNCATED, position, size, bits
    palette = np.zeros(32, np.int64)
    for k in range(size):
        palette[k] = _take(words, position, bits)
        position += bits
    _make_weights(palette, size, offset, table)
    return OK, position, size, bits


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
    palette_size = value_bits = position = count = np.int64(0)
    has_palette = is_ended = has_runs = False
    limit = output.shape[0]
    while position + 3 <= total:
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
        nw, wdiv = _take(words, position, 15) + 1, _take(words, position + 15, 3)
        is_truncated, is_new = _take(words, position + 18, 1), _take(words, position + 19, 1) == 1
        position += 20
        if wdiv > MAX_WDIV and wdiv != UNCOMPRESSED:
            return BAD_WDIV, position, count
        if not is_new and not has_palette:
            return NO_PALETTE, position, count
        if not is_new and has_runs != (zdiv != NO_ZERO_RUNS):
            return ZERO_RUN_STATE, position, count
        if is_new:
            status, position, palette_size, value_bits = _read_palette(words, total, position, table)
            if status != OK:
                return status, position, count
        is_ended, has_palette, has_runs = False, True, zdiv != NO_ZERO_RUNS
        if count + nw > limit:
            return TOO_MANY, position, count
        nz = nw + (1 if is_new else 0) if has_runs else np.int64(0)
        wbits = _remainder_bits(wdiv, palette_size, value_bits)
        zbits, zlen = zdiv if has_runs else np.int64(-1), np.int64(12 if zdiv < 3 else 8)
        is_raw, group = wdiv == UNCOMPRESSED, groups[is_truncated]
        status, position = _decode_slice(words, total, position, nw, nz, wbits, zbits, is_raw, zlen, group, symbols, runs)
        if status == OK:
            status, count = _expand(symbols, nw, runs, has_runs, is_new, table, output, count)
        if status != OK:
            return status, position, count
    if not is_ended:
        return TRUNCATED, position, count
    return OK if count == limit else TOO_FEW, position, count
