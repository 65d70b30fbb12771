"""Turns operations into rows for the fast kernels; the only place that decides which operations they may run.

Geometry is fixed when a stream is prepared; constants follow from the weights in memory and are packed by `packing` whenever
those have changed. An operation that the kernels cannot run exactly keeps the kind GENERAL.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from npu.isa.operations import (
    ActivationFunction,
    Convolution,
    DepthwiseConvolution,
    Dma,
    ElementType,
    Elementwise,
    ElementwiseMode,
    FeatureMap,
    IfmPadding,
    KernelOperation,
    KernelWindow,
    Layout,
    Operation,
    Pooling,
    Rounding,
    Upscale,
    WindowOperation,
)
from npu.layouts import dense_steps
from npu.numerics.arrays import Ints
from sim.functional.execute import combination, prepare, prepare_output
from sim.functional.kernels import rows as r
from sim.functional.kernels.pack import make_stage
from sim.functional.kernels.values import zeroed
from sim.functional.packing import LIMIT, PackedOrder, PlannedRow, form_of, unsigned_offset
from sim.inconsistent import output_limits
from sim.memory import MAX_REGIONS, NpuMemory, brick_stride, feature_map_ranges, pixel_stride

_GUARD_BYTES = 64
_MAX_WINDOW = 64 * 64
"""Bound of the weights per pair of channels: what the hardware multiplies; more is a damaged stream without weights for it."""


def make_row(operation: Operation, memory: NpuMemory) -> PlannedRow:
    """The row of a checked operation; kind GENERAL if no fast kernel takes it."""
    row = PlannedRow()
    if isinstance(operation, Dma):
        _fill_copy(row, operation, memory)
    elif not isinstance(operation, KernelOperation):
        row.kind = r.NOTHING
    elif operation.options is not None:
        return row
    elif _is_eligible(operation, memory):
        if isinstance(operation, Convolution):
            _fill_convolution(row, operation, memory)
        elif isinstance(operation, DepthwiseConvolution):
            _fill_depthwise(row, operation, memory)
        elif isinstance(operation, Elementwise):
            _fill_elementwise(row, operation, memory)
    if row.kind == r.GENERAL and isinstance(operation, Pooling | Elementwise):
        row.kind = r.VALUES
        prepare(operation, memory.arithmetic, row.new_values())
    if row.kind not in (r.CONVOLUTION, r.DEPTHWISE):
        row.fields["kind"] = row.kind
    elif isinstance(operation, Convolution | DepthwiseConvolution):
        row.form = form_of(row, operation)
    return row


def _fill_copy(row: PlannedRow, operation: Dma, memory: NpuMemory) -> None:
    """A transfer without gaps between regions, or from one to the SHRAM of core 0, where tables are."""
    source, target, n = operation.source, operation.destination, row.fields
    if source.region is None or operation.rows != 1 or operation.planes != 1 or operation.indices is not None:
        return
    if target.region is not None:
        n["out_region"], n["out_table"] = target.region, target.address
    elif memory.shram.shape[0] == 1 or target.core_mask in (0, 1):
        n["out_region"], n["out_table"] = MAX_REGIONS, target.address - memory.variant.shram.lut_address
    else:
        return
    row.kind = r.COPY
    n["pixels"], n["in_region"], n["in_table"] = operation.length_bytes, source.region, source.address


def _is_eligible(operation: KernelOperation, memory: NpuMemory) -> bool:
    maps = [operation.ifm]
    if isinstance(operation, Elementwise):
        ifm2, ofm = operation.ifm2, operation.ofm
        if ifm2 is None or operation.mode not in (ElementwiseMode.ADD, ElementwiseMode.SUB, ElementwiseMode.MUL):
            return False
        maps.append(ifm2)
        if ifm2.element != operation.ifm.element or ifm2.depth != ofm.depth or not _has_plain_output(operation, memory):
            return False
    elif isinstance(operation, WindowOperation) and operation.kernel.height * operation.kernel.width > _MAX_WINDOW:
        return False
    if any(fm.element.bits != 8 or fm.width > fm.tile_width_0 for fm in maps):
        return False
    return not isinstance(operation, Elementwise) or _is_direct(operation, maps, memory)


def _has_plain_output(operation: KernelOperation, memory: NpuMemory) -> bool:
    """Whether the output stage is that of the fast kernels; other convolutions leave their sums to `values.finish_sums`."""
    ofm = operation.ofm
    is_plain = operation.activation.function is ActivationFunction.NONE and operation.rounding is Rounding.DOUBLE
    is_plain = is_plain and _are_limits_of(ofm.element, *output_limits(operation))
    return is_plain and ofm.element.bits == 8 and ofm.width <= ofm.tile_width_0 and _is_readable(ofm, memory)


def _is_direct(operation: KernelOperation, inputs: list[FeatureMap], memory: NpuMemory) -> bool:
    """Whether the inputs may be read where they are."""
    return all(_is_readable(fm, memory) for fm in inputs) and _may_share(operation, inputs, memory)


def _is_readable(fm: FeatureMap, memory: NpuMemory) -> bool:
    """Whether groups of 16 channels may be read whole, of a map that lies in memory."""
    if fm.depth % 16 == 0:
        return True
    size = memory.regions[fm.region].size
    return all(start >= 0 and end <= size for start, end in feature_map_ranges(fm, whole_bricks=True))


def _may_share(operation: KernelOperation, maps: list[FeatureMap], memory: NpuMemory) -> bool:
    """Whether no input is overwritten before it is read: disjoint from the output, or elementwise exactly in place.

    Groups of 16 channels are read whole, but what is behind the last channel has no effect and is never written.
    """
    ofm, is_elementwise = operation.ofm, isinstance(operation, Elementwise)
    for fm in maps:
        if fm is ofm or (is_elementwise and _is_in_place(fm, ofm)):
            continue
        ours = feature_map_ranges(fm)
        theirs = feature_map_ranges(ofm)
        same = fm.region == ofm.region
        gap = 0 if same else int(memory.bases[fm.region] - memory.bases[ofm.region])  # regions may be views of one array
        if any(a + gap < d and c < b + gap for a, b in ours for c, d in theirs):
            return False
    return True


def _is_in_place(fm: FeatureMap, ofm: FeatureMap) -> bool:
    """Whether each element of an input is where that of the output is."""
    one, other = (
        (side.region, side.addresses, side.tile_height_0, side.steps, side.layout, side.height, side.width)
        for side in (fm, ofm)
    )
    return one == other


def _offsets_of_rows(fm: FeatureMap, y: Ints) -> Ints:
    """Bytes from the first pixel of tile 0 to the first ones of rows, of tiles 0 and 2."""
    if fm.height <= fm.tile_height_0:
        return y * fm.stride_y
    below = fm.addresses[2] - fm.addresses[0] - fm.tile_height_0 * fm.stride_y
    return y * fm.stride_y + np.where(y < fm.tile_height_0, 0, below)


def _row_offsets(fm: FeatureMap) -> Ints:
    """Those of all rows."""
    return _offsets_of_rows(fm, np.arange(fm.height, dtype=np.int64))


def _pixel_offsets(fm: FeatureMap, height: int, width: int, window: tuple[int, int] = (1, 1)) -> Ints:
    """Bytes from the first pixel of tile 0 to that of every window of a map, which are so many rows and columns apart."""
    rows, columns = window
    if fm.height <= fm.tile_height_0 and height * width <= _SHARED_PIXELS:
        return _shared_offsets(height, width, rows * fm.stride_y, columns * pixel_stride(fm))
    y = np.arange(0, height * rows, rows, dtype=np.int64)
    return _grid(_offsets_of_rows(fm, y), width, columns * pixel_stride(fm))


_SHARED_PIXELS = 1 << 14
"""Of the largest map whose offsets are kept."""


@functools.lru_cache(maxsize=128)
def _shared_offsets(height: int, width: int, row: int, pixel: int) -> Ints:
    """Offsets of the pixels of a map, not to be written: layers that follow one another share them."""
    return _grid(row * np.arange(height, dtype=np.int64), width, pixel)


def _grid(rows: Ints, width: int, step: int) -> Ints:
    """The offsets of all pixels of rows that start at these."""
    return rows if width == 1 else (rows[:, None] + step * np.arange(width, dtype=np.int64)).reshape(-1)


def _fill_output(row: PlannedRow, operation: KernelOperation, *, pixels: bool) -> None:
    ofm, n = operation.ofm, row.fields
    (_, pixel, brick), blocks = ofm.steps, (ofm.depth + 15) // 16
    offsets = _pixel_offsets(ofm, ofm.height, ofm.width) if pixels else _row_offsets(ofm)
    n["pixels"] = offsets.size
    n["out_table"] = row.table("out", offsets)
    n["out_region"], n["out_brick"], n["out_pixel"], n["width"] = ofm.region, brick, pixel, ofm.width
    n["blocks"], n["tail"] = blocks, ofm.depth - 16 * (blocks - 1)
    low, high = output_limits(operation)
    ifm_offset, offset = unsigned_offset(operation.ifm.element), unsigned_offset(ofm.element)
    is_byte = ofm.element.bits == 8 and _are_limits_of(ofm.element, low, high)  # the sums of others go to `values.finish_sums`
    numbers = (ofm.zero_point - offset, low - offset, high - offset) if is_byte else (0, 0, 0)
    row.limits, n["limits"] = _limits(*numbers, ifm_offset, offset)


def _are_limits_of(element: ElementType, low: int, high: int) -> bool:
    """Whether clamped values fit the type: others wrap where they are stored, and packing would saturate them."""
    least, most = element.minimum, element.maximum
    return least <= low <= most and least <= high <= most


@functools.lru_cache(maxsize=256)
def _limits(zero_point: int, low: int, high: int, ifm_offset: int, ofm_offset: int) -> tuple[npt.NDArray[np.void], int]:
    """`LIMITS`, not to be written, and their address. The offsets are `unsigned_offset`s; that of the OFM is subtracted."""
    limits = zeroed(r.LIMITS)
    limits["even_lanes"] = r.EVEN_LANES
    limits["flip_inputs"], limits["flip_outputs"] = (128 - ifm_offset) * 0x01010101, ofm_offset
    limits["zero_point"], limits["low"], limits["high"] = zero_point, low, high
    return limits, limits.ctypes.data


def _fill_sums(row: PlannedRow, operation: KernelOperation, memory: NpuMemory) -> None:
    """An output of sums, pixel after pixel, for `values.finish_sums`."""
    ofm, n = operation.ofm, row.fields
    pixel, count = 64 * int(n["blocks"]), int(n["pixels"])
    row.sums_bytes = ofm.height * ofm.width * pixel
    n["out_table"] = row.table("out", np.arange(count, dtype=np.int64) * (row.sums_bytes // count))
    n["out_region"], n["out_brick"], n["out_pixel"], n["finish"] = -1, 64, pixel, r.SUM
    values = prepare_output(operation, memory.arithmetic, row.new_values())
    values["sums_pitch"], values["sums_rounding"] = pixel, operation.rounding


def _fill_convolution(row: PlannedRow, operation: Convolution, memory: NpuMemory) -> None:
    kernel, ifm, ofm, n = operation.kernel, operation.ifm, operation.ofm, row.fields
    if operation.upscale is not Upscale.NONE:
        return
    _fill_output(row, operation, pixels=True)
    if not _has_plain_output(operation, memory):
        _fill_sums(row, operation, memory)
    one_tile = ifm.height <= ifm.tile_height_0
    is_dense = operation.padding.is_none and (kernel.height == 1 or one_tile)
    if is_dense and _is_direct(operation, [ifm], memory):
        pixel, pitch, bricks = pixel_stride(ifm), ifm.stride_y, brick_stride(ifm) if ifm.layout is Layout.NHCWB16 else 0
        offsets = _pixel_offsets(ifm, ofm.height, ofm.width, (kernel.stride_y, kernel.stride_x))
        n["in_region"] = ifm.region
    else:
        height = (ofm.height - 1) * kernel.stride_y + kernel.dilated_height
        width = (ofm.width - 1) * kernel.stride_x + kernel.dilated_width
        start = _fill_padding(row, operation, memory, operation.padding, height, width)
        pixel, pitch, bricks = ifm.depth, width * ifm.depth, 0
        rows = start + kernel.stride_y * pitch * np.arange(ofm.height, dtype=np.int64)
        offsets = _grid(rows, ofm.width, kernel.stride_x * pixel)
    n["in_table"] = row.table("in", offsets)
    row.order = _segments(kernel, ifm.depth, pixel, pitch, bricks)
    n |= row.order.fields
    row.kind = r.CONVOLUTION


@functools.lru_cache(maxsize=256)
def _segments(kernel: KernelWindow, depth: int, pixel: int, pitch: int, bricks: int) -> PackedOrder:
    """The runs of inputs of a pixel, with the order of the weights (ky, kx, i flattened).

    Kept, because the stripes of a cascade share them.
    """
    size = depth
    if bricks:
        size = 16 if depth % 16 == 0 or depth % 16 > 8 else (8 if depth % 16 > 4 else 4)
        size = min(size, (depth + 3) // 4 * 4)
    joins = not bricks and pixel == depth and kernel.dilation_x == 1
    columns = 1 if joins else kernel.width
    size = size * kernel.width if joins else size
    runs = 1 if not bricks else -(-depth // size)
    padded = (size + 3) // 4 * 4
    offsets = np.empty((kernel.height, columns, runs), np.int64)
    order = np.full((kernel.height, columns, runs, padded), -1, np.int64)
    for ky in range(kernel.height):
        for kx in range(columns):
            for run in range(runs):
                channel = run * size
                within = channel // 16 * bricks + channel % 16 if bricks else 0
                offsets[ky, kx, run] = ky * kernel.dilation_y * pitch + kx * kernel.dilation_x * pixel + within
                count = min(size, depth - channel) if not joins else size
                start = (ky * kernel.width + kx) * depth + channel
                order[ky, kx, run, :count] = start + np.arange(count)
    return PackedOrder(order.reshape(-1), offsets.reshape(-1), padded // 4)


def _fill_padding(
    row: PlannedRow, operation: KernelOperation, memory: NpuMemory, padding: IfmPadding, height: int, width: int
) -> int:
    """The machine address of a dense copy of the input, padded to `height` by `width`."""
    ifm, n = operation.ifm, row.fields
    pitch = width * ifm.depth
    n["is_overwritten"] = not _may_share(operation, [ifm], memory)
    buffer = np.full(height * pitch + _GUARD_BYTES, ifm.zero_point & 0xFF, np.uint8)
    start = row.table("padded", buffer)
    n["in_region"] = -1
    n["pad_rows"] = ifm.height
    n["pad_table"] = row.table("pad", _row_offsets(ifm))
    n["pad_region"], n["pad_pitch"], n["pad_width"], n["pad_depth"] = ifm.region, pitch, ifm.width, ifm.depth
    n["pad_pixel"], n["pad_brick"] = pixel_stride(ifm), brick_stride(ifm)
    n["pad_target"] = start + padding.top * pitch + padding.left * ifm.depth
    return start


def _fill_depthwise(row: PlannedRow, operation: DepthwiseConvolution, memory: NpuMemory) -> None:
    kernel, padding, ifm, ofm, n = operation.kernel, operation.padding, operation.ifm, operation.ofm, row.fields
    if operation.upscale is not Upscale.NONE:
        return
    _fill_output(row, operation, pixels=False)
    if not _has_plain_output(operation, memory):
        _fill_sums(row, operation, memory)
    first = np.arange(-padding.top, ofm.height * kernel.stride_y - padding.top, kernel.stride_y, dtype=np.int64)
    y = np.add.outer(first, np.arange(0, kernel.height * kernel.dilation_y, kernel.dilation_y))
    if _is_direct(operation, [ifm], memory):
        offsets = _offsets_of_rows(ifm, y)
        n["in_region"], n["in_pixel"], n["in_brick"] = ifm.region, pixel_stride(ifm), brick_stride(ifm)
    else:
        offsets = _fill_padding(row, operation, memory, IfmPadding(), ifm.height, ifm.width) + y * (ifm.width * ifm.depth)
        n["in_pixel"], n["in_brick"] = ifm.depth, 16
    rows = np.where((y >= 0) & (y < ifm.height), offsets, r.NO_ROW)
    row.order = _parts(kernel, padding.left)
    n |= row.order.fields
    n["in_table"], n["in_width"], n["stride"] = row.table("in", rows), ifm.width, kernel.stride_x
    n["padding_pixel"] = row.table("zero", np.full(_GUARD_BYTES, ifm.zero_point & 0xFF, np.uint8))
    row.kind = r.DEPTHWISE


@functools.lru_cache(maxsize=256)
def _parts(kernel: KernelWindow, left: int) -> PackedOrder:
    """The parts of a depthwise window, by their first columns, with the order of the weights (ky, kx flattened).

    The first column of a part has a weight. Kept as `_segments` is.
    """
    size, parts, order, first = 3 if kernel.stride_x == 1 else 4, [], [], 0
    while first < kernel.dilated_width:
        parts.append(first - left)
        for ky in range(kernel.height):
            for column in range(first, first + 4):
                is_weight = column < min(first + size, kernel.dilated_width) and column % kernel.dilation_x == 0
                order.append(ky * kernel.width + column // kernel.dilation_x if is_weight else -1)
        first = -(-(first + size) // kernel.dilation_x) * kernel.dilation_x
    return PackedOrder(np.array(order, np.int64), np.array(parts, np.int64), kernel.height)


def _fill_elementwise(row: PlannedRow, operation: Elementwise, memory: NpuMemory) -> None:
    ifm, ifm2, n = operation.ifm, operation.ifm2, row.fields
    assert ifm2 is not None
    if operation.operand_rounding is not Rounding.DOUBLE:
        return
    n["is_reversed"] = int(operation.is_reversed)
    first, second = (ifm2, ifm) if operation.is_reversed else (ifm, ifm2)
    numbers = combination(operation, memory.arithmetic)
    operands, bound = _operands(operation, numbers, first, second)
    if operands is None:
        return
    _fill_output(row, operation, pixels=False)
    stage, zero_point = zeroed(r.CHANNELS), operation.ofm.zero_point - unsigned_offset(operation.ofm.element)
    lanes = np.empty((4, 16), np.int64)
    lanes.T[:] = 0, numbers["scale"], numbers["shift"], bound
    if not make_stage(*lanes, zero_point, LIMIT, False, stage):
        return
    n["stage"] = row.table("stage", stage)
    n["operands"] = row.table("operands", operands)
    for fm, side in ((first, "in"), (second, "in2")):
        offsets = _row_offsets(fm) if fm.height > 1 else np.repeat(_row_offsets(fm), operation.ofm.height)
        n[f"{side}_table"] = row.table(side, offsets)
        _, pixel, n[f"{side}_brick"] = fm.steps
        n[f"{side}_region"], n[f"{side}_pixel"] = fm.region, pixel if fm.width == operation.ofm.width else 0
    _flatten(row, operation, [first, second, operation.ofm], memory)
    row.kind = r.ELEMENTWISE


def _flatten(row: PlannedRow, operation: Elementwise, maps: list[FeatureMap], memory: NpuMemory) -> None:
    """Take the bytes of all rows for one line, if no map has a gap."""
    ofm, n = operation.ofm, row.fields
    size = ofm.height * ofm.width * ofm.depth
    pixels = -(-size // 16)
    for fm in maps:
        is_whole = (fm.height, fm.width, fm.layout) == (ofm.height, ofm.width, ofm.layout) and fm.height <= fm.tile_height_0
        if not is_whole or not _is_dense(fm) or fm.addresses[0] + 16 * pixels > memory.regions[fm.region].size:
            return
    n["is_flat"], n["pixels"], n["blocks"], n["width"], n["tail"] = 1, 1, 1, pixels, size - 16 * (pixels - 1)
    n["in_pixel"] = n["in2_pixel"] = n["out_pixel"] = 16


def _is_dense(fm: FeatureMap) -> bool:
    """Whether a map of one tile has no gaps."""
    is_bricked = fm.layout is Layout.NHCWB16
    return fm.steps == dense_steps(fm.width, fm.depth, fm.element.bytes, is_bricked=is_bricked) and (
        not is_bricked or fm.depth % 16 == 0
    )


def _operands(
    operation: Elementwise, numbers: Mapping[str, int], first: FeatureMap, second: FeatureMap
) -> tuple[npt.NDArray[np.void] | None, int]:
    """`OPERANDS`, and a bound of the sum; `numbers` is the operation's `combination`."""
    left_shift, opa_scale, opa_shift = (numbers[name] for name in ("left_shift", "opa_scale", "opa_shift"))
    implicit = (1 << left_shift - 1, 0)
    pairs = {
        0: ((opa_scale, 0), (numbers["opb_scale"], 0)),
        1: ((opa_scale, opa_shift), implicit),
        2: (implicit, (opa_scale, opa_shift)),
    }[numbers["operand_scaling"]]
    reaches = [max(fm.element.maximum - fm.zero_point, fm.zero_point - fm.element.minimum) for fm in (first, second)]
    zero_points = [fm.zero_point + 128 - unsigned_offset(fm.element) for fm in (first, second)]
    operands, bound = [], 0
    if operation.mode is ElementwiseMode.MUL:
        operands, bound = [(zero, 0, 0, 0, 0, 0, 0) for zero in zero_points], reaches[0] * reaches[1]
        return _joined_operands(operands, operation.mode), bound
    for zero_point, (scale, shift), reach in zip(zero_points, pairs, reaches, strict=True):
        near, far = min(shift, 31 - left_shift), max(0, shift - (31 - left_shift))
        size = (reach * scale >> near) + 1
        if scale >= 1 << 31 or far > 30 or size >= LIMIT:
            return None, 0
        bound += size
        rounding = 1 << near - 1 if near else 0
        term, mask = (1 << far - 1, -1) if far else (0, 0)
        operands.append((zero_point, scale, rounding, near, term, mask, far))
    return _joined_operands(operands, operation.mode), bound


def _joined_operands(operands: Sequence[tuple[int, ...]], mode: ElementwiseMode) -> npt.NDArray[np.void]:
    joined = zeroed(r.OPERANDS)
    joined["first"], joined["second"], joined["mode"] = *operands, mode
    return joined
