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
    Operation,
    WeightedOperation,
    WindowOperation,
)


def _is_kernel(operation: Operation) -> bool:
    return isinstance(operation, KernelOperation)


def _has_global_scale(operation: Operation) -> bool:
    return isinstance(operation, KernelOperation) and operation.has_global_scale


def _is_window(operation: Operation) -> bool:
    return isinstance(operation, WindowOperation)


def _has_weights(operation: Operation) -> bool:
    return isinstance(operation, WeightedOperation)


def _is_binary(operation: Operation) -> bool:
    return isinstance(operation, Elementwise) and not operation.mode.is_unary


def _has_ifm2(operation: Operation) -> bool:
    return isinstance(operation, Elementwise) and operation.ifm2 is not None


def _has_scalar(operation: Operation) -> bool:
    return isinstance(operation, Elementwise) and operation.has_scalar


def _scales_operands(operation: Operation) -> bool:
    return isinstance(operation, Elementwise) and operation.mode.scales_operands


def _scales_both_operands(operation: Operation) -> bool:
    is_both = isinstance(operation, Elementwise) and operation.operand_scaling is OperandScaling.BOTH_16
    return is_both and _scales_operands(operation)


def _is_dma(operation: Operation) -> bool:
    return isinstance(operation, Dma)


def _has_rows(operation: Operation) -> bool:
    return isinstance(operation, Dma) and operation.stride >= DmaStride.ROWS


def _has_planes(operation: Operation) -> bool:
    return isinstance(operation, Dma) and operation.stride >= DmaStride.PLANES


SECTIONS: tuple[RegisterSection, ...] = (
    RegisterSection(_is_kernel, PARALLEL_MODE),
    RegisterSection(_is_kernel, KERNEL),
    RegisterSection(_has_global_scale, GLOBAL_SCALE),
    RegisterSection(_is_kernel, OUTPUT),
    RegisterSection(_is_window, WINDOW),
    RegisterSection(_has_weights, WEIGHTS),
    RegisterSection(_has_weights, WEIGHTS_OF_CORE_1, cores=2),
    RegisterSection(_has_weights, SCALES),
    RegisterSection(_has_weights, SCALES_OF_CORE_1, cores=2),
    RegisterSection(_is_binary, BROADCAST),
    RegisterSection(_has_ifm2, IFM2),
    RegisterSection(_has_scalar, SCALAR),
    RegisterSection(_is_binary, SECOND_OPERAND),
    RegisterSection(_scales_operands, OPERAND_SCALE),
    RegisterSection(_scales_both_operands, OPERAND_SCALE_B),
    RegisterSection(_is_dma, DMA),
    RegisterSection(_has_rows, DMA_ROWS),
    RegisterSection(_has_planes, DMA_PLANES),
)
"""All registers, in the order in which they are written before a kick-off."""
