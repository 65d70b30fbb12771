"""The family of Ethos-U85."""

from __future__ import annotations

from collections.abc import Callable

from npu.hardware.variant import Product
from npu.isa.ethos_u85.chosen import SCALE_BITS, chosen
from npu.isa.ethos_u85.commands import (
    COMMANDS,
    DMA,
    DMA_INDICES,
    DMA_PLANES,
    DMA_PLANES_OF_INDICES,
    DMA_ROW_STEPS,
    DMA_ROWS,
    EXTENT,
    FURTHER_WEIGHTS,
    IFM,
    IFM2,
    IFM2_PLACE,
    IFM2_REGION,
    IFM2_SCALE,
    IFM2_ZERO_POINT,
    IFM_DEPTH,
    IFM_PLACE,
    IFM_REGION,
    KERNEL,
    OFM_PLACE,
    OFM_REGION,
    OPERANDS,
    RESIZE,
    SCALAR,
    SECOND_OPERAND,
    WEIGHTS,
    WINDOW,
)
from npu.isa.ethos_u85.hold import first_map, hold, second_map
from npu.isa.ethos_u85.latch import start
from npu.isa.ethos_u85.micro_blocks import BUFFERS
from npu.isa.ethos_u85.rules import check_operation
from npu.isa.ethos_u85.scale_records import decode_scales, encode_scales, scale_bits
from npu.isa.ethos_u85.weights import decode, encode, stand_in, symbols
from npu.isa.family import ConstantWriter, Family, FamilyArithmetic, RegisterSection, ScaleFormat, WeightFormat
from npu.isa.operations import (
    Dma,
    DmaStride,
    Elementwise,
    KernelOperation,
    MapStorage,
    Resizing,
    WeightedOperation,
    WindowOperation,
)
from npu.isa.shram import LUT_SLOT_BYTES
from npu.machine.rules import SCALE_RECORD_BYTES


def _has_weights(operation: WeightedOperation) -> bool:
    return bool(operation.weights)


def _has_more_weights(number: int) -> Callable[[WeightedOperation], bool]:
    """Whether there is a weight stream of this number."""
    return lambda operation: len(operation.weights) > number


def _has_first_map(operation: KernelOperation) -> bool:
    return first_map(operation) is not None


def _places_first_map(operation: KernelOperation) -> bool:
    fm = first_map(operation)
    return fm is not None and fm.is_in_memory


def _has_depth(operation: KernelOperation) -> bool:
    """The operands of an elementwise operation have the channels of the OFM or one; Vela writes those of maps in memory."""
    return not isinstance(operation, Elementwise) or _places_first_map(operation)


def _has_extent(operation: KernelOperation) -> bool:
    """That of a kernel, or of the IFM of a resize."""
    return isinstance(operation, WindowOperation | Resizing)


def _has_ofm(operation: KernelOperation) -> bool:
    return operation.ofm.storage is not MapStorage.NONE


def _places_ofm(operation: KernelOperation) -> bool:
    return operation.ofm.is_in_memory


def _has_second_map(operation: KernelOperation) -> bool:
    return second_map(operation) is not None


def _places_second_map(operation: KernelOperation) -> bool:
    fm = second_map(operation)
    return fm is not None and fm.is_in_memory


def _has_second_input(operation: KernelOperation) -> bool:
    return not operation.mode.is_unary if isinstance(operation, Elementwise) else len(operation.ifms) > 1


def _has_second_zero_point(operation: KernelOperation) -> bool:
    return isinstance(operation, Resizing) or _has_second_input(operation)


def _has_second_scale(operation: Elementwise) -> bool:
    return operation.ifm2_scale is not None


def _has_scalar(operation: Elementwise) -> bool:
    return operation.has_scalar


def _has_rows(operation: Dma) -> bool:
    return operation.stride >= DmaStride.ROWS


def _steps(operation: Dma) -> bool:
    return _has_rows(operation) or _has_indices(operation)


def _has_planes(operation: Dma) -> bool:
    return operation.stride >= DmaStride.PLANES


def _has_indices(operation: Dma) -> bool:
    return operation.indices is not None


def _has_planes_of_indices(operation: Dma) -> bool:
    return _has_planes(operation) and _has_indices(operation)


ETHOS_U85 = Family(
    products={Product.ETHOS_U85: "U85"},
    architecture_id=0x20007000,  # as Vela 5.2 writes it
    stream_version=1,
    commands=COMMANDS,
    sections=(
        RegisterSection(KernelOperation, IFM_REGION, _has_first_map),
        RegisterSection(KernelOperation, IFM_PLACE, _places_first_map),
        RegisterSection(KernelOperation, IFM_DEPTH, _has_depth),
        RegisterSection(KernelOperation, IFM),
        RegisterSection(KernelOperation, OFM_REGION, _has_ofm),
        RegisterSection(KernelOperation, OFM_PLACE, _places_ofm),
        RegisterSection(KernelOperation, KERNEL),
        RegisterSection(KernelOperation, EXTENT, _has_extent),
        RegisterSection(WindowOperation, WINDOW),
        RegisterSection(WeightedOperation, WEIGHTS, _has_weights),
        *(RegisterSection(WeightedOperation, own, _has_more_weights(k)) for k, own in enumerate(FURTHER_WEIGHTS, 1)),
        RegisterSection(KernelOperation, IFM2_REGION, _has_second_map),
        RegisterSection(KernelOperation, IFM2_PLACE, _places_second_map),
        RegisterSection(KernelOperation, IFM2_ZERO_POINT, _has_second_zero_point),
        RegisterSection(KernelOperation, IFM2, _has_second_input),
        RegisterSection(Elementwise, OPERANDS),
        RegisterSection(Elementwise, IFM2_SCALE, _has_second_scale),
        RegisterSection(Elementwise, SCALAR, _has_scalar),
        RegisterSection(Elementwise, SECOND_OPERAND),
        RegisterSection(Resizing, RESIZE),
        RegisterSection(Dma, DMA),
        RegisterSection(Dma, DMA_ROWS, _has_rows),
        RegisterSection(Dma, DMA_ROW_STEPS, _steps),
        RegisterSection(Dma, DMA_PLANES, _has_planes),
        RegisterSection(Dma, DMA_INDICES, _has_indices),
        RegisterSection(Dma, DMA_PLANES_OF_INDICES, _has_planes_of_indices),
    ),
    start=start,
    check=check_operation,
    hold=hold,
    buffers=BUFFERS,
    weights=WeightFormat(decode),
    scales=ScaleFormat(SCALE_RECORD_BYTES, decode_scales),
    constants=ConstantWriter(
        encode=encode,
        stand_in=stand_in,
        encode_scales=encode_scales,
        symbols=symbols,
        weight_streams=lambda accelerator, _channels: accelerator.weight_decoders,
        scale_blocks=lambda _accelerator, _channels: 1,
    ),
    arithmetic=FamilyArithmetic(
        operand_shifts={},
        unscaled_bits=32,
        table_slot_bytes=LUT_SLOT_BYTES,
        scale_bits=SCALE_BITS,
        wide_scale_bits=scale_bits(16),
    ),
    chosen=chosen,
    has_fixed_places=False,
)
