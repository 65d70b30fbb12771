"""From the attributes that registers hold to records: what a kick-off of Ethos-U85 makes of them.

An operand that is a number is always the record's `scalar`, so that its `ifm` is the map: operands are reversed where IFM is
the number. What an operation ignores never reaches its record, as in `npu.isa.latch`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

from npu.errors import StreamError
from npu.hardware.variant import Accelerator, Variant
from npu.isa.command import Command
from npu.isa.ethos_u85.canonical import NO_SHRAM, WEIGHT_STREAMS, ublock_depth
from npu.isa.ethos_u85.commands import TABLES, Function
from npu.isa.ethos_u85.rules import check_operation
from npu.isa.family import AttributeValues
from npu.isa.latch import (
    BLOCK,
    KERNEL,
    OFM_EXTENT,
    PADDING,
    activation_of,
    block_of,
    feature_map,
    kernel_window,
    map_getter,
    padding_of,
    signed_by_map,
)
from npu.isa.operations import (
    AccumulatorSource,
    Activation,
    ActivationFunction,
    AddressRange,
    Block,
    Convolution,
    DepthwiseConvolution,
    Dma,
    DmaIndices,
    DmaSide,
    DmaStride,
    Elementwise,
    ElementwiseMode,
    FeatureMap,
    KernelOptions,
    MapStorage,
    OperandScale,
    Operation,
    Pooling,
    PoolingMode,
    ResizeAxis,
    Resizing,
    Scale,
    Traversal,
    WeightDecoder,
    ifm_plane,
)
from npu.isa.shram import LUT_SLOT_BYTES
from npu.records import replace

_IFM, _IFM2, _OFM = (map_getter(name, name, f"{name}.zero_point") for name in ("ifm", "ifm2", "ofm"))
_OPTIONS = itemgetter(
    *("options.ublock", "ofm_scale.double_shift", "options.accumulator_source", "options.keeps_accumulators"),
    *("options.transpose", "options.reverse"),
)
_ACTIVATION = itemgetter(
    *("activation.minimum", "activation.maximum", "activation.function", "activation.table", "activation.clip_range")
)
_FUNCTIONS = {
    Function.NONE: ActivationFunction.NONE,
    Function.TANH: ActivationFunction.TANH,
    Function.SIGMOID: ActivationFunction.SIGMOID,
}


def start(command: Command, own: AttributeValues, held: AttributeValues, variant: Variant) -> Operation:
    """The operation that `command` kicks off; as `npu.isa.latch.start`."""
    assert command.starts is not None
    make = _OF_REGISTERS.get(command.starts)
    started: Operation = command.starts(**own) if make is None else make(own, held, variant.accelerator)
    check_operation(started, variant)
    return started


def _map(getter: Callable[[AttributeValues], tuple[Any, ...]], held: AttributeValues, name: str, extent: Any) -> FeatureMap:
    """A map; one that is not in memory has no place in the records."""
    bits, widest = held[f"{name}.element.bits"], _WIDEST_OFM if name == "ofm" else _WIDEST_IFM
    if bits > widest:
        raise StreamError(f"{name.upper()} element: must have at most {widest} bits to be modelled, got {bits}")
    made, storage = feature_map(getter(held), extent), held[f"{name}.storage"]
    if storage is MapStorage.TILES_2X2:
        return made
    if storage is MapStorage.TILES_3X1:
        return replace(made, storage=storage)
    height, width, depth = extent
    return FeatureMap(
        region=made.region if storage is MapStorage.CHAINED else 0,
        height=height,
        width=width,
        depth=depth,
        element=made.element,
        layout=made.layout,
        zero_point=made.zero_point,
        addresses=(0, 0, 0, 0),
        tile_height_0=max(height, 1),
        tile_height_1=max(height, 1),
        tile_width_0=max(width, 1),
        stride_y=0,
        stride_x=0,
        stride_c=0,
        storage=storage,
    )


_WIDEST_IFM, _WIDEST_OFM = 32, 64


def _ofm(held: AttributeValues) -> FeatureMap:
    return _map(_OFM, held, "ofm", OFM_EXTENT(held))


@functools.lru_cache(maxsize=256)
def _options(macs: int, plane: Block, *others: Any) -> KernelOptions:
    depth = ublock_depth(macs, plane.height, plane.width)
    return KernelOptions(Block(plane.height, plane.width, depth), *others)


def _activation(held: AttributeValues, ofm: FeatureMap) -> Activation:
    minimum, maximum, function, table, clip = _ACTIVATION(held)
    low, high = (signed_by_map(limit, is_signed=ofm.element.is_signed) for limit in (minimum, maximum))
    if (known := _FUNCTIONS.get(function)) is not None:
        return activation_of(low, high, known, clip)
    if function not in TABLES:
        raise StreamError(f"NPU_SET_ACTIVATION: function must be one that is modelled, got {function.name}")
    size, bits, clip_before = TABLES[function]
    if bits != ofm.element.bits:
        raise StreamError(
            f"NPU_SET_ACTIVATION: function {function.name} must be that of an OFM of {bits} bits, got {ofm.element.bits}"
        )
    slot = table * size // LUT_SLOT_BYTES
    if slot > ActivationFunction.LUT_7 - ActivationFunction.LUT_0:
        raise StreamError(f"NPU_SET_ACTIVATION: table {table} of {size} bytes must begin in 2048 bytes, got {table * size}")
    return activation_of(low, high, ActivationFunction(ActivationFunction.LUT_0 + slot), clip_before)


def _any_kernel(held: AttributeValues, ofm: FeatureMap, accelerator: Accelerator) -> dict[str, Any]:
    """Fields of every kernel operation but its inputs."""
    return {
        "ofm": ofm,
        "block": block_of(*BLOCK(held)),
        "shram": NO_SHRAM,
        "activation": _activation(held, ofm),
        "scale": Scale(held["ofm_scale.scale"], held["ofm_scale.shift"]) if held["has_global_scale"] else None,
        "rounding": held["ofm_scale.rounding"],
        "accumulator": held["accumulator"],
        "blockdep": held["blockdep"],
        "options": _options(accelerator.macs_per_cycle, *_OPTIONS(held)),
    }


def _window(held: AttributeValues, accelerator: Accelerator) -> dict[str, Any]:
    """Fields of an operation that slides a kernel over its IFM."""
    ofm, kernel, padding, upscale = _ofm(held), kernel_window(*KERNEL(held)), padding_of(*PADDING(held)), held["upscale"]
    height, width = ifm_plane(ofm.height, ofm.width, kernel, padding, upscale)
    ifm = _map(_IFM, held, "ifm", (height, width, held["ifm.depth"]))
    return {"ifm": ifm, "kernel": kernel, "padding": padding, "upscale": upscale} | _any_kernel(held, ofm, accelerator)


def _weighted(held: AttributeValues, accelerator: Accelerator) -> dict[str, Any]:
    """Fields of an operation with weights: streams that have none are left out."""
    region, decoder = held["weights[0].region"], held["weight_decoder"]
    count = 1 if decoder is WeightDecoder.FAST else min(WEIGHT_STREAMS, accelerator.weight_decoders)
    ranges = (AddressRange(region, held[f"weights[{k}].address"], held[f"weights[{k}].length_bytes"]) for k in range(count))
    scales = AddressRange(held["scales[0].region"], held["scales[0].address"], held["scales[0].length_bytes"])
    return _window(held, accelerator) | {
        "weights": tuple(one for one in ranges if one.length_bytes),
        "scales": (scales,),
        "has_4x4_sub_kernels": held["has_4x4_sub_kernels"],
        "weight_decoder": decoder,
        "has_sparse_weights": held["has_sparse_weights"],
    }


def _convolution(own: AttributeValues, held: AttributeValues, accelerator: Accelerator) -> Convolution:
    source = held["options.accumulator_source"]
    if own["has_ifm2_weights"]:
        fields = _window(held, accelerator) | {"weights": (), "scales": ()}
        # Column o of the second map has the weights of output channel o.
        columns = _map(_IFM2, held, "ifm2", (1, fields["ofm"].depth, held["ifm.depth"]))
        return Convolution(ifm2=columns, traversal=Traversal.DEPTH_FIRST, **fields)
    fields = _weighted(held, accelerator)
    ifm2 = _map(_IFM2, held, "ifm2", OFM_EXTENT(held)) if source is AccumulatorSource.IFM2 else None
    return Convolution(traversal=held["traversal"], ifm2=ifm2, **fields)


def _depthwise(_own: AttributeValues, held: AttributeValues, accelerator: Accelerator) -> DepthwiseConvolution:
    return DepthwiseConvolution(**_weighted(held, accelerator))


def _pooling(own: AttributeValues, held: AttributeValues, accelerator: Accelerator) -> Pooling:
    mode: PoolingMode = own["mode"]
    fields = _window(held, accelerator)
    ifm2 = _map(_IFM2, held, "ifm2", OFM_EXTENT(held)) if mode is PoolingMode.NONE else None
    return Pooling(mode=mode, ifm2=ifm2, **fields)


def _operand_scale(held: AttributeValues, name: str) -> OperandScale:
    return OperandScale(*(held[f"{name}_scale.{part}"] for part in ("scale", "shift", "rounding", "double_shift")))


def _operand(held: AttributeValues, name: str, ofm: FeatureMap) -> FeatureMap | None:
    """A map that is repeated along some axes; None if it is the scalar."""
    if held[f"{name}.is_scalar"]:
        return None
    extent = (
        1 if held[f"{name}.broadcasts_height"] else ofm.height,
        1 if held[f"{name}.broadcasts_width"] else ofm.width,
        1 if held[f"{name}.broadcasts_depth"] else ofm.depth,
    )
    return _map(_IFM if name == "ifm" else _IFM2, held, name, extent)


def _elementwise(own: AttributeValues, held: AttributeValues, accelerator: Accelerator) -> Elementwise:
    mode: ElementwiseMode = own["mode"]
    ofm = _ofm(held)
    ifm, scales = _operand(held, "ifm", ofm), [_operand_scale(held, "ifm"), _operand_scale(held, "ifm2")]
    fields = _any_kernel(held, ofm, accelerator)
    if mode.is_unary:
        if ifm is None:
            raise StreamError(f"NPU_SET_IFM_BROADCAST: scalar must be 0 for {mode.name}, which has one operand, got 1")
        second = scales[1] if mode is ElementwiseMode.LRELU else None
        return Elementwise(ifm=ifm, mode=mode, ifm_scale=scales[0], ifm2_scale=second, **fields)
    ifm2 = _operand(held, "ifm2", ofm)
    if ifm is None:
        if ifm2 is None:
            raise StreamError("NPU_SET_IFM_BROADCAST: scalar must be 0 where IFM2 is one, got 1")
        fields |= {"scalar": held["scalar"], "scalar_zero_point": _zero_point(held, "ifm"), "is_reversed": True}
        return Elementwise(ifm=ifm2, mode=mode, ifm_scale=scales[1], ifm2_scale=scales[0], **fields)
    fields |= {"ifm2": ifm2} if ifm2 is not None else {"scalar": held["scalar"], "scalar_zero_point": _zero_point(held, "ifm2")}
    return Elementwise(ifm=ifm, mode=mode, ifm_scale=scales[0], ifm2_scale=scales[1], **fields)


def _zero_point(held: AttributeValues, name: str) -> int:
    return signed_by_map(held[f"{name}.zero_point"], is_signed=held[f"{name}.element.is_signed"])


def _axis(held: AttributeValues, name: str) -> ResizeAxis:
    scale = held[f"{name}.scale"]
    step, block_step = (_step(held, name, part, scale) for part in ("one_step", "block_step"))
    return ResizeAxis(scale, step, held[f"{name}.offset"], block_step)


def _step(held: AttributeValues, name: str, part: str, scale: int) -> int:
    rest: int = held[f"{name}.{part}_mod"]
    if rest >= scale:
        raise StreamError(f"NPU_SET_RESIZE_{name.upper()}_STEP: {part}_mod must be below the scale {scale}, got {rest}")
    return int(held[f"{name}.{part}_int"] * scale + rest)


def _resize(own: AttributeValues, held: AttributeValues, accelerator: Accelerator) -> Resizing:
    """The registers of the kernel's extent hold that of the IFM."""
    ofm, (height, width) = _ofm(held), (held["kernel.dilated_height"], held["kernel.dilated_width"])
    ifm = _map(_IFM, held, "ifm", (height, width, held["ifm.depth"]))
    return Resizing(ifm=ifm, mode=own["mode"], y=_axis(held, "y"), x=_axis(held, "x"), **_any_kernel(held, ofm, accelerator))


