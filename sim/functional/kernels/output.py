"""What follows the accumulators: rounding shifts, operand arithmetic, activation functions, clamps and look-up tables.

General versions, one value at a time in 64 bits. Rounding is 0 double, 1 truncate, 2 natural (the registers' numbering).
"""

from __future__ import annotations

import numba as nb
import numpy as np

from npu.numerics.kernel import kernel
from sim.functional.kernels.raw import load_i8, load_i16, load_i32, load_u8

CUBE = nb.int64[:, :, ::1]
# fmt: off
SIGMOID_TABLE = np.array([
    32768, 33451, 34133, 34813, 35493, 36169, 36843, 37513, 38180, 38841, 39498, 40149, 40794, 41432, 42064, 42688,
    43304, 43912, 44511, 45102, 45683, 46255, 46817, 47369, 47911, 48443, 48964, 49475, 49975, 50464, 50942, 51409,
    51865, 52311, 52745, 53169, 53581, 53983, 54374, 54755, 55125, 55485, 55834, 56174, 56503, 56823, 57133, 57433,
    57724, 58007, 58280, 58544, 58800, 59048, 59288, 59519, 59743, 59959, 60168, 60370, 60565, 60753, 60935, 61110,
    61279, 61441, 61599, 61750, 61896, 62036, 62172, 62302, 62428, 62549, 62666, 62778, 62886, 62990, 63090, 63186,
    63279, 63368, 63454, 63536, 63615, 63691, 63765, 63835, 63903, 63968, 64030, 64090, 64148, 64204, 64257, 64308,
    64357, 64405, 64450, 64494, 64536, 64576, 64614, 64652, 64687, 64721, 64754, 64786, 64816, 64845, 64873, 64900,
    64926, 64950, 64974, 64997, 65019, 65039, 65060, 65079, 65097, 65115, 65132, 65149, 65164, 65179, 65194, 65208,
    65221, 65234, 65246, 65258, 65269, 65280, 65291, 65301, 65310, 65319, 65328, 65337, 65345, 65352, 65360, 65367,
    65374, 65381, 65387, 65393, 65399, 65404, 65410, 65415, 65420, 65425, 65429, 65433, 65438, 65442, 65445, 65449,
    65453, 65456, 65459, 65462, 65465, 65468, 65471, 65474, 65476, 65479, 65481, 65483, 65485, 65488, 65489, 65491,
    65493, 65495, 65497, 65498, 65500, 65501, 65503, 65504, 65505, 65507, 65508, 65509, 65510, 65511, 65512, 65513,
    65514, 65515, 65516, 65517, 65517, 65518, 65519, 65520, 65520, 65521, 65522, 65522, 65523, 65523, 65524, 65524,
    65525, 65525, 65526, 65526, 65526, 65527, 65527, 65528, 65528, 65528, 65529, 65529, 65529, 65529, 65530, 65530,
    65530, 65530, 65531, 65531, 65531, 65531, 65531, 65532, 65532, 65532, 65532, 65532, 65532, 65533, 65533, 65533,
    65533, 65533, 65533, 65533, 65533, 65534, 65534, 65534, 65534, 65534, 65534, 65534, 65534, 65534, 65534, 65535,
], np.int64)  # round(65536 / (1 + exp(-i / 24))), as the output unit holds it
# fmt: on


@kernel(nb.int64(nb.int64, nb.int64))
def shift_natural(p, s):  # type: ignore[no-untyped-def]
    """floor(p / 2**s + 1/2) without overflow."""
    return p if s == 0 else ((p >> (s - 1)) + 1) >> np.int64(1)


@kernel(nb.int64(nb.int64, nb.int64))
def divide_away(t, e):  # type: ignore[no-untyped-def]
    """round(t / 2**e), ties away from zero."""
    if e == 0:
        return t
    mask = (np.int64(1) << e) - 1
    threshold = (mask >> np.int64(1)) + (1 if t < 0 else 0)
    return (t >> e) + (1 if (t & mask) > threshold else 0)


