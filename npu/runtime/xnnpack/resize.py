"""RESIZE_BILINEAR of float maps: four input addresses per output pixel in an indirection buffer, and two weights."""

from __future__ import annotations

import numpy as np

from npu.numerics.arrays import Array
from npu.runtime.operator import OperatorNode
from npu.runtime.registry import find_operator
from npu.runtime.xnnpack.convolution import Site
from npu.runtime.xnnpack.kernels import row as r
from npu.runtime.xnnpack.memory import address
from npu.runtime.xnnpack.operation import CompiledOperation

_F32 = np.float32


class Resize(CompiledOperation):
    """Output size is constant. Sums as the reference kernel does."""

    def __init__(self, index: int, node: OperatorNode, site: Site) -> None:
        super().__init__(index, node, site.workspace, transient=site.transient)

    def shape(self) -> bool:
        ifm, a = self.node.input(0), self.node.attributes
        if len(ifm.shape) != 4 or 0 in ifm.shape or (a.align_corners and a.half_pixel_centers):
            return False
        # The reference kernel checks the size and sets the shape.
        find_operator(self.node.kind, self.node.label).prepare(self.node)
        return 0 not in self.node.output().shape

    def bind(self) -> None:
        ifm, output, a = self.node.input(0).array, self.node.output().array, self.node.attributes
        batches, height, width, channels = ifm.shape
        rows, columns = output.shape[1:3]
        fy, y0, y1 = _positions(height, rows, corners=a.align_corners, half=a.half_pixel_centers)
        fx, x0, x1 = _positions(width, columns, corners=a.align_corners, half=a.half_pixel_centers)
        table = self.table(output.size // channels * 4)
        grid = table.reshape(batches, rows, columns, 4)
        for corner, (y, x) in enumerate(((y0, x0), (y1, x0), (y0, x1), (y1, x1))):
            offsets = (y[:, None] * width + x) * (channels * 4)
            grid[..., corner] = address(ifm) + offsets + (np.arange(batches) * height * width * channels * 4)[:, None, None]
        vertical = self.keep(np.repeat(np.tile(fy, batches), columns))
        horizontal = self.keep(np.tile(fx, batches * rows))
        row = np.zeros((), r.JOB)
        row["kind"], row["table"], row["rows"] = r.RESIZE, address(table), table.size // 4
        row["input"], row["input2"] = address(vertical), address(horizontal)
        row["out"], row["out_step"], row["length"] = address(output), channels * 4, channels
        self.rows = row[None]


def _positions(size: int, out: int, *, corners: bool, half: bool) -> tuple[Array, Array, Array]:
    """Weight of the later neighbour (float32), and both neighbours, for every output index."""
    scale = _F32(size - 1) / _F32(out - 1) if corners and out > 1 else _F32(size) / _F32(out)
    index = np.arange(out).astype(np.float32)
    place = (index + _F32(0.5)) * scale - _F32(0.5) if half else index * scale
    floor = np.floor(place).astype(np.int64)
    low = np.minimum(np.maximum(floor, 0), size - 1)
    high = np.minimum(floor + 1, size - 1)
    return (place - np.maximum(floor, 0).astype(np.float32)).astype(np.float32), low, high
