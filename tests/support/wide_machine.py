"""Random operations with what compilers hardly emit: negative strides, strides of 4, 40-bit sums, shifts by maps, DMA."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from npu.isa.operations import (
    INT32,
    AccumulatorFormat,
    Dma,
    DmaSide,
    DmaStride,
    ElementType,
    Elementwise,
    ElementwiseMode,
    FeatureMap,
    IfmPadding,
    KernelOperation,
    KernelWindow,
    Layout,
    Upscale,
)
from sim.memory import NpuMemory

from tests.naive.operations import write
from tests.support.machine import ARENA_BYTES, Workbench


class WideWorkbench(Workbench):
    """A `Workbench` that draws more."""

    def feature_map(self, height: int, width: int, depth: int, element: ElementType, *, reversible: bool = False) -> FeatureMap:
        fm = super().feature_map(height, width, depth, element, reversible=reversible or self.maybe(0.2))
        if fm.layout is not Layout.NHWC or not self.maybe(0.2):
            return fm
        first, second, third, fourth = (address + (width - 1) * fm.stride_x for address in fm.addresses)
        return replace(fm, addresses=(first, second, third, fourth), stride_x=-fm.stride_x)

    def window(self, largest: int = 5) -> tuple[KernelWindow, IfmPadding, Upscale, tuple[int, int], tuple[int, int]]:
        kernel, padding, upscale, ofm, ifm = super().window(largest)
        if not self.maybe(0.2):
            return kernel, padding, upscale, ofm, ifm
        kernel = replace(kernel, stride_y=self.choose(4, kernel.stride_y), stride_x=4)
        ofm = (min(ofm[0], 3), min(ofm[1], 3))
        factor = 1 if upscale is Upscale.NONE else 2
        rows = (ofm[0] - 1) * kernel.stride_y + kernel.dilated_height - padding.top - padding.bottom
        columns = (ofm[1] - 1) * kernel.stride_x + kernel.dilated_width - padding.left - padding.right
        if rows < 1 or columns < 1:
            return self.window(largest)
        return kernel, padding, upscale, ofm, (-(-rows // factor), -(-columns // factor))

    def shift(self) -> Elementwise:
        """SHL or SHR by the amounts of a second map, or of the first by the second's values if reversed."""
        operation = super().elementwise()
        while operation.mode not in (ElementwiseMode.SHL, ElementwiseMode.SHR):
            self.position = 0
            operation = super().elementwise()
        ifm, is_reversed = operation.ifm, self.maybe(0.5)
        extent = [size if is_reversed or self.maybe(0.7) else 1 for size in (ifm.height, ifm.width, ifm.depth)]
        ifm2 = self.feature_map(extent[0], extent[1], extent[2], INT32)
        amounts = ifm if is_reversed else ifm2
        values = self.rng.integers(0, 32, (amounts.height, amounts.width, amounts.depth))
        write(amounts, values, NpuMemory({1: self.arena}, self.variant))
        return replace(operation, ifm2=ifm2, scalar=None, scalar_zero_point=0, is_reversed=is_reversed)

    def operation(self) -> KernelOperation:
        operation = self.shift() if self.maybe(0.1) else super().operation()
        if operation.ifm.element.bits < 32 and self.maybe(0.3):
            return replace(operation, accumulator=AccumulatorFormat.INT40)
        return operation

    def transfer(self) -> Dma:
        """A transfer between two places of the arena, or into the look-up tables."""
        stride = self.choose(*DmaStride)
        rows = 1 if stride is DmaStride.CONTIGUOUS else self.number(1, 5)
        planes = self.number(1, 4) if stride is DmaStride.PLANES else 1
        skips: dict[str, Any] = {
            "row_skip_bytes": 16 * self.number(0, 3) if stride >= DmaStride.ROWS else 0,
            "plane_skip_bytes": 16 * self.number(0, 3) if stride is DmaStride.PLANES else 0,
        }
        length, half, shram = 16 * self.number(1, 5), ARENA_BYTES // 2, self.variant.shram
        source = DmaSide(1, 16 * self.number(0, 40), self.choose(stride, DmaStride.CONTIGUOUS))
        target = DmaSide(1, half + 16 * self.number(0, 40), stride)
        room = shram.lut_bytes - planes * (rows * (length + skips["row_skip_bytes"]) + skips["plane_skip_bytes"])
        if room >= 0 and self.maybe(0.4):
            source = replace(source, stride=stride)
            address = shram.lut_address + 16 * self.number(0, room // 16)
            target = DmaSide(None, address, self.choose(stride, DmaStride.CONTIGUOUS), self.choose(1, 3))
        return Dma(source=source, destination=target, length_bytes=length, rows=rows, planes=planes, **skips)
