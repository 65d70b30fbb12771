"""Operators of one operand that act on every value alone: rectifiers, tables, requantisation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu.compiler.lower.activation_tables import INPUTS, as_bytes, table_bytes
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.quantise import divide_away, rectifier_bounds, register_scale, rule_a
from npu.graph.attributes import LeakyReluOptions
from npu.graph.graph import Op
from npu.numerics.scaling import quantise_multiplier


def lower_rectifier(builder: Builder, op: Op) -> None:
    """RELU, RELU6, RELU_N1_TO_1: requantise with a factor made in float32, then clamp; TFLite's QuantizedReluX."""
    source, target = op.inputs[0], op.outputs[0]
    minimum, maximum = rectifier_bounds(op.kind, builder.scale(target), builder.zero_point(target))
    scale = register_scale(float(builder.scale(source) / builder.scale(target)))
    x = builder.input(source, builder.zero_point(source))
    builder.requantise(x, builder.output(target, builder.zero_point(target)), scale, minimum, maximum)


def lower_table(builder: Builder, op: Op) -> None:
    """LOGISTIC, TANH: one look-up."""
    source, target = op.inputs[0], op.outputs[0]
    table = table_bytes(op.kind, builder.affine(source), builder.affine(target))
    builder.look_up(builder.input(source), builder.output(target), table)


def lower_quantize(builder: Builder, op: Op) -> None:
    """QUANTIZE int8 to int8; the factor is made in double."""
    source, target = op.inputs[0], op.outputs[0]
    scale = register_scale(float(builder.scale(source)) / float(builder.scale(target)))
    x = builder.input(source, builder.zero_point(source))
    builder.requantise(x, builder.output(target, builder.zero_point(target)), scale)


def lower_leaky_relu(builder: Builder, op: Op) -> None:
    """LEAKY_RELU: a table of both branches; TFLite's QuantizeLeakyRelu."""
    options = op.attributes
    assert isinstance(options, LeakyReluOptions)
    source, target = op.inputs[0], op.outputs[0]
    ratio = float(builder.scale(source) / builder.scale(target))
    slope = float(builder.scale(source) * np.float32(options.alpha) / builder.scale(target))
    x = INPUTS - builder.zero_point(source)
    values = np.where(x >= 0, rule_a(x, ratio), rule_a(x, slope)) + builder.zero_point(target)
    builder.look_up(builder.input(source), builder.output(target), as_bytes(values))


def lower_abs(builder: Builder, op: Op) -> None:
    """ABS: a table of the requantised magnitudes."""
    source, target = op.inputs[0], op.outputs[0]
    size = abs(INPUTS - builder.zero_point(source))
    scales = builder.scale(source), builder.scale(target)
    values = size if scales[0] == scales[1] else rule_a(size, float(scales[0] / scales[1]))
    builder.look_up(builder.input(source), builder.output(target), as_bytes(values + builder.zero_point(target)))


def lower_hard_swish(builder: Builder, op: Op) -> None:
    """HARD_SWISH: a table of the reference kernel's 16-bit arithmetic."""
    source, target = op.inputs[0], op.outputs[0]
    values = hard_swish(INPUTS - builder.zero_point(source), builder.scale(source), builder.scale(target))
    builder.look_up(builder.input(source), builder.output(target), as_bytes(values + builder.zero_point(target)))


def hard_swish(x: npt.NDArray[np.int64], source: np.float32, target: np.float32) -> npt.NDArray[np.int64]:
    """x * relu6(x + 3) / 6 in 16-bit fixed point; TFLite's reference HardSwish."""
    fine = np.float32(1 / 128) * source
    out_multiplier, out_exponent = _short_multiplier(float(fine / target))
    gate_multiplier, gate_exponent = _short_multiplier(float(fine / np.float32(3 / 32768)))
    scaled = _high_mul_16(x << 7, out_multiplier)
    gate = x << 7
    if gate_exponent > 0:
        gate = _saturate_16(gate << (gate_exponent - 1))
    gate = _high_mul_16(gate, gate_multiplier)
    gate = _saturate_16(gate << 1) if gate_exponent > 0 else divide_away(gate, -gate_exponent)
    gate = (gate + (1 << 15)) >> 1
    product = gate * scaled
    product = np.where(product >= 0, product >> 15, -(-product >> 15))
    return divide_away(product, max(-out_exponent, 0))


def _short_multiplier(real: float) -> tuple[int, int]:
    """A 16-bit multiplier and its exponent; TFLite's DownScaleInt32ToInt16Multiplier."""
    multiplier, exponent = quantise_multiplier(real)
    return min((multiplier + (1 << 15)) >> 16, (1 << 15) - 1), exponent


def _saturate_16(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.clip(values, -(1 << 15), (1 << 15) - 1)


def _high_mul_16(values: npt.NDArray[np.int64], multiplier: int) -> npt.NDArray[np.int64]:
    """values * multiplier / 2**15 to nearest, ties toward plus infinity."""
    return _saturate_16((values * multiplier + (1 << 14)) >> 15)