@kernel(nb.int64(nb.int64, nb.int64, nb.int64, nb.int64))
def rounding_shift(p, s, rounding, first):  # type: ignore[no-untyped-def]
    """p / 2**s; DOUBLE rounds first at bit `first` (31 in the output stage), then the rest with ties away from zero."""
    if s == 0:
        return p
    if rounding == 1:
        return p >> s if p >= 0 else -((-p) >> s)
    if rounding == 2 or s <= first:
        return shift_natural(p, s)
    return divide_away(shift_natural(p, first), s - first)


@kernel(nb.int64(nb.int64))
def sigmoid(v):  # type: ignore[no-untyped-def]
    """The output unit's sigmoid of v / (3 * 4096), in units of 2**-15."""
    a = abs(v)
    h = a >> np.int64(9)
    if h >= 255:
        r = np.int64(0x7FFF << 10)
    else:
        r = (SIGMOID_TABLE[h] << np.int64(9)) + (a & 511) * (SIGMOID_TABLE[h + 1] - SIGMOID_TABLE[h])
    r = r + 512 if v >= 0 else (np.int64(1) << np.int64(25)) - r + 511
    return r >> np.int64(10)


@kernel(nb.int64(nb.int64))
def tanh(v):  # type: ignore[no-untyped-def]
    """The output unit's tanh of v / (3 * 4096), in units of 2**-15."""
    a = abs(v)
    h = a >> np.int64(8)
    if h >= 255:
        r = np.int64(0xFFFF << 8)
    else:
        r = (SIGMOID_TABLE[h] << np.int64(8)) + (a & 255) * (SIGMOID_TABLE[h + 1] - SIGMOID_TABLE[h])
    r = r - (1 << 23) + 128 if v >= 0 else -r + (1 << 23) + 127
    return r >> np.int64(8)


@kernel(nb.int64(nb.int64, nb.int64, nb.int64))
def look_up(v, table, kind):  # type: ignore[no-untyped-def]
    """Entry of the table at machine address `table`.

    kind: 1 uint8 index, int8 entries; 2 int8 index, int8 entries; 3, 4 the same with 32-bit entries; 5 interpolated 16-bit;
    6, 7 with 16-bit entries.
    """
    if kind == 5:
        u = v + 32768
        entry = load_i32(table + (u >> np.int64(7)) * 4)
        base = load_i16(table + (u >> np.int64(7)) * 4)
        return base + (((entry >> np.int64(16)) * (u & 127) + 64) >> np.int64(7))
    index = v + 128 if (kind & 1) == 0 else v
    if kind <= 2:
        return load_i8(table + index) if kind == 2 else load_u8(table + index)
    if kind <= 4:
        return load_i32(table + index * 4)
    return load_i16(table + index * 2)


@kernel(nb.void(CUBE, nb.int64[::1], nb.int64))
def finish(values, stage, tables):  # type: ignore[no-untyped-def]
    """The output stage after scaling, in place.

    stage: function (0 none, 3 tanh, 4 sigmoid), zero point, low, high, table kind (0 none), table offset from the machine
    address `tables`, is raw 32-bit.
    """
    if stage[6] != 0:
        return
    for y in range(values.shape[0]):
        for x in range(values.shape[1]):
            for c in range(values.shape[2]):
                v = values[y, x, c]
                if stage[0] == 3:
                    v = tanh(v)
                elif stage[0] == 4:
                    v = sigmoid(v)
                v = min(max(v + stage[1], stage[2]), stage[3])
                if stage[4] != 0:
                    v = look_up(v, tables + stage[5], stage[4])
                values[y, x, c] = v


@kernel(nb.void(CUBE, nb.int64[::1], nb.int64[::1], nb.int64))
def scale_channels(values, scales, shifts, rounding):  # type: ignore[no-untyped-def]
    """values * scales[c] >> shifts[c], rounded, in place."""
    for y in range(values.shape[0]):
        for x in range(values.shape[1]):
            for c in range(values.shape[2]):
                values[y, x, c] = rounding_shift(values[y, x, c] * scales[c], shifts[c], rounding, 31)


