"""The chunks of a slice of a weight stream: unary codes, and the remainders that follow one chunk later."""

from __future__ import annotations

import numpy as np

from npu.isa.weight_stream.kernels.bits import count_ones
from npu.isa.weight_stream.kernels.format import MAX_QUOTIENT, OK, QUOTIENT_RANGE, TRUNCATED
from npu.native import types as ty
from npu.native.kernel import IrValue, intrinsic, keep, kernel
from npu.native.memory import load_i64, load_i64_at, small_buffer, store_64, store_64_at

WORDS = ty.uint64[::1]
GROUPS = ty.uint64[::1]


@kernel(ty.uint64(ty.int64, ty.uint64))
def _peek(stream, position):  # type: ignore[no-untyped-def]
    """At least the next 57 bits of the stream at an address, which has spare words behind it."""
    return np.uint64(load_i64(stream + np.int64(position >> np.uint64(3)))) >> (position & np.uint64(7))


@kernel(ty.int64(WORDS, ty.int64, ty.int64))
def take(words, position, count):  # type: ignore[no-untyped-def]
    """The number in the `count` bits from `position` on."""
    bits = _peek(np.int64(words.ctypes.data), np.uint64(position))
    keep(words)
    return np.int64(bits & ((np.uint64(1) << np.uint64(count)) - np.uint64(1)))


SHORT = 5
"""Bits of the longest remainders of which a chunk has 12."""
LANES = 16
"""Symbols that `_put_symbols` stores; one chunk starts at most 12."""


