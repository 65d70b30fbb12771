"""Fast kernels for CPUs with 8-bit dot-product instructions (AVX-512 VNNI), written as LLVM vector code.

Each kernel gives the bytes of the portable one. Sums are 32-bit modulo 2**32; the plan has proven that the true sums fit.
"""

# mypy: allow-untyped-calls
# ruff: noqa: E741 - the intrinsics' arguments have no meaning by name

from __future__ import annotations

import numba as nb
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from npu.numerics.kernel import kernel
from sim.functional.kernels import rows as r
from sim.functional.kernels.raw import load_i64

WORD = ir.IntType(64)
INT = ir.IntType(32)
BYTE = ir.IntType(8)
LANES = ir.VectorType(INT, 16)
PAIRS = ir.VectorType(WORD, 8)
BYTES = ir.VectorType(BYTE, 16)
DOT = "llvm.x86.avx512.vpdpbusd.512"


class _Emitter:
    """Emits the vector idioms that the kernels share."""

    def __init__(self, builder, module):  # type: ignore[no-untyped-def]
        self.b = builder
        self.dot_function = module.globals.get(DOT) or ir.Function(module, ir.FunctionType(LANES, [LANES] * 3), DOT)

    def load(self, kind, address):  # type: ignore[no-untyped-def]
        value = self.b.load(self.b.inttoptr(address, kind.as_pointer()))
        value.align = 1
        return value

    def store(self, value, address):  # type: ignore[no-untyped-def]
        self.b.store(value, self.b.inttoptr(address, value.type.as_pointer())).align = 1

    def word(self, value):  # type: ignore[no-untyped-def]
        return ir.Constant(WORD, value)

    def offset(self, address, distance):  # type: ignore[no-untyped-def]
        return self.b.add(address, self.word(distance)) if distance else address

    def splat(self, scalar):  # type: ignore[no-untyped-def]
        kind = ir.VectorType(scalar.type, 16)
        one = self.b.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.Constant(INT, 0))
        return self.b.shuffle_vector(one, one, ir.Constant(LANES, [0] * 16))

    def splat_pair(self, value):  # type: ignore[no-untyped-def]
        one = self.b.insert_element(ir.Constant(PAIRS, ir.Undefined), value, ir.Constant(INT, 0))
        return self.b.shuffle_vector(one, one, ir.Constant(ir.VectorType(INT, 8), [0] * 8))

    def constant(self, value):  # type: ignore[no-untyped-def]
        return ir.Constant(LANES, [value] * 16)

    def dot(self, total, unsigned, signed):  # type: ignore[no-untyped-def]
        return self.b.call(self.dot_function, [total, unsigned, signed])

    def products(self, a, m):  # type: ignore[no-untyped-def]
        """64-bit products of even and odd lanes."""
        half = ir.Constant(PAIRS, [32] * 8)
        a, m = self.b.bitcast(a, PAIRS), self.b.bitcast(m, PAIRS)
        even = self.b.mul(self.b.ashr(self.b.shl(a, half), half), self.b.ashr(self.b.shl(m, half), half))
        return even, self.b.mul(self.b.ashr(a, half), self.b.ashr(m, half))

    def merge(self, even, odd, *, high):  # type: ignore[no-untyped-def]
        """The high or low halves of even and odd products as lanes."""
        first = [2 * k + (1 if high else 0) for k in range(8)]
        order = [lane for k in first for lane in (k, k + 16)]
        return self.b.shuffle_vector(self.b.bitcast(even, LANES), self.b.bitcast(odd, LANES), ir.Constant(LANES, order))

    def divide_away(self, t, term, mask, shift):  # type: ignore[no-untyped-def]
        """t / 2**shift, ties away from zero: term is 2**(shift - 1), mask -1; both 0 if shift is 0."""
        sign = self.b.and_(self.b.ashr(t, self.constant(31)), mask)
        return self.b.ashr(self.b.add(self.b.add(t, term), sign), shift)

    def requantise(self, total, stage):  # type: ignore[no-untyped-def]
        """stage: left shift (by one more than needed), multiplier, term, mask, right shift."""
        even, odd = self.products(self.b.shl(total, stage[0]), stage[1])
        half = ir.Constant(PAIRS, [1 << 31] * 8)
        t = self.merge(self.b.add(even, half), self.b.add(odd, half), high=True)
        return self.divide_away(t, stage[2], stage[3], stage[4])

    def floor(self, total, stage):  # type: ignore[no-untyped-def]
        """stage: multiplier, addends of even and odd products (with the zero point), right shift of the high halves."""
        even, odd = self.products(total, stage[0])
        return self.b.ashr(self.merge(self.b.add(even, stage[1]), self.b.add(odd, stage[2]), high=True), stage[3])

    def constants(self, stage):  # type: ignore[no-untyped-def]
        """What `requantise` takes, from the stage of a block."""
        return [self.load(LANES, self.offset(stage, 64 * k)) for k in range(1, 6)]

    def floor_constants(self, stage):  # type: ignore[no-untyped-def]
        """What `floor` takes, from the stage of a block."""
        kinds = ((LANES, 2), (PAIRS, 6), (PAIRS, 7), (LANES, 8))
        return [self.load(kind, self.offset(stage, 64 * k)) for kind, k in kinds]

    def clamp(self, v, low, high):  # type: ignore[no-untyped-def]
        v = self.b.select(self.b.icmp_signed(">", v, low), v, low)
        v = self.b.select(self.b.icmp_signed("<", v, high), v, high)
        return self.b.trunc(v, BYTES)

    def store_lanes(self, value, address, count):  # type: ignore[no-untyped-def]
        """Store the first `count` of 16 bytes; the others keep what they hold."""
        with self.b.if_else(self.b.icmp_signed("<", count, self.word(16))) as (partial, whole):
            with partial:
                lanes = ir.Constant(LANES, list(range(16)))
                keep = self.b.icmp_signed("<", lanes, self.splat(self.b.trunc(count, INT)))
                self.store(self.b.select(keep, value, self.load(BYTES, address)), address)
            with whole:
                self.store(value, address)

    def splat_word(self, value):  # type: ignore[no-untyped-def]
        return self.splat(self.b.trunc(value, INT))

    def loop(self, count, carried):  # type: ignore[no-untyped-def]
        return _Loop(self.b, count, carried)


