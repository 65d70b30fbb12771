"""SOFTMAX over 8-bit values: nearly thirty steps that repeat the reference kernel's fixed-point arithmetic exactly.

Per row: subtract the maximum, look up exp() in units of 2**-31, add up the exps (>> 12), normalise the sum with CLZ and a
shift, take its reciprocal by three Newton steps, multiply and shift back. Source: TFLite's reference softmax on gemmlowp
fixed point; Qn below is a 32-bit number with n integer bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt

from npu.compiler.ir import ElementwiseStep, View
from npu.compiler.lower.builder import Builder, Finish
from npu.compiler.lower.geometry import crop
from npu.compiler.lower.parts import parts_with_room
from npu.compiler.lower.quantize import FactorError
from npu.compiler.lower.reduction import turned_ways
from npu.compiler.lower.softmax_pair import GUESS_Q2, NEWTON_STEPS, SLOPE_Q2, SUM_BITS, double_high, lower_pair, pair_shares
from npu.compiler.lower.softmax_wide import WideSoftmax
from npu.graph.attributes import SoftmaxOptions
from npu.graph.graph import Op
from npu.isa.operations import IDENTITY, INT16, INT32, ClipRange, ElementwiseMode, KernelWindow, PoolingMode, Rounding, Scale
from npu.isa.rules import MAX_EXTENT
from npu.layouts import BRICK_DEPTH, MapShape
from npu.machine.rules import round_up
from npu.numerics.sampled import SOFTMAX_RANGE
from npu.numerics.scaling import divide_away, quantize_multiplier
from npu.records import dataclass, replace

_DIFFERENCE_BITS = 5
"""Integer bits of the scaled difference to the maximum."""
_ONE_Q0 = (1 << 31) - 1
_ONE_Q2 = 1 << 29
_VALUE_BYTES = 8
"""In between for a value at a time: its exp, and what is made of it."""
_ROW_BYTES = 16
"""The same for a row: numbers of the division."""
_HIGH_HALF = Scale(1, 31)
_EXP_FACTORS = ((24, 1672461947), (25, 1302514674), (26, 790015084), (27, 290630308), (28, 39332535), (29, 720401), (30, 242))
"""(bit of a Q5 number, exp(-2**(bit - 26)) in Q0): gemmlowp's barrel shifter."""


def lower_softmax(builder: Builder, op: Op) -> None:
    """SOFTMAX over the last dimension; of two values by look-ups, where that costs less."""
    options = op.attributes
    assert isinstance(options, SoftmaxOptions)
    source, bits, finish = builder.quantized(op.inputs[0]), builder.quantized(op.outputs[0]).element.bits, builder.finish(op)
    ifm, ofm = builder.input(op.inputs[0]), builder.result(finish)
    beta, scale = float(np.float32(options.beta)), float(source.scale)
    is_wide = source.element is INT16
    numbers = () if is_wide else builder.near_numbers(GUESS_Q2, SLOPE_Q2, _ONE_Q2)
    depth = ifm.shape[2]
    between = _VALUE_BYTES // 2 * (depth + int(round_up(depth, BRICK_DEPTH))) + _ROW_BYTES
    later = depth * ofm.element.bytes if ofm.fills_storage else 0

    def divide() -> None:
        for part in parts_with_room(builder, ifm, between, MAX_EXTENT, later=later):
            x, y, rows = crop(ifm, part.offset, part.shape), crop(ofm, part.offset, part.shape), (*part.shape[:2], 1)
            if is_wide:
                WideSoftmax(builder, rows).lower(x, y, scale * beta / (SOFTMAX_RANGE / 65535))
            else:
                _SoftmaxSteps(builder, rows, numbers).lower(x, y, exp_table(beta, scale), bits, finish)

    ways: list[Callable[[], None]] = [divide]
    if depth == 2 and not is_wide:
        shares = pair_shares(exp_table(beta, scale).view("<i4").astype(np.int64), bits)
        ways.append(partial(lower_pair, builder, ifm, builder.output(finish.tensor), finish.of(shares)))
    builder.make_cheapest(ways)


