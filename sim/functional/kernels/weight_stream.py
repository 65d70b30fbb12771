"""Decoder of the compressed weight stream, and the order in which the MAC array consumes weights.

Nothing here is shared with an encoder: the simulator judges streams of any origin.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from sim.functional.kernels.raw import load_i64

MAX_SLICE = 32768
GUARD_BYTES = 64
"""Readable bytes that must follow a stream."""
TRUNCATED = -1
BAD_DIVISOR = -2
NO_PALETTE = -3
BAD_SYMBOL = -4
ZERO_RUNS_CHANGED = -5
TOO_MANY = -6


@nb.njit(nb.int64(nb.int64, nb.int64, nb.int64), cache=True)
def _bits(address, position, count):  # type: ignore[no-untyped-def]
    """`count` (at most 32) bits at bit `position`, first bit lowest."""
    word = np.uint64(load_i64(address + (position >> np.int64(3)))) >> np.uint64(position & np.int64(7))
    return np.int64(word & ((np.uint64(1) << np.uint64(count)) - np.uint64(1)))


@nb.njit(nb.void(nb.int64[::1], nb.int64, nb.int16[::1]), cache=True)
def _list_weights(palette, header, table):  # type: ignore[no-untyped-def]
    """The signed weight of every symbol into `table`; `header` is palette size * 64 + direct offset."""
    size = header >> np.int64(6)
    for symbol in range(512):
        value = palette[symbol] if symbol < size else symbol - size + (header & np.int64(63))
        half = value >> np.int64(1)
        table[symbol] = -half if (value & np.int64(1)) != 0 else half


@nb.njit(nb.int64(nb.int64), cache=True)
def _count_ones(x):  # type: ignore[no-untyped-def]
    """Number of set bits among the low 12."""
    x = x - ((x >> np.int64(1)) & np.int64(0x555))
    x = (x & np.int64(0x333)) + ((x >> np.int64(2)) & np.int64(0x333))
    x = (x + (x >> np.int64(4))) & np.int64(0xF0F)
    return (x + (x >> np.int64(8))) & np.int64(31)


@nb.njit(nb.int64(nb.int64, nb.int64, nb.int64, nb.int64[::1], nb.int16[::1], nb.int32[::1]), cache=True)
def _slice_symbols(address, position, end, config, symbols, runs):  # type: ignore[no-untyped-def]
    """Decode the chunks of one slice into `symbols` and `runs`; the bit position after it, or an error.

    config: symbols, runs (0 = no zero runs), remainder bits of symbols, of runs, is uncompressed, is truncated.
    """
    nw, nz, wbits, zdiv, raw, truncated = config[0], config[1], config[2], config[3], config[4], config[5]
    zlen = np.int64(12) if zdiv < 3 else np.int64(8)
    wmax = np.int64(8) if raw != 0 and wbits > 5 else np.int64(12)
    queue = np.zeros(64, np.int64)
    wp, zp, wcount, zcount = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    wdone, zdone, wprevious, zprevious = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    bank = np.int64(0)
    while True:
        if position > end:
            return np.int64(TRUNCATED)
        balance = wp - zp if nz > 0 else np.int64(0)
        has_weights = balance < 8 and wp < nw
        has_runs = nz > 0 and balance >= 0 and zp < nz
        first = np.int64(0)
        if has_weights and raw == 0:
            first = _bits(address, position, 12)
            position += 12
        znow = np.int64(0)
        if has_runs:
            unary = _bits(address, position, zlen)
            position += zlen
            for _ in range(zlen):
                if (unary & 1) != 0:
                    zcount += 1
                else:
                    queue[bank * 32 + 16 + znow] = zcount
                    znow += 1
                    zcount = np.int64(0)
                unary >>= np.int64(1)
            zp += znow
        wnow = np.int64(0)
        if has_weights:
            ones = _count_ones(first)
            second = _bits(address, position, ones)
            position += ones
            for _ in range(wmax):
                code = np.int64(0)
                if (first & 1) != 0:
                    code = 1 + (second & 1)
                    second >>= np.int64(1)
                first >>= np.int64(1)
                wcount += code
                if code < 2 or truncated != 0:
                    queue[bank * 32 + wnow] = wcount
                    wnow += 1
                    wcount = np.int64(0)
            wp += wnow
        other = (1 - bank) * 32
        for k in range(wprevious):
            if wdone < nw:
                symbol = (queue[other + k] << wbits) + _bits(address, position, wbits)
                position += wbits
                if symbol > 511:
                    return np.int64(BAD_SYMBOL)
                symbols[wdone] = symbol
                wdone += 1
        for k in range(zprevious):
            if zdone < nz:
                runs[zdone] = (queue[other + 16 + k] << zdiv) + _bits(address, position, zdiv)
                position += zdiv
                zdone += 1
        wprevious, zprevious = wnow, znow
        bank = 1 - bank
        if not has_weights and not has_runs:
            return position


@nb.njit(nb.int64(nb.int64, nb.int64, nb.int16[::1]), cache=True)
def decode(address, length, out):  # type: ignore[no-untyped-def]
    """Decode `length` bytes at `address` (GUARD_BYTES more must be readable) into `out`; the number of weights or an error."""
    symbols = np.zeros(MAX_SLICE, np.int16)
    runs = np.zeros(MAX_SLICE + 1, np.int32)
    palette = np.zeros(33, np.int64)
    table = np.zeros(512, np.int16)
    config = np.zeros(6, np.int64)
    end, position, count = length * 8, np.int64(0), np.int64(0)
    header, pal_bits, zero_runs = np.int64(-1), np.int64(0), np.int64(-1)
    while True:
        if position + 3 > end:
            return count if (end - position) < 8 else np.int64(TRUNCATED)
        zdiv = _bits(address, position, 3)
        position += 3
        if zdiv == 7:
            position = (position + np.int64(7)) & np.int64(-8)
            header = np.int64(-1)
            if position >= end:
                return count
            continue
        if zdiv == 5:
            return np.int64(BAD_DIVISOR)
        fields = _bits(address, position, 20)
        position += 20
        nw = (fields & 0x7FFF) + 1
        wdiv = (fields >> 15) & 7
        new_palette = fields >> 19
        uses_runs = np.int64(0) if zdiv == 6 else np.int64(1)
        if wdiv == 6:
            return np.int64(BAD_DIVISOR)
        if new_palette != 0:
            fields2 = _bits(address, position, 13)
            position += 13
            size = (fields2 >> 5) & 31
            size = size + 1 if size > 0 else size
            pal_bits = (fields2 >> 10) + 2
            header = (size << np.int64(6)) + (fields2 & 31)
            for k in range(size):
                palette[k] = _bits(address, position, pal_bits)
                position += pal_bits
                if position > end:
                    return np.int64(TRUNCATED)
            _list_weights(palette, header, table)
        elif header < 0:
            return np.int64(NO_PALETTE)
        elif uses_runs != zero_runs:
            return np.int64(ZERO_RUNS_CHANGED)
        zero_runs = uses_runs
        wbits = wdiv
        if wdiv == 7:
            wbits = pal_bits
            if (header >> 6) > 0:
                wbits = np.int64(0)
                while (np.int64(1) << wbits) < (header >> 6):
                    wbits += 1
        config[0], config[2], config[5] = nw, wbits, (fields >> 18) & 1
        config[1] = nw + new_palette if uses_runs != 0 else np.int64(0)
        config[3] = zdiv if uses_runs != 0 else np.int64(0)
        config[4] = np.int64(1) if wdiv == 7 else np.int64(0)
        position = _slice_symbols(address, position, end, config, symbols, runs)
        if position < 0:
            return position
        if position > end:
            return np.int64(TRUNCATED)
        shift = new_palette if uses_runs != 0 else np.int64(0)
        if shift != 0:
            if count + runs[0] > out.size:
                return np.int64(TOO_MANY)
            for _ in range(runs[0]):
                out[count] = 0
                count += 1
        for k in range(nw):
            zeros = np.int64(runs[k + shift]) if uses_runs != 0 else np.int64(0)
            if count + 1 + zeros > out.size:
                return np.int64(TOO_MANY)
            out[count] = table[symbols[k]]
            count += 1
            for _ in range(zeros):
                out[count] = 0
                count += 1


@nb.njit(nb.int64(nb.int16[::1], nb.int16[:, :, :, ::1], nb.int64[::1]), cache=True)
def arrange(sequence, weights, order):  # type: ignore[no-untyped-def]
    """Put a decoded sequence in its places in weights int16 (O, KH, KW, I); the number of values that the order needs.

    order: core, cores, OFM block depth of this core, OFM ublock depth, IFM ublock depth, mode (0 depth first, 1 part kernel,
    2 depthwise), IFM block depth, sub-kernel height, width, element rounding. With an empty sequence it only counts.
    """
    core, cores, ob_depth, ou, iu = order[0], order[1], order[2], order[3], order[4]
    mode, ib_depth, limit_h, limit_w, rounding = order[5], order[6], order[7], order[8], order[9]
    total_o, kernel_h, kernel_w, depth = weights.shape
    own = (total_o - core + cores - 1) // cores
    position = np.int64(0)
    for ob in range(0, own, ob_depth):
        obd = min(ob_depth, own - ob)
        for ib in range(0, depth if mode != 2 else 1, ib_depth):
            ibd = iu if mode == 2 else (min(ib_depth, depth - ib) if mode == 1 else ib_depth)
            for sy in range(0, kernel_h, limit_h):
                sh = min(limit_h, kernel_h - sy)
                for sx in range(0, kernel_w, limit_w):
                    sw = min(limit_w, kernel_w - sx)
                    elements = (sh * sw + rounding - 1) // rounding * rounding
                    outer = ibd if mode == 1 else 1
                    inner = 1 if mode == 1 else ibd
                    zs = 1 if mode == 2 else iu
                    if sequence.size == 0:
                        position += (
                            ((outer + iu - 1) // iu) * ((obd + ou - 1) // ou) * elements * ((inner + iu - 1) // iu) * ou * zs
                        )
                        continue
                    for uo in range(0, outer, iu):
                        for oo in range(0, obd, ou):
                            for e in range(elements):
                                ky, kx = e // sw, e % sw
                                for ui in range(0, inner, iu):
                                    for oz in range(ou):
                                        o = ob + oo + oz
                                        if o >= own or ky >= sh:
                                            position += zs
                                            continue
                                        for iz in range(zs):
                                            i = ib + uo + ui + iz
                                            if i < depth:
                                                weights[core + cores * o, sy + ky, sx + kx, i] = sequence[position]
                                            position += 1
    return position