@intrinsic(ty.void(ty.int64, ty.int64, ty.uint64, ty.uint64, ty.uint64))
def _put_symbols(
    builder: IrValue, symbols: IrValue, quotients: IrValue, bits: IrValue, others: IrValue, width: IrValue
) -> None:
    """Symbols (uint16) of 12 quotients (uint8) and remainders of `width` <= SHORT bits: 8 in `bits`, the rest in `others`."""
    from llvmlite import ir

    wide, narrow, byte = (ir.VectorType(ir.IntType(size), LANES) for size in (64, 16, 8))

    def splat(value: IrValue, kind: IrValue) -> IrValue:
        first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.IntType(32)(0))
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), lanes)

    places = builder.mul(splat(width, wide), ir.Constant(wide, [k % 8 if k < 12 else 0 for k in range(LANES)]))
    one, width_16 = ir.IntType(16)(1), builder.trunc(width, ir.IntType(16))
    mask = builder.sub(builder.shl(one, width_16), one)
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [8 * (k // 8) for k in range(LANES)])
    both = builder.insert_element(splat(bits, wide), others, ir.IntType(32)(8))
    both = builder.shuffle_vector(both, ir.Constant(wide, ir.Undefined), lanes)
    remainders = builder.and_(builder.trunc(builder.lshr(both, places), narrow), splat(mask, narrow))
    source = builder.load(builder.inttoptr(quotients, byte.as_pointer()))
    source.align = 1
    whole = builder.or_(builder.shl(builder.zext(source, narrow), splat(width_16, narrow)), remainders)
    builder.store(whole, builder.inttoptr(symbols, narrow.as_pointer())).align = 1


POSITIONS = 6
"""Of unary weight code that are looked up together; a chunk has 12."""
_GROUP_MASK, _GROUP_BITS = np.uint64((1 << POSITIONS) - 1), np.uint64(POSITIONS)
_ENDS = np.uint64(56)
"""The byte of a group that says how many end, as the bits before what is left over."""
_BYTE = np.uint64(255)


@kernel(ty.void(ty.uint64[:, ::1]))
def make_groups(groups):  # type: ignore[no-untyped-def]
    """What six positions of unary weight code mean, per truncation and per 6 first bits + 64 * the next 6 second bits.

    From byte 0 on: quotients that end here, the first without what came before, and what is left over; in byte 7 the bits of
    those that end.
    """
    for is_truncated in range(2):
        for bits in range(1 << 2 * POSITIONS):
            entry, count, carry, used = np.uint64(0), 0, 0, 0
            for k in range(POSITIONS):
                if bits >> k & 1:
                    two = bits >> (POSITIONS + used) & 1
                    used += 1
                    carry += 1 + two
                    if two and not is_truncated:
                        continue
                entry |= np.uint64(carry) << np.uint64(8 * count)
                count, carry = count + 1, 0
            groups[is_truncated, bits] = entry | np.uint64(carry) << np.uint64(8 * count) | np.uint64(8 * count) << _ENDS


ROW_BYTES = 32
"""Of the quotients of a chunk."""
PAIR = ty.several(ty.int64, 2)


@kernel(PAIR(WORDS, ty.int64, ty.int64, ty.int64, ty.int64, GROUPS, ty.uint16[::1], ty.int64[::1]))
def _decode_without_runs(words, total, start, nw, wbits, groups, symbols, runs):  # type: ignore[no-untyped-def]
    """`_decode_any` of the commonest slices: no zero runs, remainders of at most SHORT bits. Quotients are kept in `runs`.

    Nothing that the next position needs waits for a quotient of its own chunk; symbols are put together a chunk later.
    """
    position, limit, width = np.uint64(start), np.uint64(total), np.uint64(wbits)
    symbols_at, quotients_at = np.int64(symbols.ctypes.data), np.int64(runs.ctypes.data)
    stream, started, done, pending = np.int64(words.ctypes.data), np.int64(0), np.int64(0), np.int64(0)
    carry = largest = remainders = others = np.uint64(0)
    while done < nw:
        count = min(started - done, nw - done)
        if started < nw:
            bits = _peek(stream, position)
            unary, second = bits & np.uint64(0xFFF), bits >> np.uint64(12)
            position += np.uint64(12) + count_ones(unary)
            for _ in range(2):
                first = unary & _GROUP_MASK
                group = groups[first | (second & _GROUP_MASK) << _GROUP_BITS]
                unary >>= _GROUP_BITS
                second >>= count_ones(first)
                whole = group + carry
                largest |= whole & _BYTE
                store_64(quotients_at + started, np.int64(whole))
                ended = group >> _ENDS
                started += np.int64(ended >> np.uint64(3))
                carry = whole >> ended & _BYTE
        _put_symbols(symbols_at + 2 * pending, quotients_at + pending, remainders, others, width)
        remainders, others, pending = _peek(stream, position), _peek(stream, position + np.uint64(8) * width), done
        position += np.uint64(count) * width
        done += count
        if position > limit:
            return TRUNCATED, np.int64(position)
        if largest > np.uint64(MAX_QUOTIENT):
            return QUOTIENT_RANGE, np.int64(position)
    _put_symbols(symbols_at + 2 * pending, quotients_at + pending, remainders, others, width)
    keep(words, symbols, runs)
    return OK, np.int64(position)


@kernel(
    PAIR(
        *(WORDS, ty.int64, ty.int64),
        *(ty.int64, ty.int64, ty.int64, ty.int64, ty.boolean, ty.int64),
        *(GROUPS, ty.uint16[::1], ty.int64[::1]),
    )
)
def _decode_any(words, total, start, nw, nz, wbits, zdiv, is_raw, zlen, groups, symbols, runs):  # type: ignore[no-untyped-def]
    """`decode_slice` of every slice. The loops over unary bits are branchless, because those bits are as good as random."""
    position, limit = np.uint64(start), np.uint64(total)
    has_runs = zdiv >= 0
    w_quotients, z_quotients, symbols_at = small_buffer(), small_buffer(), np.int64(symbols.ctypes.data)
    stream = np.int64(words.ctypes.data)
    for k in range(2 * ROW_BYTES // 8):  # raw symbols have quotients as well: 0
        store_64_at(w_quotients, k, 0)
    w_before = z_before = w_carry = z_carry = wp = zp = wd = zd = now = np.int64(0)
    w_bits, z_bits = np.uint64(wbits), np.uint64(max(zdiv, np.int64(0)))
    one = np.uint64(1)
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
            bits = _peek(stream, position)
            unary, second = bits & np.uint64(0xFFF), bits >> np.uint64(12)
            position += np.uint64(12)
        if has_z:
            bits = _peek(stream, position)
            position += np.uint64(zlen)
            for _ in range(zlen):
                bit = np.int64(bits & one)
                bits >>= one
                store_64_at(z_now, z_count, z_carry)
                z_count += 1 - bit
                z_carry = (z_carry + 1) * bit
            zp += z_count
        if has_w:
            w_count = np.int64(8 if wbits > SHORT else 12)
            if not is_raw:
                w_count = np.int64(0)
                if has_z:
                    second = _peek(stream, position)
                position += count_ones(unary)
                for _ in range(2):
                    first = unary & _GROUP_MASK
                    group = groups[first | (second & _GROUP_MASK) << _GROUP_BITS] + np.uint64(w_carry)
                    unary >>= _GROUP_BITS
                    second >>= count_ones(first)
                    largest = max(largest, np.int64(group & _BYTE))
                    store_64(w_now + w_count, np.int64(group))
                    ended = group >> _ENDS
                    w_count += np.int64(ended >> np.uint64(3))
                    w_carry = np.int64(group >> ended & _BYTE)
            wp += w_count
        w_read, z_read = min(w_before, nw - wd), min(z_before, nz - zd)
        if w_read > 0:
            if wbits <= SHORT:
                before, rest = w_quotients + (1 - now) * ROW_BYTES, _peek(stream, position + np.uint64(8) * w_bits)
                _put_symbols(symbols_at + 2 * wd, before, _peek(stream, position), rest, w_bits)
            else:
                for k in range(w_read):
                    symbols[wd + k] = np.int64(_peek(stream, position + np.uint64(k) * w_bits) & w_mask)
            position += np.uint64(w_read) * w_bits
            wd += w_read
        if z_read > 0:
            bits = _peek(stream, position)
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
            keep(words, symbols)
            return OK, np.int64(position)


@kernel(
    PAIR(
        *(WORDS, ty.int64, ty.int64),
        *(ty.int64, ty.int64, ty.int64, ty.int64, ty.boolean, ty.int64),
        *(GROUPS, ty.uint16[::1], ty.int64[::1]),
    )
)
def decode_slice(words, total, start, nw, nz, wbits, zdiv, is_raw, zlen, groups, symbols, runs):  # type: ignore[no-untyped-def]
    """Chunks of one slice into `symbols` and `runs`. Returns status and position.

    `nw` symbols and `nz` runs, with `wbits` and `zdiv` (-1: no runs) remainder bits, and `zlen` zero-run bits in a chunk. Up to
    192 bits are read beyond `total` before that is noticed, so `words` needs spare ones, and up to 15 symbols too many are
    written.
    """
    if zdiv < 0 and not is_raw and wbits <= SHORT:
        return _decode_without_runs(words, total, start, nw, wbits, groups, symbols, runs)
    return _decode_any(words, total, start, nw, nz, wbits, zdiv, is_raw, zlen, groups, symbols, runs)