def _exp_quarter(a: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """exp(a) for a Q0 number in [-1/4, 0): Taylor polynomial around -1/8."""
    x = a + (1 << 28)
    x2 = double_high(x, x)
    x3 = double_high(x2, x)
    x4 = double_high(x2, x2)
    quarter = divide_away(x4, 2)
    cubic = double_high(quarter + x3, 715827883)
    half = divide_away(cubic + x2, 1)
    return 1895147668 + double_high(x + half, 1895147668)


def exp_of_negative(a: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """exp(a) in Q0 for Q5 numbers a <= 0; gemmlowp's exp_on_negative_values."""
    quarter = 1 << (31 - _DIFFERENCE_BITS - 2)
    modulo = (a & (quarter - 1)) - quarter
    exponential = _exp_quarter(modulo << _DIFFERENCE_BITS)
    remainder = modulo - a
    for bit, factor in _EXP_FACTORS:
        exponential = np.where(remainder & (1 << bit), double_high(exponential, factor), exponential)
    return np.where(a == 0, _ONE_Q0, exponential)


@lru_cache(maxsize=64)
def exp_table(beta: float, scale: float) -> npt.NDArray[np.uint8]:
    """1 KiB: exp(beta * scale * d) in Q0 as int32 for d = -255..0.

    Source: TFLite's PreprocessSoftmaxScaling and CalculateInputRadius.
    """
    if not 0 <= beta < math.inf:
        raise FactorError(f"beta must be finite and not negative, got {beta}")
    real = min(beta * scale * (1 << (31 - _DIFFERENCE_BITS)), float((1 << 31) - 1))
    multiplier, exponent = quantize_multiplier(real)
    radius = ((1 << _DIFFERENCE_BITS) - 1) * (1 << (31 - _DIFFERENCE_BITS)) / (1 << exponent if exponent >= 0 else 1)
    difference = np.arange(-255, 1, dtype=np.int64)
    scaled = divide_away(double_high(difference << max(exponent, 0), multiplier), max(-exponent, 0))
    table = np.where(difference >= -np.floor(radius), exp_of_negative(scaled), 0)
    return table.astype("<i4").view(np.uint8)


def _may_tie(table: npt.NDArray[np.uint8], bits: int) -> bool:
    """Whether a share of a row, of so many bits, may be rounded otherwise with 2**31 than with that saturated to 2**31 - 1.

    That is the reciprocal where the exps of a row, of which the largest is 1, add up to a power of two. The product is one
    more, then, if an exp is above 1/2; and at least 31 - `bits` bits are shifted out of that, of which a tie has the first.
    """
    exps = table.view("<i4")
    return bool(((exps > 1 << 30) & (exps % (1 << (31 - bits)) == 0)).any())


@dataclass(frozen=True, slots=True)
class _SoftmaxSteps:
    """The steps for one map; `rows` is the shape (H, W, 1) of a value per row.

    `numbers` are 48/17, -32/17 and 1 in Q2, an element each.
    """

    builder: Builder
    rows: MapShape
    numbers: tuple[View, ...]

    def lower(self, ifm: View, ofm: View, table: npt.NDArray[np.uint8], bits: int, finish: Finish) -> None:
        exps = self._exps(ifm, self._maximum(ifm), table)
        total = self._sum(exps)
        zeros = self._unary("zeros", ElementwiseMode.CLZ, total)
        less = self._binary("zeros but one", ElementwiseMode.SUB, zeros, 1)
        x = self._half_reciprocal(self._binary("half", ElementwiseMode.SHL, total, less))
        shift = self._binary("shift", ElementwiseMode.SUB, zeros, SUM_BITS + 31 - bits, is_reversed=True)
        if _may_tie(table, bits):
            limited = self._binary("limited", ElementwiseMode.MIN, x, (1 << 30) - 1)
            reciprocal = self._binary("reciprocal", ElementwiseMode.ADD, x, limited)
            product = self._binary("product", ElementwiseMode.MUL, exps, reciprocal, scale=_HIGH_HALF)
        else:
            product = self._binary("product", ElementwiseMode.MUL, exps, x, scale=Scale(1, 30))
        limits = (finish.minimum, finish.maximum)
        self._emit(ElementwiseMode.SHR, product, ofm, shift, minimum=limits[0], maximum=limits[1], lut=finish.lut)

    def _maximum(self, ifm: View) -> View:
        """The largest value of every row: rows side by side, one channel, a window over the whole width."""
        height, width, depth = ifm.shape
        flat = self.builder.reshaped(ifm, (height * width, depth, 1))
        target = self.builder.temporary("maximum", (height * width, 1, 1), ifm.element)
        at_once = partial(self.builder.pool, flat, target, PoolingMode.MAX, kernel=KernelWindow(1, depth))
        self.builder.make_cheapest([at_once, *turned_ways(self.builder, ifm, target, (height * width, depth), PoolingMode.MAX)])
        return self.builder.reshaped(target, self.rows)

    def _exps(self, ifm: View, maximum: View, table: npt.NDArray[np.uint8]) -> View:
        """exp(value - maximum): the difference plus 127 is an int8 table index."""
        target = replace(self.builder.temporary("exps", ifm.shape, INT32), zero_point=127)
        self.builder.emit(
            ElementwiseStep(
                source=self.builder.index,
                ifm=ifm,
                ifm2=maximum,
                ofm=target,
                minimum=-128,
                maximum=127,
                mode=ElementwiseMode.SUB,
                scale=IDENTITY,
                rounding=Rounding.NATURAL,
                opa_scale=IDENTITY,
                opb_scale=1,
                lut=table,
                clip_range=ClipRange.FORCE_INT8,
            )
        )
        return replace(target, zero_point=0)

    def _sum(self, exps: View) -> View:
        """Sum of the exps in Q12."""
        scaled = self._binary("exps Q12", ElementwiseMode.SHR, exps, SUM_BITS)
        total = self.builder.temporary("sum", self.rows, INT32)
        self.builder.pool(scaled, total, PoolingMode.REDUCE_SUM)
        return total

    def _half_reciprocal(self, half: View) -> View:
        """1 / d in Q2 for d / 2 in [1/2, 1) in Q0; gemmlowp's Newton-Raphson division, which takes twice that, saturated."""
        first, slope, one = self.numbers
        x = self._binary("slope", ElementwiseMode.MUL, half, slope, scale=_HIGH_HALF)
        x = self._binary("guess", ElementwiseMode.ADD, x, first)
        for _ in range(NEWTON_STEPS):
            product = self._binary("denominator x", ElementwiseMode.MUL, x, half, scale=_HIGH_HALF)
            error = self._binary("error", ElementwiseMode.SUB, product, one, is_reversed=True)
            step = self._binary("step Q4", ElementwiseMode.MUL, error, x, scale=_HIGH_HALF)
            step = self._binary("step Q2", ElementwiseMode.SHL, step, 2)
            x = self._binary("estimate", ElementwiseMode.ADD, step, x)
        return x

    def _unary(self, name: str, mode: ElementwiseMode, ifm: View) -> View:
        target = self.builder.temporary(name, ifm.shape, INT32)
        self._emit(mode, ifm, target, None)
        return target

    def _binary(
        self,
        name: str,
        mode: ElementwiseMode,
        ifm: View,
        ifm2: View | int,
        scale: Scale = IDENTITY,
        *,
        is_reversed: bool = False,
    ) -> View:
        target = self.builder.temporary(name, ifm.shape, INT32)
        self._emit(mode, ifm, target, ifm2, scale, is_reversed=is_reversed)
        return target

    def _emit(
        self,
        mode: ElementwiseMode,
        ifm: View,
        ofm: View,
        ifm2: View | int | None,
        scale: Scale = IDENTITY,
        *,
        minimum: int = -(1 << 15),
        maximum: int = (1 << 15) - 1,
        lut: npt.NDArray[np.uint8] | None = None,
        is_reversed: bool = False,
    ) -> None:
        """A 32-bit step: only the shift of `scale` counts. A number of more than 16 bits becomes a constant of one element."""
        scalar: int | None = None
        if isinstance(ifm2, int) and -(1 << 15) <= ifm2 < 1 << 15:
            scalar, ifm2 = ifm2, None
        elif isinstance(ifm2, int):
            ifm2 = self.builder.number(ifm2)
        self.builder.emit(
            ElementwiseStep(
                source=self.builder.index,
                ifm=ifm,
                ifm2=ifm2,
                scalar=scalar,
                ofm=ofm,
                minimum=minimum,
                maximum=maximum,
                lut=lut,
                mode=mode,
                scale=scale,
                rounding=Rounding.NATURAL,
                is_reversed=is_reversed,
            )
        )
