"""CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED compiled to job rows over packed weights and indirection tables.

Quantized results are those of the reference kernels: two roundings for convolutions, one in double precision for
FULLY_CONNECTED. What is not covered here (grouped or dynamic-range weights, very large scales) is left to them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from npu.graph.attributes import Padding
from npu.graph.shapes.common import window_extent
from npu.layouts import HeightWidth
from npu.native.cpu import current
from npu.numerics.arrays import Array
from npu.records import dataclass
from npu.runtime.kernels.convolution import Window
from npu.runtime.operator import OperatorNode
from npu.runtime.operators.common import pad_before
from npu.runtime.tensor import RuntimeTensor
from npu.runtime.xnnpack.kernels import row as r
from npu.runtime.xnnpack.memory import GUARD_BYTES, Workspace, address, guarded
from npu.runtime.xnnpack.operand import ConstantOperand, operand
from npu.runtime.xnnpack.operation import CompiledOperation, Rows, Words
from npu.runtime.xnnpack.packing import (
    PackedProduct,
    Stage,
    bounds_of,
    pack_matrix,
    pack_taps,
    plain_stage,
    scaled_stage,
    sums_fit,
)

TableMemory = Callable[[int], Words]
"""Gives memory for so many addresses."""
Store = Callable[[Array], Array]
"""Keeps packed weights: the weights cache, or the identity."""
_SIGN = 0x80808080
_NOTHING = guarded((1,), np.dtype(np.int32))
_FEW_BLOCKS = 2
_KNOWN_TAPS = 9
"""Taps of the filter that has a kernel of its own."""
_PAIRED = 4
"""Pixels of the narrowest map whose windows are taken two at a time."""
MOST_ADDRESSES = 1 << 25
"""Of an indirection table; a small file can describe maps and filters that would need more memory than there is."""
_NARROW = 16
"""Fewer input channels than this are read a filter row at a time from a padded copy."""
_COPIED = 16
"""Up to so many are, if a copy is needed in any case."""


@dataclass(frozen=True, slots=True)
class Site:
    """What the operations of one partition share."""

    store: Store
    workspace: Workspace
    transient: bool
    is_guarded: Callable[[RuntimeTensor], bool]
    """Whether a tensor's buffer may be read past its end."""


def _canvas(window: Window) -> HeightWidth:
    """Height and width of the padded input that all windows cover."""
    w = window
    sizes = [(o - 1) * s + (k - 1) * d + 1 for o, s, k, d in zip(w.out, w.stride, w.kernel, w.dilation, strict=True)]
    return sizes[0], sizes[1]


def _geometry(node: OperatorNode, kernel: tuple[int, int]) -> Window | None:
    a, sizes = node.attributes, node.input(0).shape[1:3]
    stride, dilation = (a.stride_h, a.stride_w), (a.dilation_h_factor, a.dilation_w_factor)
    if min(*stride, *dilation, *kernel) < 1:
        return None
    both = list(zip(sizes, kernel, stride, dilation, strict=True))
    out = tuple(window_extent(size, k, s, d, a.padding) for size, k, s, d in both)
    before = [0, 0]
    if a.padding is Padding.SAME:
        before = [pad_before(size, o, k, s, d)[0] for (size, k, s, d), o in zip(both, out, strict=True)]
    return Window(kernel, stride, dilation, (before[0], before[1]), (out[0], out[1]))


def window_of(node: OperatorNode, kernel: HeightWidth) -> Window:
    """The window of a convolution that is known to be well formed."""
    window = _geometry(node, kernel)
    assert window is not None
    return window


def tap_addresses(geometry: Window, ifm: Array, start: int, padding: int, out: Array) -> None:
    """Addresses (batch, out height, out width, kernel height, kernel width) of input pixels; `padding` outside the map."""
    batches, height, width, channels = ifm.shape
    g, pixel = geometry, channels * ifm.itemsize
    y = np.arange(g.out[0])[:, None] * g.stride[0] - g.before[0] + np.arange(g.kernel[0]) * g.dilation[0]
    x = np.arange(g.out[1])[:, None] * g.stride[1] - g.before[1] + np.arange(g.kernel[1]) * g.dilation[1]
    inside = ((y >= 0) & (y < height))[:, None, :, None] & ((x >= 0) & (x < width))[None, :, None, :]
    offsets = (y * width)[:, None, :, None] + x[None, :, None, :]
    for b in range(batches):
        out[b] = np.where(inside, start + (b * height * width + offsets) * pixel, padding)


