"""From registers to records: the only place that knows what a kick-off reads from the register file.

`store.py` is the inverse. Registers that an operation ignores never reach its record, so stale values do not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from npu.errors import StreamError
from npu.hardware.variant import Product, Variant
from npu.isa.commands import COMMANDS_BY_NAME, Command, DmaTarget, ParallelMode, Precision, ScaleMode
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
)

BITS_OF_PRECISION = {Precision.BITS_8: 8, Precision.BITS_16: 16, Precision.BITS_32: 32}
SCALED_OPERANDS = (ElementwiseMode.ADD, ElementwiseMode.SUB)
_PATTERNS = 1 << 16
_PREFIX = "NPU_SET_"


class RegisterFile:
    """Register values by command name; every register keeps its value until rewritten and is zero at power-on."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self._values: dict[str, dict[str, int]] = {}
        """By name without its prefix."""

    def write(self, command: Command, values: dict[str, int]) -> None:
        self._values[command.name[len(_PREFIX) :]] = values

    def fields(self, name: str) -> Mapping[str, int]:
        """All fields of register NPU_SET_`name`."""
        values = self._values.get(name)
        if values is None:
            values = self._values[name] = COMMANDS_BY_NAME[_PREFIX + name].values(0, self.product)
        return values

    def read(self, name: str) -> int:
        """The number in register NPU_SET_`name`."""
        return self.fields(name)["value"]

    def pattern(self, name: str, *, is_signed: bool) -> int:
        """The 16-bit pattern in register NPU_SET_`name` as a signed or unsigned number."""
        value = self.read(name)
        return value - _PATTERNS if is_signed and value >= _PATTERNS // 2 else value


def latch(name: str, values: Mapping[str, int], registers: RegisterFile, variant: Variant) -> Operation:
    """The operation that command `name` with parameter fields `values` kicks off; StreamError if there is no such operation."""
    return _LATCHES[name](values, registers, variant)