@kernel(nb.void(CUBE, nb.int64[:, ::1], nb.int64))
def divide_by_counts(values, counts, rounding):  # type: ignore[no-untyped-def]
    """values / counts[y, x] as the pooling unit divides: a reciprocal that rounds exact ties away from zero, in place."""
    for y in range(values.shape[0]):
        for x in range(values.shape[1]):
            n = max(counts[y, x], np.int64(1))
            k = np.int64(0)
            while ((n - 1) >> k) > 0:
                k += 1
            scale = ((np.int64(1) << (31 + k)) + (np.int64(1) << k)) // n
            for c in range(values.shape[2]):
                values[y, x, c] = rounding_shift(values[y, x, c] * scale, 31 + k, rounding, 31)


@kernel(nb.int64(nb.int64, nb.int64, nb.int64[::1]))
def add_or_subtract(a, b, config):  # type: ignore[no-untyped-def]
    """The sum before the OFM scale; see `combine` for `config`."""
    if config[4] == 0:
        left, right = a * config[5], b * config[7]
    elif config[4] == 1:
        left = rounding_shift(a * config[5], config[6], config[9], 31 - config[8])
        right = b << (config[8] - 1)
    else:
        left = a << (config[8] - 1)
        right = rounding_shift(b * config[5], config[6], config[9], 31 - config[8])
    return left + right if config[0] == 1 else left - right


@kernel(nb.int64(nb.int64, nb.int64))
def shift_left_32(a, b):  # type: ignore[no-untyped-def]
    """a << b in 32 bits, wrapping; amounts outside 0..31 give 0."""
    if b < 0 or b > 31:
        return np.int64(0)
    return np.int64(np.int32((a << b) & np.int64(0xFFFFFFFF)))


@kernel(nb.int64(nb.int64, nb.int64, nb.int64[::1]))
def combine_pair(a, b, config):  # type: ignore[no-untyped-def]
    """One element of an elementwise operation, before the output stage."""
    mode, scale, shift, rounding = config[0], config[1], config[2], config[3]
    if mode == 0:
        v = rounding_shift(a * b * scale, shift, rounding, 31)
        return min(max(v, np.int64(-(1 << 31))), np.int64((1 << 31) - 1)) if config[11] != 0 else v
    if mode <= 2:
        return rounding_shift(add_or_subtract(a, b, config) * scale, shift, rounding, 31)
    if mode == 3:
        return min(a, b)
    if mode == 4:
        return max(a, b)
    if mode == 5:
        return a if a >= 0 else rounding_shift(a * scale, shift, rounding, 31)
    if mode == 6:
        return rounding_shift(abs(a) * scale, shift, rounding, 31)
    if mode == 7:
        pattern = a & np.int64(0xFFFFFFFF)
        zeros = np.int64(32)
        while pattern != 0:
            pattern >>= np.int64(1)
            zeros -= 1
        return zeros
    if mode == 8:
        amount = min(max(b, np.int64(0)), np.int64(62))
        if rounding == 0:
            return divide_away(a, amount)
        return rounding_shift(a, amount, rounding, 31)
    return shift_left_32(a, b)


@kernel(nb.void(CUBE, CUBE, CUBE, nb.int64[::1]))
def combine(first, second, out, config):  # type: ignore[no-untyped-def]
    """Elementwise operation with broadcasting where an extent of `second` is 1.

    config: mode, OFM scale, shift, rounding, operand scaling (0 both 16-bit, 1 A, 2 B), OPA scale, OPA shift, OPB scale,
    left shift L, operand rounding, is reversed, whether a product saturates at 32 bits.
    """
    step_y = 1 if second.shape[0] > 1 else 0
    step_x = 1 if second.shape[1] > 1 else 0
    step_c = 1 if second.shape[2] > 1 else 0
    for y in range(out.shape[0]):
        for x in range(out.shape[1]):
            for c in range(out.shape[2]):
                a = first[y, x, c]
                b = second[y * step_y, x * step_x, c * step_c]
                out[y, x, c] = combine_pair(b, a, config) if config[10] != 0 else combine_pair(a, b, config)
