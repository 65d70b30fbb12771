"""How fast the output unit is: which row of the rate table holds for an operation, and the cycles of an element."""

from __future__ import annotations

from npu.hardware.variant import Variant


def elementwise_rank(
    ifm_bits: int,
    ofm_bits: int,
    *,
    is_unary: bool = False,
    is_multiplication: bool = False,
    scales_operands: bool = False,
    scales_both_alike: bool = False,
) -> str:
    """The field of `OutputCycles` for an elementwise operation; `scales_both_alike`: ADD or SUB with two 16-bit scales."""
    if ifm_bits == 32:
        return "elementwise_32_bit_unary" if is_unary else "elementwise_32_bit_binary"
    if is_multiplication:
        return "mul_32_bit_ofm" if ofm_bits == 32 else "mul_or_40_bit_accumulator"
    if scales_operands:
        return "add_sub_simple" if scales_both_alike else "add_sub"
    return "other"


def window_rank(*, is_pooling: bool, is_max_pooling: bool, has_40_bit_accumulators: bool) -> str:
    """The field of `OutputCycles` for what slides a window."""
    if is_max_pooling:
        return "max_pool"
    return "mul_or_40_bit_accumulator" if has_40_bit_accumulators and not is_pooling else "other"


def element_cycles(
    variant: Variant, rank: str, *, has_function: bool, has_clamp: bool, has_nhwc_operand: bool = False
) -> float:
    """Cycles per element of the busiest core; activation, a table or a clamp, works beside the rest.

    ADD and SUB, which scale their operands, take longer for operands that are stored in NHWC.
    """
    cycles = variant.timing.output_cycles
    activation = cycles.activation_lut if has_function else cycles.activation_clamp if has_clamp else 0.0
    rate: float = getattr(cycles, rank)
    if has_nhwc_operand and rank in ("add_sub", "add_sub_simple"):
        rate *= variant.timing.nhwc_operand_factor
    return max(rate, activation) * variant.accelerator.cores
