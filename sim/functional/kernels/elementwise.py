"""ADD, SUB and MUL of 8-bit maps, for both fast tiers."""

# mypy: allow-untyped-calls

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.emit import BYTES, LANES, choice
from npu.native.kernel import kernel
from npu.native.memory import load_i64
from sim.functional.kernels import rows as r
from sim.functional.kernels.output import ADD, MUL, SUB
from sim.functional.kernels.stage import stage_function

_OPERANDS = ("first", "second")
PIXELS = 4
"""Of 16 channels, that are combined at a time."""


def _line(mode):  # type: ignore[no-untyped-def]
    """Kernel of some pixels of 16 channels."""

    def emit(e, args):  # type: ignore[no-untyped-def]
        row, first, second, out, width, tail = args
        operands, stage, limits = e.of_row(row, "operands", "stage", "limits")
        steps = e.of_row(row, "in_pixel", "in2_pixel", "out_pixel")
        flip, scale = e.load(BYTES, limits), e.requantizer(row, stage)
        fetches = [_operand(e, e.field_at(operands, r.OPERANDS, which), flip, mode) for which in _OPERANDS]

        def over_tiles(index, carried):  # type: ignore[no-untyped-def]
            outputs = []
            for k in range(PIXELS):
                x = e.offset(e.b.mul(index, e.word(PIXELS)), k)
                is_inside = e.b.icmp_signed("<", x, width)
                near = e.b.select(is_inside, x, e.b.sub(width, e.word(1)))
                a, b, to = (
                    e.b.add(start, e.b.mul(near, step)) for start, step in zip((first, second, out), steps, strict=True)
                )
                outputs.append((scale(_combined(e, mode, fetches, a, b)), to, tail, is_inside if k else None))
            e.put(row, outputs)
            return carried

        e.loop(e.b.lshr(e.b.add(width, e.word(PIXELS - 1)), e.word(2)), [], over_tiles)

    return stage_function(f"elementwise_{mode}", 6, emit)


def _dense(mode, scaled):  # type: ignore[no-untyped-def]
    """Kernel of bytes side by side, 64 at a time; `scaled` is the operand of which more than the multiplier is used, if any."""

    def emit(e, args):  # type: ignore[no-untyped-def]
        row, first, second, out, count = args
        operands, stage, limits = e.of_row(row, "operands", "stage", "limits")
        flip, scale = e.load(BYTES, limits), e.requantizer(row, stage)
        ways = [_operand if which == scaled else _plain_operand for which in _OPERANDS]
        fetches = [
            way(e, e.field_at(operands, r.OPERANDS, which), flip, mode) for way, which in zip(ways, _OPERANDS, strict=True)
        ]

        def over_pixels(index, carried):  # type: ignore[no-untyped-def]
            at = e.b.shl(index, e.word(6))
            places = [(e.b.add(first, e.offset(at, 16 * k)), e.b.add(second, e.offset(at, 16 * k))) for k in range(PIXELS)]
            outputs = [scale(_combined(e, mode, fetches, a, b)) for a, b in places]
            e.store(e.packed(row, outputs), e.b.add(out, at))
            return carried

        e.loop(count, [], over_pixels)

    return stage_function(f"elementwise_dense_{mode}_{scaled}", 5, emit)


def _combined(e, mode, fetches, a, b):  # type: ignore[no-untyped-def]
    """The operation on 16 channels of each input, before the output stage."""
    return {ADD: e.b.add, SUB: e.b.sub, MUL: e.b.mul}[mode](fetches[0](a), fetches[1](b))


def _plain_operand(e, operand, flip, mode):  # type: ignore[no-untyped-def]
    """As `_operand`, where nothing is shifted: the product fits 32 bits."""
    zero_point, multiplier = (e.splat_word(e.field(operand, r.OPERAND, name)) for name in ("zero_point", "multiplier"))

    def fetch(address):  # type: ignore[no-untyped-def]
        value = e.b.sub(e.b.zext(e.b.xor(e.load(BYTES, address), flip), LANES), zero_point)
        return value if mode == MUL else e.b.mul(value, multiplier)

    return fetch


def _operand(e, operand, flip, mode):  # type: ignore[no-untyped-def]
    """What loads and scales 16 channels of the input that an OPERAND describes."""

    def number(name):  # type: ignore[no-untyped-def]
        return e.field(operand, r.OPERAND, name)

    zero_point, multiplier = e.splat_word(number("zero_point")), e.splat_word(number("multiplier"))
    rounding, shift = e.splat_pair(number("rounding")), e.splat_pair(number("shift"))
    last = [e.splat_word(number(name)) for name in ("rounding_term", "sign_mask", "right_shift")]

    def fetch(address):  # type: ignore[no-untyped-def]
        value = e.b.sub(e.b.zext(e.b.xor(e.load(BYTES, address), flip), LANES), zero_point)
        if mode == MUL:
            return value
        even, odd = (e.b.ashr(e.b.add(product, rounding), shift) for product in e.products(value, multiplier))
        return e.round_away(e.merge(even, odd), *last)

    return fetch


combine_line = choice({mode: _line(mode) for mode in (ADD, SUB, MUL)})
combine_dense = choice(
    {4 * ADD + k: _dense(ADD, scaled) for k, scaled in enumerate((None, *_OPERANDS))} | {4 * MUL: _dense(MUL, None)}
)
"""By four times the mode, and 1 or 2 more if the first or second operand is shifted; never are both. SUB is too rare."""


@kernel(ty.void(ty.int64, ty.int64[::1], ty.int64, ty.int64))
def combine(at, bases, first, last):  # type: ignore[no-untyped-def]
    """An elementwise operation, the row at an address: the lines or, of a flat one, the pixels `first` to `last`."""
    row = r.row_at(at)[0]
    operands = r.operands_at(row.operands)[0]
    mode, way = operands.mode, 4 * operands.mode
    if operands.first.shift != 0:
        way += 1
    if operands.second.shift != 0:
        way += 2
    if row.is_flat != 0:
        a = bases[row.in_region] + load_i64(row.in_table)
        b = bases[row.in2_region] + load_i64(row.in2_table)
        o = bases[row.out_region] + load_i64(row.out_table)
        whole = min(last, row.width - 1)
        tiles = (whole - first) // PIXELS if way & 3 != 3 and mode != SUB else np.int64(0)
        combine_dense(way, at, a + 16 * first, b + 16 * first, o + 16 * first, tiles)
        done = first + PIXELS * tiles
        combine_line(mode, at, a + 16 * done, b + 16 * done, o + 16 * done, whole - done, np.int64(16))
        if last == row.width:
            combine_line(mode, at, a + 16 * whole, b + 16 * whole, o + 16 * whole, np.int64(1), row.tail)
        return
    for y in range(first, last):
        for k in range(row.blocks):
            a = bases[row.in_region] + load_i64(row.in_table + 8 * y) + k * row.in_brick
            b = bases[row.in2_region] + load_i64(row.in2_table + 8 * y) + k * row.in2_brick
            o = bases[row.out_region] + load_i64(row.out_table + 8 * y) + k * row.out_brick
            tail = row.tail if k + 1 == row.blocks else np.int64(16)
            combine_line(mode, at, a, b, o, row.width, tail)
