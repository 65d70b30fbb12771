"""Resizes that an operation of their own computes exactly as the reference kernels do: checker and compiler ask here."""

from __future__ import annotations

from typing import TypeAlias

from npu.graph.dtype import DType
from npu.numerics.resize_axis import Interpolation, PlaneSize, ResizedAxis, resized_axes

BothAxes: TypeAlias = tuple[ResizedAxis, ResizedAxis]
"""Of height and width."""
_BILINEAR = {DType.INT8: Interpolation.FIXED, DType.UINT8: Interpolation.FLOAT}


def axes_of_resize(
    dtype: DType, ifm: PlaneSize, ofm: PlaneSize, *, is_nearest: bool, align_corners: bool, half_pixel_centers: bool
) -> BothAxes | None:
    """The axes of a resize of maps of a type; None where there are none that are exact, or the type has not 8 bits."""
    bilinear = _BILINEAR.get(dtype)
    if bilinear is None:
        return None
    interpolation = Interpolation.NEAREST if is_nearest else bilinear
    return resized_axes(ifm, ofm, interpolation, align_corners=align_corners, half_pixel_centers=half_pixel_centers)
