"""The scales of steps as the registers and records of a family hold them."""

from __future__ import annotations

import numpy as np

from npu.compiler.ir import ConvolutionStep, Step, StepWeights
from npu.isa.family import FamilyArithmetic
from npu.isa.operations import Rounding, Scale
from npu.records import replace

_ONE_ROUNDING = 31
"""Shifts up to which nothing is rounded twice."""


def with_fitting_scales(step: Step, arithmetic: FamilyArithmetic) -> Step | None:
    """The step with scales that there are registers and records for; None if there are none.

    A scale of the OFM may have zeros behind its bits: it is halved where operations are made (`npu.isa.family.Family.chosen`).
    """
    if step.scale is not None:
        scale = step.scale.scale
        bits = scale.bit_length() - min((scale & -scale).bit_length() - 1, step.scale.shift) if scale else 0
        return step if bits <= arithmetic.scale_bits else None
    if isinstance(step, ConvolutionStep):
        bits = arithmetic.scale_bits if step.ifm.element.bits == 8 else arithmetic.wide_scale_bits
        if int(step.weights.scales.max()) >> bits:
            return _with_fitting_records(step, bits, arithmetic.scale_bits)
    return step


def _with_fitting_records(step: ConvolutionStep, bits: int, common_bits: int) -> Step | None:
    """Scales with fewer bits, or one for all channels, which may have more."""
    weights = step.weights
    own = [Scale(int(scale), int(shift)) for scale, shift in zip(weights.scales, weights.shifts, strict=True)]
    halved = {scale: _halved(scale, bits, step.rounding) for scale in dict.fromkeys(own)}
    if None not in halved.values():
        fitting = [halved[scale] or scale for scale in own]
        return replace(step, weights=_with_scales(weights, fitting))
    if len(halved) == 1 and not own[0].scale >> common_bits:
        return replace(step, scale=own[0], weights=_with_scales(weights, [Scale()] * len(own)))
    return None


def _with_scales(weights: StepWeights, scales: list[Scale]) -> StepWeights:
    return replace(
        weights,
        scales=np.array([scale.scale for scale in scales], np.uint32),
        shifts=np.array([scale.shift for scale in scales], np.uint8),
    )


def _halved(scale: Scale, bits: int, rounding: Rounding) -> Scale | None:
    """The same factor with a scale of at most so many bits; None if there is none that rounds in the same way."""
    number, shift = scale.scale, scale.shift
    if number >> bits and rounding is Rounding.DOUBLE and shift > _ONE_ROUNDING:
        return None
    while number >> bits and number % 2 == 0 and shift > 0:
        number, shift = number // 2, shift - 1
    return None if number >> bits else Scale(number, shift)
