"""From records to the attributes that registers hold: what a kick-off of Ethos-U85 makes the same records of (`latch.py`).

What an operation does not read is left out, or is what the register may hold as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

from npu.isa.ethos_u85.canonical import table_function
from npu.isa.ethos_u85.commands import TABLES, Function
from npu.isa.family import AttributeValues
from npu.isa.operations import (
    IDENTITY,
    Activation,
    ActivationFunction,
    AddressRange,
    Block,
    ClipRange,
    Convolution,
    DepthwiseConvolution,
    Dma,
    DmaSide,
    DmaWait,
    ElementType,
    Elementwise,
    FeatureMap,
    Interrupt,
    KernelOperation,
    KernelWait,
    Layout,
    MapStorage,
    OperandScale,
    Operation,
    PmuMask,
    Pooling,
    ResizeAxis,
    Resizing,
    Stop,
    Traversal,
    WeightedOperation,
    WindowOperation,
)
from npu.isa.shram import LUT_SLOT_BYTES

_OF_MAP = (
    *("element.bits", "element.is_signed", "layout", "storage", "zero_point", "region"),
    *("tile_height_0", "tile_height_1", "tile_width_0", "stride_y", "stride_x", "stride_c"),
)
_MAP_VALUES = attrgetter(*_OF_MAP)
_MAP_PATHS = {name: [f"{name}.{attribute}" for attribute in _OF_MAP] for name in ("ifm", "ifm2", "ofm")}
_OF_WINDOW = (
    *("kernel.dilated_height", "kernel.dilated_width", "kernel.stride_y", "kernel.stride_x"),
    *("kernel.dilation_y", "kernel.dilation_x", "upscale"),
    *("padding.top", "padding.left", "padding.bottom", "padding.right"),
)
_WINDOW_VALUES = attrgetter(*_OF_WINDOW)
_OF_KERNEL = (
    *("ofm.height", "ofm.width", "ofm.depth", "block.height", "block.width", "block.depth"),
    *("has_global_scale", "accumulator", "blockdep", "activation.minimum", "activation.maximum"),
    *("options.accumulator_source", "options.keeps_accumulators", "options.transpose", "options.reverse"),
)
_KERNEL_VALUES = attrgetter(*_OF_KERNEL)
_NO_REGION = 3
"""Of a side in the memory of tables, as Vela 5.2 writes it."""
_FUNCTIONS = {
    ActivationFunction.NONE: Function.NONE,
    ActivationFunction.TANH: Function.TANH,
    ActivationFunction.SIGMOID: Function.SIGMOID,
}


def hold(operation: Operation) -> AttributeValues:
    """The attributes that registers and the fields of the kick-off hold for an operation, by the paths of the command table."""
    return _HOLDERS[type(operation)](operation)


def first_map(operation: KernelOperation) -> FeatureMap | None:
    """The map that the registers of the IFM place; None where they hold a number."""
    return None if isinstance(operation, Elementwise) and operation.is_reversed else operation.ifm


def second_map(operation: KernelOperation) -> FeatureMap | None:
    """The map that the registers of IFM2 place, if there is one."""
    if isinstance(operation, Elementwise) and operation.is_reversed:
        return operation.ifm
    return operation.ifms[1] if len(operation.ifms) > 1 else None


def _map(name: str, fm: FeatureMap) -> dict[str, Any]:
    held = dict(zip(_MAP_PATHS[name], _MAP_VALUES(fm), strict=True))
    for tile, address in enumerate(fm.addresses):
        held[f"{name}.addresses[{tile}]"] = address
    return held


def _number(name: str, zero_point: int, element: ElementType) -> dict[str, Any]:
    """An operand that is the scalar."""
    return {
        f"{name}.element.bits": element.bits,
        f"{name}.element.is_signed": element.is_signed,
        f"{name}.layout": Layout.NHWC,
        f"{name}.storage": MapStorage.NONE,
        f"{name}.zero_point": zero_point,
    }


def _activation(activation: Activation, ofm: ElementType) -> dict[str, Any]:
    """The function that looks values up in a table is one of its types; the table is counted in tables of its size."""
    index = activation.function.lut_index
    if index is None:
        function, table, clip_range = _FUNCTIONS[activation.function], 0, activation.clip_range
    else:
        known = table_function(activation, ofm)
        assert known is not None
        function, table, clip_range = known, index * LUT_SLOT_BYTES // TABLES[known][0], ClipRange.LIMITS
    return {"activation.function": function, "activation.table": table, "activation.clip_range": clip_range}


def _any_kernel(operation: KernelOperation) -> dict[str, Any]:
    """What every kernel operation has but its inputs."""
    options, scale = operation.options, operation.scale or IDENTITY
    assert options is not None
    return {
        **_map("ofm", operation.ofm),
        **dict(zip(_OF_KERNEL, _KERNEL_VALUES(operation), strict=True)),
        **_activation(operation.activation, operation.ofm.element),
        "ofm_scale.scale": scale.scale,
        "ofm_scale.shift": scale.shift,
        "ofm_scale.double_shift": options.double_shift,
        "ofm_scale.rounding": operation.rounding,
        "options.ublock": Block(options.ublock.height, options.ublock.width, 0),
    }


def _window(operation: WindowOperation) -> dict[str, Any]:
    """What an operation has that slides a kernel over its IFM; the order and size of sub-kernels without weights."""
    return {
        **_any_kernel(operation),
        **_map("ifm", operation.ifm),
        **dict(zip(_OF_WINDOW, _WINDOW_VALUES(operation), strict=True)),
        "ifm.depth": operation.ifm.depth,
        "traversal": Traversal.DEPTH_FIRST,
        "has_4x4_sub_kernels": False,
    }


def _ranges(name: str, ranges: tuple[AddressRange, ...]) -> dict[str, Any]:
    held: dict[str, Any] = {f"{name}[0].region": one.region for one in ranges[:1]}
    for number, one in enumerate(ranges):
        held |= {f"{name}[{number}].address": one.address, f"{name}[{number}].length_bytes": one.length_bytes}
    return held


def _weighted(operation: WeightedOperation) -> dict[str, Any]:
    return {
        **_window(operation),
        **_ranges("weights", operation.weights),
        **_ranges("scales", operation.scales),
        "weight_decoder": operation.weight_decoder,
        "has_sparse_weights": operation.has_sparse_weights,
        "has_4x4_sub_kernels": operation.has_4x4_sub_kernels,
    }


def _convolution(operation: Convolution) -> dict[str, Any]:
    second = {} if operation.ifm2 is None else _map("ifm2", operation.ifm2)
    own = {"traversal": operation.traversal, "has_ifm2_weights": not operation.weights}
    return _weighted(operation) | second | own


def _pooling(operation: Pooling) -> dict[str, Any]:
    second = {} if operation.ifm2 is None else _map("ifm2", operation.ifm2)
    return _window(operation) | second | {"mode": operation.mode}


def _operand_scale(name: str, scale: OperandScale | None) -> dict[str, Any]:
    if scale is None:
        return {}
    return {f"{name}_scale.{part}": getattr(scale, part) for part in ("scale", "shift", "rounding", "double_shift")}


def _operand(name: str, fm: FeatureMap | None, operation: Elementwise) -> dict[str, Any]:
    """A map, and along which axes it is repeated; else the scalar, or nothing at all."""
    ofm, full = operation.ofm, fm or operation.ofm
    held = {
        f"{name}.broadcasts_height": full.height != ofm.height,
        f"{name}.broadcasts_width": full.width != ofm.width,
        f"{name}.broadcasts_depth": full.depth != ofm.depth,
        f"{name}.is_scalar": fm is None and operation.has_scalar,
    }
    if fm is not None:
        return held | _map(name, fm)
    return held | _number(name, operation.scalar_zero_point, operation.ifm.element)


def _elementwise(operation: Elementwise) -> dict[str, Any]:
    scales = operation.ifm_scale, operation.ifm2_scale
    first, second = scales[::-1] if operation.is_reversed else scales
    return {
        **_any_kernel(operation),
        **_operand("ifm", first_map(operation), operation),
        **_operand("ifm2", second_map(operation), operation),
        **_operand_scale("ifm", first),
        **_operand_scale("ifm2", second),
        "ifm.depth": operation.ifm.depth,
        "scalar": operation.scalar,
        "mode": operation.mode,
    }


def _axis(name: str, axis: ResizeAxis) -> dict[str, Any]:
    held = {f"{name}.scale": axis.scale, f"{name}.offset": axis.offset}
    for part, step in (("one_step", axis.step), ("block_step", axis.block_step)):
        held[f"{name}.{part}_int"], held[f"{name}.{part}_mod"] = divmod(step, axis.scale)
    return held


def _resize(operation: Resizing) -> dict[str, Any]:
    """The registers of the kernel's extent hold that of the IFM; there is no IFM2, whose zero point is written as well."""
    return {
        **_any_kernel(operation),
        **_map("ifm", operation.ifm),
        **_axis("y", operation.y),
        **_axis("x", operation.x),
        "kernel.dilated_height": operation.ifm.height,
        "kernel.dilated_width": operation.ifm.width,
        "ifm.depth": operation.ifm.depth,
        "ifm2.zero_point": 0,
        "mode": operation.mode,
    }


