"""MEAN over height and width as a depthwise convolution whose weights are 1: sums in the same order, scaled as it scales."""

from __future__ import annotations

import math

import numpy as np

from npu.graph.dtype import DType
from npu.graph.shapes.common import reduced_axes
from npu.numerics.arrays import Array
from npu.numerics.scaling import quantize_multiplier
from npu.runtime.kernels.convolution import Window
from npu.runtime.operator import OperatorNode
from npu.runtime.operators.common import INTEGER_RANGE, ints
from npu.runtime.operators.reduction import divided
from npu.runtime.registry import find_operator
from npu.runtime.xnnpack.convolution import Site, fill_table
from npu.runtime.xnnpack.kernels import row as r
from npu.runtime.xnnpack.memory import GUARD_BYTES, address, guarded
from npu.runtime.xnnpack.operation import CompiledOperation
from npu.runtime.xnnpack.packing import (
    OutputLimits,
    PackedProduct,
    Stage,
    folded_bias,
    pack_ones,
    plain_stage,
    scaled_stage,
)

_TYPES = (DType.FLOAT32, DType.INT8, DType.UINT8)
_MOST_TAPS = 1 << 16


class Mean(CompiledOperation):
    """Falls back on the reference kernel for other axes, and for factors that the output stage has no numbers for."""

    _product: PackedProduct

    def __init__(self, index: int, node: OperatorNode, site: Site) -> None:
        super().__init__(index, node, site.workspace, transient=site.transient)
        ifm, output = node.input(0), node.output()
        self._is_guarded = site.is_guarded
        self._unsigned = ifm.dtype is DType.UINT8
        self._limits = OutputLimits(output.zero_point, *INTEGER_RANGE.get(output.dtype, (0, 0)), is_unsigned=self._unsigned)
        self._limits_row = self._limits.for_kernels()

    def shape(self) -> bool:
        ifm, axes = self.node.input(0), self.node.known(1)
        find_operator(self.node.kind, self.node.label).prepare(self.node)
        if axes is None or len(ifm.shape) != 4 or 0 in ifm.shape:
            return False
        if reduced_axes(ints(self.node.input(1)), 4) != (1, 2) or ifm.shape[1] * ifm.shape[2] > _MOST_TAPS:
            return False
        stage = self._stage(ifm.shape[1] * ifm.shape[2], ifm.shape[3])
        if stage is None:
            return False
        self._product = pack_ones(ifm.shape[1] * ifm.shape[2], ifm.shape[3], ifm.array.dtype, stage)
        return True

    def _stage(self, count: int, channels: int) -> Stage | None:
        ifm, output = self.node.input(0), self.node.output()
        if ifm.dtype is DType.FLOAT32:
            return plain_stage(r.FLOAT_STAGE, bias=np.zeros(channels, np.float32))
        (factor,), (exponent,) = divided(quantize_multiplier(ifm.scale / output.scale), count)
        factors = np.full(channels, factor), np.full(channels, exponent)
        zero_point = ifm.zero_point - (128 if self._unsigned else 0)
        bias = folded_bias(np.ones((1, count), np.int8), np.zeros(1, np.int32), zero_point)
        return scaled_stage(np.repeat(bias, channels), np.full(channels, 255 * count), factors, self._limits)

    def bind(self) -> None:
        ifm, output = self.node.input(0), self.node.output()
        batches, height, width, channels = ifm.shape
        is_float, layout, source = ifm.dtype is DType.FLOAT32, self._product.layout, ifm.array
        row = np.zeros((), r.JOB)
        row["kind"] = r.DEPTHWISE_FLOAT if is_float else r.DEPTHWISE_BYTE
        row["weights"], row["stage"] = (address(self._product.packed) + offset for offset in (0, layout.stage_offset))
        row["segments"], row["length"], row["groups"], row["tail"] = layout.segments, layout.length, layout.groups, layout.tail
        row["rows"], row["width"] = batches, 1
        row["pixel_step"] = row["line_step"] = 8 * layout.segments
        row["out"], row["out_step"] = address(output.array), channels * output.array.itemsize
        row["sign"] = 0 if is_float or self._unsigned else 0x80808080
        row["low"], row["high"] = (int(np.float32(bound).view(np.int32)) for bound in (-math.inf, math.inf))
        row["limits"], row["finish"] = address(self._limits_row), self._product.finish
        before = []
        if channels % 16 and not self._is_guarded(ifm):
            source = self.keep(guarded(ifm.shape, ifm.array.dtype))
            before.append(_copied(ifm.array, source))
        window = Window((height, width), (1, 1), (1, 1), (0, 0), (1, 1))
        outside = address(self.keep(guarded((channels + GUARD_BYTES,), ifm.array.dtype)))
        row["table"] = address(fill_table(self.table, window, source, outside, layout.segments))
        after = [self._quotient(row, height * width)] if is_float else []
        self.rows = np.stack([*before, row, *after])

    def _quotient(self, product: Array, count: int) -> Array:
        """The row that divides float sums where they lie."""
        output, row = self.node.output().array, product.copy()
        row["kind"], row["rows"], row["width"], row["single"] = r.FLOAT_DIVIDE, 1, output.size, 2
        row["input"], row["input2"] = address(output), address(self.keep(np.full(1, count, np.float32)))
        return row


def _copied(source: Array, target: Array) -> Array:
    row = np.zeros((), r.JOB)
    row["kind"], row["rows"], row["row_bytes"] = r.COPY_ROWS, 1, source.nbytes
    row["input"], row["out"] = address(source), address(target)
    return row


def make_mean(index: int, node: OperatorNode, site: Site) -> Mean | None:
    """A compiled operation, None for types of the reference kernel alone."""
    ifm, output = node.input(0), node.output()
    if ifm.dtype not in _TYPES or output.dtype is not ifm.dtype:
        return None
    if ifm.dtype is not DType.FLOAT32 and not (ifm.scale > 0 and output.scale > 0):
        return None
    return Mean(index, node, site)