class _Loop:
    """`for index in range(count)` with carried values; the body sets `results`."""

    def __init__(self, builder, count, carried):  # type: ignore[no-untyped-def]
        self.b, self.count, self.start = builder, count, carried
        self.results = carried

    def __enter__(self):  # type: ignore[no-untyped-def]
        before = self.b.block
        self.head, self.body, self.end = (self.b.append_basic_block() for _ in range(3))
        self.b.branch(self.head)
        self.b.position_at_end(self.head)
        self.index = self.b.phi(WORD)
        self.index.add_incoming(ir.Constant(WORD, 0), before)
        self.values = [self.b.phi(value.type) for value in self.start]
        for phi, value in zip(self.values, self.start, strict=True):
            phi.add_incoming(value, before)
        self.b.cbranch(self.b.icmp_signed("<", self.index, self.count), self.body, self.end)
        self.b.position_at_end(self.body)
        return self

    def __exit__(self, kind, value, trace):  # type: ignore[no-untyped-def]
        last = self.b.block
        self.index.add_incoming(self.b.add(self.index, ir.Constant(WORD, 1)), last)
        for phi, result in zip(self.values, self.results, strict=True):
            phi.add_incoming(result, last)
        self.b.branch(self.head)
        self.b.position_at_end(self.end)


def _as_intrinsic(name, argument_count, emit):  # type: ignore[no-untyped-def]
    """A numba intrinsic that calls an internal function of int64 arguments whose body `emit` writes."""

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        module = builder.module
        function = module.globals.get(name)
        if function is None:
            function = ir.Function(module, ir.FunctionType(ir.VoidType(), [WORD] * argument_count), name)
            function.linkage = "internal"
            function.attributes.add("noinline")
            body = ir.IRBuilder(function.append_basic_block())
            emit(_Emitter(body, module), function.args)
            body.ret_void()
        builder.call(function, args)
        return context.get_dummy_value()

    return codegen


