"""LLVM vector code that both tiers of fast kernels share: idioms, the output stage, depthwise and elementwise kernels.

Vectors have 16 lanes, of 32 bits or less; LLVM cuts them to what the CPU has.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import numpy as np
from llvmlite import ir

from npu.machine.kernels.rows import integers, vector
from npu.native import types as ty
from npu.native.emit import BYTE, BYTES, LANES, PAIRS, WORD, Emitter, function
from npu.native.kernel import RowsAt, kernel
from npu.native.memory import load_i64
from sim.functional.kernels import rows as r
from sim.functional.kernels.output import ADD, SUB

DEPTHWISE = np.dtype(
    [
        vector("row_addresses", 3),  # of the input
        vector("row_steps", 3),  # bytes from column to column
        *integers(
            "padding",  # address of the pixel that stands for every column outside 0..in_width - 1
            *("in_width", "first", "warm_up"),  # the first column that is taken in; columns taken in before the first output
            *("width", "weights", "stage"),
            *("out", "out_step"),
            *("tail", "xor", "zero_point", "low", "high", "finish"),
            *("sums", "sum_step"),  # with which the sums begin: the biases, or what the part before has left
        ),
    ]
)
"""What `depthwise_row` takes."""
PART_WEIGHTS = 3 * 64
"""Bytes of the weights of a part for 16 channels: 3 rows of 4 columns."""
DEPTHWISE_WORDS = DEPTHWISE.itemsize // 8
_depthwise_at = RowsAt(ty.record(DEPTHWISE))


class StageEmitter(Emitter):
    """Emits the output stage as well."""

    def round_away(self, t, term, mask, shift):  # type: ignore[no-untyped-def]
        """t / 2**shift, ties away from zero: term is 2**(shift - 1), mask -1; both 0 if shift is 0."""
        sign = self.b.and_(self.b.ashr(t, self.constant(31)), mask)
        return self.b.ashr(self.b.add(self.b.add(t, term), sign), shift)

    def requantize(self, total, stage):  # type: ignore[no-untyped-def]
        """stage: left shift (by one more than needed), multiplier, term, mask, right shift."""
        even, odd = self.products(self.b.shl(total, stage[0]), stage[1])
        half = ir.Constant(PAIRS, [1 << 31] * 8)
        t = self.merge(self.b.add(even, half), self.b.add(odd, half), high=True)
        return self.round_away(t, stage[2], stage[3], stage[4])

    def floor(self, total, stage):  # type: ignore[no-untyped-def]
        """stage: multiplier, addends of even and odd products (with the zero point), right shift of the high halves."""
        even, odd = self.products(total, stage[0])
        return self.b.ashr(self.merge(self.b.add(even, stage[1]), self.b.add(odd, stage[2]), high=True), stage[3])

    def constants(self, stage):  # type: ignore[no-untyped-def]
        """What `requantize` takes, from the stage of a block."""
        names = ("left_shift", "multiplier", "rounding_term", "sign_mask", "right_shift")
        return [self.field(stage, r.CHANNELS, name) for name in names]

    def floor_constants(self, stage):  # type: ignore[no-untyped-def]
        """What `floor` takes, from the stage of a block."""
        names = ("multiplier", "even_addend", "odd_addend", "high_shift")
        return [self.field(stage, r.CHANNELS, name) for name in names]

    def clamp_bytes(self, value, low, high):  # type: ignore[no-untyped-def]
        return self.b.trunc(self.clamp(value, low, high), BYTES)

    def blend_first(self, value, address, count):  # type: ignore[no-untyped-def]
        """Store the first `count` of 16 bytes; the others keep what they hold."""
        with self.b.if_else(self.b.icmp_signed("<", count, self.word(16))) as (partial, whole):
            with partial:
                self.store(self.b.select(self.first_lanes(count), value, self.load(BYTES, address)), address)
            with whole:
                self.store(value, address)

    def finish(self, totals, stage, finish, limits, target, tail):  # type: ignore[no-untyped-def]
        """Sums of groups of channels, [pixel][group], to the addresses `target(pixel, group)`, bytes or as they are.

        limits: zero point, low, high; tail: channels of the last group.
        """
        zp, low, high = limits
        last = len(totals[0]) - 1

        def write(constants, scale):  # type: ignore[no-untyped-def]
            for n in range(last + 1):
                numbers = constants(self.offset(stage, r.CHANNELS_BYTES * n))
                for k, of_pixel in enumerate(totals):
                    value = self.clamp_bytes(scale(of_pixel[n], numbers), low, high)
                    if n == last:
                        self.blend_first(value, target(k, n), tail)
                    else:
                        self.store(value, target(k, n))

        def write_sums():  # type: ignore[no-untyped-def]
            for k, of_pixel in enumerate(totals):
                for n in range(last + 1):
                    self.store(of_pixel[n], target(k, n))

        self.choose(
            finish,
            write_sums,
            lambda: write(self.floor_constants, self.floor),
            lambda: write(self.constants, lambda total, numbers: self.b.add(self.requantize(total, numbers), zp)),
        )

    def choose(self, finish, emit_sums, emit_floor, emit_requantized):  # type: ignore[no-untyped-def]
        """Code for each of the row's output stages."""
        with self.b.if_else(self.b.icmp_signed("==", finish, self.word(r.SUM))) as (sums, others):
            with sums:
                emit_sums()
            with others, self.b.if_else(self.b.icmp_signed("==", finish, self.word(r.FLOOR))) as (short, full):
                with short:
                    emit_floor()
                with full:
                    emit_requantized()