def fill_table(allocate: TableMemory, window: Window, source: Array, outside: int, entries: int) -> Words:
    """The table of a depthwise convolution: `entries` addresses for every output pixel, those of `outside` after the taps.

    Nine taps stand column by column, as if the filter were 3 by 3.
    """
    batches, taps = len(source), math.prod(window.kernel)
    result = np.empty((batches, *window.out, *window.kernel), np.int64)
    tap_addresses(window, source, address(source), outside, result)
    table = allocate(batches * math.prod(window.out) * entries)
    grid = table.reshape(-1, entries)
    order = r.COLUMN_BY_COLUMN if taps == _KNOWN_TAPS else range(taps)
    grid[:, order], grid[:, taps:] = result.reshape(-1, taps), outside
    return table


class _Weighted(CompiledOperation):
    """What the three operators share: the packed operand and the fields of a row that do not depend on buffers."""

    _float_kind = r.GEMM_FLOAT
    _byte_kind = r.GEMM_BYTE

    def __init__(self, index: int, node: OperatorNode, site: Site, given: ConstantOperand, product: PackedProduct) -> None:
        super().__init__(index, node, site.workspace, transient=site.transient)
        self._site, self._operand, self._layout, self._finish = site, given, product.layout, product.finish
        self._packed = site.store(product.packed)
        self._limits = _NOTHING if self.is_float else given.limits.for_kernels()

    @property
    def is_float(self) -> bool:
        return self._operand.factors is None

    def _row(self) -> Rows:
        given, layout, output = self._operand, self._layout, self.node.output()
        row = np.zeros((), r.JOB)
        row["kind"] = self._float_kind if self.is_float else self._byte_kind
        row["segments"], row["length"] = layout.segments, layout.length
        row["weights"], row["weight_step"] = address(self._packed), layout.step
        row["stage"] = address(self._packed) + layout.stage_offset
        row["out"], row["out_step"] = address(output.array), output.shape[-1] * output.array.itemsize
        row["groups"], row["tail"], row["sign"] = layout.groups, layout.tail, self._sign
        row["zero_point"], row["low"], row["high"] = given.limits.zero_point, given.limits.low, given.limits.high
        row["limits"], row["finish"] = address(self._limits), self._finish
        return row

    @property
    def _sign(self) -> int:
        return 0 if self.is_float or self._operand.is_unsigned else _SIGN

    @property
    def is_flipped(self) -> bool:
        """Whether the input is copied as unsigned bytes first."""
        return False

    def _padded(self, shape: tuple[int, ...]) -> Array:
        """A buffer full of padding, in the form in which the kernel reads the input."""
        dtype, value = self.node.input(0).array.dtype, self._operand.padding
        return self.keep(guarded(shape, np.dtype(np.uint8), value + 128) if self.is_flipped else guarded(shape, dtype, value))

    def _outside(self, channels: int) -> int:
        """The address of a pixel of padding."""
        return address(self._padded((channels + GUARD_BYTES,)))

    def _corrected(self, row: Rows) -> list[Rows]:
        """Name what a product's row adds to the sums of each pixel; the row that computes it, if it is not nothing."""
        row["input"] = address(_NOTHING)
        if not self._operand.weight_zero_point:
            return []
        before = row.copy()
        sums = self.keep(np.zeros(int(row["rows"]), np.int32))
        row["input"], row["input_step"] = address(sums), 4
        before["kind"], before["out"], before["zero_point"] = r.SUM_PIXELS, address(sums), -self._operand.weight_zero_point
        before["row_bytes"] = self._operand.weights.size // self._operand.bias.size // self._layout.segments
        return [before]

    def _copy(self, source: Array, target: Array, place: tuple[int, int]) -> list[Rows]:
        """Rows that copy a map (batch, height, width, channels) to a place in a larger one, one row per batch."""
        batches, height, width, channels = source.shape
        rows = min(height, target.shape[1] - place[0])
        bytes_per_row = min(width, target.shape[2] - place[1]) * channels * source.itemsize
        kind = r.FLIP_ROWS if self.is_flipped else r.COPY_ROWS
        made = []
        for b in range(batches):
            row = np.zeros((), r.JOB)
            row["kind"], row["rows"], row["row_bytes"] = kind, max(rows, 0), max(bytes_per_row, 0)
            row["input"], row["input_step"] = address(source) + b * source.strides[0], source.strides[1]
            row["out"] = address(target) + b * target.strides[0] + place[0] * target.strides[1] + place[1] * target.strides[2]
            row["out_step"] = target.strides[1]
            made.append(row)
        return made

    def _readable(self, alignment: int) -> tuple[Array, list[Rows]]:
        """The input where vectors may read past its end: itself, or a copy with the rows that make it."""
        ifm = self.node.input(0)
        readable = ifm.shape[-1] % alignment == 0 or self._site.is_guarded(ifm)
        if readable and not self.is_flipped:
            return ifm.array, []
        copy = self.keep(guarded(ifm.shape, ifm.array.dtype))
        return copy, self._copy(ifm.array, copy, (0, 0))


