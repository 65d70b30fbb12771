"""One line of text per operation, for listings and messages."""

from __future__ import annotations

from npu.isa.operations import (
    AddressRange,
    Convolution,
    Dma,
    DmaSide,
    DmaWait,
    Elementwise,
    FeatureMap,
    Interrupt,
    KernelOperation,
    KernelWait,
    MapStorage,
    Operation,
    PmuMask,
    Pooling,
    Stop,
    Upscale,
    WeightedOperation,
    WindowOperation,
)


def summarise(operation: Operation) -> str:
    """What the operation does, in one line."""
    if isinstance(operation, KernelOperation):
        return ", ".join(_kernel_operation(operation))
    if isinstance(operation, Dma):
        return _dma(operation)
    if isinstance(operation, DmaWait):
        return f"wait until at most {operation.outstanding} transfer(s) are unfinished"
    if isinstance(operation, KernelWait):
        return f"wait until at most {operation.outstanding} kernel(s) are unfinished"
    if isinstance(operation, PmuMask):
        return f"performance counters {'on' if operation.enable else 'off'}"
    assert isinstance(operation, Stop | Interrupt)
    return f"{'stop' if isinstance(operation, Stop) else 'interrupt'}, mask {operation.mask:#x}"


def _kernel_operation(operation: KernelOperation) -> list[str]:
    parts = [_name(operation), f"ifm {_feature_map(operation.ifm)}"]
    if isinstance(operation, Elementwise):
        parts += _operands(operation)
    parts.append(f"ofm {_feature_map(operation.ofm)}")
    if isinstance(operation, WindowOperation):
        parts += _window(operation)
    if isinstance(operation, WeightedOperation):
        parts += [f"weights {_range(one)}" for one in operation.weights] + [f"scales {_range(one)}" for one in operation.scales]
    block = operation.block
    parts.append(f"block {block.height}x{block.width}x{block.depth}")
    scale = operation.scale
    parts.append("scale per channel or count" if scale is None else f"scale {scale.scale} >> {scale.shift}")
    activation = operation.activation
    parts.append(f"{activation.function.name} [{activation.minimum}, {activation.maximum}]")
    return parts


def _name(operation: KernelOperation) -> str:
    if isinstance(operation, Pooling | Elementwise):
        return f"{type(operation).__name__} {operation.mode.name}"
    if isinstance(operation, Convolution):
        return f"Convolution {operation.traversal.name}"
    return type(operation).__name__


def _feature_map(feature_map: FeatureMap) -> str:
    shape = f"{feature_map.height}x{feature_map.width}x{feature_map.depth}"
    return f"{shape} {feature_map.element} {place_of_map(feature_map)} zp {feature_map.zero_point}"


def place_of_map(feature_map: FeatureMap) -> str:
    """Where a map is, and in which layout."""
    if feature_map.storage is MapStorage.CHAINED:
        return f"in chain {feature_map.region}"
    if not feature_map.is_in_memory:
        return "nowhere"
    return f"{feature_map.layout.name} at region {feature_map.region} + {feature_map.addresses[0]:#x}"


def _operands(operation: Elementwise) -> list[str]:
    parts = []
    if operation.ifm2 is not None:
        parts.append(f"ifm2 {_feature_map(operation.ifm2)}")
    if operation.scalar is not None:
        parts.append(f"scalar {operation.scalar} zp {operation.scalar_zero_point}")
    if operation.is_reversed:
        parts.append("operands reversed")
    return parts


def _window(operation: WindowOperation) -> list[str]:
    kernel, padding = operation.kernel, operation.padding
    parts = [f"kernel {kernel.height}x{kernel.width} stride {kernel.stride_y}x{kernel.stride_x}"]
    if (kernel.dilation_y, kernel.dilation_x) != (1, 1):
        parts.append(f"dilation {kernel.dilation_y}x{kernel.dilation_x}")
    if not padding.is_none:
        parts.append(f"padding top {padding.top} left {padding.left} bottom {padding.bottom} right {padding.right}")
    if operation.upscale is not Upscale.NONE:
        parts.append(f"upscale {operation.upscale.name}")
    return parts


def _range(one: AddressRange) -> str:
    return f"region {one.region} + {one.address:#x} ({one.length_bytes} bytes)"


def _side(side: DmaSide) -> str:
    return (
        f"SHRAM of cores {side.core_mask:#x} + {side.address:#x}"
        if side.region is None
        else f"region {side.region} + {side.address:#x}"
    )


def _dma(operation: Dma) -> str:
    size = f"{operation.length_bytes} bytes"
    if operation.rows > 1 or operation.planes > 1:
        size = f"{operation.planes} plane(s) of {operation.rows} row(s) of {size}"
    return f"Dma {_side(operation.source)} to {_side(operation.destination)}, {size}"