def _side(name: str, side: DmaSide, *, is_indexed: bool) -> dict[str, Any]:
    row_step, plane_step = side.steps or (0, 0)
    return {
        f"{name}.region": _NO_REGION if side.region is None else side.region,
        f"{name}.is_internal": side.is_internal,
        f"{name}.address": side.address,
        f"{name}.row_step": row_step,
        f"{name}.plane_step": plane_step,
        f"{name}.is_indexed": is_indexed,
    }


def _dma(operation: Dma) -> dict[str, Any]:
    indices = operation.indices
    held = {
        **_side("source", operation.source, is_indexed=indices is not None and not indices.is_of_destination),
        **_side("destination", operation.destination, is_indexed=indices is not None and indices.is_of_destination),
        "source.stride": operation.stride,
        "length_bytes": operation.length_bytes,
        "rows": operation.rows,
        "planes": operation.planes,
    }
    parts = () if indices is None else ("region", "address", "maximum", "skip_bytes")
    return held | {f"indices.{part}": getattr(indices, part) for part in parts}


def _outstanding(operation: DmaWait | KernelWait) -> dict[str, Any]:
    return {"outstanding": operation.outstanding}


def _mask(operation: Interrupt | Stop) -> dict[str, Any]:
    return {"mask": operation.mask}


def _counters(operation: PmuMask) -> dict[str, Any]:
    return {"enable": operation.enable}


_HOLDERS: Mapping[type, Callable[[Any], dict[str, Any]]] = {
    Convolution: _convolution,
    DepthwiseConvolution: _weighted,
    Pooling: _pooling,
    Elementwise: _elementwise,
    Resizing: _resize,
    Dma: _dma,
    DmaWait: _outstanding,
    KernelWait: _outstanding,
    PmuMask: _counters,
    Interrupt: _mask,
    Stop: _mask,
}
