"""From registers to records: the only place that knows what a kick-off reads from the register file.

`store.py` is the inverse. Registers that an operation ignores never reach its record, so stale values do not matter.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from operator import itemgetter
from types import MappingProxyType
from typing import Any

from npu.errors import StreamError
from npu.hardware.variant import Product, Variant
from npu.isa.commands import COMMANDS, Command, DmaTarget, Kind, ParallelMode, Precision, ScaleMode
from npu.isa.operations import (
    AccumulatorFormat,
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
    Interrupt,
    Kernel,
    KernelWait,
    Layout,
    OperandScaling,
    Operation,
    Padding,
    PmuMask,
    Pooling,
    PoolingMode,
    Rounding,
    Scale,
    ShramLayout,
    Stop,
    Traversal,
    Upscale,
    ifm_plane,
)

BITS_OF_PRECISION = {Precision.BITS_8: 8, Precision.BITS_16: 16, Precision.BITS_32: 32}
_LAYOUTS = {int(each): each for each in Layout}
_PATTERNS = 1 << 16
_PREFIX = "NPU_SET_"


def register_name(command: Command) -> str:
    """Name of a command's register in a `RegisterFile`: the command's without its prefix."""
    return command.name.removeprefix(_PREFIX)


@functools.cache
def _at_power_on(product: Product) -> tuple[dict[str, int], dict[str, Mapping[str, int]]]:
    """All registers that hold one number, and all that hold several fields or another one, at power-on."""
    fields = {
        register_name(each): MappingProxyType(each.values(0, product)) for each in COMMANDS if each.kind is not Kind.OPERATION
    }
    numbers = {name: values["value"] for name, values in fields.items() if values.keys() == {"value"}}
    return numbers, {name: values for name, values in fields.items() if name not in numbers}


class RegisterFile:
    """Register values by name; every register keeps its value until rewritten and is zero at power-on."""

    def __init__(self, product: Product) -> None:
        numbers, fields = _at_power_on(product)
        self.numbers: dict[str, int] = dict(numbers)
        """Registers that hold one number, by name without prefix."""
        self._fields: dict[str, Mapping[str, int]] = dict(fields)

    def write(self, name: str, values: Mapping[str, int]) -> None:
        """Set all fields of register NPU_SET_`name`."""
        if name in self.numbers:
            self.numbers[name] = values["value"]
        else:
            self._fields[name] = values

    def fields(self, name: str) -> Mapping[str, int]:
        """All fields of register NPU_SET_`name`, one that holds more than one number."""
        return self._fields[name]

    def read(self, name: str) -> int:
        """The number in register NPU_SET_`name`."""
        return self.numbers[name]

    def pattern(self, name: str, *, is_signed: bool) -> int:
        """The 16-bit pattern in register NPU_SET_`name` as a signed or unsigned number."""
        return _pattern(self.numbers[name], is_signed=is_signed)


def _pattern(value: int, *, is_signed: bool) -> int:
    return value - _PATTERNS if is_signed and value >= _PATTERNS // 2 else value


def latch(name: str, values: Mapping[str, int], registers: RegisterFile, variant: Variant) -> Operation:
    """The operation that command `name` with parameter fields `values` kicks off; StreamError if there is no such operation."""
    return _LATCHES[name](values, registers, variant)


_MAP_REGISTERS = (
    *("REGION", "ZERO_POINT", "BASE0", "BASE1", "BASE2", "BASE3", "HEIGHT0_M1", "HEIGHT1_M1", "WIDTH0_M1"),
    *("STRIDE_Y", "STRIDE_X", "STRIDE_C"),
)
_MAPS = {name: itemgetter(*(f"{name}_{each}" for each in _MAP_REGISTERS)) for name in ("IFM", "IFM2", "OFM")}
_PRECISIONS = {name: f"{name}_PRECISION" for name in _MAPS}
_ELEMENTS = {
    (precision, sign): ElementType(bits, bool(sign)) for precision, bits in BITS_OF_PRECISION.items() for sign in (0, 1)
}
_OFM_EXTENT = itemgetter("OFM_HEIGHT_M1", "OFM_WIDTH_M1", "OFM_DEPTH_M1")
_BLOCK = itemgetter("OFM_BLK_HEIGHT_M1", "OFM_BLK_WIDTH_M1", "OFM_BLK_DEPTH_M1")
_PADDING = itemgetter("IFM_PAD_TOP", "IFM_PAD_LEFT", "IFM_PAD_BOTTOM", "IFM_PAD_RIGHT")
_KERNEL = itemgetter("KERNEL_HEIGHT_M1", "KERNEL_WIDTH_M1")


def _feature_map(registers: RegisterFile, name: str, extent: tuple[int, int, int]) -> FeatureMap:
    fields = registers.fields(_PRECISIONS[name])
    element = _ELEMENTS[fields["precision"], fields["sign"]]  # type: ignore[index]
    region, zero_point, base0, base1, base2, base3, height0, height1, width0, stride_y, stride_x, stride_c = _MAPS[name](
        registers.numbers
    )
    return FeatureMap(
        region=region,
        height=extent[0],
        width=extent[1],
        depth=extent[2],
        element=element,
        layout=_LAYOUTS[fields["layout"]],
        zero_point=_pattern(zero_point, is_signed=element.is_signed),
        addresses=(base0, base1, base2, base3),
        tile_height_0=height0 + 1,
        tile_height_1=height1 + 1,
        tile_width_0=width0 + 1,
        stride_y=stride_y,
        stride_x=stride_x,
        stride_c=stride_c,
    )


def _ofm(registers: RegisterFile) -> FeatureMap:
    height, width, depth = _OFM_EXTENT(registers.numbers)
    return _feature_map(registers, "OFM", (height + 1, width + 1, depth + 1))


def _undilated(dilated_m1: int, dilation: int, register: str) -> int:
    size, rest = divmod(dilated_m1, dilation)
    if rest:
        raise StreamError(f"NPU_SET_{register}: value must be a multiple of the dilation {dilation}, got {dilated_m1}")
    return size + 1


def _kernel(registers: RegisterFile) -> Kernel:
    stride = registers.fields("KERNEL_STRIDE")
    strides = stride["stride_y_m1"], stride["stride_x_m1"]
    return _make_kernel(*_KERNEL(registers.numbers), *strides, stride["dilation_y_m1"] + 1, stride["dilation_x_m1"] + 1)


@functools.lru_cache(maxsize=256)
def _make_kernel(height_m1: int, width_m1: int, stride_y_m1: int, stride_x_m1: int, dilation_y: int, dilation_x: int) -> Kernel:
    return Kernel(
        height=_undilated(height_m1, dilation_y, "KERNEL_HEIGHT_M1"),
        width=_undilated(width_m1, dilation_x, "KERNEL_WIDTH_M1"),
        stride_y=stride_y_m1 + 1,
        stride_x=stride_x_m1 + 1,
        dilation_y=dilation_y,
        dilation_x=dilation_x,
    )


def _padding(registers: RegisterFile) -> Padding:
    return _make_padding(*_PADDING(registers.numbers))


@functools.lru_cache(maxsize=256)
def _make_padding(top: int, left: int, bottom: int, right: int) -> Padding:
    return Padding(top, left, bottom, right)


def _activation(registers: RegisterFile, ofm: FeatureMap) -> Activation:
    fields = registers.fields("ACTIVATION")
    return Activation(
        minimum=registers.pattern("ACTIVATION_MIN", is_signed=ofm.element.is_signed),
        maximum=registers.pattern("ACTIVATION_MAX", is_signed=ofm.element.is_signed),
        function=ActivationFunction(fields["function"]),
        clip_range=ClipRange(fields["clip_range"]),
    )


def _scale(registers: RegisterFile, name: str) -> Scale:
    fields = registers.fields(name)
    return Scale(fields["scale"], fields["shift"])


def _global_scale(registers: RegisterFile) -> Scale | None:
    is_global = registers.fields("OFM_PRECISION")["scale_mode"] == ScaleMode.GLOBAL
    return _scale(registers, "OFM_SCALE") if is_global else None


def _block(registers: RegisterFile) -> Block:
    return _make_block(*_BLOCK(registers.numbers))


@functools.lru_cache(maxsize=256)
def _make_block(height_m1: int, width_m1: int, depth_m1: int) -> Block:
    return Block(height_m1 + 1, width_m1 + 1, depth_m1 + 1)


def _shram(registers: RegisterFile, *, is_binary: bool) -> ShramLayout:
    ifm2_start = registers.read("IFM2_IB_START") if is_binary else 0
    return ShramLayout(registers.read("IFM_IB_END"), registers.read("AB_START"), ifm2_start)


def _rounding(registers: RegisterFile) -> Rounding:
    return Rounding(registers.fields("OFM_PRECISION")["rounding"])


def _accumulator(registers: RegisterFile) -> AccumulatorFormat:
    return AccumulatorFormat(registers.fields("ACC_FORMAT")["format"])


def _check_cores(registers: RegisterFile, variant: Variant) -> None:
    mode = ParallelMode(registers.fields("PARALLEL_MODE")["mode"])
    expected = ParallelMode.DUAL_CORE_DEPTH if variant.accelerator.cores == 2 else ParallelMode.SINGLE_CORE
    if mode is not expected:
        raise StreamError(
            f"NPU_SET_PARALLEL_MODE: mode must be {expected.name} on {variant.name} with {variant.accelerator.cores} core(s), "
            f"got {mode.name}"
        )


def _ranges(registers: RegisterFile, name: str, variant: Variant) -> tuple[AddressRange, ...]:
    """Ranges of the cores that have work: the second core of two is idle if its length is 0."""
    region = registers.read(f"{name}_REGION")
    first = AddressRange(region, registers.read(f"{name}_BASE"), registers.read(f"{name}_LENGTH"))
    if variant.accelerator.cores == 1 or registers.read(f"{name}1_LENGTH") == 0:
        return (first,)
    return first, AddressRange(region, registers.read(f"{name}1_BASE"), registers.read(f"{name}1_LENGTH"))


def _any_kernel(registers: RegisterFile, ofm: FeatureMap, *, is_binary: bool) -> dict[str, Any]:
    """Fields of every kernel operation but its IFM."""
    return {
        "ofm": ofm,
        "block": _block(registers),
        "shram": _shram(registers, is_binary=is_binary),
        "activation": _activation(registers, ofm),
        "scale": _global_scale(registers),
        "rounding": _rounding(registers),
        "accumulator": _accumulator(registers),
        "blockdep": registers.read("BLOCKDEP"),
    }


def _window(registers: RegisterFile, variant: Variant) -> dict[str, Any]:
    """Fields of an operation that slides a kernel over its IFM."""
    _check_cores(registers, variant)
    ofm, kernel, padding = _ofm(registers), _kernel(registers), _padding(registers)
    upscale = Upscale(registers.fields("IFM_UPSCALE")["mode"])
    height, width = ifm_plane(ofm.height, ofm.width, kernel, padding, upscale)
    ifm = _feature_map(registers, "IFM", (height, width, registers.read("IFM_DEPTH_M1") + 1))
    own = {"ifm": ifm, "kernel": kernel, "padding": padding, "upscale": upscale}
    return own | _any_kernel(registers, ofm, is_binary=False)


def _weighted(registers: RegisterFile, variant: Variant) -> dict[str, Any]:
    """Fields of an operation with weights."""
    fields = _window(registers, variant)
    fields["weights"] = _ranges(registers, "WEIGHT", variant)
    fields["scales"] = _ranges(registers, "SCALE", variant)
    fields["has_4x4_sub_kernels"] = bool(registers.fields("KERNEL_STRIDE")["decomposition"])
    return fields


def _convolution(_values: Mapping[str, int], registers: RegisterFile, variant: Variant) -> Convolution:
    traversal = Traversal(registers.fields("KERNEL_STRIDE")["traversal"])
    return Convolution(traversal=traversal, **_weighted(registers, variant))


def _depthwise(_values: Mapping[str, int], registers: RegisterFile, variant: Variant) -> DepthwiseConvolution:
    return DepthwiseConvolution(**_weighted(registers, variant))


def _pooling(values: Mapping[str, int], registers: RegisterFile, variant: Variant) -> Pooling:
    mode, fields = PoolingMode(values["mode"]), _window(registers, variant)
    if mode is PoolingMode.AVERAGE and fields["padding"] != Padding() and fields["scale"] == Scale(1, 0):
        fields["scale"] = None  # the hardware divides by the count of each element: same as the per-channel bit
    return Pooling(mode=mode, **fields)


def _ifm2(registers: RegisterFile, ofm: FeatureMap, broadcast: Mapping[str, int]) -> FeatureMap:
    extent = (
        1 if broadcast["height"] else ofm.height,
        1 if broadcast["width"] else ofm.width,
        1 if broadcast["depth"] else ofm.depth,
    )
    return _feature_map(registers, "IFM2", extent)


def _operand_scales(registers: RegisterFile, mode: ElementwiseMode) -> tuple[OperandScaling, Rounding, Scale, int]:
    """Operand scaling of ADD and SUB; the values of the record's defaults for the others, which ignore it."""
    if not mode.scales_operands:
        return OperandScaling.BOTH_16, Rounding.DOUBLE, Scale(0, 0), 0
    precision = registers.fields("IFM_PRECISION")
    scaling, scale = OperandScaling(precision["scale_mode"]), _scale(registers, "OPA_SCALE")
    rounding = Rounding(precision["rounding"])
    if scaling is OperandScaling.BOTH_16:
        return scaling, rounding, Scale(scale.scale, 0), registers.fields("OPB_SCALE")["scale"]
    return scaling, rounding, scale, 0


