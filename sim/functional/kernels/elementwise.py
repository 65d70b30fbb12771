"""ADD, SUB and MUL of 8-bit maps, for both fast tiers."""

# mypy: allow-untyped-calls

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.emit import BYTES, LANES, MANY_BYTES, choice
from npu.native.kernel import kernel
from npu.native.memory import load_i64
from sim.functional.kernels import rows as r
from sim.functional.kernels.output import ADD, MUL, SUB
from sim.functional.kernels.stage import stage_function

_OPERANDS = ("first", "second")
PIXELS = 4
"""Of 16 channels, that are combined at a time."""
_FIXED_POINT = -1
"""In place of a mode: ADD or SUB as FIXED_POINT says."""


def _over_pixels(e, row, starts, width, body):  # type: ignore[no-untyped-def]
    """Call body([(first, second, output address, whether it is wanted or None), ...]) for PIXELS at a time of a line."""
    steps = e.of_row(row, "in_pixel", "in2_pixel", "out_pixel")

    def over_tiles(index, carried):  # type: ignore[no-untyped-def]
        places = []
        for k in range(PIXELS):
            x = e.offset(e.b.mul(index, e.word(PIXELS)), k)
            is_inside = e.b.icmp_signed("<", x, width)
            near = e.b.select(is_inside, x, e.b.sub(width, e.word(1)))
            at = [e.b.add(start, e.b.mul(near, step)) for start, step in zip(starts, steps, strict=True)]
            places.append((*at, is_inside if k else None))
        body(places)
        return carried

    e.loop(e.b.lshr(e.b.add(width, e.word(PIXELS - 1)), e.word(2)), [], over_tiles)


def _line(mode):  # type: ignore[no-untyped-def]
    """Kernel of some pixels of 16 channels."""

    def emit(e, args):  # type: ignore[no-untyped-def]
        row, first, second, out, width, tail = args
        operands, stage, limits = e.of_row(row, "operands", "stage", "limits")
        flip, scale = e.load(BYTES, limits), e.requantizer(row, stage)
        fetches = [_operand(e, e.field_at(operands, r.OPERANDS, which), flip, mode) for which in _OPERANDS]

        def over_pixels(places):  # type: ignore[no-untyped-def]
            e.put(row, [(scale(_combined(e, mode, fetches, a, b)), to, tail, inside) for a, b, to, inside in places])

        _over_pixels(e, row, (first, second, out), width, over_pixels)

    return stage_function(f"elementwise_{mode}", 6, emit)


def _fixed_point_line(e, args):  # type: ignore[no-untyped-def]
    row, first, second, out, width, tail = args
    add = e.fixed_point_sum(row, e.field_at(e.of_row(row, "operands"), r.OPERANDS, "fixed_point"))

    def joined(addresses):  # type: ignore[no-untyped-def]
        return e.joined([e.load(BYTES, address) for address in addresses])

    def over_pixels(places):  # type: ignore[no-untyped-def]
        total = add(joined([a for a, *_ in places]), joined([b for _, b, *_ in places]))
        e.put_bytes(total, [(to, tail, inside) for _, _, to, inside in places])

    _over_pixels(e, row, (first, second, out), width, over_pixels)


def _dense(name, combination):  # type: ignore[no-untyped-def]
    """Kernel of bytes side by side, 64 at a time; combination(emitter, row) gives what combines those at two addresses."""

    def emit(e, args):  # type: ignore[no-untyped-def]
        row, first, second, out, count = args
        combine = combination(e, row)

        def over_pixels(index, carried):  # type: ignore[no-untyped-def]
            at = e.b.shl(index, e.word(6))
            e.store(combine(e.b.add(first, at), e.b.add(second, at)), e.b.add(out, at))
            return carried

        e.loop(count, [], over_pixels)

    return stage_function(f"elementwise_dense_{name}", 5, emit)