def _tile(height, width):  # type: ignore[no-untyped-def]
    """Kernel of `height` pixels by `width` groups of 16 channels."""

    def emit(e, args):  # type: ignore[no-untyped-def]
        ins, base, segments, count, dwords, weights, weight_step, stage = args[:8]
        outs, out_base, brick, tail, xor, zp, low, high, is_floor = args[8:]
        pixels = [e.b.add(base, e.load(WORD, e.offset(ins, 8 * k))) for k in range(height)]
        biases = [e.load(LANES, e.offset(stage, r.STAGE_BYTES * n)) for n in range(width)]
        xor = e.splat_word(xor)
        steps = [e.b.mul(weight_step, e.word(n)) for n in range(width)]
        with e.loop(count, [weights] + biases * height) as outer:
            start = e.load(WORD, e.b.add(segments, e.b.shl(outer.index, e.word(3))))
            rows = [e.b.add(pixel, start) for pixel in pixels]
            with e.loop(dwords, outer.values) as inner:
                at = e.b.shl(inner.index, e.word(2))
                vectors = [e.load(LANES, e.b.add(inner.values[0], step)) for step in steps]
                totals = inner.values[1:]
                for k in range(height):
                    value = e.b.xor(e.splat(e.load(INT, e.b.add(rows[k], at))), xor)
                    for n in range(width):
                        totals[k * width + n] = e.dot(totals[k * width + n], value, vectors[n])
                inner.results = [e.offset(inner.values[0], 64), *totals]
            outer.results = inner.values
        totals = outer.values[1:]
        zp, low, high = (e.splat_word(value) for value in (zp, low, high))
        targets = [e.b.add(out_base, e.load(WORD, e.offset(outs, 8 * k))) for k in range(height)]

        def finish(constants, scale):  # type: ignore[no-untyped-def]
            for n in range(width):
                numbers = constants(e.offset(stage, r.STAGE_BYTES * n))
                for k in range(height):
                    value = e.clamp(scale(totals[k * width + n], numbers), low, high)
                    target = e.b.add(targets[k], e.b.mul(brick, e.word(n)))
                    if n == width - 1:
                        e.store_lanes(value, target, tail)
                    else:
                        e.store(value, target)

        with e.b.if_else(e.b.icmp_signed("!=", is_floor, e.word(0))) as (short, full):
            with short:
                finish(e.floor_constants, e.floor)
            with full:
                finish(e.constants, lambda total, numbers: e.b.add(e.requantise(total, numbers), zp))

    codegen = _as_intrinsic(f"tile_{height}_{width}", 17, emit)

    @intrinsic
    def tile(typingctx, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q):  # type: ignore[no-untyped-def]
        return nb.void(*[nb.int64] * 17), codegen

    return tile


tile_16_1, tile_12_2, tile_8_3, tile_6_4 = _tile(16, 1), _tile(12, 2), _tile(8, 3), _tile(6, 4)
tile_1_1, tile_1_2, tile_1_3, tile_1_4 = _tile(1, 1), _tile(1, 2), _tile(1, 3), _tile(1, 4)


