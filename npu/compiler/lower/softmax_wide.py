"""SOFTMAX over int16: two interpolated tables, of exp() and of 1 / (1 + x), and the reference kernel's arithmetic between.

Per row: distance to the maximum in units of 10 / 65535, its exp in Q0.15, the sum of the exps, normalised to [1, 2) and looked
up, products. Source: TFLite's reference SoftmaxInt16.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt

from npu.compiler.ir import View
from npu.compiler.lower.activation import lines
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.quantize import register_scale
from npu.isa.operations import INT16, INT32, ElementType, ElementwiseMode, KernelWindow, PoolingMode, Rounding, Scale
from npu.layouts import MapShape
from npu.numerics.scaling import round_half_away
from npu.records import dataclass, replace

_RANGE = 10.0
"""Distances to the maximum from which exp() is the smallest."""
_LEAST, _MOST = -(1 << 15), (1 << 15) - 1


@cache
def exp_lines() -> npt.NDArray[np.uint8]:
    """exp(x) for x from -10 to 0."""
    return _interpolated(math.exp, _RANGE / 65535, 32767)


@cache
def reciprocal_lines() -> npt.NDArray[np.uint8]:
    """1 / (1 + x) for x from 0 to 1."""
    return _interpolated(lambda x: 1 / (1 + x), 1 / 65535, -32768)


def _interpolated(function: Callable[[float], float], scale: float, zero_point: int) -> npt.NDArray[np.uint8]:
    """Lines between 513 samples of (-1, 1), each corrected by half of the error in the middle of its line; in double."""
    low, high = ((limit - zero_point) * scale for limit in (_LEAST, _MOST))
    step, inverse = (high - low) / 512, 65536 / ((_MOST - _LEAST) * (2.0 / 65535))
    table = []
    for start in (low + line * step for line in range(512)):
        sample, following = round_half_away(function(start) * inverse), function(start + step) * inverse
        error = round_half_away((following + sample) / 2) - round_half_away(function(start + step / 2) * inverse)
        table.append(sample - round_half_away(error / 2))
    table.append(round_half_away(function(high) * inverse))
    return lines(np.clip(np.array(table, np.int64), _LEAST, _MOST))


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
        self._pool(PoolingMode.MAX, self.builder.reshaped(ifm, (height * width, depth, 1)), target, KernelWindow(1, depth))
        return self.builder.reshaped(target, self.rows)

    def _exps(self, ifm: View, maximum: View, factor: float) -> View:
        difference = self._temporary("difference", ifm.shape, INT32)
        self.builder.elementwise(ElementwiseMode.SUB, ifm, difference, maximum)
        scale = register_scale(factor)
        exps = self._temporary("exps", ifm.shape, INT16)
        self.builder.elementwise(
            ElementwiseMode.MUL,
            difference,
            replace(exps, zero_point=_MOST),
            self.builder.number(scale.scale),
            scale=Scale(1, scale.shift),
            lut=exp_lines(),
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
            ElementwiseMode.SUB, short, inverse, self.builder.number((1 << 15) + (1 << 16)), lut=reciprocal_lines()
        )
        return inverse

    def _temporary(self, name: str, shape: MapShape, element: ElementType) -> View:
        return self.builder.temporary(name, shape, element)

    def _pool(self, mode: PoolingMode, ifm: View, ofm: View, kernel: KernelWindow) -> None:
        self.builder.pool(ifm, ofm, mode, kernel=kernel)
