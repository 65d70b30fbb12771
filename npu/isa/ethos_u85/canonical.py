"""The one form that the record of an operation of Ethos-U85 has: what registers cannot say is as reading them leaves it.

That makes `decode(encode(operations)) == operations` hold.
"""

from __future__ import annotations

from npu.hardware.variant import Accelerator
from npu.isa.ethos_u85.commands import MICROBLOCKS, TABLES, Function
from npu.isa.operations import (
    AccumulatorFormat,
    AccumulatorSource,
    Activation,
    ActivationFunction,
    ClipRange,
    Convolution,
    Dma,
    DmaSide,
    DmaStride,
    ElementType,
    Elementwise,
    ElementwiseMode,
    FeatureMap,
    KernelOperation,
    MapStorage,
    OperandScaling,
    Operation,
    Pooling,
    PoolingMode,
    ResizeAxis,
    Resizing,
    Rounding,
    Scale,
    ShramLayout,
    Traversal,
    WeightDecoder,
    WeightedOperation,
)
from npu.isa.rules import broken
from npu.isa.shram import LUT_SLOT_BYTES
from npu.numerics.resize_axis import LARGEST_SCALE

NO_SHRAM = ShramLayout(0, 0)
WEIGHT_STREAMS = 4
"""For so many there are registers."""
_DOT_PRODUCT = 8
"""Input channels that are multiplied together for each element of a micro-block."""
_ACCUMULATORS = (AccumulatorFormat.INT32, AccumulatorFormat.INT48)
_PLACES = ("addresses", "tile_height_0", "tile_height_1", "tile_width_0", "stride_y", "stride_x", "stride_c")
_PLANES = frozenset(MICROBLOCKS.values())
_UNSCALED = (OperandScaling.BOTH_16, Rounding.DOUBLE, Scale(0, 0), 0)


def ublock_depth(macs: int, height: int, width: int) -> int:
    """Channels of a micro-block on so many MACs."""
    return macs // (_DOT_PRODUCT * height * width)


def table_function(activation: Activation, ofm: ElementType) -> Function | None:
    """The function of registers that looks values up in a table, None if there is none of these types."""
    names = (Function.LUT_S8_S8, Function.LUT_S8_S16, Function.LUT_S8_S32, Function.LUT_S16_S16)
    for function in names if ofm.is_signed or ofm.bits > 8 else (Function.LUT_U8_U8,):
        if TABLES[function][1:] == (ofm.bits, activation.clip_range):
            return function
    return None


def check_canonical(operation: Operation, accelerator: Accelerator) -> None:
    """Raise StreamError if an operation is none of Ethos-U85, or has what its registers do not say."""
    if isinstance(operation, KernelOperation):
        _check_kernel_operation(operation, accelerator)
    if isinstance(operation, WeightedOperation):
        _check_weights(operation)
    if isinstance(operation, Convolution):
        _check_convolution(operation)
    if isinstance(operation, Pooling):
        _check_pooling(operation)
    if isinstance(operation, Elementwise):
        _check_elementwise(operation)
    if isinstance(operation, Resizing):
        _check_axis(operation.y, "y")
        _check_axis(operation.x, "x")
    if isinstance(operation, Dma):
        _check_dma(operation)


def _check_kernel_operation(operation: KernelOperation, accelerator: Accelerator) -> None:
    options = operation.options
    if options is None:
        raise broken("operation", f"one that {accelerator.product.name} has", f"{type(operation).__name__} of another NPU")
    if operation.shram != NO_SHRAM:
        raise broken("SHRAM", "left at 0, as buffers have memories of their own", operation.shram)
    if operation.accumulator not in _ACCUMULATORS:
        raise broken("accumulators", "INT32 or INT48", operation.accumulator.name)
    ublock = options.ublock
    plane = ublock.height, ublock.width
    if plane not in _PLANES:
        raise broken("micro-block", "one that the registers name", f"{ublock.height}x{ublock.width}")
    depth = ublock_depth(accelerator.macs_per_cycle, *plane)
    if ublock.depth != depth:
        raise broken("micro-block", f"{depth} deep, as {ublock.height}x{ublock.width} of the MACs leave", ublock.depth)
    _check_map(operation.ofm, "OFM", widest=64)
    for name, fm in zip(("IFM", "IFM2"), operation.ifms, strict=False):
        _check_map(fm, name, widest=32)
    _check_activation(operation.activation, operation.ofm.element)


def _check_map(fm: FeatureMap, name: str, *, widest: int) -> None:
    bits = fm.element.bits
    if bits not in (8, 16, 32, 64) or bits > widest:
        raise broken(f"{name} element", f"of 8, 16, 32 or 64 and at most {widest} bits", bits)
    if fm.is_in_memory:
        return
    expected = (0, 0, 0, 0), fm.height, fm.height, fm.width, 0, 0, 0
    for place, left in zip(_PLACES, expected, strict=True):
        if getattr(fm, place) != left:
            raise broken(f"{name} {place}", f"left at {left} outside memory", getattr(fm, place))
    if fm.storage is MapStorage.NONE and fm.region:
        raise broken(f"{name} region", "left at 0 without a map", fm.region)


def _check_activation(activation: Activation, ofm: ElementType) -> None:
    clip, index = activation.clip_range, activation.function.lut_index
    if index is None:
        if clip not in (ClipRange.LIMITS, ClipRange.NONE):
            raise broken("clip range", f"LIMITS or NONE beside {activation.function.name}", clip.name)
        return
    function = table_function(activation, ofm)
    if function is None:
        raise broken("activation function", f"NONE for an OFM of {ofm} and a clip range {clip.name}", activation.function.name)
    slots = TABLES[function][0] // LUT_SLOT_BYTES
    if index % slots:
        first = ActivationFunction.LUT_0.name
        raise broken("activation function", f"{first} or a multiple of {slots} slots behind it", activation.function.name)


