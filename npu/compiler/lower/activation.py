"""Operators of one operand that act on every value alone: rectifiers, tables, requantisation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu.compiler.lower.activation_tables import INPUTS, ActivationTable, as_bytes, table_bytes
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.quantise import rectifier_bounds, register_scale
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
    table = table_bytes(ActivationTable[op.kind], builder, op.inputs[0], op.outputs[0])
    builder.look_up(builder.input(op.inputs[0]), builder.output(op.outputs[0]), table)


def lower_quantize(builder: Builder, op: Op) -> None:
    """QUANTIZE int8 to int8; the factor is made in double."""
    source, target = op.inputs[0], op.outputs[0]
    scale = register_scale(float(builder.scale(source)) / float(builder.scale(target)))
    x = builder.input(source, builder.zero_point(source))
    builder.requantise(x, builder.output(target, builder.zero_point(target)), scale)


def lower_leaky_relu(builder: Builder, op: Op) -> None:
    """LEAKY_RELU: a table of both branches; TFLite's QuantizeLeakyRelu."""
    options = op.attributes
    if not isinstance(options, LeakyReluOptions):
        raise builder.error(op, "must have LeakyReluOptions")
    source, target = op.inputs[0], op.outputs[0]
    ratio = float(builder.scale(source) / builder.scale(target))
    slope = float(builder.scale(source) * np.float32(options.alpha) / builder.scale(target))
    x = INPUTS - builder.zero_point(source)
    values = np.where(x >= 0, rule_a(x, ratio), rule_a(x, slope)) + builder.zero_point(target)
    builder.look_up(builder.input(source), builder.output(target), as_bytes(values))


def rule_a(values: npt.NDArray[np.int64], factor: float) -> npt.NDArray[np.int64]:
    """values * factor with double rounding: TFLite's MultiplyByQuantizedMultiplier over an array."""
    multiplier, exponent = quantise_multiplier(factor)
    product = (values << max(exponent, 0)) * multiplier
    high = (product + (1 << 30)) >> 31
    right = max(-exponent, 0)
    mask = (1 << right) - 1
    return (high >> right) + ((high & mask) > (mask >> 1) + (high < 0))
