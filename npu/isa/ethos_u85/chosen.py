"""Operations of Ethos-U55 as operations of Ethos-U85 that compute the same.

What Ethos-U55 scales, clamps or leaves alone by its own rules is said in full: a scale for each operand, no zero point where
there is none, a clamp or none. An average by a given scale is a sum. A resize, which Ethos-U55 lacks, has all but a
micro-block.
"""

from __future__ import annotations

from typing import Any

from npu.errors import StreamError
from npu.isa.ethos_u55_u65 import ETHOS_U55_U65
from npu.isa.operations import (
    IDENTITY,
    AccumulatorFormat,
    Activation,
    Block,
    ClipRange,
    Convolution,
    DepthwiseConvolution,
    Dma,
    DmaSide,
    Elementwise,
    ElementwiseMode,
    FeatureMap,
    KernelOperation,
    KernelOptions,
    OperandScale,
    OperandScaling,
    Operation,
    Pooling,
    PoolingMode,
    Resizing,
    Rounding,
    Scale,
    ShramLayout,
)
from npu.records import replace

SCALE_BITS = 31
"""Of the scale of an OFM."""
_NO_SHRAM = ShramLayout(0, 0)
_LARGEST_SCALE = (1 << SCALE_BITS) - 1
_UNIT = OperandScale()
_DIVIDED = Scale(1 << 30, 30)
"""Of an average that divides by its own count, as Vela writes it."""
_MODES_WITH_SCALE = (ElementwiseMode.MUL, ElementwiseMode.ADD, ElementwiseMode.SUB, ElementwiseMode.ABS)


def chosen(operation: Operation, ublock: Block | None) -> Operation:
    """An operation of Ethos-U55 as one of Ethos-U85, with this micro-block if it has one.

    StreamError if there is none that computes the same.
    """
    if isinstance(operation, Dma):
        return replace(operation, source=_side(operation.source), destination=_side(operation.destination))
    if not isinstance(operation, KernelOperation):
        return operation
    assert ublock is not None
    looks_up = operation.activation.function.lut_index is not None
    halvings = 0 if operation.scale is None else _halvings(operation.scale)
    if operation.scale is not None and halvings:
        halved = Scale(operation.scale.scale >> halvings, operation.scale.shift - halvings)
        operation = replace(operation, scale=halved)
    common: dict[str, Any] = {
        "shram": _NO_SHRAM,
        "options": replace(operation.options or KernelOptions(ublock), ublock=ublock, double_shift=halvings),
        "ifm": _map(operation.ifm),
        "ofm": operation.ofm if looks_up else _map(operation.ofm),
        "activation": _activation(operation),
        "accumulator": _accumulator(operation),
    }
    if isinstance(operation, Convolution | DepthwiseConvolution | Resizing):
        return replace(operation, **common)
    if isinstance(operation, Pooling):
        return replace(operation, **common) if operation.mode is PoolingMode.SUM else _pooling(operation, common)
    assert isinstance(operation, Elementwise)
    return _elementwise(operation, common)


def _halvings(scale: Scale) -> int:
    """How many times a scale is halved to have 31 bits; as many bits earlier, DOUBLE rounds first, then."""
    count, number = 0, scale.scale
    while number > _LARGEST_SCALE and number % 2 == 0 and count < scale.shift:
        count, number = count + 1, number // 2
    return count


def _side(side: DmaSide) -> DmaSide:
    """There is one memory of tables."""
    return side if side.region is not None else replace(side, core_mask=1)


def _is_unscaled(fm: FeatureMap) -> bool:
    """Whether Ethos-U55 knows no zero point of it, and only shifts it."""
    return fm.element.bits >= ETHOS_U55_U65.arithmetic.unscaled_bits


def _map(fm: FeatureMap) -> FeatureMap:
    return replace(fm, zero_point=0) if _is_unscaled(fm) and fm.zero_point else fm


def _accumulator(operation: KernelOperation) -> AccumulatorFormat:
    return AccumulatorFormat.INT32 if operation.accumulator is AccumulatorFormat.INT32 else AccumulatorFormat.INT48


def _activation(operation: KernelOperation) -> Activation:
    """The clamp is that of the limits alone, or none."""
    activation, element = operation.activation, operation.ofm.element
    if activation.clip_range is not ClipRange.OFM_PRECISION:
        return activation  # of a table, by which entries are as wide as those of the OFM
    if _is_unscaled(operation.ofm):
        return Activation(*element.register_limits, clip_range=ClipRange.NONE)
    low, high = max(activation.minimum, element.minimum), min(activation.maximum, element.maximum)
    return Activation(min(low, element.maximum), max(high, element.minimum), activation.function, ClipRange.LIMITS)


def _pooling(operation: Pooling, common: dict[str, Any]) -> Pooling:
    scale, mode = operation.scale, operation.mode
    if mode is PoolingMode.MAX:
        return replace(operation, scale=IDENTITY, **common)
    if mode is PoolingMode.AVERAGE:
        if scale is None or not operation.padding.is_none:
            return replace(operation, scale=_DIVIDED, **common)
        mode = PoolingMode.SUM
    return replace(operation, mode=mode, scale=scale or IDENTITY, **common)


def _elementwise(operation: Elementwise, common: dict[str, Any]) -> Elementwise:
    mode, scale = operation.mode, operation.scale or IDENTITY
    first, second = _operand_scales(operation)
    is_unscaled = _is_unscaled(operation.ifm)
    if is_unscaled:
        scale = Scale(1, scale.shift)
    if mode is ElementwiseMode.LRELU:
        first = operation.ifm_scale or _UNIT
        second = OperandScale(scale.scale, scale.shift, _of_operand(operation.rounding))
    ifm2 = None if operation.ifm2 is None else _map(operation.ifm2)
    if operation.is_reversed and ifm2 is not None:  # the first operand is the IFM
        common["ifm"], ifm2 = ifm2, common["ifm"]
    elif operation.is_reversed:
        first, second = second, first
    return replace(
        operation,
        ifm2=ifm2,
        is_reversed=operation.is_reversed and ifm2 is None,
        scalar_zero_point=0 if is_unscaled else operation.scalar_zero_point,
        operand_scaling=OperandScaling.BOTH_16,
        operand_rounding=Rounding.DOUBLE,
        opa_scale=Scale(0, 0),
        opb_scale=0,
        ifm_scale=first,
        ifm2_scale=None if mode.is_unary and mode is not ElementwiseMode.LRELU else second,
        scale=scale if mode in _MODES_WITH_SCALE else IDENTITY,
        **common,
    )


def _operand_scales(operation: Elementwise) -> tuple[OperandScale, OperandScale]:
    """Of operand A and operand B."""
    if _is_unscaled(operation.ifm) or not operation.mode.scales_operands:
        return _UNIT, _UNIT
    opa, opb, scaling = operation.opa_scale, operation.opb_scale, operation.operand_scaling
    if scaling is OperandScaling.BOTH_16:
        return OperandScale(opa.scale), OperandScale(opb)
    left = ETHOS_U55_U65.arithmetic.operand_shifts[operation.ifm.element.bits]
    scaled = OperandScale(opa.scale, opa.shift, _of_operand(operation.operand_rounding), left)
    other = OperandScale(1 << (left - 1))
    return (scaled, other) if scaling is OperandScaling.A_32 else (other, scaled)


def _of_operand(rounding: Rounding) -> Rounding:
    if rounding not in (Rounding.DOUBLE, Rounding.NATURAL):
        raise StreamError(f"operand rounding: must be DOUBLE or NATURAL, got {rounding.name}")
    return rounding
