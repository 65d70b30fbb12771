"""The family of Ethos-U85."""

from __future__ import annotations

from npu.hardware.variant import Product
from npu.isa.ethos_u85.commands import (
    COMMANDS,
    DMA,
    DMA_INDICES,
    DMA_PLANES,
    DMA_ROW_STEPS,
    DMA_ROWS,
    EXTENT,
    IFM,
    IFM2_ZERO_POINT,
    KERNEL,
    OPERANDS,
    RESIZE,
    SECOND_INPUT,
    SECOND_OPERAND,
    WEIGHTS,
    WINDOW,
)
from npu.isa.ethos_u85.latch import start
from npu.isa.ethos_u85.scale_records import decode_scales
from npu.isa.ethos_u85.weights import decode
from npu.isa.family import Family, FamilyArithmetic, RegisterSection, ScaleFormat, WeightFormat
from npu.isa.operations import (
    Convolution,
    Dma,
    DmaStride,
    Elementwise,
    KernelOperation,
    Pooling,
    Resizing,
    WeightedOperation,
    WindowOperation,
)
from npu.isa.shram import LUT_SLOT_BYTES
from npu.machine.rules import SCALE_RECORD_BYTES


def _has_weights(operation: WeightedOperation) -> bool:
    return bool(operation.weights)


def _has_second_input(operation: Convolution | Pooling) -> bool:
    return operation.ifm2 is not None


def _is_binary(operation: Elementwise) -> bool:
    return not operation.mode.is_unary


def _has_rows(operation: Dma) -> bool:
    return operation.stride >= DmaStride.ROWS


def _steps(operation: Dma) -> bool:
    return _has_rows(operation) or _has_indices(operation)


def _has_planes(operation: Dma) -> bool:
    return operation.stride >= DmaStride.PLANES


def _has_indices(operation: Dma) -> bool:
    return operation.indices is not None


ETHOS_U85 = Family(
    products={Product.ETHOS_U85: "U85"},
    architecture_id=0x20007000,  # as Vela 5.2 writes it
    stream_version=1,
    commands=COMMANDS,
    sections=(
        RegisterSection(KernelOperation, IFM),
        RegisterSection(KernelOperation, KERNEL),
        RegisterSection(WindowOperation, EXTENT),
        RegisterSection(Resizing, EXTENT),
        RegisterSection(WindowOperation, WINDOW),
        RegisterSection(WeightedOperation, WEIGHTS, _has_weights),
        RegisterSection(Convolution, SECOND_INPUT, _has_second_input),
        RegisterSection(Convolution, IFM2_ZERO_POINT, _has_second_input),
        RegisterSection(Pooling, SECOND_INPUT, _has_second_input),
        RegisterSection(Pooling, IFM2_ZERO_POINT, _has_second_input),
        RegisterSection(Elementwise, OPERANDS),
        RegisterSection(Elementwise, SECOND_INPUT, _is_binary),
        RegisterSection(Elementwise, IFM2_ZERO_POINT, _is_binary),
        RegisterSection(Elementwise, SECOND_OPERAND),
        RegisterSection(Resizing, RESIZE),
        RegisterSection(Resizing, IFM2_ZERO_POINT),
        RegisterSection(Dma, DMA),
        RegisterSection(Dma, DMA_ROWS, _has_rows),
        RegisterSection(Dma, DMA_ROW_STEPS, _steps),
        RegisterSection(Dma, DMA_PLANES, _has_planes),
        RegisterSection(Dma, DMA_INDICES, _has_indices),
    ),
    start=start,
    check=None,
    buffers=None,
    weights=WeightFormat(decode),
    scales=ScaleFormat(SCALE_RECORD_BYTES, decode_scales),
    arithmetic=FamilyArithmetic(operand_shifts={}, unscaled_bits=32, table_slot_bytes=LUT_SLOT_BYTES),
    has_fixed_places=False,
)
