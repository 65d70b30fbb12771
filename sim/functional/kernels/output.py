"""What follows the accumulators: rounding shifts, operand arithmetic, activation functions, clamps and look-up tables.

General versions, one value at a time in 64 bits. Modes, functions and roundings have the registers' numbers.
"""

from __future__ import annotations

import numpy as np

from npu.machine.kernels.rows import integers
from npu.native import types as ty
from npu.native.kernel import Inlined, RowsAt, keep, kernel
from npu.native.memory import SMALL_WORDS, load_i8, load_i16, load_i32, load_u8, small_buffer

CUBE = ty.int64[:, :, ::1]
VECTOR = ty.int64[::1]
DOUBLE, TRUNCATE, NATURAL, SYMMETRIC, _, FLOOR = range(6)
TANH = 3
MUL, ADD, SUB, MIN, MAX, LRELU, ABS, CLZ, SHR, SHL, LSR = range(11)
CMP_EQ, CMP_NE, CMP_GE, CMP_GT = range(16, 20)
AND, OR, XOR, NOT = range(33, 37)
AND_NOT = 42
STAGE = np.dtype(
    integers(
        *("function", "zero_point", "low", "high"),
        *("table_kind", "table"),  # 0: none, otherwise as `look_up` takes it; offset from the machine address of the tables
        "is_raw",  # 32-bit values stay as they are
        *("has_scale", "scale", "shift", "rounding"),  # of poolings: other operations have scaled already
    )
)
"""The output stage, as `finish` takes it."""
COMBINATION = np.dtype(
    integers(
        *("mode", "scale", "shift", "rounding"),
        "operand_scaling",  # 0: both operands by 16 bits, 1: A, 2: B
        *("opa_scale", "opa_shift", "opb_scale", "left_shift", "operand_rounding"),
        "is_reversed",
        "saturates",  # whether a product does, at 32 bits
    )
)
"""An elementwise operation before its output stage, as `combine` takes it."""
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


@kernel(ty.int64(ty.int64, ty.int64))
def shift_natural(p, s):  # type: ignore[no-untyped-def]
    """floor(p / 2**s + 1/2) without overflow."""
    return p if s == 0 else ((p >> (s - 1)) + 1) >> np.int64(1)


@kernel(ty.int64(ty.int64, ty.int64))
def divide_away(t, e):  # type: ignore[no-untyped-def]
    """round(t / 2**e), ties away from zero."""
    if e == 0:
        return t
    mask = (np.int64(1) << e) - 1
    threshold = (mask >> np.int64(1)) + (1 if t < 0 else 0)
    return (t >> e) + (1 if (t & mask) > threshold else 0)


@kernel(ty.int64(ty.int64, ty.int64, ty.int64, ty.int64))
def rounding_shift(p, s, rounding, first):  # type: ignore[no-untyped-def]
    """p / 2**s; DOUBLE rounds first at bit `first` (31 in the output stage), then the rest with ties away from zero."""
    if s == 0:
        return p
    if rounding == TRUNCATE:
        return p >> s if p >= 0 else -((-p) >> s)
    if rounding == FLOOR:
        return p >> s
    if rounding == SYMMETRIC:
        return divide_away(p, s)
    if rounding == NATURAL or s <= first:
        return shift_natural(p, s)
    return divide_away(shift_natural(p, first), s - first)


@kernel(ty.int64(ty.int64))
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


@kernel(ty.int64(ty.int64))
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


@kernel(ty.int64(ty.int64, ty.int64, ty.int64))
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


@kernel(ty.void(VECTOR, ty.int64, ty.int64, ty.int64, ty.int64))
def rescale(values, scale, shift, rounding, first):  # type: ignore[no-untyped-def]
    """`rounding_shift` of values * scale, in place: a loop for each rounding, which LLVM makes vector code of."""
    if shift == 0:
        for k in range(values.size):
            values[k] *= scale
    elif rounding == TRUNCATE:
        for k in range(values.size):
            p = values[k] * scale
            values[k] = p >> shift if p >= 0 else -((-p) >> shift)
    elif rounding in (SYMMETRIC, FLOOR):
        for k in range(values.size):
            values[k] = rounding_shift(values[k] * scale, shift, rounding, first)
    elif rounding == NATURAL or shift <= first:
        for k in range(values.size):
            values[k] = (((values[k] * scale) >> (shift - 1)) + 1) >> np.int64(1)
    else:
        more = shift - first
        mask = (np.int64(1) << more) - 1
        for k in range(values.size):
            t = (((values[k] * scale) >> (first - 1)) + 1) >> np.int64(1)
            values[k] = (t >> more) + (1 if (t & mask) > (mask >> np.int64(1)) + (1 if t < 0 else 0) else 0)