def stage_function(name, count, emit):  # type: ignore[no-untyped-def]
    """A function of words for kernels to call, written with a StageEmitter."""
    return function(name, count, emit, StageEmitter)


def depthwise_row(stride, tier, prepare, dot):  # type: ignore[no-untyped-def]
    """Kernel of one output row, 16 channels and 3 rows by 4 columns of a window: a lane holds a channel's last 4 columns.

    Larger windows are several such parts, each of which begins with the sums of the one before. Its argument is the address of
    what `set_line` and `set_part` write. `dot(emitter, total, inputs, prepared)` adds the products of the 4 unsigned bytes of
    each lane with the 4 signed ones of `weights`, `prepared` being `prepare(emitter, weights)`.
    """

    def emit(e, args):  # type: ignore[no-untyped-def]
        def argument(name):  # type: ignore[no-untyped-def]
            return e.field(args[0], DEPTHWISE, name)

        def of_rows(name):  # type: ignore[no-untyped-def]
            return [e.load(WORD, e.field_at(args[0], DEPTHWISE, name), 8 * k) for k in range(3)]

        row_addresses, row_steps = of_rows("row_addresses"), of_rows("row_steps")
        padding, in_width, first, warm_up, width = map(argument, ("padding", "in_width", "first", "warm_up", "width"))
        weights, stage, out, out_step, tail = map(argument, ("weights", "stage", "out", "out_step", "tail"))
        xor, zp, low, high, finish = map(argument, ("xor", "zero_point", "low", "high", "finish"))
        sums, sum_step = argument("sums"), argument("sum_step")
        taps = [prepare(e, e.load(LANES, e.offset(weights, 64 * k))) for k in range(3)]
        xor = e.splat(e.b.trunc(xor, BYTE))
        zp, low, high = (e.splat_word(value) for value in (zp, low, high))

        def take(column, states):  # type: ignore[no-untyped-def]
            inside = e.b.icmp_unsigned("<", column, in_width)
            result = []
            for k in range(3):
                address = e.b.add(row_addresses[k], e.b.mul(column, row_steps[k]))
                pixel = e.b.xor(e.load(BYTES, e.b.select(inside, address, padding)), xor)
                result.append(e.call("llvm.fshr.v16i32", e.b.zext(pixel, LANES), states[k], e.constant(8)))
            return result

        warm = e.loop(warm_up, [e.constant(0)] * 3, lambda index, states: take(e.b.add(first, index), states))
        start = e.b.add(first, warm_up)

        def slide(put):  # type: ignore[no-untyped-def]
            def over_columns(_index, carried):  # type: ignore[no-untyped-def]
                column, source, target, *states = carried
                for _ in range(stride):
                    states = take(column, states)
                    column = e.offset(column, 1)
                total = e.load(LANES, source)
                for k in range(3):
                    total = dot(e, total, states[k], taps[k])
                put(total, target)
                return [column, e.b.add(source, sum_step), e.b.add(target, out_step), *states]

            e.loop(width, [start, sums, out, *warm], over_columns)

        def slide_clamped(numbers, scale):  # type: ignore[no-untyped-def]
            slide(lambda total, target: e.blend_first(e.clamp_bytes(scale(total, numbers), low, high), target, tail))

        e.choose(
            finish,
            lambda: slide(e.store),
            lambda: slide_clamped(e.floor_constants(stage), e.floor),
            lambda: slide_clamped(e.constants(stage), lambda total, numbers: e.b.add(e.requantize(total, numbers), zp)),
        )

    return stage_function(f"{tier}_depthwise_{stride}", 1, emit)


@kernel(ty.void(r.ROW_TYPE, ty.int64, ty.int64, ty.int64, ty.int64))
def set_line(row, y, block, width, arguments):  # type: ignore[no-untyped-def]
    """Write the arguments of `depthwise_row` that all parts of the window share, for an output row and a group of channels."""
    to = _depthwise_at(arguments)[0]
    to.padding = row.padding_pixel
    to.in_width = row.in_width
    to.width = width
    to.stage = row.stage + block * r.CHANNELS_BYTES
    to.tail = row.tail if block + 1 == row.blocks else np.int64(16)
    to.xor = row.xor
    to.zero_point = row.zero_point
    to.low = row.low
    to.high = row.high


