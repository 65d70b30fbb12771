"""Feature maps as the cubes that operations compute with, and the output stage that all of them share.

A cube is int64 (height, width, depth).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu.isa.family import FamilyArithmetic
from npu.isa.operations import ClipRange, FeatureMap, KernelOperation, Upscale, WindowOperation
from sim.functional.kernels import feature_map, output
from sim.inconsistent import lut_kind, output_limits
from sim.memory import NpuMemory

Cube = npt.NDArray[np.int64]


def read(fm: FeatureMap, memory: NpuMemory, zero_point: int = 0) -> Cube:
    """A feature map as int64 (height, width, depth), `zero_point` subtracted; it must have been checked."""
    out = np.empty((fm.height, fm.width, fm.depth), np.int64)
    feature_map.gather(np.array(feature_map_row(fm, zero_point), feature_map.FEATURE_MAP), memory.bases[fm.region], out)
    return out


def write(fm: FeatureMap, values: Cube, memory: NpuMemory) -> None:
    """Store int64 (height, width, depth) as a feature map, which must have been checked."""
    feature_map.scatter(np.array(feature_map_row(fm), feature_map.FEATURE_MAP), memory.bases[fm.region], values)


def feature_map_row(fm: FeatureMap, zero_point: int = 0) -> tuple[tuple[int, ...] | int, ...]:
    """A `feature_map.FEATURE_MAP`; `zero_point` is subtracted when it is read."""
    tiles = (fm.addresses, fm.tile_width_0, fm.tile_height_0, fm.tile_height_1)
    return *tiles, *fm.steps, fm.element.bytes, fm.element.is_signed, fm.height, fm.width, fm.depth, zero_point


def input_zero_point(fm: FeatureMap, arithmetic: FamilyArithmetic) -> int:
    """The zero point that applies to an input."""
    return 0 if fm.element.bits == arithmetic.unscaled_bits else fm.zero_point


def padded(operation: WindowOperation, values: Cube) -> Cube:
    """The values of an input with what is around and between them."""
    kernel, ifm, ofm = operation.kernel, operation.ifm, operation.ofm
    if not is_placed(operation):
        return values
    height = (ofm.height - 1) * kernel.stride_y + kernel.dilated_height
    width = (ofm.width - 1) * kernel.stride_x + kernel.dilated_width
    cube = np.zeros((height, width, ifm.depth), np.int64)
    feature_map.place(values, cube, np.array(place_row(operation), feature_map.PLACE))
    return cube


def is_placed(operation: WindowOperation) -> bool:
    """Whether anything is around or between the values of the input."""
    return operation.upscale is not Upscale.NONE or not operation.padding.is_none


def place_row(operation: WindowOperation) -> tuple[int, ...]:
    """A `feature_map.PLACE`."""
    padding = operation.padding
    return padding.top, padding.left, padding.bottom, padding.right, int(operation.upscale)


def finish(operation: KernelOperation, values: Cube, memory: NpuMemory) -> None:
    """The output stage after scaling, in place."""
    output.finish(values, np.array(stage_row(operation, memory.arithmetic), output.STAGE), memory.bases[-1])


def stage_row(
    operation: KernelOperation, arithmetic: FamilyArithmetic, rescaling: tuple[int, int, int, int] = (0, 0, 0, 0)
) -> tuple[int, ...]:
    """An `output.STAGE`; `rescaling` as its last fields say."""
    activation, ofm = operation.activation, operation.ofm
    low, high = output_limits(operation)
    index = activation.function.lut_index
    kind = 0 if index is None else lut_kind(operation)
    table = arithmetic.table_slot_bytes * (index or 0)
    function = int(activation.function) if index is None else 0
    is_raw = ofm.element.bits == arithmetic.unscaled_bits and activation.clip_range is ClipRange.OFM_PRECISION
    return function, ofm.zero_point, low, high, kind, table, is_raw, *rescaling