class _Windowed(_Weighted):
    """Convolutions: windows of `_kernel` size over a map."""

    _kernel: HeightWidth
    _depth: int
    """Channels of the input."""

    @property
    def window(self) -> Window:
        """Of the shapes that were prepared."""
        return self._geometry

    def shape(self) -> bool:
        ifm = self.node.input(0)
        if len(ifm.shape) != 4 or ifm.shape[3] != self._depth or 0 in ifm.shape:
            return False
        geometry = _geometry(self.node, self._kernel)
        if geometry is None or min(geometry.out) < 1:
            return False
        if math.prod((ifm.shape[0], *geometry.out, *self._kernel)) > MOST_ADDRESSES:
            return False
        self._geometry = geometry
        self.node.set_shape((ifm.shape[0], *geometry.out, self._operand.bias.size))
        return True


class PackedConvolution(_Windowed):
    """CONV_2D of one group; DEPTHWISE_CONV_2D with one input channel is one too."""

    def __init__(self, index: int, node: OperatorNode, site: Site, given: ConstantOperand, stage: Stage) -> None:
        channels, height, width, self._depth = given.weights.shape
        self._kernel = (height, width)
        narrow = self._depth < _NARROW or self._depth % 4 != 0
        is_copied = given.factors is not None and not given.is_unsigned and channels <= 16 * _FEW_BLOCKS
        narrow |= is_copied and self._depth <= _COPIED
        self.by_rows = narrow and width > 1 and (node.attributes.dilation_h_factor, node.attributes.dilation_w_factor) == (1, 1)
        shape = (channels, height, width * self._depth) if self.by_rows else (channels, height * width, self._depth)
        super().__init__(index, node, site, given, pack_matrix(given.weights.reshape(shape), stage))

    @property
    def is_flipped(self) -> bool:
        """Tiles of one or two blocks of channels spend up to half of their time on it, for every output pixel and tap again;
        not those of pairs, whose inputs are made ready first."""
        return self._sign != 0 and self._layout.groups <= _FEW_BLOCKS and current().has_dot_product

    def bind(self) -> None:
        g, ifm = self._geometry, self.node.input(0).array
        batches, channels = ifm.shape[0], ifm.shape[3]
        row = self._row()
        row["rows"] = batches * g.out[0] * g.out[1]
        table = self.table(int(row["rows"]) * self._layout.segments)
        row["table"] = address(table)
        if self.by_rows:
            canvas = self._padded((batches, *_canvas(g), channels))
            before = self._copy(ifm, canvas, g.before)
            start = Window((g.kernel[0], 1), g.stride, g.dilation, (0, 0), g.out)
            tap_addresses(start, canvas, address(canvas), 0, table.reshape(batches, *g.out, g.kernel[0], 1))
        else:
            source, before = self._readable(1 if self.is_float else 4)
            tap_addresses(g, source, address(source), self._outside(channels), table.reshape(batches, *g.out, *g.kernel))
        before += self._corrected(row)
        if self.is_flipped:
            row["sign"] = 0
        self.rows = np.stack([*before, row])


class Depthwise(_Windowed):
    """DEPTHWISE_CONV_2D with one output channel per input channel."""

    _float_kind = r.DEPTHWISE_FLOAT
    _byte_kind = r.DEPTHWISE_BYTE

    def __init__(self, index: int, node: OperatorNode, site: Site, given: ConstantOperand, stage: Stage) -> None:
        self._depth, height, width, _ = given.weights.shape
        self._kernel = (height, width)
        a, weights = node.attributes, given.weights[..., 0]
        is_plain = given.factors is not None and not given.weight_zero_point and current().has_dot_product
        self.by_rows = is_plain and self._kernel == (3, 3) and (a.stride_w, a.dilation_w_factor) == (1, 1)
        if self.by_rows:
            weights = np.pad(weights, ((0, 0), (0, 0), (0, 1)))
        super().__init__(index, node, site, given, pack_taps(weights.reshape(self._depth, -1).T, stage))

    def bind(self) -> None:
        g = self._geometry
        source, before = self._readable(16)
        batches, channels = source.shape[0], source.shape[3]
        row = self._row()
        row["width"], row["rows"], row["is_by_rows"] = g.out[1], batches * g.out[0], self.by_rows
        table, row["pixel_step"], row["line_step"] = self.table_over(source, g, self._outside(channels), self.table)
        row["table"] = address(table)
        if self._operand.weight_zero_point:
            row["centred"], row["sign"] = 1, (self._operand.weight_zero_point & 255) * 0x01010101
        self.rows = np.stack([*before, row])

    def table_over(self, source: Array, g: Window, outside: int, allocate: TableMemory) -> tuple[Words, int, int]:
        """Addresses of the windows on a map, and the bytes of them from an output pixel, and an output row, to the next."""
        width, entries = g.kernel[1] + self.by_rows, self._layout.segments
        window, pixel, line = replace(g, kernel=(g.kernel[0], width)), entries, entries * g.out[1]
        if g.kernel == (3, 3) and g.dilation[1] == 1 and (not self.by_rows or g.out[1] >= _PAIRED):
            # Pixels share columns: for each of a row of windows, its three addresses.
            columns, entries = (g.out[1] - 1) * g.stride[1] + width, g.kernel[0]
            window = replace(g, kernel=(g.kernel[0], 1), stride=(g.stride[0], 1), out=(g.out[0], columns))
            pixel, line = entries * g.stride[1], entries * columns
        return fill_table(allocate, window, source, outside, entries), 8 * pixel, 8 * line