def _depthwise(stride):  # type: ignore[no-untyped-def]
    """Kernel of one output row and 16 channels, at most 3 rows by 4 columns: a lane holds a channel's last 4 columns."""

    def emit(e, args):  # type: ignore[no-untyped-def]
        row_addresses, row_steps, padding = args[0:3], args[3:6], args[6]
        in_width, first, warm_up, width, weights, stage, out, out_step, tail, xor, zp, low, high, is_floor = args[7:21]
        taps = [e.load(LANES, e.offset(weights, 64 * k)) for k in range(3)]
        bias = e.load(LANES, stage)
        xor = e.splat(e.b.trunc(xor, BYTE))
        zp, low, high = (e.splat_word(value) for value in (zp, low, high))
        funnel_name = "llvm.fshr.v16i32"
        module = e.b.module
        funnel = module.globals.get(funnel_name) or ir.Function(module, ir.FunctionType(LANES, [LANES] * 3), funnel_name)

        def take(column, states):  # type: ignore[no-untyped-def]
            inside = e.b.icmp_unsigned("<", column, in_width)
            found = []
            for k in range(3):
                address = e.b.add(row_addresses[k], e.b.mul(column, row_steps[k]))
                pixel = e.b.xor(e.load(BYTES, e.b.select(inside, address, padding)), xor)
                found.append(e.b.call(funnel, [e.b.zext(pixel, LANES), states[k], e.constant(8)]))
            return found

        empty = [e.constant(0)] * 3
        with e.loop(warm_up, empty) as warm:
            warm.results = take(e.b.add(first, warm.index), warm.values)
        start = e.b.add(first, warm_up)

        def slide(numbers, scale):  # type: ignore[no-untyped-def]
            with e.loop(width, [start, out, *warm.values]) as main:
                column, target, *states = main.values
                for _ in range(stride):
                    states = take(column, states)
                    column = e.offset(column, 1)
                total = bias
                for k in range(3):
                    total = e.dot(total, states[k], taps[k])
                e.store_lanes(e.clamp(scale(total, numbers), low, high), target, tail)
                main.results = [column, e.b.add(target, out_step), *states]

        with e.b.if_else(e.b.icmp_signed("!=", is_floor, e.word(0))) as (short, full):
            with short:
                slide(e.floor_constants(stage), e.floor)
            with full:
                slide(e.constants(stage), lambda total, numbers: e.b.add(e.requantise(total, numbers), zp))

    codegen = _as_intrinsic(f"depthwise_{stride}", 21, emit)

    @intrinsic
    def kernel(typingctx, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, s, t, u, v):  # type: ignore[no-untyped-def]
        return nb.void(*[nb.int64] * 21), codegen

    return kernel


depthwise_1, depthwise_2 = _depthwise(1), _depthwise(2)


def _elementwise(mode):  # type: ignore[no-untyped-def]
    """Kernel of one row and 16 channels: ADD, SUB or MUL."""

    def emit(e, args):  # type: ignore[no-untyped-def]
        first, second, out, first_step, second_step, out_step, width, operands, stage, tail, xor, zp, low, high = args
        signed = e.b.icmp_signed("!=", xor, e.word(0))
        constants = e.constants(stage)
        zp, low, high = (e.splat_word(value) for value in (zp, low, high))

        def fetch(address, k):  # type: ignore[no-untyped-def]
            pixel = e.load(BYTES, address)
            value = e.b.select(signed, e.b.sext(pixel, LANES), e.b.zext(pixel, LANES))
            value = e.b.sub(value, e.splat_word(e.load(WORD, e.offset(operands, 64 * k))))
            if mode == "mul":
                return value
            numbers = [e.load(WORD, e.offset(operands, 64 * k + 8 * j)) for j in range(1, 7)]
            pair = [e.splat_pair(number) for number in numbers[1:3]]
            even, odd = e.products(value, e.splat_word(numbers[0]))
            even = e.b.ashr(e.b.add(even, pair[0]), pair[1])
            odd = e.b.ashr(e.b.add(odd, pair[0]), pair[1])
            return e.divide_away(e.merge(even, odd, high=False), *(e.splat_word(n) for n in numbers[3:6]))

        with e.loop(width, [first, second, out]) as loop:
            a, b = fetch(loop.values[0], 0), fetch(loop.values[1], 1)
            total = {"add": e.b.add, "sub": e.b.sub, "mul": e.b.mul}[mode](a, b)
            e.store_lanes(e.clamp(e.b.add(e.requantise(total, constants), zp), low, high), loop.values[2], tail)
            steps = (first_step, second_step, out_step)
            loop.results = [e.b.add(value, step) for value, step in zip(loop.values, steps, strict=True)]

    codegen = _as_intrinsic(f"elementwise_{mode}", 14, emit)

    @intrinsic
    def kernel(typingctx, a, b, c, d, e, f, g, h, i, j, k, l, m, n):  # type: ignore[no-untyped-def]
        return nb.void(*[nb.int64] * 14), codegen

    return kernel