@kernel(ty.void(r.ROW_TYPE, ty.int64[::1], ty.int64, ty.int64, ty.int64, ty.int64, ty.int64, ty.int64))
def set_part(row, bases, y, x, block, part, sums, arguments):  # type: ignore[no-untyped-def]
    """Write the other arguments, those of a part; x is the first column, `sums` where parts hand on 16 int32 per column."""
    to = _depthwise_at(arguments)[0]
    base, of_part = r.base_of(bases, row.in_region, np.int64(0)), r.parts_at(row.segment_table)[part]
    first = row.in_table + 8 * (y * row.dwords + of_part.first_row)
    for k in range(3):
        offset = load_i64(first + 8 * k)
        is_padding = offset < 0
        to.row_addresses[k] = row.padding_pixel if is_padding else base + offset + block * row.in_brick
        to.row_steps[k] = np.int64(0) if is_padding else row.in_pixel
    to.first = of_part.first_column + x * row.stride
    to.warm_up = of_part.warm_up
    to.weights = row.weights + (block * row.segments + part) * PART_WEIGHTS
    is_first, is_last = part == 0, part + 1 == row.segments
    out = r.base_of(bases, row.out_region, row.sums) + load_i64(row.out_table + 8 * y)
    out += block * row.out_brick + x * row.out_pixel
    to.out = out if is_last else sums
    to.out_step = row.out_pixel if is_last else np.int64(64)
    to.finish = row.finish if is_last else np.int64(r.SUM)
    to.sums = row.stage + block * r.CHANNELS_BYTES + r.CHANNELS_BIAS if is_first else sums
    to.sum_step = np.int64(0) if is_first else np.int64(64)


def _elementwise(mode):  # type: ignore[no-untyped-def]
    """Kernel of one row and 16 channels: ADD, SUB or MUL."""

    def emit(e, args):  # type: ignore[no-untyped-def]
        first, second, out, first_step, second_step, out_step, width, operands, stage, tail, xor, zp, low, high = args
        signed = e.b.icmp_signed("!=", xor, e.word(0))
        constants = e.constants(stage)
        zp, low, high = (e.splat_word(value) for value in (zp, low, high))

        def fetch(address, which):  # type: ignore[no-untyped-def]
            def number(name):  # type: ignore[no-untyped-def]
                return e.field(e.field_at(operands, r.OPERANDS, which), r.OPERAND, name)

            pixel = e.load(BYTES, address)
            value = e.b.select(signed, e.b.sext(pixel, LANES), e.b.zext(pixel, LANES))
            value = e.b.sub(value, e.splat_word(number("zero_point")))
            if mode == "mul":
                return value
            rounding, shift = e.splat_pair(number("rounding")), e.splat_pair(number("shift"))
            even, odd = (
                e.b.ashr(e.b.add(product, rounding), shift) for product in e.products(value, e.splat_word(number("multiplier")))
            )
            last = (e.splat_word(number(name)) for name in ("rounding_term", "sign_mask", "right_shift"))
            return e.round_away(e.merge(even, odd, high=False), *last)

        def over_pixels(_index, addresses):  # type: ignore[no-untyped-def]
            a, b = fetch(addresses[0], "first"), fetch(addresses[1], "second")
            total = {"add": e.b.add, "sub": e.b.sub, "mul": e.b.mul}[mode](a, b)
            e.blend_first(e.clamp_bytes(e.b.add(e.requantize(total, constants), zp), low, high), addresses[2], tail)
            steps = (first_step, second_step, out_step)
            return [e.b.add(address, step) for address, step in zip(addresses, steps, strict=True)]

        e.loop(width, [first, second, out], over_pixels)

    return stage_function(f"elementwise_{mode}", 14, emit)


add_row, subtract_row, multiply_row = _elementwise("add"), _elementwise("sub"), _elementwise("mul")


@kernel(ty.void(r.ROW_TYPE, ty.int64[::1]))
def combine(row, bases):  # type: ignore[no-untyped-def]
    """ADD, SUB or MUL of 8-bit maps."""
    mode = r.operands_at(row.operands)[0].mode
    for y in range(row.pixels):
        for k in range(row.blocks):
            a = bases[row.in_region] + load_i64(row.in_table + 8 * y) + k * row.in_brick
            b = bases[row.in2_region] + load_i64(row.in2_table + 8 * y) + k * row.in2_brick
            o = bases[row.out_region] + load_i64(row.out_table + 8 * y) + k * row.out_brick
            tail = row.tail if k + 1 == row.blocks else np.int64(16)
            ap, bp, op, n, c, s = (
                row.in_pixel,
                row.in2_pixel,
                row.out_pixel,
                row.width,
                row.operands,
                row.stage,
            )
            if mode == ADD:
                add_row(a, b, o, ap, bp, op, n, c, s, tail, row.xor, row.zero_point, row.low, row.high)
            elif mode == SUB:
                subtract_row(a, b, o, ap, bp, op, n, c, s, tail, row.xor, row.zero_point, row.low, row.high)
            else:
                multiply_row(a, b, o, ap, bp, op, n, c, s, tail, row.xor, row.zero_point, row.low, row.high)
