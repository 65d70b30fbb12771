"""ADD and SUB of 8-bit maps, 16 elements at a time, and sums of the inputs of 8-bit products.

Blocks of an ADD that would end behind the maps overlap those before, so there must be 16 elements, or 64 in fixed point.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

from llvmlite import ir

from npu.native import types as ty
from npu.native.emit import BYTE, BYTES, INT, LANES, MANY_BYTES, WORD, choice, function
from npu.native.kernel import kernel
from npu.runtime.xnnpack.kernels import row as r
from npu.runtime.xnnpack.kernels.job_code import job_function

_BLOCKS = 4


def _emit(exact, *, subtract):  # type: ignore[no-untyped-def]
    """`exact`: the operand of the larger scale, whose factor is one half, so that nothing is rounded."""

    def emit(e, args):  # type: ignore[no-untyped-def]
        row, first, last = args
        a, b, out, count, sign = e.of_row(row, "input", "input2", "out", "width", "sign")
        operands, stage = e.of_row(row, "weights", "stage")
        flip, scale = e.splat(e.b.trunc(sign, BYTE)), e.requantizer(row, stage)
        names = ("offset", "high", "low", "term", "mask", "shift")
        parts = [
            [e.field(e.offset(operands, k * r.SUM_OPERAND.itemsize), r.SUM_OPERAND, name) for name in names] for k in range(2)
        ]

        def operand(address, k):  # type: ignore[no-untyped-def]
            offset, high, low, *rounding = parts[k]
            value = e.b.sub(e.b.zext(e.b.xor(e.load(BYTES, address), flip), LANES), offset)
            if k == exact:
                return e.b.shl(value, e.constant(r.LEFT_SHIFT - 1))
            low_part = e.b.add(e.b.mul(value, low), e.constant(1 << r.LOW_BITS - 1))
            return e.round_away(e.b.add(e.b.mul(value, high), e.b.ashr(low_part, e.constant(r.LOW_BITS))), *rounding)

        def block(at):  # type: ignore[no-untyped-def]
            left, right = operand(e.b.add(a, at), 0), operand(e.b.add(b, at), 1)
            return scale(e.b.sub(left, right) if subtract else e.b.add(left, right)), e.b.add(out, at), None, None

        def over_blocks(index, carried):  # type: ignore[no-untyped-def]
            start, end = e.b.shl(e.b.add(first, index), e.word(6)), e.offset(count, -16)
            places = [e.offset(start, 16 * k) for k in range(_BLOCKS)]
            e.put(row, [block(e.b.select(e.b.icmp_signed("<", at, end), at, end)) for at in places])
            return carried

        e.loop(e.b.sub(last, first), [], over_blocks)

    return emit


_sums = choice(
    {
        exact + 2 * subtract: job_function(f"sum_bytes_{exact}_{subtract}", 3, _emit(exact, subtract=bool(subtract)))
        for exact in range(2)
        for subtract in range(2)
    }
)
"""By number: which operand is exact, plus two to subtract."""


@kernel(ty.void(ty.int64, ty.int64, ty.int64))
def sum_bytes(at, first, last):  # type: ignore[no-untyped-def]
    """Four blocks of 16 elements at a time, the groups `first` to `last` of the job at an address."""
    row = r.jobs_at(at)[0]
    _sums(row.single - 1 + 2 * (row.kind == r.SUBTRACT_BYTES), at, first, last)


def _emit_fixed_point(e, args):  # type: ignore[no-untyped-def]
    row, first, last = args
    a, b, out, count = e.of_row(row, "input", "input2", "out", "width")
    add, end = e.fixed_point_sum(row, e.of_row(row, "weights")), e.offset(count, -16 * _BLOCKS)

    def over_blocks(index, carried):  # type: ignore[no-untyped-def]
        at = e.b.shl(e.b.add(first, index), e.word(6))
        at = e.b.select(e.b.icmp_signed("<", at, end), at, end)
        e.store(add(e.load(MANY_BYTES, e.b.add(a, at)), e.load(MANY_BYTES, e.b.add(b, at))), e.b.add(out, at))
        return carried

    e.loop(e.b.sub(last, first), [], over_blocks)


_fixed_point = job_function("add_bytes", 3, _emit_fixed_point)


@kernel(ty.void(ty.int64, ty.int64, ty.int64))
def add_bytes(at, first, last):  # type: ignore[no-untyped-def]
    """64 elements at a time, of at least as many, by FIXED_POINT: the groups `first` to `last` of the job at an address."""
    _fixed_point(at, first, last)


def _emit_pixels(e, args):  # type: ignore[no-untyped-def]
    """For every pixel: `factor` times the sum of `count` unsigned bytes of each of its stretches, int32."""
    table, segments, count, out, pixels, factor = args
    whole, rest = e.b.ashr(count, e.word(4)), e.b.and_(count, e.word(15))
    step = e.b.mul(segments, e.word(8))

    def over_pixels(index, carried):  # type: ignore[no-untyped-def]
        def over_segments(segment, totals):  # type: ignore[no-untyped-def]
            start = e.load(WORD, e.b.add(carried[0], e.b.mul(segment, e.word(8))))

            def over_blocks(block, sums):  # type: ignore[no-untyped-def]
                values = e.load(BYTES, e.b.add(start, e.b.mul(block, e.word(16))))
                return [e.b.add(sums[0], e.b.zext(values, LANES))]

            total = e.loop(whole, totals, over_blocks)[0]
            last = e.load_first(BYTES, e.b.add(start, e.b.mul(whole, e.word(16))), rest)
            return [e.b.add(total, e.b.zext(last, LANES))]

        lanes = e.loop(segments, [e.constant(0)], over_segments)[0]
        add = e.function("llvm.vector.reduce.add.v16i32", ir.FunctionType(INT, [LANES]))
        value = e.b.mul(e.b.call(add, [lanes]), e.b.trunc(factor, INT))
        e.b.store(value, e.b.inttoptr(carried[1], INT.as_pointer())).align = 4
        return [e.b.add(carried[0], step), e.b.add(carried[1], e.word(4))]

    e.loop(pixels, [table, out], over_pixels)


_pixels = function("sum_pixels", 6, _emit_pixels)


@kernel(ty.void(r.JOB_ROW, ty.int64, ty.int64))
def sum_pixels(row, first, last):  # type: ignore[no-untyped-def]
    """What the zero point of the weights adds to the sums of the pixels `first` to `last`."""
    table = row.table + 8 * first * row.segments
    _pixels(table, row.segments, row.row_bytes, row.out + 4 * first, last - first, row.zero_point)


def _emit_flip(e, args):  # type: ignore[no-untyped-def]
    """Copy `count` bytes with their highest bits inverted: int8 values become unsigned, 128 larger."""
    source, out, count = args
    blocks = ir.VectorType(BYTE, 64)
    whole, quarters = e.b.ashr(count, e.word(6)), e.b.ashr(count, e.word(4))

    def over_blocks(index, carried):  # type: ignore[no-untyped-def]
        at = e.b.mul(index, e.word(64))
        value = e.b.xor(e.load(blocks, e.b.add(source, at)), ir.Constant(blocks, [-128] * 64))
        e.store(value, e.b.add(out, at))
        return []

    def quarter(index, size):  # type: ignore[no-untyped-def]
        at = e.b.mul(index, e.word(16))
        value = e.b.xor(e.load_first(BYTES, e.b.add(source, at), size), ir.Constant(BYTES, [-128] * 16))
        e.store_first(value, e.b.add(out, at), size)

    def over_quarters(index, carried):  # type: ignore[no-untyped-def]
        quarter(e.b.add(e.b.mul(whole, e.word(4)), index), e.word(16))
        return []

    e.loop(whole, [], over_blocks)
    e.loop(e.b.sub(quarters, e.b.mul(whole, e.word(4))), [], over_quarters)
    with e.b.if_then(e.b.icmp_signed(">", e.b.and_(count, e.word(15)), e.word(0))):
        quarter(quarters, e.b.and_(count, e.word(15)))


_flip = function("flip_bytes", 3, _emit_flip)


@kernel(ty.void(r.JOB_ROW, ty.int64, ty.int64))
def flip_rows(row, first, last):  # type: ignore[no-untyped-def]
    """The rows `first` to `last` of a map into another one, int8 to unsigned."""
    for y in range(first, last):
        _flip(row.input + y * row.input_step, row.out + y * row.out_step, row.row_bytes)
