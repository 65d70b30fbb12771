"""SOFTMAX over int16: two interpolated tables, of exp() and of 1 / (1 + x), and the reference kernel's arithmetic between.

Per row: distance to the maximum in units of 10 / 65535, its exp in Q0.15, the sum of the exps, normalised to [1, 2) and looked
up, products. Source: TFLite's reference SoftmaxInt16.
"""

from __future__ import annotations

from functools import partial

from npu.compiler.ir import View
from npu.compiler.lower.activation import lines
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.quantize import register_scale
from npu.compiler.lower.reduction import turned_ways
from npu.isa.operations import INT16, INT32, ElementType, ElementwiseMode, KernelWindow, PoolingMode, Rounding, Scale
from npu.layouts import MapShape
from npu.numerics.sampled import softmax_exponentials, softmax_reciprocals
from npu.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class WideSoftmax:
    """The steps for one map; `rows` is the shape (H, W, 1) of a value per row."""

    builder: Builder
    rows: MapShape

    def lower(self, ifm: View, ofm: View, factor: float) -> None:
        exps = self._exps(ifm, self._maximum(ifm), factor)
        total = self._temporary("sum", self.rows, INT32)
        self._pool(PoolingMode.REDUCE_SUM, exps, total, KernelWindow())
        zeros = self._temporary("zeros", self.rows, INT32)
        self.builder.elementwise(ElementwiseMode.CLZ, total, zeros)
        inverse = self._inverse(total, zeros)
        product = self._temporary("product", ifm.shape, INT32)
        self.builder.elementwise(ElementwiseMode.MUL, exps, product, inverse)
        shift = self._temporary("shift", self.rows, INT32)
        self.builder.elementwise(ElementwiseMode.SUB, zeros, shift, 31, is_reversed=True)
        self.builder.elementwise(ElementwiseMode.SHR, product, ofm, shift, rounding=Rounding.NATURAL, minimum=0)

    def _maximum(self, ifm: View) -> View:
        height, width, depth = ifm.shape
        target = self._temporary("maximum", (height * width, 1, 1), INT16)
        flat = self.builder.reshaped(ifm, (height * width, depth, 1))
        at_once = partial(self._pool, PoolingMode.MAX, flat, target, KernelWindow(1, depth))
        self.builder.make_cheapest([at_once, *turned_ways(self.builder, ifm, target, (height * width, depth), PoolingMode.MAX)])
        return self.builder.reshaped(target, self.rows)

    def _exps(self, ifm: View, maximum: View, factor: float) -> View:
        difference = self._temporary("difference", ifm.shape, INT32)
        self.builder.elementwise(ElementwiseMode.SUB, ifm, difference, maximum)
        scale = register_scale(factor)
        exps = self._temporary("exps", ifm.shape, INT16)
        self.builder.elementwise(
            ElementwiseMode.MUL,
            difference,
            replace(exps, zero_point=INT16.maximum),
            self.builder.number(scale.scale),
            scale=Scale(1, scale.shift),
            lut=lines(softmax_exponentials()),
        )
        return exps

    def _inverse(self, total: View, zeros: View) -> View:
        """1 / sum in [1/2, 1] of the sum as a number in [1, 2): its bits behind the first one, rounded to 16."""
        less, left, short = (self._temporary(name, self.rows, INT32) for name in ("shift left", "normalised", "fraction"))
        self.builder.elementwise(ElementwiseMode.SUB, zeros, less, 1)
        self.builder.elementwise(ElementwiseMode.SHL, total, left, less)
        self.builder.elementwise(ElementwiseMode.SHR, left, short, 14, rounding=Rounding.NATURAL)
        inverse = self._temporary("reciprocal", self.rows, INT16)
        self.builder.elementwise(
            ElementwiseMode.SUB, short, inverse, self.builder.number((1 << 15) + (1 << 16)), lut=lines(softmax_reciprocals())
        )
        return inverse

    def _temporary(self, name: str, shape: MapShape, element: ElementType) -> View:
        return self.builder.temporary(name, shape, element)

    def _pool(self, mode: PoolingMode, ifm: View, ofm: View, kernel: KernelWindow) -> None:
        self.builder.pool(ifm, ofm, mode, kernel=kernel)
