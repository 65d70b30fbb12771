"""What an operation must satisfy to be one that Ethos-U55 or Ethos-U65 accepts: the only place for these rules.

Decoder and encoder both apply them, so neither passes on what the other refuses. They also fix the canonical form: a value that
an operation ignores has its default, which makes `decode(encode(operations)) == operations` hold.
"""

from __future__ import annotations

from operator import attrgetter
from typing import NoReturn

from npu.errors import StreamError
from npu.hardware.variant import Variant
from npu.isa.operations import (
    IDENTITY,
    ActivationFunction,
    AddressRange,
    Block,
    ClipRange,
    DepthwiseConvolution,
    Dma,
    DmaSide,
    DmaStride,
    ElementType,
    Elementwise,
    FeatureMap,
    KernelOperation,
    Layout,
    OperandScaling,
    Operation,
    Pooling,
    PoolingMode,
    Resizing,
    Rounding,
    Scale,
    WeightedOperation,
    WindowOperation,
    ifm_plane,
)

ALIGNMENT_BYTES = 16
"""Of addresses and lengths."""
MAX_EXTENT = 1 << 16
"""Largest height, width or depth of a feature map or a tile: what the registers can say."""
_SIZES = ("height", "width", "depth", "tile_height_0", "tile_height_1", "tile_width_0")
_SIZES_OF = attrgetter(*_SIZES)
_EXTENTS = ("height", "width", "depth")
_EXTENTS_OF = attrgetter(*_EXTENTS)
_BANKS = ("ifm_end", "accumulator_start", "ifm2_start")
_BANKS_OF = attrgetter(*_BANKS)


def check_operation(operation: Operation, variant: Variant) -> None:
    """Raise StreamError if the hardware of `variant` does not accept `operation`, or if it is not in canonical form."""
    if isinstance(operation, Resizing) or (isinstance(operation, KernelOperation) and operation.options is not None):
        raise broken(
            "operation", f"one that {variant.accelerator.product.name} has", f"{type(operation).__name__} of another NPU"
        )
    if isinstance(operation, KernelOperation):
        _check_kernel_operation(operation, variant)
    if isinstance(operation, WindowOperation):
        check_window(operation)
    if isinstance(operation, WeightedOperation):
        _check_weights(operation, variant)
    if isinstance(operation, Pooling):
        _check_pooling(operation)
    if isinstance(operation, Elementwise):
        _check_elementwise(operation, variant)
    if isinstance(operation, Dma):
        _check_dma(operation, variant)


def broken(what: str, rule: str, got: object) -> StreamError:
    return StreamError(f"{what}: must be {rule}, got {got}")


def _check_kernel_operation(operation: KernelOperation, variant: Variant) -> None:
    address_bits = variant.accelerator.address_bits
    check_feature_map(operation.ifm, "IFM", address_bits)
    check_feature_map(operation.ofm, "OFM", address_bits)
    block, limit, unit = operation.block, variant.accelerator.max_block, variant.accelerator.ofm_ublock
    if (
        block.height % unit.height
        or block.width % unit.width
        or block.depth % unit.depth
        or not (0 < block.height <= limit.height and 0 < block.width <= limit.width and 0 < block.depth <= limit.depth)
    ):
        _refuse_block(block, variant)
    banks = _BANKS_OF(operation.shram)
    if min(banks) < 0 or max(banks) > variant.shram.banks:
        name, bank = next(one for one in zip(_BANKS, banks, strict=True) if not 0 <= one[1] <= variant.shram.banks)
        raise broken(f"SHRAM {name}", f"in [0, {variant.shram.banks}]", bank)
    _check_activation(operation)


def _refuse_block(block: Block, variant: Variant) -> NoReturn:
    limits, units = _EXTENTS_OF(variant.accelerator.max_block), _EXTENTS_OF(variant.accelerator.ofm_ublock)
    rows = list(zip(_EXTENTS, _EXTENTS_OF(block), limits, units, strict=True))
    axis, size, limit, unit = next(row for row in rows if not 0 < row[1] <= row[2] or row[1] % row[3])
    if not 0 < size <= limit:
        raise broken(f"block {axis}", f"in [1, {limit}]", size)
    raise broken(f"block {axis}", f"a multiple of the micro-block's {unit}", size)


def _check_activation(operation: KernelOperation) -> None:
    activation, element = operation.activation, operation.ofm.element
    check_pattern(activation.minimum, element, "activation minimum")
    check_pattern(activation.maximum, element, "activation maximum")
    is_unclipped = element.bits == 32 and activation.clip_range is ClipRange.OFM_PRECISION
    if is_unclipped and activation.function is not ActivationFunction.NONE:
        raise broken("activation function", "NONE for an unclipped 32-bit OFM", activation.function.name)