def _check_weights(operation: WeightedOperation) -> None:
    if isinstance(operation, Convolution) and not operation.weights:
        return
    if len(operation.scales) != 1:
        raise broken("scales", "one range for all weight streams", len(operation.scales))
    for number, one in enumerate(operation.weights):
        if one.region != operation.weights[0].region:
            raise broken(f"weight stream {number}", "in the region of stream 0", one.region)


def _check_convolution(operation: Convolution) -> None:
    if operation.weights:
        _check_second(operation.ifm2, operation, is_read=_starts_from_ifm2(operation))
        return
    if operation.ifm2 is None:
        raise broken("weights", "streams or IFM2", "none")
    form = operation.traversal, operation.weight_decoder, operation.has_sparse_weights, operation.has_4x4_sub_kernels
    if operation.scales or form != (Traversal.DEPTH_FIRST, WeightDecoder.STANDARD, False, False):
        raise broken("weights in IFM2", "without scale records, and left at their defaults", form)
    columns = 1, operation.ofm.depth, operation.ifm.depth
    _check_extent(operation.ifm2, columns)


def _check_pooling(operation: Pooling) -> None:
    _check_second(operation.ifm2, operation, is_read=operation.mode is PoolingMode.NONE)


def _starts_from_ifm2(operation: KernelOperation) -> bool:
    return operation.options is not None and operation.options.accumulator_source is AccumulatorSource.IFM2


def _check_second(ifm2: FeatureMap | None, operation: KernelOperation, *, is_read: bool) -> None:
    """An IFM2 that accumulators begin with."""
    if (ifm2 is not None) != is_read:
        raise broken("IFM2", "given where accumulators begin with it, and only there", "none" if ifm2 is None else "one")
    if ifm2 is not None:
        ofm = operation.ofm
        _check_extent(ifm2, (ofm.height, ofm.width, ofm.depth))


def _check_extent(ifm2: FeatureMap, extent: tuple[int, int, int]) -> None:
    got = ifm2.height, ifm2.width, ifm2.depth
    if got != extent:
        raise broken("IFM2", f"of extent {extent}", got)


def _check_elementwise(operation: Elementwise) -> None:
    mode = operation.mode
    operands = (operation.ifm2 is not None) + operation.has_scalar
    if operands != (0 if mode.is_unary else 1):
        raise broken(mode.name, "given IFM2 or a scalar unless unary", operands)
    if operation.is_reversed and not operation.has_scalar:
        raise broken("operand order", "unreversed without a scalar", "reversed")
    if not operation.has_scalar and operation.scalar_zero_point:
        raise broken("scalar zero point", "0 without a scalar", operation.scalar_zero_point)
    scaling = operation.operand_scaling, operation.operand_rounding, operation.opa_scale, operation.opb_scale
    if scaling != _UNSCALED:
        raise broken("operand scaling", "left at its defaults, as each operand has a scale of its own", scaling[0].name)
    has_second = not mode.is_unary or mode is ElementwiseMode.LRELU
    if operation.ifm_scale is None or (operation.ifm2_scale is not None) != has_second:
        rule = "of the IFM, and of the second operand where there is one or of negative numbers"
        raise broken("operand scales", rule, (operation.ifm_scale, operation.ifm2_scale))


def _check_axis(axis: ResizeAxis, name: str) -> None:
    if not 0 < axis.scale <= LARGEST_SCALE:
        raise broken(f"{name} scale", f"in [1, {LARGEST_SCALE}]", axis.scale)


def _check_dma(operation: Dma) -> None:
    stride = operation.stride
    if stride < DmaStride.ROWS and operation.rows != 1:
        raise broken("rows", "1 without row stride", operation.rows)
    if stride < DmaStride.PLANES and operation.planes != 1:
        raise broken("planes", "1 without plane stride", operation.planes)
    if operation.row_skip_bytes or operation.plane_skip_bytes:
        raise broken("skips", "0, as each side has steps", (operation.row_skip_bytes, operation.plane_skip_bytes))
    if operation.indices is not None and operation.indices.skip_bytes and stride < DmaStride.PLANES:
        raise broken("skip of indices", "0 without plane stride", operation.indices.skip_bytes)
    is_stepping = stride is not DmaStride.CONTIGUOUS, operation.indices is not None
    for name, side, is_indexed in (
        ("source", operation.source, is_stepping[1] and not _is_of_destination(operation)),
        ("destination", operation.destination, is_stepping[1] and _is_of_destination(operation)),
    ):
        _check_side(side, name, stride, is_stepping=is_stepping[0] or is_indexed)


def _is_of_destination(operation: Dma) -> bool:
    return operation.indices is not None and operation.indices.is_of_destination


def _check_side(side: DmaSide, name: str, stride: DmaStride, *, is_stepping: bool) -> None:
    if side.region is None:
        if side.steps is not None or side.stride is not DmaStride.CONTIGUOUS or side.core_mask != 1:
            raise broken(name, "without stride, steps and other cores in the memory of tables", side)
        return
    if side.core_mask != 3:
        raise broken(f"{name} core mask", "left at 3 outside the memory of tables", side.core_mask)
    if side.stride is not stride:
        raise broken(f"{name} stride", f"that of both sides, {stride.name}", side.stride.name)
    if (side.steps is not None) != is_stepping:
        raise broken(f"{name} steps", "given where rows are strided or numbered, and only there", side.steps)
    if side.steps is not None and side.steps[1] and stride is not DmaStride.PLANES:
        raise broken(f"{name} steps", "without one of planes", side.steps)
