"""Hypothesis strategies for random operations that are valid and in canonical form."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from npu.hardware.variant import Variant
from npu.isa.operations import (
    Activation,
    ActivationFunction,
    AddressRange,
    Block,
    ClipRange,
    Convolution,
    DepthwiseConvolution,
    Dma,
    DmaSide,
    DmaStride,
    DmaWait,
    ElementType,
    Elementwise,
    ElementwiseMode,
    FeatureMap,
    IfmPadding,
    Interrupt,
    KernelWait,
    KernelWindow,
    Layout,
    OperandScaling,
    Operation,
    PmuMask,
    Pooling,
    PoolingMode,
    Scale,
    ShramLayout,
    Stop,
    Traversal,
    Upscale,
)

from tests.support.registers import members, modes

ELEMENTS = tuple(ElementType(bits, is_signed) for bits in (8, 16, 32) for is_signed in (False, True))
_EXTENT = 1 << 16


def operations(variant: Variant) -> st.SearchStrategy[list[Operation]]:
    """Whole programs, ending in a `Stop`."""
    one = st.one_of(
        convolutions(variant),
        depthwise_convolutions(variant),
        poolings(variant),
        elementwises(variant),
        transfers(variant),
        controls(),
    )
    return st.lists(one, max_size=6).map(lambda items: [*items, Stop()])


def addresses(variant: Variant, alignment: int = 16) -> st.SearchStrategy[int]:
    """Addresses of the variant's width."""
    return st.integers(0, (1 << variant.accelerator.address_bits) // alignment - 1).map(lambda n: n * alignment)


def scales() -> st.SearchStrategy[Scale]:
    return st.builds(Scale, st.integers(0, (1 << 32) - 1), st.integers(0, 63))


def controls() -> st.SearchStrategy[Operation]:
    """Waits, counters and interrupts."""
    return st.one_of(
        st.builds(DmaWait, st.integers(0, 15)),
        st.builds(KernelWait, st.integers(0, 3)),
        st.builds(PmuMask, st.integers(0, 1)),
        st.builds(Interrupt, st.integers(0, 65535)),
    )


@st.composite
def patterns(draw: Any, element: ElementType) -> int:
    """Numbers that a 16-bit register holds for this element type."""
    return draw(st.integers(-(1 << 15), (1 << 15) - 1) if element.is_signed else st.integers(0, (1 << 16) - 1))


@st.composite
def feature_maps(
    draw: Any, variant: Variant, extent: tuple[int, int, int], elements: tuple[ElementType, ...] = ELEMENTS
) -> FeatureMap:
    element = draw(st.sampled_from(elements))
    layout = draw(st.sampled_from(Layout))
    limit = 1 << (variant.accelerator.address_bits - 1)
    step = 16 if layout is Layout.NHCWB16 else 1
    strides = st.integers(-limit // step, limit // step - 1).map(lambda n: n * step)
    extents = st.integers(1, _EXTENT)
    return FeatureMap(
        region=draw(st.integers(0, 7)),
        height=extent[0],
        width=extent[1],
        depth=extent[2],
        element=element,
        layout=layout,
        zero_point=draw(patterns(element)),
        addresses=draw(st.tuples(*[addresses(variant, 16 if step == 16 else element.bytes)] * 4)),
        tile_height_0=draw(extents),
        tile_height_1=draw(extents),
        tile_width_0=draw(extents),
        stride_y=draw(strides),
        stride_x=draw(st.integers(-limit, limit - 1)),
        stride_c=draw(strides),
    )


@st.composite
def common(draw: Any, variant: Variant, ofm: FeatureMap) -> dict[str, Any]:
    """Fields of every kernel operation except its feature maps."""
    accelerator = variant.accelerator
    sizes = {
        axis: draw(st.integers(1, getattr(accelerator.max_block, axis) // getattr(accelerator.ofm_ublock, axis)))
        * getattr(accelerator.ofm_ublock, axis)
        for axis in ("height", "width", "depth")
    }
    clip_range = draw(st.sampled_from(members("activation.clip_range")))
    is_plain = ofm.element.bits == 32 and clip_range is ClipRange.OFM_PRECISION
    function = ActivationFunction.NONE if is_plain else draw(st.sampled_from(ActivationFunction))
    return {
        "ofm": ofm,
        "block": Block(**sizes),
        "shram": ShramLayout(draw(st.integers(0, variant.shram.banks)), draw(st.integers(0, variant.shram.banks))),
        "activation": Activation(draw(patterns(ofm.element)), draw(patterns(ofm.element)), function, clip_range),
        "scale": draw(st.none() | scales()),
        "rounding": draw(st.sampled_from(members("rounding"))),
        "accumulator": draw(st.sampled_from(members("accumulator"))),
        "blockdep": draw(st.integers(0, accelerator.max_blockdep)),
    }


@st.composite
def windows(
    draw: Any, variant: Variant, *, ifm_depth: int, ofm_depth: int, elements: tuple[ElementType, ...] = ELEMENTS
) -> dict[str, Any]:
    """Fields of every windowed operation: the IFM's extent follows from OFM, kernel and padding."""
    sizes, strides, dilations = st.integers(1, 40), st.integers(1, 4), st.integers(1, 2)
    kernel = KernelWindow(draw(sizes), draw(sizes), draw(strides), draw(strides), draw(dilations), draw(dilations))
    ofm_height, ofm_width = draw(st.integers(1, 9000)), draw(st.integers(1, 9000))
    upscale = draw(st.sampled_from(Upscale))
    rows = (ofm_height - 1) * kernel.stride_y + kernel.dilated_height
    columns = (ofm_width - 1) * kernel.stride_x + kernel.dilated_width
    top, left = draw(st.integers(0, min(127, rows - 1))), draw(st.integers(0, min(127, columns - 1)))
    bottom = draw(st.integers(0, min(128, rows - top - 1)))
    right = draw(st.integers(0, min(128, columns - left - 1)))
    factor = 1 if upscale is Upscale.NONE else 2
    extent = (-(-(rows - top - bottom) // factor), -(-(columns - left - right) // factor), ifm_depth)
    ofm = draw(feature_maps(variant, (ofm_height, ofm_width, ofm_depth)))
    return {
        **draw(common(variant, ofm)),
        "ifm": draw(feature_maps(variant, extent, elements)),
        "kernel": kernel,
        "padding": IfmPadding(top, left, bottom, right),
        "upscale": upscale,
    }


@st.composite
def weighted(draw: Any, variant: Variant, *, ifm_depth: int, ofm_depth: int) -> dict[str, Any]:
    """Fields of every operation with weights: one to as many streams as there are cores."""
    cores = draw(st.integers(1, variant.accelerator.cores))
    lengths = {"weights": (1 << 28) - 1, "scales": (1 << 16) - 1}
    ranges = {}
    for name, limit in lengths.items():
        region = draw(st.integers(0, 7))
        ranges[name] = tuple(
            AddressRange(region, draw(addresses(variant)), 16 * draw(st.integers(1, limit))) for _ in range(cores)
        )
    fields = draw(windows(variant, ifm_depth=ifm_depth, ofm_depth=ofm_depth, elements=ELEMENTS[:4]))
    return {**fields, **ranges, "has_4x4_sub_kernels": draw(st.booleans())}


@st.composite
def convolutions(draw: Any, variant: Variant) -> Convolution:
    depths = st.integers(1, _EXTENT)
    fields = draw(weighted(variant, ifm_depth=draw(depths), ofm_depth=draw(depths)))
    return Convolution(**fields, traversal=draw(st.sampled_from(Traversal)))


@st.composite
def depthwise_convolutions(draw: Any, variant: Variant) -> DepthwiseConvolution:
    depth = draw(st.integers(1, _EXTENT))
    return DepthwiseConvolution(**draw(weighted(variant, ifm_depth=depth, ofm_depth=depth)))


@st.composite
def poolings(draw: Any, variant: Variant) -> Pooling:
    mode = draw(st.sampled_from(modes("NPU_OP_POOL")))
    depth = draw(st.integers(1, _EXTENT))
    channels = draw(st.integers(1, _EXTENT)) if mode is PoolingMode.REDUCE_SUM else depth
    fields = draw(windows(variant, ifm_depth=depth, ofm_depth=channels))
    if mode is PoolingMode.AVERAGE and fields["padding"] != IfmPadding() and fields["scale"] == Scale(1, 0):
        fields["scale"] = None
    return Pooling(**fields, mode=mode)


@st.composite
def elementwises(draw: Any, variant: Variant) -> Elementwise:
    mode = draw(st.sampled_from(modes("NPU_OP_ELEMENTWISE")))
    extent = draw(st.tuples(*[st.integers(1, _EXTENT)] * 3))
    ofm = draw(feature_maps(variant, extent))
    ifm = draw(feature_maps(variant, extent))
    fields: dict[str, Any] = {**draw(common(variant, ofm)), "ifm": ifm, "mode": mode}
    if mode.is_unary:
        return Elementwise(**fields)
    fields["is_reversed"] = draw(st.booleans())
    shram = fields["shram"]
    fields["shram"] = ShramLayout(shram.ifm_end, shram.accumulator_start, draw(st.integers(0, variant.shram.banks)))
    if draw(st.booleans()):
        fields |= {"scalar": draw(patterns(ifm.element)), "scalar_zero_point": draw(patterns(ifm.element))}
    else:
        broadcast = draw(st.tuples(*[st.booleans()] * 3))
        small = tuple(1 if is_one else size for size, is_one in zip(extent, broadcast, strict=True))
        fields["ifm2"] = draw(feature_maps(variant, small, (ifm.element,)))
    if mode in (ElementwiseMode.ADD, ElementwiseMode.SUB):
        fields |= draw(operand_scales())
    return Elementwise(**fields)


@st.composite
def operand_scales(draw: Any) -> dict[str, Any]:
    """Operand scaling of ADD and SUB."""
    scaling = draw(st.sampled_from(OperandScaling))
    fields = {"operand_scaling": scaling, "operand_rounding": draw(st.sampled_from(members("rounding")))}
    if scaling is OperandScaling.BOTH_16:
        halves = st.integers(0, (1 << 16) - 1)
        return fields | {"opa_scale": Scale(draw(halves), 0), "opb_scale": draw(halves)}
    return fields | {"opa_scale": draw(scales())}


@st.composite
def transfers(draw: Any, variant: Variant) -> Dma:
    def side() -> DmaSide:
        region = draw(st.none() | st.integers(0, 7))
        stride = draw(st.sampled_from(DmaStride))
        return DmaSide(region, draw(addresses(variant)), stride, 3 if region is not None else draw(st.integers(0, 7)))

    source, destination = side(), side()
    stride = max(source.stride, destination.stride)
    counts, skips = st.integers(1, 65535), st.integers(0, (1 << 32) - 1)
    return Dma(
        source=source,
        destination=destination,
        length_bytes=16 * draw(st.integers(1, (1 << 28) - 1)),
        rows=draw(counts) if stride >= DmaStride.ROWS else 1,
        planes=draw(counts) if stride >= DmaStride.PLANES else 1,
        row_skip_bytes=draw(skips) if stride >= DmaStride.ROWS else 0,
        plane_skip_bytes=draw(skips) if stride >= DmaStride.PLANES else 0,
    )