class FullyConnected(_Weighted):
    """FULLY_CONNECTED; 8-bit sums are scaled in double precision."""

    _byte_kind = r.GEMM_REAL

    def __init__(self, index: int, node: OperatorNode, site: Site, given: ConstantOperand, stage: Stage) -> None:
        units, depth = given.weights.shape
        super().__init__(index, node, site, given, pack_matrix(given.weights.reshape(units, 1, depth), stage))

    def shape(self) -> bool:
        ifm, a = self.node.input(0), self.node.attributes
        units, depth = self._operand.weights.shape
        if a.weights_format.value != 0 or ifm.elements % depth or not ifm.elements:
            return False
        if a.keep_num_dims and (not ifm.shape or ifm.shape[-1] != depth):
            return False
        rows = ifm.elements // depth
        self.node.set_shape((*ifm.shape[:-1], units) if a.keep_num_dims else (rows, units))
        return True

    def bind(self) -> None:
        depth = self._operand.weights.shape[1]
        ifm = self.node.input(0).array
        before: list[Rows] = []
        if not self.is_float and depth % 4 and not self._site.is_guarded(self.node.input(0)):
            copy = self.keep(guarded(ifm.shape, ifm.dtype))
            before = self._copy(ifm.reshape(1, 1, 1, -1), copy.reshape(1, 1, 1, -1), (0, 0))
            ifm = copy
        row = self._row()
        count = ifm.size // depth
        # Row addresses are no indirection buffer: one per row, and never transient.
        table = self.keep(address(ifm) + np.arange(count, dtype=np.int64) * depth * ifm.itemsize)
        row["table"] = address(table)
        row["rows"] = count
        before += self._corrected(row)
        self.rows = np.stack([*before, row])


def compile_weighted(index: int, node: OperatorNode, site: Site) -> CompiledOperation | None:
    """A compiled operation for an operator of these three kinds, None if the reference kernel shall run it."""
    is_depthwise = node.kind == "DEPTHWISE_CONV_2D"
    given = operand(node, 3 if is_depthwise else 0)
    if given is None or given.weights.ndim != (2 if node.kind == "FULLY_CONNECTED" else 4):
        return None
    if is_depthwise:
        if given.weights.shape[0] != 1:
            return None
        given = replace(given, weights=given.weights.transpose(3, 1, 2, 0))
        # One input channel and several filters are an ordinary convolution with the same sums.
        is_depthwise = node.input(0).shape[-1:] != (1,) or given.weights.shape[0] == 1
    if given.factors is not None and node.kind != "FULLY_CONNECTED":
        given = given.with_constants_as_biases()
    stage = _stage(given, is_depthwise=is_depthwise, is_real=node.kind == "FULLY_CONNECTED")
    if stage is None:
        return None
    kind = FullyConnected if node.kind == "FULLY_CONNECTED" else Depthwise if is_depthwise else PackedConvolution
    return kind(index, node, site, given, stage)


def _stage(given: ConstantOperand, *, is_depthwise: bool, is_real: bool) -> Stage | None:
    """The output stage of a product, None if its sums are too large."""
    bias = given.folded()
    if given.factors is None:
        return plain_stage(r.FLOAT_STAGE, bias=bias)
    if is_real:
        assert given.scales is not None
        fits = sums_fit(given.centred, given.bias)
        return plain_stage(r.REAL_STAGE, bias=bias, scale=np.asarray(given.scales, np.float64)) if fits else None
    taps = math.prod(given.weights.shape[1:])
    if is_depthwise and given.weight_zero_point and taps != _KNOWN_TAPS:
        # The kernel takes taps by fours; those that fill up read padding.
        bias = bias + np.int32(-taps % 4 * given.weight_zero_point * given.padding)
    return scaled_stage(bias, bounds_of(given.centred, given.bias), given.factors, given.limits)
