"""Which operations read which registers on Ethos-U55 and Ethos-U65: the only place for it. Encoder and verifier ask here."""

from __future__ import annotations

from npu.isa.commands import (
    BROADCAST,
    DMA,
    DMA_PLANES,
    DMA_ROWS,
    GLOBAL_SCALE,
    IFM2,
    KERNEL,
    OPERAND_SCALE,
    OPERAND_SCALE_B,
    OUTPUT,
    PARALLEL_MODE,
    SCALAR,
    SCALES,
    SCALES_OF_CORE_1,
    SECOND_OPERAND,
    WEIGHTS,
    WEIGHTS_OF_CORE_1,
    WINDOW,
)
from npu.isa.family import RegisterSection
from npu.isa.operations import (
    Dma,
    DmaStride,
    Elementwise,
    KernelOperation,
    OperandScaling,
    WeightedOperation,
    WindowOperation,
)


def _has_global_scale(operation: KernelOperation) -> bool:
    return operation.scale is not None


def _is_binary(operation: Elementwise) -> bool:
    return not operation.mode.is_unary


def _has_ifm2(operation: Elementwise) -> bool:
    return operation.ifm2 is not None


def _has_scalar(operation: Elementwise) -> bool:
    return operation.has_scalar


def _scales_operands(operation: Elementwise) -> bool:
    return operation.mode.scales_operands


def _scales_both_operands(operation: Elementwise) -> bool:
    return operation.operand_scaling is OperandScaling.BOTH_16 and _scales_operands(operation)


def _has_rows(operation: Dma) -> bool:
    return operation.stride >= DmaStride.ROWS


def _has_planes(operation: Dma) -> bool:
    return operation.stride >= DmaStride.PLANES


SECTIONS: tuple[RegisterSection, ...] = (
    RegisterSection(KernelOperation, PARALLEL_MODE),
    RegisterSection(KernelOperation, KERNEL),
    RegisterSection(KernelOperation, GLOBAL_SCALE, _has_global_scale),
    RegisterSection(KernelOperation, OUTPUT),
    RegisterSection(WindowOperation, WINDOW),
    RegisterSection(WeightedOperation, WEIGHTS),
    RegisterSection(WeightedOperation, WEIGHTS_OF_CORE_1, cores=2),
    RegisterSection(WeightedOperation, SCALES),
    RegisterSection(WeightedOperation, SCALES_OF_CORE_1, cores=2),
    RegisterSection(Elementwise, BROADCAST, _is_binary),
    RegisterSection(Elementwise, IFM2, _has_ifm2),
    RegisterSection(Elementwise, SCALAR, _has_scalar),
    RegisterSection(Elementwise, SECOND_OPERAND, _is_binary),
    RegisterSection(Elementwise, OPERAND_SCALE, _scales_operands),
    RegisterSection(Elementwise, OPERAND_SCALE_B, _scales_both_operands),
    RegisterSection(Dma, DMA),
    RegisterSection(Dma, DMA_ROWS, _has_rows),
    RegisterSection(Dma, DMA_PLANES, _has_planes),
)
"""All registers, in the order in which they are written before a kick-off."""
