"""Resizes that an operation of their own computes exactly as the reference kernels do: checker and compiler ask here."""

from __future__ import annotations

from typing import TypeAlias

from npu.graph.dtype import DType
from npu.numerics.resize_axis import Interpolation, PlaneSize, ResizedAxis, resized_axes

BothAxes: TypeAlias = tuple[ResizedAxis, ResizedAxis]
"""Of height and width."""
_BILINEAR = {DType.INT8: Interpolation.FIXED, DType.UINT8: Interpolation.FLOAT, DType.INT16: Interpolation.FIXED}
LARGEST_WEIGHTS = {DType.INT16: 1 << 14}
"""Of an element in a bilinear resize: sums have no more bits then than those of 8 bits by any weights."""


def axes_of_resize(
    dtype: DType, ifm: PlaneSize, ofm: PlaneSize, *, is_nearest: bool, align_corners: bool, half_pixel_centers: bool
) -> BothAxes | None:
    """The axes of a resize of maps of a type; None where there are none that are exact, or the type has more than 16 bits."""
    bilinear = _BILINEAR.get(dtype)
    if bilinear is None:
        return None
    interpolation = Interpolation.NEAREST if is_nearest else bilinear
    axes = resized_axes(ifm, ofm, interpolation, align_corners=align_corners, half_pixel_centers=half_pixel_centers)
    if axes is None or is_nearest or dtype not in LARGEST_WEIGHTS:
        return axes
    return axes if axes[0].places.scale * axes[1].places.scale <= LARGEST_WEIGHTS[dtype] else None