_vector_at, _cube_at = RowsAt(ty.int64, has_length=True), RowsAt(ty.int64, 3, has_length=True)


@Inlined
def cube(buffer, height, width, depth):  # type: ignore[no-untyped-def]
    """An array of values, in a `small_buffer` if they fit."""
    if height * width * depth <= SMALL_WORDS:
        return _cube_at(buffer, height, width, depth)
    return np.empty((height, width, depth), np.int64)


@Inlined
def _flat(values):  # type: ignore[no-untyped-def]
    """The elements in order."""
    return _vector_at(np.int64(values.ctypes.data), np.int64(values.size))


@kernel(ty.void(CUBE, ty.record(STAGE), ty.int64))
def finish(values, stage, tables):  # type: ignore[no-untyped-def]
    """The output stage, in place; `tables` is the machine address of the tables."""
    flat = _flat(values)
    if stage.has_scale != 0:
        rescale(flat, stage.scale, stage.shift, stage.rounding, np.int64(31))
    if stage.is_raw != 0:
        return
    zero_point, low, high = stage.zero_point, stage.low, stage.high
    if stage.function != 0:
        for k in range(flat.size):
            flat[k] = tanh(flat[k]) if stage.function == TANH else sigmoid(flat[k])
    for k in range(flat.size):
        flat[k] = min(max(flat[k] + zero_point, low), high)
    if stage.table_kind != 0:
        for k in range(flat.size):
            flat[k] = look_up(flat[k], tables + stage.table, stage.table_kind)


@kernel(ty.int64(ty.int64, ty.record(STAGE), ty.int64))
def finish_one(value, stage, tables):  # type: ignore[no-untyped-def]
    """`finish` of one value."""
    if stage.has_scale != 0:
        value = rounding_shift(value * stage.scale, stage.shift, stage.rounding, np.int64(31))
    if stage.is_raw != 0:
        return value
    if stage.function != 0:
        value = tanh(value) if stage.function == TANH else sigmoid(value)
    value = min(max(value + stage.zero_point, stage.low), stage.high)
    return value if stage.table_kind == 0 else look_up(value, tables + stage.table, stage.table_kind)


@kernel(ty.void(CUBE, ty.int64[::1], ty.int64[::1], ty.int64, ty.int64))
def scale_channels(values, scales, shifts, rounding, first):  # type: ignore[no-untyped-def]
    """values * scales[c] >> shifts[c], rounded, in place."""
    for y in range(values.shape[0]):
        for x in range(values.shape[1]):
            for c in range(values.shape[2]):
                values[y, x, c] = rounding_shift(values[y, x, c] * scales[c], shifts[c], rounding, first)


@kernel(ty.int64(ty.int64))
def leading_zeros(pattern):  # type: ignore[no-untyped-def]
    """Zeros before the first one of 32 bits."""
    zeros, left = np.int64(32), pattern & np.int64(0xFFFFFFFF)
    for step in (16, 8, 4, 2, 1):
        if left >> step != 0:
            left >>= step
            zeros -= step
    return zeros - left


@kernel(ty.int64(ty.int64, ty.int64, ty.int64))
def shift_right(a, b, rounding):  # type: ignore[no-untyped-def]
    """a >> b, rounded; b is an operand, so it is limited."""
    amount = min(max(b, np.int64(0)), np.int64(62))
    return divide_away(a, amount) if rounding == DOUBLE else rounding_shift(a, amount, rounding, 31)


@kernel(ty.int64(ty.int64, ty.int64))
def shift_left_32(a, b):  # type: ignore[no-untyped-def]
    """a << b in 32 bits, wrapping; amounts outside 0..31 give 0."""
    if b < 0 or b > 31:
        return np.int64(0)
    return np.int64(np.int32((a << b) & np.int64(0xFFFFFFFF)))


