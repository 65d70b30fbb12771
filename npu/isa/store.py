"""From records to registers: the inverse of `latch.py`; the only place that knows what must be written before a kick-off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from npu.hardware.variant import Variant
from npu.isa.commands import COMMANDS_BY_NAME, Decomposition, DmaTarget, ParallelMode, ScaleMode
from npu.isa.latch import BITS_OF_PRECISION
from npu.isa.operations import (
    AddressRange,
    Convolution,
    DepthwiseConvolution,
    Dma,
    DmaSide,
    DmaStride,
    DmaWait,
    ElementType,
    Elementwise,
    FeatureMap,
    Interrupt,
    KernelOperation,
    KernelWait,
    OperandScaling,
    Operation,
    PmuMask,
    Pooling,
    Scale,
    Stop,
    Traversal,
    WeightedOperation,
    WindowOperation,
)

_PATTERNS = 1 << 16
_PRECISION_OF_BITS = {bits: precision for precision, bits in BITS_OF_PRECISION.items()}

Write = tuple[str, Mapping[str, int]]
"""A command name and all its fields."""


@dataclass(frozen=True, slots=True)
class KickOff:
    """The register writes that an operation needs, in order, and the command that starts it."""

    writes: tuple[Write, ...]
    name: str
    values: Mapping[str, int] = field(default_factory=dict)


def store(operation: Operation, variant: Variant) -> KickOff:
    """All registers that `operation` reads, and its kick-off; the operation has passed `check_operation`."""
    if isinstance(operation, KernelOperation):
        return _kernel_operation(operation, variant)
    if isinstance(operation, Dma):
        return KickOff(tuple(_dma(operation)), "NPU_OP_DMA_START")
    if isinstance(operation, DmaWait):
        return KickOff((), "NPU_OP_DMA_WAIT", {"outstanding": operation.outstanding})
    if isinstance(operation, KernelWait):
        return KickOff((), "NPU_OP_KERNEL_WAIT", {"outstanding": operation.outstanding})
    if isinstance(operation, PmuMask):
        return KickOff((), "NPU_OP_PMU_MASK", {"enable": operation.enable})
    name = "NPU_OP_STOP" if isinstance(operation, Stop) else "NPU_OP_IRQ"
    assert isinstance(operation, Stop | Interrupt)
    return KickOff((), name, {"mask": operation.mask})


def _kernel_operation(operation: KernelOperation, variant: Variant) -> KickOff:
    writes = (*_common(operation, variant), *_window(operation), *_weighted(operation, variant), *_operands(operation))
    if isinstance(operation, Convolution):
        return KickOff(writes, "NPU_OP_CONV")
    if isinstance(operation, DepthwiseConvolution):
        return KickOff(writes, "NPU_OP_DEPTHWISE")
    assert isinstance(operation, Pooling | Elementwise)
    name = "NPU_OP_POOL" if isinstance(operation, Pooling) else "NPU_OP_ELEMENTWISE"
    return KickOff(writes, name, {"mode": operation.mode})


def _value(name: str, value: int) -> Write:
    return f"NPU_SET_{name}", {"value": value}


def _pattern(name: str, value: int) -> Write:
    """A 16-bit register whose number may be negative; `check_operation` has checked its range."""
    return _value(name, value + _PATTERNS if value < 0 else value)


def _scale(name: str, scale: Scale) -> Write:
    return f"NPU_SET_{name}", {"scale": scale.scale, "shift": scale.shift}


def _element(element: ElementType) -> dict[str, int]:
    return {"sign": int(element.is_signed), "precision": _PRECISION_OF_BITS[element.bits]}


def _feature_map(feature_map: FeatureMap, name: str) -> Iterator[Write]:
    yield _value(f"{name}_REGION", feature_map.region)
    for tile, address in enumerate(feature_map.addresses):
        yield _value(f"{name}_BASE{tile}", address)
    yield _value(f"{name}_HEIGHT0_M1", feature_map.tile_height_0 - 1)
    yield _value(f"{name}_HEIGHT1_M1", feature_map.tile_height_1 - 1)
    yield _value(f"{name}_WIDTH0_M1", feature_map.tile_width_0 - 1)
    yield _value(f"{name}_STRIDE_C", feature_map.stride_c)
    yield _value(f"{name}_STRIDE_Y", feature_map.stride_y)
    yield _value(f"{name}_STRIDE_X", feature_map.stride_x)
    yield _pattern(f"{name}_ZERO_POINT", feature_map.zero_point)


def _common(operation: KernelOperation, variant: Variant) -> Iterator[Write]:
    ifm, ofm = operation.ifm, operation.ofm
    if variant.accelerator.product in COMMANDS_BY_NAME["NPU_SET_PARALLEL_MODE"].products:
        is_dual = variant.accelerator.cores == 2
        mode = ParallelMode.DUAL_CORE_DEPTH if is_dual else ParallelMode.SINGLE_CORE
        yield "NPU_SET_PARALLEL_MODE", {"mode": mode}
    yield from _feature_map(ifm, "IFM")
    yield _value("IFM_DEPTH_M1", ifm.depth - 1)
    yield _ifm_precision(operation)
    yield from _feature_map(ofm, "OFM")
    yield _value("OFM_HEIGHT_M1", ofm.height - 1)
    yield _value("OFM_WIDTH_M1", ofm.width - 1)
    yield _value("OFM_DEPTH_M1", ofm.depth - 1)
    scale_mode = ScaleMode.PER_CHANNEL if operation.scale is None else ScaleMode.GLOBAL
    precision = {"layout": ofm.layout, "scale_mode": scale_mode, "rounding": operation.rounding}
    yield "NPU_SET_OFM_PRECISION", _element(ofm.element) | precision
    if operation.scale is not None:
        yield _scale("OFM_SCALE", operation.scale)
    yield from _output_stage(operation)


def _ifm_precision(operation: KernelOperation) -> Write:
    fields = _element(operation.ifm.element) | {"layout": operation.ifm.layout, "scale_mode": 0, "rounding": 0}
    if isinstance(operation, Elementwise):
        fields |= {"scale_mode": operation.operand_scaling, "rounding": operation.operand_rounding}
    return "NPU_SET_IFM_PRECISION", fields


def _output_stage(operation: KernelOperation) -> Iterator[Write]:
    activation, block, shram = operation.activation, operation.block, operation.shram
    yield "NPU_SET_ACTIVATION", {"function": activation.function, "clip_range": activation.clip_range}
    yield _pattern("ACTIVATION_MIN", activation.minimum)
    yield _pattern("ACTIVATION_MAX", activation.maximum)
    yield _value("OFM_BLK_HEIGHT_M1", block.height - 1)
    yield _value("OFM_BLK_WIDTH_M1", block.width - 1)
    yield _value("OFM_BLK_DEPTH_M1", block.depth - 1)
    yield _value("IFM_IB_END", shram.ifm_end)
    yield _value("AB_START", shram.accumulator_start)
    yield "NPU_SET_ACC_FORMAT", {"format": operation.accumulator}
    yield _value("BLOCKDEP", operation.blockdep)


def _window(operation: KernelOperation) -> Iterator[Write]:
    if not isinstance(operation, WindowOperation):
        return
    kernel, padding = operation.kernel, operation.padding
    yield "NPU_SET_IFM_UPSCALE", {"mode": operation.upscale}
    yield _value("IFM_PAD_TOP", padding.top)
    yield _value("IFM_PAD_LEFT", padding.left)
    yield _value("IFM_PAD_BOTTOM", padding.bottom)
    yield _value("IFM_PAD_RIGHT", padding.right)
    yield _value("KERNEL_HEIGHT_M1", kernel.dilated_height - 1)
    yield _value("KERNEL_WIDTH_M1", kernel.dilated_width - 1)
    traversal = operation.traversal if isinstance(operation, Convolution) else Traversal.DEPTH_FIRST
    is_4x4 = isinstance(operation, WeightedOperation) and operation.has_4x4_sub_kernels
    yield (
        "NPU_SET_KERNEL_STRIDE",
        {
            "stride_x_m1": kernel.stride_x - 1,
            "stride_y_m1": kernel.stride_y - 1,
            "traversal": traversal,
            "dilation_x_m1": kernel.dilation_x - 1,
            "dilation_y_m1": kernel.dilation_y - 1,
            "decomposition": Decomposition.SUB_KERNEL_4X4 if is_4x4 else Decomposition.SUB_KERNEL_8X8,
        },
    )


def _weighted(operation: KernelOperation, variant: Variant) -> Iterator[Write]:
    if not isinstance(operation, WeightedOperation):
        return
    yield from _ranges(operation.weights, "WEIGHT", variant)
    yield from _ranges(operation.scales, "SCALE", variant)


def _ranges(ranges: tuple[AddressRange, ...], name: str, variant: Variant) -> Iterator[Write]:
    """Ranges of all cores; a core without work gets the address of core 0 and length 0."""
    yield _value(f"{name}_REGION", ranges[0].region)
    idle = AddressRange(ranges[0].region, ranges[0].address, 0)
    for core in range(variant.accelerator.cores):
        one = ranges[core] if core < len(ranges) else idle
        suffix = str(core) if core else ""
        yield _value(f"{name}{suffix}_BASE", one.address)
        yield _value(f"{name}{suffix}_LENGTH", one.length_bytes)


def _operands(operation: KernelOperation) -> Iterator[Write]:
    if not isinstance(operation, Elementwise) or operation.mode.is_unary:
        return
    ifm, ifm2 = operation.ifm, operation.ifm2
    broadcast = {
        axis: int(ifm2 is not None and getattr(ifm2, axis) != getattr(ifm, axis)) for axis in ("height", "width", "depth")
    }
    order = {"operand_order": int(operation.is_reversed), "use_scalar": int(operation.scalar is not None)}
    yield "NPU_SET_IFM2_BROADCAST", broadcast | order
    layout = ifm.layout if ifm2 is None else ifm2.layout
    yield "NPU_SET_IFM2_PRECISION", _element(ifm.element) | {"layout": layout}
    if ifm2 is not None:
        yield from _feature_map(ifm2, "IFM2")
    if operation.scalar is not None:
        yield _pattern("IFM2_SCALAR", operation.scalar)
        yield _pattern("IFM2_ZERO_POINT", operation.scalar_zero_point)
    yield _value("IFM2_IB_START", operation.shram.ifm2_start)
    if operation.mode.scales_operands:
        yield _scale("OPA_SCALE", operation.opa_scale)
        if operation.operand_scaling is OperandScaling.BOTH_16:
            yield "NPU_SET_OPB_SCALE", {"scale": operation.opb_scale}


def _dma_side(side: DmaSide, name: str) -> Iterator[Write]:
    is_internal = side.region is None
    fields = {
        "region": side.core_mask if side.region is None else side.region,
        "target": DmaTarget.INTERNAL if is_internal else DmaTarget.EXTERNAL,
        "stride_mode": side.stride,
    }
    yield f"NPU_SET_DMA0_{name}_REGION", fields
    yield _value(f"DMA0_{name}", side.address)


def _dma(operation: Dma) -> Iterator[Write]:
    yield from _dma_side(operation.source, "SRC")
    yield from _dma_side(operation.destination, "DST")
    yield _value("DMA0_LEN", operation.length_bytes)
    stride = max(operation.source.stride, operation.destination.stride)
    if stride >= DmaStride.ROWS:
        yield _value("DMA0_SIZE0", operation.rows)
        yield _value("DMA0_SKIP0", operation.row_skip_bytes)
    if stride >= DmaStride.PLANES:
        yield _value("DMA0_SIZE1", operation.planes)
        yield _value("DMA0_SKIP1", operation.plane_skip_bytes)
