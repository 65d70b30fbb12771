"""From the attributes that registers hold to records: what a kick-off of Ethos-U55 and Ethos-U65 makes of them.

Which register holds which attribute says the command table. Attributes that an operation ignores never reach its record, so
stale values do not matter.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from operator import itemgetter
from types import MappingProxyType
from typing import Any

from npu.errors import StreamError
from npu.hardware.variant import Product, Variant
from npu.isa.command import Command, CommandKind, signed_pattern
from npu.isa.commands import ParallelMode
from npu.isa.family import AttributeValues, Family
from npu.isa.operations import (
    IDENTITY,
    Activation,
    AddressRange,
    Block,
    Convolution,
    DepthwiseConvolution,
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
    OperandScaling,
    Operation,
    Pooling,
    PoolingMode,
    Scale,
    ShramLayout,
    ifm_plane,
)
from npu.isa.rules import check_operation

RangeGetters = tuple[Callable[[AttributeValues], tuple[Any, ...]], ...]


@functools.lru_cache(maxsize=16)
def attributes_at_power_on(family: Family, product: Product) -> AttributeValues:
    """What all registers hold before the first is written."""
    registers = (command for command in family.commands if command.kind is not CommandKind.OPERATION)
    return MappingProxyType({path: value for register in registers for path, value in register.attributes(0, product).items()})


def start(command: Command, own: AttributeValues, held: AttributeValues, variant: Variant) -> Operation:
    """The operation that `command` kicks off, from what its own fields and the registers hold; StreamError if there is none.

    A command that reads no register starts a record of its fields alone.
    """
    assert command.starts is not None
    _check_cores(command, held, variant)
    make = _OF_REGISTERS.get(command.starts)
    started: Operation = command.starts(**own) if make is None else make(own, held)
    check_operation(started, variant)
    return started


def _check_cores(command: Command, held: AttributeValues, variant: Variant) -> None:
    """StreamError if `command` kicks off a kernel, and the registers are set for another number of cores."""
    cores, expected = held["variant.accelerator.cores"], variant.accelerator.cores
    if cores != expected and command.starts is not None and issubclass(command.starts, KernelOperation):
        mode, wanted = ParallelMode(cores - 1), ParallelMode(expected - 1)
        raise StreamError(
            f"NPU_SET_PARALLEL_MODE: mode must be {wanted.name} on {variant.name} with {expected} core(s), got {mode.name}"
        )


_ELEMENTS = {(bits, is_signed): ElementType(bits, is_signed) for bits in (8, 16, 32, 64) for is_signed in (False, True)}
_ADDRESSES = ("addresses[0]", "addresses[1]", "addresses[2]", "addresses[3]")
_TILES_AND_STRIDES = ("tile_height_0", "tile_height_1", "tile_width_0", "stride_y", "stride_x", "stride_c")


def map_getter(name: str, operand: str, zero_point: str) -> Callable[[AttributeValues], tuple[Any, ...]]:
    """Function of the attributes of a feature map; `operand` is where its element type and layout are."""
    own = (f"{name}.{address}" for address in ("region", *_ADDRESSES, *_TILES_AND_STRIDES))
    return itemgetter(f"{operand}.element.bits", f"{operand}.element.is_signed", f"{operand}.layout", zero_point, *own)


def _range_getters(name: str) -> RangeGetters:
    """Functions of the attributes of a range of each core, all in one region."""
    return tuple(itemgetter(f"{name}[0].region", f"{name}[{core}].address", f"{name}[{core}].length_bytes") for core in (0, 1))


def _side_getter(name: str) -> Callable[[AttributeValues], tuple[Any, ...]]:
    """Function of the attributes of one side of a transfer."""
    return itemgetter(*(f"{name}.{own}" for own in ("region_or_cores", "address", "stride", "is_internal")))


_IFM = map_getter("ifm", "ifm", "ifm.zero_point")
_IFM2 = map_getter("ifm2", "second_operand", "second_zero_point")
_OFM = map_getter("ofm", "ofm", "ofm.zero_point")
_WEIGHTS, _SCALES = _range_getters("weights"), _range_getters("scales")
_SOURCE, _DESTINATION = _side_getter("source"), _side_getter("destination")
OFM_EXTENT = itemgetter("ofm.height", "ofm.width", "ofm.depth")
BLOCK = itemgetter("block.height", "block.width", "block.depth")
PADDING = itemgetter("padding.top", "padding.left", "padding.bottom", "padding.right")
KERNEL = itemgetter(
    *("kernel.dilated_height", "kernel.dilated_width", "kernel.stride_y", "kernel.stride_x"),
    *("kernel.dilation_y", "kernel.dilation_x"),
)
_ACTIVATION = itemgetter("activation.minimum", "activation.maximum", "activation.function", "activation.clip_range")


def signed_by_map(pattern: int, *, is_signed: bool) -> int:
    """The number that a 16-bit pattern is beside a feature map of that sign."""
    return signed_pattern(pattern) if is_signed else pattern


def feature_map(attributes: tuple[Any, ...], extent: tuple[int, int, int]) -> FeatureMap:
    """A map from what a `map_getter` gets, of that extent."""
    bits, is_signed, layout, zero_point, region, base0, base1, base2, base3, *tiles_and_strides = attributes
    height, width, depth = extent
    return FeatureMap(
        region,
        height,
        width,
        depth,
        _ELEMENTS[bits, is_signed],
        layout,
        signed_pattern(zero_point) if is_signed else zero_point,
        (base0, base1, base2, base3),
        *tiles_and_strides,
    )


def _ofm(held: AttributeValues) -> FeatureMap:
    return feature_map(_OFM(held), OFM_EXTENT(held))


def _undilated(dilated: int, dilation: int, register: str) -> int:
    size, rest = divmod(dilated - 1, dilation)
    if rest:
        raise StreamError(f"{register}: value must be a multiple of the dilation {dilation}, got {dilated - 1}")
    return size + 1


@functools.lru_cache(maxsize=256)
def kernel_window(height: int, width: int, stride_y: int, stride_x: int, dilation_y: int, dilation_x: int) -> KernelWindow:
    """A kernel from its dilated extent."""
    return KernelWindow(
        height=_undilated(height, dilation_y, "NPU_SET_KERNEL_HEIGHT_M1"),
        width=_undilated(width, dilation_x, "NPU_SET_KERNEL_WIDTH_M1"),
        stride_y=stride_y,
        stride_x=stride_x,
        dilation_y=dilation_y,
        dilation_x=dilation_x,
    )


padding_of = functools.lru_cache(maxsize=256)(IfmPadding)
block_of = functools.lru_cache(maxsize=256)(Block)
activation_of = functools.lru_cache(maxsize=256)(Activation)
_shram_of = functools.lru_cache(maxsize=256)(ShramLayout)


def _activation(held: AttributeValues, *, is_signed: bool) -> Activation:
    minimum, maximum, function, clip_range = _ACTIVATION(held)
    low, high = (signed_by_map(limit, is_signed=is_signed) for limit in (minimum, maximum))
    return activation_of(low, high, function, clip_range)


def _global_scale(held: AttributeValues) -> Scale | None:
    return Scale(held["scale.scale"], held["scale.shift"]) if held["has_global_scale"] else None


def _shram(held: AttributeValues, *, is_binary: bool) -> ShramLayout:
    ifm2_start = held["shram.ifm2_start"] if is_binary else 0
    return _shram_of(held["shram.ifm_end"], held["shram.accumulator_start"], ifm2_start)


def _ranges(held: AttributeValues, of_cores: RangeGetters) -> tuple[AddressRange, ...]:
    """Ranges of the cores that have work: the second core of two is idle if its length is 0."""
    first = AddressRange(*of_cores[0](held))
    if held["variant.accelerator.cores"] == 1:
        return (first,)
    second = AddressRange(*of_cores[1](held))
    return (first,) if second.length_bytes == 0 else (first, second)


def _any_kernel(held: AttributeValues, ofm: FeatureMap, *, is_binary: bool) -> dict[str, Any]:
    """Fields of every kernel operation but its IFM."""
    return {
        "ofm": ofm,
        "block": block_of(*BLOCK(held)),
        "shram": _shram(held, is_binary=is_binary),
        "activation": _activation(held, is_signed=ofm.element.is_signed),
        "scale": _global_scale(held),
        "rounding": held["rounding"],
        "accumulator": held["accumulator"],
        "blockdep": held["blockdep"],
    }


def _window(held: AttributeValues) -> dict[str, Any]:
    """Fields of an operation that slides a kernel over its IFM."""
    ofm, kernel, padding, upscale = _ofm(held), kernel_window(*KERNEL(held)), padding_of(*PADDING(held)), held["upscale"]
    height, width = ifm_plane(ofm.height, ofm.width, kernel, padding, upscale)
    ifm = feature_map(_IFM(held), (height, width, held["ifm.depth"]))
    own = {"ifm": ifm, "kernel": kernel, "padding": padding, "upscale": upscale}
    return own | _any_kernel(held, ofm, is_binary=False)


def _weighted(held: AttributeValues) -> dict[str, Any]:
    """Fields of an operation with weights."""
    fields = _window(held)
    fields["weights"] = _ranges(held, _WEIGHTS)
    fields["scales"] = _ranges(held, _SCALES)
    fields["has_4x4_sub_kernels"] = held["has_4x4_sub_kernels"]
    return fields


def _convolution(_own: AttributeValues, held: AttributeValues) -> Convolution:
    return Convolution(traversal=held["traversal"], **_weighted(held))


def _depthwise(_own: AttributeValues, held: AttributeValues) -> DepthwiseConvolution:
    return DepthwiseConvolution(**_weighted(held))


def _pooling(own: AttributeValues, held: AttributeValues) -> Pooling:
    mode, fields = own["mode"], _window(held)
    if mode is PoolingMode.AVERAGE and not fields["padding"].is_none and fields["scale"] == IDENTITY:
        fields["scale"] = None  # the hardware divides by the count of each element: same as the per-channel bit
    return Pooling(mode=mode, **fields)


def _ifm2(held: AttributeValues, ofm: FeatureMap) -> FeatureMap:
    extent = (
        1 if held["broadcasts_height"] else ofm.height,
        1 if held["broadcasts_width"] else ofm.width,
        1 if held["broadcasts_depth"] else ofm.depth,
    )
    return feature_map(_IFM2(held), extent)


def _second_operand(held: AttributeValues, ifm: FeatureMap, ofm: FeatureMap) -> dict[str, Any]:
    """Fields of a binary operation that say what is combined with the IFM."""
    if not held["has_scalar"]:
        return {"ifm2": _ifm2(held, ofm), "is_reversed": held["is_reversed"]}
    is_signed = held["second_operand.element.is_signed"]
    if is_signed != ifm.element.is_signed:
        raise StreamError(
            f"NPU_SET_IFM2_PRECISION: sign must be the IFM's ({int(ifm.element.is_signed)}), got {int(is_signed)}"
        )
    return {
        "scalar": signed_by_map(held["scalar"], is_signed=is_signed),
        "scalar_zero_point": signed_by_map(held["second_zero_point"], is_signed=is_signed),
        "is_reversed": held["is_reversed"],
    }


def _operand_scales(held: AttributeValues) -> dict[str, Any]:
    """Operand scaling of ADD and SUB; the other modes ignore it, so that their records have its defaults.

    BOTH_16 reads 16 bits of a register that an earlier operation may have filled with 32.
    """
    scaling, scale = held["operand_scaling"], held["opa_scale.scale"]
    is_both = scaling is OperandScaling.BOTH_16
    return {
        "operand_scaling": scaling,
        "operand_rounding": held["operand_rounding"],
        "opa_scale": Scale(scale & 0xFFFF, 0) if is_both else Scale(scale, held["opa_scale.shift"]),
        "opb_scale": held["opb_scale"] if is_both else 0,
    }


def _elementwise(own: AttributeValues, held: AttributeValues) -> Elementwise:
    mode: ElementwiseMode = own["mode"]
    ofm = _ofm(held)
    if held["ifm.depth"] != ofm.depth:
        raise StreamError(f"IFM depth must be the OFM depth {ofm.depth}, got {held['ifm.depth']}")
    ifm = feature_map(_IFM(held), (ofm.height, ofm.width, ofm.depth))
    fields = _any_kernel(held, ofm, is_binary=not mode.is_unary)
    if not mode.is_unary:
        fields |= _second_operand(held, ifm, ofm)
    if mode.scales_operands:
        fields |= _operand_scales(held)
    return Elementwise(ifm=ifm, mode=mode, **fields)


def _dma_side(attributes: tuple[Any, ...]) -> DmaSide:
    region_or_cores, address, stride, is_internal = attributes
    if is_internal:
        return DmaSide(None, address, stride, core_mask=region_or_cores)
    return DmaSide(region_or_cores, address, stride)


def _dma(_own: AttributeValues, held: AttributeValues) -> Dma:
    source, destination = _dma_side(_SOURCE(held)), _dma_side(_DESTINATION(held))
    stride = max(source.stride, destination.stride)
    has_rows, has_planes = stride >= DmaStride.ROWS, stride >= DmaStride.PLANES
    return Dma(
        source=source,
        destination=destination,
        length_bytes=held["length_bytes"],
        rows=held["rows"] if has_rows else 1,
        planes=held["planes"] if has_planes else 1,
        row_skip_bytes=held["row_skip_bytes"] if has_rows else 0,
        plane_skip_bytes=held["plane_skip_bytes"] if has_planes else 0,
    )


_OF_REGISTERS: Mapping[type, Callable[[AttributeValues, AttributeValues], Operation]] = {
    Convolution: _convolution,
    DepthwiseConvolution: _depthwise,
    Pooling: _pooling,
    Elementwise: _elementwise,
    Dma: _dma,
}