@kernel(ty.int64(ty.int64, ty.int64, ty.int64))
def combine_bits(a, b, mode):  # type: ignore[no-untyped-def]
    """One element of the modes that only Ethos-U85 has. What is true has all bits set."""
    if mode == LSR:
        amount = min(max(b, np.int64(0)), np.int64(62))
        return (a & np.int64(0xFFFFFFFF)) >> amount
    if mode == CMP_EQ:
        return np.int64(-1 if a == b else 0)
    if mode == CMP_NE:
        return np.int64(-1 if a != b else 0)
    if mode == CMP_GE:
        return np.int64(-1 if a >= b else 0)
    if mode == CMP_GT:
        return np.int64(-1 if a > b else 0)
    if mode == AND:
        return a & b
    if mode == OR:
        return a | b
    if mode == XOR:
        return a ^ b
    return ~a if mode == NOT else a & ~b


@kernel(ty.int64(ty.int64, ty.int64, ty.int64, ty.int64))
def combine_pair(a, b, mode, rounding):  # type: ignore[no-untyped-def]
    """One element of the modes that have no loop of their own in `combine`, before scaling."""
    if mode > SHL:
        return combine_bits(a, b, mode)
    if mode == MIN:
        return min(a, b)
    if mode == MAX:
        return max(a, b)
    if mode == ABS:
        return abs(a)
    if mode == CLZ:
        return leading_zeros(a)
    return shift_right(a, b, rounding) if mode == SHR else shift_left_32(a, b)


@kernel(ty.int64(ty.int64, ty.int64, ty.record(COMBINATION)))
def combine_one(first, second, how):  # type: ignore[no-untyped-def]
    """`combine` of one value each."""
    mode, rounding = how.mode, how.rounding
    if mode == LRELU:
        return first if first >= 0 else rounding_shift(first * how.scale, how.shift, rounding, np.int64(31))
    a, b = (second, first) if how.is_reversed != 0 else (first, second)
    if mode in (ADD, SUB):
        whole, last = np.int64(1) << (how.left_shift - 1), 31 - how.left_shift
        if how.operand_scaling == 0:
            a, b = a * how.opa_scale, b * how.opb_scale
        elif how.operand_scaling == 1:
            a, b = rounding_shift(a * how.opa_scale, how.opa_shift, how.operand_rounding, last), b * whole
        else:
            a, b = a * whole, rounding_shift(b * how.opa_scale, how.opa_shift, how.operand_rounding, last)
        value = a + b if mode == ADD else a - b
    else:
        value = a * b if mode == MUL else combine_pair(a, b, mode, rounding)
    if mode in (MUL, ADD, SUB, ABS):
        value = rounding_shift(value * how.scale, how.shift, rounding, np.int64(31))
    if mode == MUL and how.saturates != 0:
        value = min(max(value, np.int64(-(1 << 31))), np.int64((1 << 31) - 1))
    return value


OPERAND_SCALE = np.dtype(integers("scale", "shift", "rounding", "first"))
"""What a number is multiplied by; DOUBLE rounds first at bit `first`."""
_SCALE_ROW = ty.record(OPERAND_SCALE)


@kernel(ty.void(CUBE, CUBE, ty.int64, _SCALE_ROW, _SCALE_ROW, _SCALE_ROW))
def combine_scaled(a, b, mode, a_scale, b_scale, out_scale):  # type: ignore[no-untyped-def]
    """a = the elementwise operation of operands of the same extent, each with a scale of its own, and what comes out with one.

    LRELU has the second scale for what is negative.
    """
    first, second = _flat(a), _flat(b)
    if mode == LRELU:
        for k in range(first.size):
            scale, shift, rounding, bit = a_scale.scale, a_scale.shift, a_scale.rounding, a_scale.first
            if first[k] < 0:
                scale, shift, rounding, bit = b_scale.scale, b_scale.shift, b_scale.rounding, b_scale.first
            first[k] = rounding_shift(first[k] * scale, shift, rounding, bit)
    else:
        rescale(first, a_scale.scale, a_scale.shift, a_scale.rounding, a_scale.first)
        if mode not in (ABS, CLZ, NOT):
            rescale(second, b_scale.scale, b_scale.shift, b_scale.rounding, b_scale.first)
        for k in range(first.size):
            if mode in (ADD, SUB):
                first[k] += second[k] if mode == ADD else -second[k]
            elif mode == MUL:
                first[k] *= second[k]
            else:
                first[k] = combine_pair(first[k], second[k], mode, out_scale.rounding)
    if mode <= ABS:
        rescale(first, out_scale.scale, out_scale.shift, out_scale.rounding, out_scale.first)