def _elementwise(values: Mapping[str, int], registers: RegisterFile, variant: Variant) -> Elementwise:
    _check_cores(registers, variant)
    mode = ElementwiseMode(values["mode"])
    ofm = _ofm(registers)
    ifm = _feature_map(registers, "IFM", (ofm.height, ofm.width, ofm.depth))
    broadcast = registers.fields("IFM2_BROADCAST")
    has_scalar = not mode.is_unary and bool(broadcast["use_scalar"])
    has_ifm2 = not mode.is_unary and not has_scalar
    is_signed = bool(registers.fields("IFM2_PRECISION")["sign"])
    scaling, operand_rounding, opa_scale, opb_scale = _operand_scales(registers, mode)
    if registers.read("IFM_DEPTH_M1") + 1 != ofm.depth:
        raise StreamError(f"IFM depth must be the OFM depth {ofm.depth}, got {registers.read('IFM_DEPTH_M1') + 1}")
    if has_scalar and is_signed != ifm.element.is_signed:
        raise StreamError(
            f"NPU_SET_IFM2_PRECISION: sign must be the IFM's ({int(ifm.element.is_signed)}), got {int(is_signed)}"
        )
    return Elementwise(
        ifm=ifm,
        **_any_kernel(registers, ofm, is_binary=not mode.is_unary),
        mode=mode,
        ifm2=_ifm2(registers, ofm, broadcast) if has_ifm2 else None,
        scalar=registers.pattern("IFM2_SCALAR", is_signed=is_signed) if has_scalar else None,
        scalar_zero_point=registers.pattern("IFM2_ZERO_POINT", is_signed=is_signed) if has_scalar else 0,
        is_reversed=not mode.is_unary and bool(broadcast["operand_order"]),
        operand_scaling=scaling,
        operand_rounding=operand_rounding,
        opa_scale=opa_scale,
        opb_scale=opb_scale,
    )