def ifm_extent(ofm_extent: int, stride: int, dilated_kernel: int, padding: int, *, is_upscaled: bool) -> int:
    """Physical IFM rows or columns that an OFM extent needs; not positive if the padding leaves nothing."""
    upscaled = (ofm_extent - 1) * stride + dilated_kernel - padding
    return -(-upscaled // 2) if is_upscaled else upscaled


def _feature_map(registers: RegisterFile, name: str, extent: tuple[int, int, int]) -> FeatureMap:
    precision = registers.fields(f"{name}_PRECISION")
    is_signed = bool(precision["sign"])
    bases = [registers.read(f"{name}_BASE{tile}") for tile in range(4)]
    return FeatureMap(
        region=registers.read(f"{name}_REGION"),
        height=extent[0],
        width=extent[1],
        depth=extent[2],
        element=ElementType(BITS_OF_PRECISION[Precision(precision["precision"])], is_signed),
        layout=Layout(precision["layout"]),
        zero_point=registers.pattern(f"{name}_ZERO_POINT", is_signed=is_signed),
        addresses=(bases[0], bases[1], bases[2], bases[3]),
        tile_height_0=registers.read(f"{name}_HEIGHT0_M1") + 1,
        tile_height_1=registers.read(f"{name}_HEIGHT1_M1") + 1,
        tile_width_0=registers.read(f"{name}_WIDTH0_M1") + 1,
        stride_y=registers.read(f"{name}_STRIDE_Y"),
        stride_x=registers.read(f"{name}_STRIDE_X"),
        stride_c=registers.read(f"{name}_STRIDE_C"),
    )


def _ofm(registers: RegisterFile) -> FeatureMap:
    height, width, depth = (registers.read(f"OFM_{axis}_M1") + 1 for axis in ("HEIGHT", "WIDTH", "DEPTH"))
    return _feature_map(registers, "OFM", (height, width, depth))


def _undilated(dilated_m1: int, dilation: int, register: str) -> int:
    size, rest = divmod(dilated_m1, dilation)
    if rest:
        raise StreamError(f"NPU_SET_{register}: value must be a multiple of the dilation {dilation}, got {dilated_m1}")
    return size + 1


def _kernel(registers: RegisterFile) -> Kernel:
    stride = registers.fields("KERNEL_STRIDE")
    dilation_y, dilation_x = stride["dilation_y_m1"] + 1, stride["dilation_x_m1"] + 1
    return Kernel(
        height=_undilated(registers.read("KERNEL_HEIGHT_M1"), dilation_y, "KERNEL_HEIGHT_M1"),
        width=_undilated(registers.read("KERNEL_WIDTH_M1"), dilation_x, "KERNEL_WIDTH_M1"),
        stride_y=stride["stride_y_m1"] + 1,
        stride_x=stride["stride_x_m1"] + 1,
        dilation_y=dilation_y,
        dilation_x=dilation_x,
    )


def _padding(registers: RegisterFile) -> Padding:
    return Padding(
        top=registers.read("IFM_PAD_TOP"),
        left=registers.read("IFM_PAD_LEFT"),
        bottom=registers.read("IFM_PAD_BOTTOM"),
        right=registers.read("IFM_PAD_RIGHT"),
    )


def _window_ifm(registers: RegisterFile, ofm: FeatureMap, kernel: Kernel, padding: Padding, upscale: Upscale) -> FeatureMap:
    is_upscaled = upscale is not Upscale.NONE
    height = ifm_extent(
        ofm.height, kernel.stride_y, kernel.dilated_height, padding.top + padding.bottom, is_upscaled=is_upscaled
    )
    width = ifm_extent(ofm.width, kernel.stride_x, kernel.dilated_width, padding.left + padding.right, is_upscaled=is_upscaled)
    return _feature_map(registers, "IFM", (height, width, registers.read("IFM_DEPTH_M1") + 1))


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
    height, width, depth = (registers.read(f"OFM_BLK_{axis}_M1") + 1 for axis in ("HEIGHT", "WIDTH", "DEPTH"))
    return Block(height, width, depth)


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


def _convolution(_values: Mapping[str, int], registers: RegisterFile, variant: Variant) -> Convolution:
    _check_cores(registers, variant)
    ofm, kernel, padding = _ofm(registers), _kernel(registers), _padding(registers)
    upscale = Upscale(registers.fields("IFM_UPSCALE")["mode"])
    return Convolution(
        ifm=_window_ifm(registers, ofm, kernel, padding, upscale),
        ofm=ofm,
        block=_block(registers),
        shram=_shram(registers, is_binary=False),
        activation=_activation(registers, ofm),
        scale=_global_scale(registers),
        rounding=_rounding(registers),
        accumulator=_accumulator(registers),
        blockdep=registers.read("BLOCKDEP"),
        kernel=kernel,
        padding=padding,
        upscale=upscale,
        weights=_ranges(registers, "WEIGHT", variant),
        scales=_ranges(registers, "SCALE", variant),
        has_4x4_sub_kernels=bool(registers.fields("KERNEL_STRIDE")["decomposition"]),
        traversal=Traversal(registers.fields("KERNEL_STRIDE")["traversal"]),
    )


def _depthwise(_values: Mapping[str, int], registers: RegisterFile, variant: Variant) -> DepthwiseConvolution:
    _check_cores(registers, variant)
    ofm, kernel, padding = _ofm(registers), _kernel(registers), _padding(registers)
    upscale = Upscale(registers.fields("IFM_UPSCALE")["mode"])
    return DepthwiseConvolution(
        ifm=_window_ifm(registers, ofm, kernel, padding, upscale),
        ofm=ofm,
        block=_block(registers),
        shram=_shram(registers, is_binary=False),
        activation=_activation(registers, ofm),
        scale=_global_scale(registers),
        rounding=_rounding(registers),
        accumulator=_accumulator(registers),
        blockdep=registers.read("BLOCKDEP"),
        kernel=kernel,
        padding=padding,
        upscale=upscale,
        weights=_ranges(registers, "WEIGHT", variant),
        scales=_ranges(registers, "SCALE", variant),
        has_4x4_sub_kernels=bool(registers.fields("KERNEL_STRIDE")["decomposition"]),
    )


def _pooling(values: Mapping[str, int], registers: RegisterFile, variant: Variant) -> Pooling:
    _check_cores(registers, variant)
    mode = PoolingMode(values["mode"])
    ofm, kernel, padding = _ofm(registers), _kernel(registers), _padding(registers)
    upscale = Upscale(registers.fields("IFM_UPSCALE")["mode"])
    scale = _global_scale(registers)
    if mode is PoolingMode.AVERAGE and padding != Padding() and scale == Scale(1, 0):
        scale = None  # the hardware divides by the count of each element: same as the per-channel bit
    return Pooling(
        ifm=_window_ifm(registers, ofm, kernel, padding, upscale),
        ofm=ofm,
        block=_block(registers),
        shram=_shram(registers, is_binary=False),
        activation=_activation(registers, ofm),
        scale=scale,
        rounding=_rounding(registers),
        accumulator=_accumulator(registers),
        blockdep=registers.read("BLOCKDEP"),
        kernel=kernel,
        padding=padding,
        upscale=upscale,
        mode=mode,
    )


def _ifm2(registers: RegisterFile, ofm: FeatureMap, broadcast: Mapping[str, int]) -> FeatureMap:
    extent = (
        1 if broadcast["height"] else ofm.height,
        1 if broadcast["width"] else ofm.width,
        1 if broadcast["depth"] else ofm.depth,
    )
    return _feature_map(registers, "IFM2", extent)


def _operand_scales(registers: RegisterFile, mode: ElementwiseMode) -> tuple[OperandScaling, Rounding, Scale, int]:
    """Operand scaling of ADD and SUB; the values of the record's defaults for the others, which ignore it."""
    if mode not in SCALED_OPERANDS:
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
        ofm=ofm,
        block=_block(registers),
        shram=_shram(registers, is_binary=not mode.is_unary),
        activation=_activation(registers, ofm),
        scale=_global_scale(registers),
        rounding=_rounding(registers),
        accumulator=_accumulator(registers),
        blockdep=registers.read("BLOCKDEP"),
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