def _dense_product(e, row):  # type: ignore[no-untyped-def]
    operands, stage, limits = e.of_row(row, "operands", "stage", "limits")
    flip, scale = e.load(BYTES, limits), e.requantizer(row, stage)
    fetches = [_operand(e, e.field_at(operands, r.OPERANDS, which), flip, MUL) for which in _OPERANDS]

    def combine(a, b):  # type: ignore[no-untyped-def]
        places = [(e.offset(a, 16 * k), e.offset(b, 16 * k)) for k in range(PIXELS)]
        return e.packed(row, [scale(_combined(e, MUL, fetches, *place)) for place in places])

    return combine


def _dense_sum(e, row):  # type: ignore[no-untyped-def]
    add = e.fixed_point_sum(row, e.field_at(e.of_row(row, "operands"), r.OPERANDS, "fixed_point"))
    return lambda a, b: add(e.load(MANY_BYTES, a), e.load(MANY_BYTES, b))


def _combined(e, mode, fetches, a, b):  # type: ignore[no-untyped-def]
    """The operation on 16 channels of each input, before the output stage."""
    return {ADD: e.b.add, SUB: e.b.sub, MUL: e.b.mul}[mode](fetches[0](a), fetches[1](b))


def _operand(e, operand, flip, mode):  # type: ignore[no-untyped-def]
    """What loads and scales 16 channels of the input that an OPERAND describes."""

    def number(name):  # type: ignore[no-untyped-def]
        return e.field(operand, r.OPERAND, name)

    zero_point, multiplier = e.splat_word(number("zero_point")), e.splat_word(number("multiplier"))
    rounding, shift = e.splat(number("rounding"), 8), e.splat(number("shift"), 8)
    last = [e.splat_word(number(name)) for name in ("rounding_term", "sign_mask", "right_shift")]

    def fetch(address):  # type: ignore[no-untyped-def]
        value = e.b.sub(e.b.zext(e.b.xor(e.load(BYTES, address), flip), LANES), zero_point)
        if mode == MUL:
            return value
        even, odd = (e.b.ashr(e.b.add(product, rounding), shift) for product in e.products(value, multiplier))
        return e.round_away(e.merge(even, odd), *last)

    return fetch


combine_line = choice(
    {mode: _line(mode) for mode in (ADD, SUB, MUL)}
    | {_FIXED_POINT: stage_function("elementwise_fixed_point", 6, _fixed_point_line)}
)
combine_dense = choice({MUL: _dense("product", _dense_product), _FIXED_POINT: _dense("sum", _dense_sum)})


@kernel(ty.void(ty.int64, ty.int64[::1], ty.int64, ty.int64))
def combine(at, bases, first, last):  # type: ignore[no-untyped-def]
    """An elementwise operation, the row at an address: the lines or, of a flat one, the pixels `first` to `last`."""
    row = r.row_at(at)[0]
    operands = r.operands_at(row.operands)[0]
    mode = operands.mode if operands.fixed_point.is_exact == 0 else np.int64(_FIXED_POINT)
    first_base, second_base, base = r.input_base(row, bases), bases[row.in2_region] + row.in2_start, r.output_base(row, bases)
    if row.is_flat != 0:
        a = first_base + load_i64(row.in_table)
        b = second_base + load_i64(row.in2_table)
        o = base + load_i64(row.out_table)
        whole = min(last, row.width - 1)
        tiles = (whole - first) // PIXELS if mode in (_FIXED_POINT, MUL) else np.int64(0)
        combine_dense(mode, at, a + 16 * first, b + 16 * first, o + 16 * first, tiles)
        done = first + PIXELS * tiles
        combine_line(mode, at, a + 16 * done, b + 16 * done, o + 16 * done, whole - done, np.int64(16))
        if last == row.width:
            combine_line(mode, at, a + 16 * whole, b + 16 * whole, o + 16 * whole, np.int64(1), row.tail)
        return
    for y in range(first, last):
        for k in range(row.blocks):
            a = first_base + load_i64(row.in_table + 8 * y) + k * row.in_brick
            b = second_base + load_i64(row.in2_table + 8 * y) + k * row.in2_brick
            o = base + load_i64(row.out_table + 8 * y) + k * row.out_brick
            tail = row.tail if k + 1 == row.blocks else np.int64(16)
            combine_line(mode, at, a, b, o, row.width, tail)