add_row, subtract_row, multiply_row = _elementwise("add"), _elementwise("sub"), _elementwise("mul")


@kernel(nb.void(nb.int64[::1], nb.int64[::1]))
def convolve(row, bases):  # type: ignore[no-untyped-def]
    """A convolution as a matrix product: pixels by groups of channels, weights of up to four groups at a time."""
    base = r.base_of(bases, row[r.IN_REGION], np.int64(0))
    out_base = bases[row[r.OUT_REGION]]
    ins, segments, count, dwords = row[r.IN_TABLE], row[r.SEGMENT_TABLE], row[r.SEGMENTS], row[r.DWORDS]
    outs, brick, xor = row[r.OUT_TABLE], row[r.OUT_BRICK], row[r.XOR]
    zp, low, high, pixels, fl = row[r.ZERO_POINT], row[r.LOW], row[r.HIGH], row[r.PIXELS], row[r.IS_FLOOR]
    step = count * dwords * 64
    done = np.int64(0)
    while done < row[r.BLOCKS]:
        left = row[r.BLOCKS] - done
        width = np.int64(4)
        if left <= 4:
            width = left
        elif (left % 4 != 0 and left % 3 == 0) or left == 5:
            width = np.int64(3)
        tail = row[r.TAIL] if done + width == row[r.BLOCKS] else np.int64(16)
        w = row[r.WEIGHTS] + done * step
        s = row[r.STAGE] + done * r.STAGE_BYTES
        ob = out_base + done * brick
        height = np.int64(16) if width == 1 else (np.int64(12) if width == 2 else (np.int64(8) if width == 3 else np.int64(6)))
        if pixels < height:
            height = np.int64(1)
        m = np.int64(0)
        while m < pixels:
            if m + height > pixels:
                m = pixels - height
            i, o = ins + 8 * m, outs + 8 * m
            if height == 1:
                if width == 1:
                    tile_1_1(i, base, segments, count, dwords, w, step, s, o, ob, brick, tail, xor, zp, low, high, fl)
                elif width == 2:
                    tile_1_2(i, base, segments, count, dwords, w, step, s, o, ob, brick, tail, xor, zp, low, high, fl)
                elif width == 3:
                    tile_1_3(i, base, segments, count, dwords, w, step, s, o, ob, brick, tail, xor, zp, low, high, fl)
                else:
                    tile_1_4(i, base, segments, count, dwords, w, step, s, o, ob, brick, tail, xor, zp, low, high, fl)
            elif width == 1:
                tile_16_1(i, base, segments, count, dwords, w, step, s, o, ob, brick, tail, xor, zp, low, high, fl)
            elif width == 2:
                tile_12_2(i, base, segments, count, dwords, w, step, s, o, ob, brick, tail, xor, zp, low, high, fl)
            elif width == 3:
                tile_8_3(i, base, segments, count, dwords, w, step, s, o, ob, brick, tail, xor, zp, low, high, fl)
            else:
                tile_6_4(i, base, segments, count, dwords, w, step, s, o, ob, brick, tail, xor, zp, low, high, fl)
            m += height
        done += width