def _side(held: AttributeValues, name: str, stride: DmaStride) -> DmaSide:
    if held[f"{name}.is_internal"]:
        return DmaSide(None, held[f"{name}.address"], core_mask=1)
    is_stepping = stride is not DmaStride.CONTIGUOUS or held[f"{name}.is_indexed"]
    row = held[f"{name}.row_step"] if is_stepping else 0
    plane = held[f"{name}.plane_step"] if stride is DmaStride.PLANES else 0
    return DmaSide(held[f"{name}.region"], held[f"{name}.address"], stride, steps=(row, plane) if is_stepping else None)


def _dma(_own: AttributeValues, held: AttributeValues, _accelerator: Accelerator) -> Dma:
    stride = held["source.stride"]
    source, destination = _side(held, "source", stride), _side(held, "destination", stride)
    indexed = [name for name in ("source", "destination") if held[f"{name}.is_indexed"]]
    if len(indexed) == 2:
        raise StreamError("NPU_SET_DMA0_DST_REGION: index_mode must be 0 where the source has indices, got 1")
    indices = None
    if indexed:
        parts = (held[f"indices.{part}"] for part in ("region", "address", "maximum", "skip_bytes"))
        region, address, maximum, skip = parts
        is_skipping = stride is DmaStride.PLANES
        indices = DmaIndices(region, address, maximum, skip if is_skipping else 0, indexed == ["destination"])
    return Dma(
        source=source,
        destination=destination,
        length_bytes=held["length_bytes"],
        rows=held["rows"] if stride is not DmaStride.CONTIGUOUS else 1,
        planes=held["planes"] if stride is DmaStride.PLANES else 1,
        indices=indices,
    )


_OF_REGISTERS: Mapping[type, Callable[[AttributeValues, AttributeValues, Accelerator], Operation]] = {
    Convolution: _convolution,
    DepthwiseConvolution: _depthwise,
    Pooling: _pooling,
    Elementwise: _elementwise,
    Resizing: _resize,
    Dma: _dma,
}