def check_feature_map(feature_map: FeatureMap, name: str, address_bits: int) -> None:
    sizes = _SIZES_OF(feature_map)
    if min(sizes) <= 0 or max(sizes) > MAX_EXTENT:
        axis, size = next(one for one in zip(_SIZES, sizes, strict=True) if not 0 < one[1] <= MAX_EXTENT)
        raise broken(f"{name} {axis}", f"in [1, {MAX_EXTENT}]", size)
    check_pattern(feature_map.zero_point, feature_map.element, f"{name} zero point")
    is_brick = feature_map.layout is Layout.NHCWB16
    alignment = ALIGNMENT_BYTES if is_brick else feature_map.element.bytes
    joined = 0  # alignments are powers of two
    for address in feature_map.addresses:
        joined |= address
    if joined % alignment or joined >> address_bits:
        for tile, address in enumerate(feature_map.addresses):
            check_address(address, f"{name} address of tile {tile}", alignment, address_bits)
    if is_brick and (feature_map.stride_y | feature_map.stride_c) % ALIGNMENT_BYTES:
        strides = {"stride_y": feature_map.stride_y, "stride_c": feature_map.stride_c}
        axis, stride = next(one for one in strides.items() if one[1] % ALIGNMENT_BYTES)
        raise broken(f"{name} {axis}", f"a multiple of {ALIGNMENT_BYTES}", stride)


def check_address(address: int, name: str, alignment: int, address_bits: int) -> None:
    if address % alignment:
        raise broken(name, f"a multiple of {alignment}", address)
    if address >> address_bits:
        raise broken(name, f"of at most {address_bits} bits", address)


def check_pattern(value: int, element: ElementType, name: str) -> None:
    low, high = element.register_limits
    if not low <= value <= high:
        raise broken(name, f"in [{low}, {high}]", value)


def check_window(operation: WindowOperation) -> None:
    ofm = operation.ofm
    if isinstance(operation, DepthwiseConvolution) and operation.ifm.depth != ofm.depth:
        raise broken("IFM depth", f"the OFM depth {ofm.depth}", operation.ifm.depth)
    height, width = ifm_plane(ofm.height, ofm.width, operation.kernel, operation.padding, operation.upscale)
    rule = "what OFM, kernel and padding imply: {}"
    if operation.ifm.height != height:
        raise broken("IFM height", rule.format(height), operation.ifm.height)
    if operation.ifm.width != width:
        raise broken("IFM width", rule.format(width), operation.ifm.width)


def _check_weights(operation: WeightedOperation, variant: Variant) -> None:
    cores = variant.accelerator.cores
    if operation.ifm.element.bits not in (8, 16):
        raise broken("IFM element", "8 or 16 bits of a convolution", operation.ifm.element)
    for name, ranges in (("weights", operation.weights), ("scales", operation.scales)):
        if not 1 <= len(ranges) <= cores:
            raise broken(name, f"ranges for 1 to {cores} core(s)", len(ranges))
        for core, one in enumerate(ranges):
            check_range(one, f"{name} of core {core}", variant.accelerator.address_bits)
            if one.region != ranges[0].region:
                raise broken(f"{name} of core {core}", "in the region of core 0", one.region)
    if len(operation.weights) != len(operation.scales):
        raise broken("scales", "one range per weight stream", len(operation.scales))


def check_range(one: AddressRange, name: str, address_bits: int) -> None:
    check_address(one.address, f"{name} address", ALIGNMENT_BYTES, address_bits)
    is_length = one.length_bytes > 0 and one.length_bytes % ALIGNMENT_BYTES == 0
    if not is_length:
        raise broken(f"{name} length", f"a positive multiple of {ALIGNMENT_BYTES}", one.length_bytes)


def _check_pooling(operation: Pooling) -> None:
    ifm, ofm = operation.ifm, operation.ofm
    if operation.mode is not PoolingMode.REDUCE_SUM and ifm.depth != ofm.depth:
        raise broken("IFM depth", f"the OFM depth {ofm.depth}", ifm.depth)
    is_counted = operation.mode is PoolingMode.AVERAGE and not operation.padding.is_none
    if is_counted and operation.scale == IDENTITY:
        raise StreamError("scale: must be None for an AVERAGE with padding that divides by its own count, got a scale of 1")