def _dma_side(registers: RegisterFile, name: str) -> DmaSide:
    fields = registers.fields(f"DMA0_{name}_REGION")
    address = registers.read(f"DMA0_{name}")
    stride = DmaStride(fields["stride_mode"])
    if fields["target"] == DmaTarget.INTERNAL:
        return DmaSide(None, address, stride, core_mask=fields["region"])
    return DmaSide(fields["region"], address, stride)


def _dma(_values: Mapping[str, int], registers: RegisterFile, _variant: Variant) -> Dma:
    source, destination = _dma_side(registers, "SRC"), _dma_side(registers, "DST")
    stride = max(source.stride, destination.stride)
    has_rows, has_planes = stride >= DmaStride.ROWS, stride >= DmaStride.PLANES
    return Dma(
        source=source,
        destination=destination,
        length_bytes=registers.read("DMA0_LEN"),
        rows=registers.read("DMA0_SIZE0") if has_rows else 1,
        planes=registers.read("DMA0_SIZE1") if has_planes else 1,
        row_skip_bytes=registers.read("DMA0_SKIP0") if has_rows else 0,
        plane_skip_bytes=registers.read("DMA0_SKIP1") if has_planes else 0,
    )


_LATCHES: Mapping[str, Callable[[Mapping[str, int], RegisterFile, Variant], Operation]] = {
    "NPU_OP_STOP": lambda values, _registers, _variant: Stop(values["mask"]),
    "NPU_OP_IRQ": lambda values, _registers, _variant: Interrupt(values["mask"]),
    "NPU_OP_CONV": _convolution,
    "NPU_OP_DEPTHWISE": _depthwise,
    "NPU_OP_POOL": _pooling,
    "NPU_OP_ELEMENTWISE": _elementwise,
    "NPU_OP_DMA_START": _dma,
    "NPU_OP_DMA_WAIT": lambda values, _registers, _variant: DmaWait(values["outstanding"]),
    "NPU_OP_KERNEL_WAIT": lambda values, _registers, _variant: KernelWait(values["outstanding"]),
    "NPU_OP_PMU_MASK": lambda values, _registers, _variant: PmuMask(values["enable"]),
}