RESIZE_AXIS = np.dtype(integers("scale", "step", "offset"))
_AXIS_ROW = ty.record(RESIZE_AXIS)


@kernel(ty.void(CUBE, CUBE, _AXIS_ROW, _AXIS_ROW, ty.boolean))
def resize(ifm, out, along_y, along_x, is_nearest):  # type: ignore[no-untyped-def]
    """out = the IFM at the places of the OFM's elements: the nearest, or the sum of four neighbours by their distance."""
    last_y, last_x = ifm.shape[0] - 1, ifm.shape[1] - 1
    for y in range(out.shape[0]):
        place = y * along_y.step + along_y.offset
        top = place // along_y.scale
        below = place - top * along_y.scale
        y0, y1 = min(max(top, np.int64(0)), last_y), min(max(top + 1, np.int64(0)), last_y)
        for x in range(out.shape[1]):
            place = x * along_x.step + along_x.offset
            left = place // along_x.scale
            beyond = place - left * along_x.scale
            x0, x1 = min(max(left, np.int64(0)), last_x), min(max(left + 1, np.int64(0)), last_x)
            if is_nearest:
                row = y1 if 2 * below >= along_y.scale else y0
                column = x1 if 2 * beyond >= along_x.scale else x0
                for c in range(out.shape[2]):
                    out[y, x, c] = ifm[row, column, c]
                continue
            above, before = along_y.scale - below, along_x.scale - beyond
            for c in range(out.shape[2]):
                upper = ifm[y0, x0, c] * before + ifm[y0, x1, c] * beyond
                lower = ifm[y1, x0, c] * before + ifm[y1, x1, c] * beyond
                out[y, x, c] = upper * above + lower * below


@kernel(ty.void(CUBE, CUBE, ty.record(COMBINATION)))
def combine(first, second, how):  # type: ignore[no-untyped-def]
    """first = the elementwise operation before the output stage, with broadcasting where an extent of `second` is 1."""
    mode, repeated = how.mode, cube(small_buffer(), first.shape[0], first.shape[1], first.shape[2])
    step_y, step_x, step_c = min(second.shape[0] - 1, 1), min(second.shape[1] - 1, 1), min(second.shape[2] - 1, 1)
    for y in range(first.shape[0]):
        for x in range(first.shape[1]):
            for c in range(first.shape[2]):
                value = first[y, x, c] if mode == LRELU else second[y * step_y, x * step_x, c * step_c]
                repeated[y, x, c] = value
    out, other = _flat(first), _flat(repeated)
    a, b = (other, out) if how.is_reversed != 0 else (out, other)
    is_sum = mode in (ADD, SUB)
    if mode == MUL:
        for k in range(out.size):
            out[k] = a[k] * b[k]
    elif is_sum:
        for operand in range(2):
            scale, shift = how.opa_scale, how.opa_shift
            if how.operand_scaling == 0:
                scale, shift = how.opb_scale if operand else how.opa_scale, np.int64(0)
            elif operand != how.operand_scaling - 1:
                scale, shift = np.int64(1) << (how.left_shift - 1), np.int64(0)
            rescale(a if operand == 0 else b, scale, shift, how.operand_rounding, 31 - how.left_shift)
        sign = 1 if mode == ADD else -1
        for k in range(out.size):
            out[k] = a[k] + sign * b[k]
    elif mode != LRELU:
        for k in range(out.size):
            out[k] = combine_pair(a[k], b[k], mode, how.rounding)
    if mode in (MUL, ADD, SUB, LRELU, ABS):
        rescale(other if mode == LRELU else out, how.scale, how.shift, how.rounding, np.int64(31))
    if mode == LRELU:
        for k in range(out.size):
            out[k] = out[k] if out[k] >= 0 else other[k]
    if mode == MUL and how.saturates != 0:
        for k in range(out.size):
            out[k] = min(max(out[k], np.int64(-(1 << 31))), np.int64((1 << 31) - 1))
    keep(repeated)