@kernel(nb.void(nb.int64[::1], nb.int64[::1]))
def convolve_depthwise(row, bases):  # type: ignore[no-untyped-def]
    """A depthwise convolution of at most 3 rows, 4 columns and stride 2."""
    base, padding = bases[row[r.IN_REGION]], row[r.PADDING_PIXEL]
    addresses = np.empty(3, np.int64)
    steps = np.empty(3, np.int64)
    for y in range(row[r.PIXELS]):
        for b in range(row[r.BLOCKS]):
            for k in range(3):
                offset = load_i64(row[r.IN_TABLE] + 8 * (3 * y + k))
                addresses[k] = padding if offset < 0 else base + offset + b * row[r.IN_BRICK]
                steps[k] = np.int64(0) if offset < 0 else row[r.IN_PIXEL]
            out = bases[row[r.OUT_REGION]] + load_i64(row[r.OUT_TABLE] + 8 * y) + b * row[r.OUT_BRICK]
            tail = row[r.TAIL] if b + 1 == row[r.BLOCKS] else np.int64(16)
            w, s = row[r.WEIGHTS] + b * 192, row[r.STAGE] + b * r.STAGE_BYTES
            a0, a1, a2, s0, s1, s2 = addresses[0], addresses[1], addresses[2], steps[0], steps[1], steps[2]
            if row[r.STRIDE] == 1:
                depthwise_1(
                    a0, a1, a2, s0, s1, s2, padding, row[r.IN_WIDTH], row[r.FIRST_COLUMN], row[r.WARM_UP], row[r.WIDTH], w, s,
                    out, row[r.OUT_PIXEL], tail, row[r.XOR], row[r.ZERO_POINT], row[r.LOW], row[r.HIGH], row[r.IS_FLOOR],
                )  # fmt: skip
            else:
                depthwise_2(
                    a0, a1, a2, s0, s1, s2, padding, row[r.IN_WIDTH], row[r.FIRST_COLUMN], row[r.WARM_UP], row[r.WIDTH], w, s,
                    out, row[r.OUT_PIXEL], tail, row[r.XOR], row[r.ZERO_POINT], row[r.LOW], row[r.HIGH], row[r.IS_FLOOR],
                )  # fmt: skip


@kernel(nb.void(nb.int64[::1], nb.int64[::1]))
def combine(row, bases):  # type: ignore[no-untyped-def]
    """ADD, SUB or MUL of 8-bit maps."""
    mode = load_i64(row[r.OPERANDS] + 128)
    for y in range(row[r.PIXELS]):
        for k in range(row[r.BLOCKS]):
            a = bases[row[r.IN_REGION]] + load_i64(row[r.IN_TABLE] + 8 * y) + k * row[r.IN_BRICK]
            b = bases[row[r.IN2_REGION]] + load_i64(row[r.IN2_TABLE] + 8 * y) + k * row[r.IN2_BRICK]
            o = bases[row[r.OUT_REGION]] + load_i64(row[r.OUT_TABLE] + 8 * y) + k * row[r.OUT_BRICK]
            tail = row[r.TAIL] if k + 1 == row[r.BLOCKS] else np.int64(16)
            ap, bp, op, n, c, s = (
                row[r.IN_PIXEL],
                row[r.IN2_PIXEL],
                row[r.OUT_PIXEL],
                row[r.WIDTH],
                row[r.OPERANDS],
                row[r.STAGE],
            )
            if mode == 1:
                add_row(a, b, o, ap, bp, op, n, c, s, tail, row[r.XOR], row[r.ZERO_POINT], row[r.LOW], row[r.HIGH])
            elif mode == 2:
                subtract_row(a, b, o, ap, bp, op, n, c, s, tail, row[r.XOR], row[r.ZERO_POINT], row[r.LOW], row[r.HIGH])
            else:
                multiply_row(a, b, o, ap, bp, op, n, c, s, tail, row[r.XOR], row[r.ZERO_POINT], row[r.LOW], row[r.HIGH])


@kernel(nb.int64(nb.int64[:, ::1], nb.int64[::1], nb.int64))
def run(rows, bases, first):  # type: ignore[no-untyped-def]
    """Execute rows from `first`; the index of the first row that these kernels cannot run (now), or the number of rows."""
    for index in range(first, rows.shape[0]):
        row = rows[index]
        kind = row[r.KIND]
        if kind == r.GENERAL:
            return index
        if (kind == r.CONVOLUTION or kind == r.DEPTHWISE) and not r.is_current(row, bases):
            return index
        if kind == r.CONVOLUTION:
            if row[r.PAD_ROWS] > 0:
                r.fill_padded(row, bases)
            convolve(row, bases)
        elif kind == r.DEPTHWISE:
            convolve_depthwise(row, bases)
        elif kind == r.ELEMENTWISE:
            combine(row, bases)
        elif kind == r.COPY:
            r.copy_row(row, bases)
    return rows.shape[0]
