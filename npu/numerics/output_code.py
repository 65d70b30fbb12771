"""LLVM vector code of the output stage: sums of 16 channels to bytes in memory.

Vectors have 16 lanes, of 32 bits or less; LLVM cuts them to what the CPU has.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from npu.native.cpu import current
from npu.native.emit import LANES, MANY_BYTES, MASK, SHORTS, Emitter
from npu.numerics.byte_sums import FIXED_POINT
from npu.numerics.output_stage import CHANNELS, FLOOR, LIMITS, SUM


class StageEmitter(Emitter):
    """Emits fields of an operation's row and its output stage as well."""

    ROW: np.dtype[Any]
    """The structure at the address of an operation, with the fields `limits`, the address of LIMITS, and `finish`."""

    def of_row(self, row, *names):  # type: ignore[no-untyped-def]
        """Fields of the row at an address."""
        values = [self.field(row, self.ROW, name) for name in names]
        return values if len(values) > 1 else values[0]

    def limit(self, row, name):  # type: ignore[no-untyped-def]
        """A vector of the row's LIMITS."""
        return self.field(self.of_row(row, "limits"), LIMITS, name)

    def round_away(self, t, term, mask, shift):  # type: ignore[no-untyped-def]
        """t / 2**shift, ties away from zero: term is 2**(shift - 1), mask -1; both 0 if shift is 0."""
        sign = self.b.and_(self.b.ashr(t, self.constant(31)), mask)
        return self.b.ashr(self.b.add(self.b.add(t, term), sign), shift)

    def merge_high(self, even, odd, is_even):  # type: ignore[no-untyped-def]
        """The high halves of even and odd products as lanes."""
        return self.b.select(is_even, self.high_halves(even), self.b.bitcast(odd, LANES))

    def even_lanes(self, row):  # type: ignore[no-untyped-def]
        """The mask for `merge_high`; LLVM must not know it where masks are registers: it would permute, which takes longer."""
        if current().has_byte_masks:
            return self.b.bitcast(self.field(self.of_row(row, "limits"), LIMITS, "even_lanes"), MASK)
        return ir.Constant(MASK, [k % 2 == 0 for k in range(16)])

    def requantize(self, total, left_shift, multiplier, even_addend, odd_addend, sign_mask, right_shift, is_even):  # type: ignore[no-untyped-def]
        """The doubled product's high half, rounded, divided with ties away from zero; the addends hold both halves of 1.

        A total below 0 whose product rounds to 0 may be taken for negative: 0 divided either way is 0.
        """
        even, odd = self.products(self.b.shl(total, left_shift), multiplier)
        t = self.merge_high(self.b.add(even, even_addend), self.b.add(odd, odd_addend), is_even)
        is_negative = self.b.icmp_signed("<", total, self.constant(0))
        return self.b.ashr(self.b.select(is_negative, self.b.add(t, sign_mask), t), right_shift)

    def floor(self, total, multiplier, even_addend, odd_addend, high_shift, is_even):  # type: ignore[no-untyped-def]
        """The product with all roundings and the zero point added, shifted right."""
        even, odd = self.products(total, multiplier)
        return self.b.ashr(self.merge_high(self.b.add(even, even_addend), self.b.add(odd, odd_addend), is_even), high_shift)

    def channels(self, stage, *names):  # type: ignore[no-untyped-def]
        """Vectors of the CHANNELS at an address."""
        return [self.field(stage, CHANNELS, name) for name in names]

    def requantizer(self, row, stage):  # type: ignore[no-untyped-def]
        """What makes outputs of totals by `requantize`."""
        names = ("left_shift", "multiplier", "even_addend", "odd_addend", "sign_mask", "right_shift")
        numbers, zero_point = [*self.channels(stage, *names), self.even_lanes(row)], self.limit(row, "zero_point")
        return lambda total: self.b.add(self.inlined("requantize", LANES, type(self).requantize, total, *numbers), zero_point)

    def floorer(self, row, stage):  # type: ignore[no-untyped-def]
        """What makes outputs of totals by `floor`."""
        numbers = [*self.channels(stage, "multiplier", "even_addend", "odd_addend", "high_shift"), self.even_lanes(row)]
        return lambda total: self.inlined("floor", LANES, type(self).floor, total, *numbers)

    def packed(self, row, four):  # type: ignore[no-untyped-def]
        """The lanes of four vectors as bytes within the row's limits."""
        return self.inlined("packed", MANY_BYTES, lambda e, row, *four: e.limited(row, e.narrow(four)), row, *four)

    def limited(self, row, values):  # type: ignore[no-untyped-def]
        """64 signed bytes within the row's limits, as they are stored."""
        low, high, flip = (self.limit(row, name) for name in ("low", "high", "flip_outputs"))
        return self.b.xor(self.clamp(values, low, high), flip)

    def fixed_point_sum(self, row, at):  # type: ignore[no-untyped-def]
        """What makes 64 outputs of 64 bytes of each input, by the FIXED_POINT at an address."""

        def number(name):  # type: ignore[no-untyped-def]
            return self.splat_word(self.field(at, FIXED_POINT, name))

        flip, none = self.b.bitcast(self.limit(row, "flip_inputs"), MANY_BYTES), ir.Constant(MANY_BYTES, None)
        parts = [(number(f"{part}_addend"), self.b.bitcast(number(f"{part}_factors"), SHORTS)) for part in ("high", "low")]
        high_shift, low_shift, shift = number("high_shift"), number("low_shift"), number("shift")

        def total(pairs):  # type: ignore[no-untyped-def]
            high, low = (self.add_pairs(addend, pairs, factors) for addend, factors in parts)
            return self.b.ashr(self.b.add(self.b.shl(high, high_shift), self.b.ashr(low, low_shift)), shift)

        def add(*inputs):  # type: ignore[no-untyped-def]
            flipped, totals = [self.b.xor(values, flip) for values in inputs], []
            for half in range(2):
                first, second = (self.b.bitcast(self.unpack(values, none, half), SHORTS) for values in flipped)
                totals += [total(self.unpack(first, second, part)) for part in range(2)]
            return self.limited(row, self.narrow_unpacked(totals))

        return add

    def put(self, row, outputs):  # type: ignore[no-untyped-def]
        """Store (16 values, address, bytes, whether at all or None), four at a time, within the row's limits."""
        for start in range(0, len(outputs), 4):
            four = outputs[start : start + 4]
            packed = self.packed(row, [four[min(k, len(four) - 1)][0] for k in range(4)])
            self.put_bytes(packed, [place for _, *place in four])

    def put_bytes(self, packed, places):  # type: ignore[no-untyped-def]
        """Store up to four times 16 bytes: (address, bytes, whether at all or None) of each."""
        for k, (address, count, is_wanted) in enumerate(places):
            part = self.b.shuffle_vector(packed, packed, ir.Constant(LANES, list(range(16 * k, 16 * k + 16))))
            if is_wanted is not None:
                self.inlined("store_wanted", ir.VoidType(), type(self).store_wanted, part, address, count, is_wanted)
            elif count is not None:
                self.inlined("store_first", ir.VoidType(), type(self).store_first, part, address, count)
            else:
                self.store(part, address)

    def store_wanted(self, part, address, count, is_wanted):  # type: ignore[no-untyped-def]
        """Store the first `count` bytes, if at all."""
        with self.b.if_then(is_wanted):
            self.store_first(part, address, count)

    def finish(self, row, groups, is_wanted=None):  # type: ignore[no-untyped-def]
        """Store all sums of some pixels, as bytes or, with SUM, as they are.

        groups: (CHANNELS, bytes of a pixel or None for 16, totals of the pixels, addresses of the pixels) of every group of
        channels; is_wanted: which pixels are stored, or None for all.
        """
        wanted = [None] * len(groups[0][2]) if is_wanted is None else is_wanted

        def write(scaler):  # type: ignore[no-untyped-def]
            outputs = []
            for stage, count, totals, addresses in groups:
                scale = scaler(row, stage)
                outputs.append([(scale(t), at, count, w) for t, at, w in zip(totals, addresses, wanted, strict=True)])
            self.put(row, [value for of_group in outputs for value in of_group])

        def write_sums():  # type: ignore[no-untyped-def]
            for _, _, totals, addresses in groups:
                for total, address, is_stored in zip(totals, addresses, wanted, strict=True):
                    if is_stored is None:
                        self.store(total, address)
                    else:
                        with self.b.if_then(is_stored):
                            self.store(total, address)

        finish = self.of_row(row, "finish")
        with self.b.if_else(self.b.icmp_signed("==", finish, self.word(FLOOR))) as (short, others):
            with short:
                write(self.floorer)
            with others, self.b.if_else(self.b.icmp_signed("==", finish, self.word(SUM))) as (sums, full):
                with sums:
                    write_sums()
                with full:
                    write(self.requantizer)
