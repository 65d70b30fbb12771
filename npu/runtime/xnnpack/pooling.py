"""MAX_POOL_2D as job rows: the addresses of a window's pixels in an indirection table."""

from __future__ import annotations

import math

import numpy as np

from npu.graph.attributes import Padding
from npu.graph.dtype import DType
from npu.runtime.kernels.convolution import Window
from npu.runtime.operator import OperatorNode
from npu.runtime.operators.common import float_bounds, pad_before, quantized_range
from npu.runtime.registry import find_operator
from npu.runtime.xnnpack.convolution import MOST_ADDRESSES, Site, tap_addresses
from npu.runtime.xnnpack.kernels import row as r
from npu.runtime.xnnpack.memory import address
from npu.runtime.xnnpack.operation import CompiledOperation

_KINDS = {DType.FLOAT32: r.MAX_FLOAT, DType.INT8: r.MAX_SIGNED, DType.UINT8: r.MAX_UNSIGNED}


class MaxPool(CompiledOperation):
    """The reference kernel checks types and sets the output's shape."""

    def __init__(self, index: int, node: OperatorNode, site: Site) -> None:
        super().__init__(index, node, site.workspace, transient=site.transient)

    def shape(self) -> bool:
        find_operator(self.node.kind, self.node.label).prepare(self.node)
        ifm, output, a = self.node.input(0), self.node.output(), self.node.attributes
        if not output.elements:
            return False
        kernel, stride = (a.filter_height, a.filter_width), (a.stride_h, a.stride_w)
        out, before = output.shape[1:3], [0, 0]
        if a.padding is not Padding.VALID:
            sizes = zip(ifm.shape[1:3], out, kernel, stride, strict=True)
            before = [pad_before(size, extent, k, step, 1)[0] for size, extent, k, step in sizes]
        self._window = Window(kernel, stride, (1, 1), (before[0], before[1]), (out[0], out[1]))
        pixels, taps = output.elements // output.shape[3], math.prod((int(kernel[0]), int(kernel[1])))
        return pixels * taps <= MOST_ADDRESSES

    def bind(self) -> None:
        ifm, output, window = self.node.input(0).array, self.node.output(), self._window
        pixels, taps = output.elements // output.shape[3], math.prod(window.kernel)
        table = self.table(pixels * taps)
        grid = table.reshape(len(ifm), *window.out, *window.kernel)
        tap_addresses(window, ifm, address(ifm), 0, grid)
        by_pixel = table.reshape(pixels, taps)
        # What is outside the map does not count: the first pixel inside stands for it.
        first = by_pixel[np.arange(pixels), (by_pixel != 0).argmax(axis=1)]
        np.copyto(by_pixel, first[:, None], where=by_pixel == 0)
        row = np.zeros((), r.JOB)
        row["kind"], row["table"], row["segments"], row["rows"] = _KINDS[output.dtype], address(table), taps, pixels
        row["width"], row["out"] = output.shape[3], address(output.array)
        row["out_step"] = output.shape[3] * output.array.itemsize
        activation = self.node.attributes.fused_activation_function
        if output.dtype is DType.FLOAT32:
            row["low"], row["high"] = (int(bound.view(np.int32)) for bound in float_bounds(self.node, activation))
        else:
            row["low"], row["high"] = quantized_range(self.node, activation, output)
        self.rows = row[None]


def make_max_pool(index: int, node: OperatorNode, site: Site) -> MaxPool | None:
    """A compiled operation, None for types of the reference kernel alone."""
    ifm, output = node.input(0), node.output()
    return MaxPool(index, node, site) if output.dtype in _KINDS and ifm.dtype is output.dtype else None
