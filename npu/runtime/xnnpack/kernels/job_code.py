"""LLVM vector code of kernels that know an operation by its job row."""

# mypy: allow-untyped-calls

from __future__ import annotations

from llvmlite import ir

from npu.native.cpu import current
from npu.native.emit import BYTES, INT, LANES, MANY_BYTES, function
from npu.numerics.output_code import StageEmitter
from npu.runtime.xnnpack.kernels import row as r

_HAS_DOT_PRODUCT = current().has_dot_product
_HALF_SHORTS = ir.VectorType(ir.IntType(16), 16)
_ONE_HALF = [ir.Constant(ir.VectorType(INT, 8), list(range(start, start + 8))) for start in (0, 8)]


class JobEmitter(StageEmitter):
    """Emits fields of a job row and its output stage."""

    ROW = r.JOB

    def moved_biases(self, row, biases, pixel, height):  # type: ignore[no-untyped-def]
        """Biases of the sums of `height` pixels from one on, pixel by pixel, with what SUM_PIXELS made of each, if it did."""
        added, gap = self.of_row(row, "input", "input_step")
        before = self.b.block
        with self.b.if_then(self.b.icmp_signed("!=", gap, self.word(0))):
            at = self.b.add(added, self.b.mul(gap, pixel))
            sums = [self.splat(self.load(INT, self.b.add(at, self.b.mul(gap, self.word(k))))) for k in range(height)]
            width = len(biases) // height
            more = [self.b.add(bias, sums[k // width]) for k, bias in enumerate(biases)]
            inside = self.b.block
        phis = [self.b.phi(bias.type) for bias in biases]
        for phi, plain, moved in zip(phis, biases, more, strict=True):
            phi.add_incoming(plain, before)
            phi.add_incoming(moved, inside)
        return phis


class TapEmitter(JobEmitter):
    """Emits products of taps of 16 channels by fours, with an instruction for four products, or by pairs of 16-bit numbers.

    Of these a vector has 8 channels: LLVM would turn shuffles of longer ones into more than two instructions.
    """

    def inputs(self, columns, flip, *, is_signed):  # type: ignore[no-untyped-def]
        """Up to four vectors of 16 bytes, of inputs that are signed, or unsigned once they are flipped."""
        if _HAS_DOT_PRODUCT:
            return self.b.xor(self.interleave(columns) if len(columns) > 1 else self.b.zext(columns[0], LANES), flip)
        columns = [*columns, *[ir.Constant(BYTES, None)] * (len(columns) % 2)]
        orders = [[16 * side + lane for lane in range(half, half + 8) for side in (0, 1)] for half in (0, 8)]
        places = [ir.Constant(LANES, order) for order in orders]
        pairs = [[self.b.shuffle_vector(*columns[k : k + 2], half) for half in places] for k in range(0, len(columns), 2)]
        if is_signed:
            return [[self.b.sext(half, _HALF_SHORTS) for half in pair] for pair in pairs]
        flip = self.b.trunc(flip, BYTES)
        return [[self.b.zext(self.b.xor(half, flip), _HALF_SHORTS) for half in pair] for pair in pairs]

    def weights(self, lanes):  # type: ignore[no-untyped-def]
        """Lanes of four signed bytes."""
        if _HAS_DOT_PRODUCT:
            return lanes
        weights = self.b.bitcast(lanes, MANY_BYTES)
        orders = [
            [[4 * lane + n for lane in range(half, half + 8) for n in pair] for half in (0, 8)] for pair in ((0, 1), (2, 3))
        ]
        return [
            [self.b.sext(self.b.shuffle_vector(weights, weights, ir.Constant(LANES, half)), _HALF_SHORTS) for half in order]
            for order in orders
        ]

    def parted(self, lanes):  # type: ignore[no-untyped-def]
        """Sums of 16 channels as the vectors of `add_products`."""
        return [lanes] if _HAS_DOT_PRODUCT else [self.b.shuffle_vector(lanes, lanes, half) for half in _ONE_HALF]

    def add_products(self, totals, inputs, weights):  # type: ignore[no-untyped-def]
        """Such sums plus the products of up to four taps."""
        if _HAS_DOT_PRODUCT:
            return [self.dot(totals[0], inputs, weights)]
        for pair, factors in zip(inputs, weights, strict=False):  # one pair is left over of nine taps
            totals = [self.add_pairs(*values) for values in zip(totals, pair, factors, strict=True)]
        return totals


def job_function(name, count, emit, emitter=JobEmitter):  # type: ignore[no-untyped-def]
    """A function of words for kernels to call, written with a JobEmitter."""
    return function(name, count, emit, emitter)