def _check_elementwise(operation: Elementwise, variant: Variant) -> None:
    ifm, ofm, ifm2 = operation.ifm, operation.ofm, operation.ifm2
    extent = (ofm.height, ofm.width, ofm.depth)
    if (ifm.height, ifm.width, ifm.depth) != extent:
        raise broken("IFM", f"of the OFM's extent {extent}", (ifm.height, ifm.width, ifm.depth))
    operands = (ifm2 is not None) + (operation.scalar is not None)
    if operands != (0 if operation.mode.is_unary else 1):
        raise broken(operation.mode.name, "given IFM2 or a scalar unless unary", operands)
    if ifm2 is not None:
        _check_ifm2(ifm, ifm2, variant.accelerator.address_bits)
    if operation.scalar is not None:
        check_pattern(operation.scalar, ifm.element, "scalar")
    check_pattern(operation.scalar_zero_point, ifm.element, "scalar zero point")
    if operation.scalar is None and operation.scalar_zero_point != 0:
        raise broken("scalar zero point", "0 without a scalar", operation.scalar_zero_point)
    if operation.mode.is_unary and operation.is_reversed:
        raise broken("operand order", "unreversed for a unary mode", "reversed")
    if operation.mode.is_unary and operation.shram.ifm2_start != 0:
        raise broken("SHRAM ifm2_start", "0 for a unary mode", operation.shram.ifm2_start)
    _check_operand_scales(operation)


def _check_ifm2(ifm: FeatureMap, ifm2: FeatureMap, address_bits: int) -> None:
    check_feature_map(ifm2, "IFM2", address_bits)
    if ifm2.element != ifm.element:
        raise broken("IFM2 element", f"the IFM's {ifm.element}", ifm2.element)
    for axis in ("height", "width", "depth"):
        size, full = getattr(ifm2, axis), getattr(ifm, axis)
        if size not in (1, full):
            raise broken(f"IFM2 {axis}", f"1 or the IFM's {full}", size)


def _check_operand_scales(operation: Elementwise) -> None:
    scaling, opa, opb = operation.operand_scaling, operation.opa_scale, operation.opb_scale
    if not operation.mode.scales_operands:
        defaults = (OperandScaling.BOTH_16, Rounding.DOUBLE, Scale(0, 0), 0)
        if (scaling, operation.operand_rounding, opa, opb) != defaults:
            raise broken("operand scaling", f"left at its defaults for {operation.mode.name}", (scaling.name, opa, opb))
    elif scaling is OperandScaling.BOTH_16:
        if opa.scale >= 1 << 16 or opa.shift != 0:
            raise broken("operand A scale", "16 bits without shift for BOTH_16", opa)
    elif opb != 0:
        raise broken("operand B scale", f"0 for {scaling.name}", opb)


def _check_dma(operation: Dma, variant: Variant) -> None:
    sides = {"source": operation.source, "destination": operation.destination}
    needs_alignment, address_bits = variant.accelerator.has_aligned_dma, variant.accelerator.address_bits
    for name, side in sides.items():
        _check_dma_side(side, name, needs_alignment=needs_alignment)
        if side.address >> address_bits:
            raise broken(f"{name} address", f"of at most {address_bits} bits", side.address)
    touches_shram = any(side.region is None for side in sides.values())
    is_aligned = operation.length_bytes % ALIGNMENT_BYTES == 0 or not (needs_alignment or touches_shram)
    if operation.length_bytes <= 0 or not is_aligned:
        raise broken("length", f"a positive multiple of {ALIGNMENT_BYTES}", operation.length_bytes)
    stride = operation.stride
    if operation.rows <= 0 or operation.planes <= 0:
        raise broken("rows and planes", "positive", (operation.rows, operation.planes))
    if stride < DmaStride.ROWS and (operation.rows != 1 or operation.row_skip_bytes != 0):
        raise broken("rows", "1 without row stride", operation.rows)
    if stride < DmaStride.PLANES and (operation.planes != 1 or operation.plane_skip_bytes != 0):
        raise broken("planes", "1 without plane stride", operation.planes)


def _check_dma_side(side: DmaSide, name: str, *, needs_alignment: bool) -> None:
    if (needs_alignment or side.region is None) and side.address % ALIGNMENT_BYTES:
        raise broken(f"{name} address", f"a multiple of {ALIGNMENT_BYTES}", side.address)
    if side.region is not None and side.core_mask != 3:
        raise broken(f"{name} core mask", "left at 3 outside SHRAM", side.core_mask)
