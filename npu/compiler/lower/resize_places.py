"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR of 8 bits by the operation of their own that some NPUs have, on raw values."""

from __future__ import annotations

from npu.compiler.ir import ResizeStep, View
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.geometry import crop
from npu.graph.attributes import ResizeBilinearOptions, ResizeNearestNeighborOptions
from npu.graph.graph import Op
from npu.graph.resizes import BothAxes, axes_of_resize
from npu.isa.operations import ResizeMode, Resizing, Rounding, Scale
from npu.numerics.resize_axis import SUM_BITS


def own_axes(builder: Builder, op: Op, options: ResizeBilinearOptions | ResizeNearestNeighborOptions) -> BothAxes | None:
    """The axes of a resize as its own operation says them; None where there is none."""
    source, target = builder.tensor(op.inputs[0]), builder.tensor(op.outputs[0])
    if not builder.family.has(Resizing):
        return None
    return axes_of_resize(
        source.dtype,
        (source.shape[1], source.shape[2]),
        (target.shape[1], target.shape[2]),
        is_nearest=isinstance(options, ResizeNearestNeighborOptions),
        align_corners=options.align_corners,
        half_pixel_centers=options.half_pixel_centers,
    )


def resize_by_places(builder: Builder, ifm: View, ofm: View, mode: ResizeMode, axes: BothAxes) -> None:
    """One operation. Of a bilinear one the sums are divided by the scales, which are powers of 2."""
    y, x = axes
    parts = y.places.scale * x.places.scale if mode is ResizeMode.BILINEAR else 1
    builder.emit(
        ResizeStep(
            source=builder.index,
            ifm=crop(ifm, (y.first, x.first, 0), (y.count, x.count, ifm.shape[2])),
            ofm=ofm,
            minimum=ofm.element.minimum,
            maximum=ofm.element.maximum,
            scale=Scale(1, SUM_BITS + parts.bit_length() - 1),
            rounding=Rounding.SYMMETRIC,
            mode=mode,
            y=y.places,
            x=x.places,
        )
    )
