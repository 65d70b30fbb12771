"""Operators of one operand that act on every value alone: rectifiers, requantization, functions through tables."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu.compiler.ir import PoolingStep, View
from npu.compiler.lower.activation_tables import Quantized, real_function
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.quantize import FactorError, register_scale
from npu.graph.attributes import LeakyReluOptions
from npu.graph.graph import Op
from npu.isa.operations import IDENTITY, INT32, ElementwiseMode, PoolingMode, Rounding, Scale
from npu.numerics.sampled import samples_16bit
from npu.numerics.scaling import table_factor
from npu.records import replace


def lower_rectifier(builder: Builder, op: Op) -> None:
    """RELU and its kin: requantize with a factor made in float32, then clamp; TFLite's QuantizedReluX."""
    _requantize(builder, op, float(builder.scale(op.inputs[0]) / builder.scale(op.outputs[0])))


def lower_quantize(builder: Builder, op: Op) -> None:
    """QUANTIZE; the factor is made in double. One that stands for a chain of operators is a table."""
    if op.lookup is not None:
        _look_up(builder, op)
        return
    factor = float(builder.scale(op.inputs[0])) / float(builder.scale(op.outputs[0]))
    if builder.quantized(op.inputs[0]).element is INT32:
        _requantize_32(builder, op, factor)
    elif builder.quantized(op.outputs[0]).element is INT32:
        x = builder.input(op.inputs[0], builder.zero_point(op.inputs[0]))
        builder.elementwise(ElementwiseMode.MUL, x, builder.result(builder.finish(op)), 1, scale=register_scale(factor))
    else:
        _requantize(builder, op, factor)


def _requantize(builder: Builder, op: Op, factor: float) -> None:
    x = builder.input(op.inputs[0], builder.zero_point(op.inputs[0]))
    finish = builder.finish(op)
    builder.requantize(x, builder.result(finish), register_scale(factor), finish.minimum, finish.maximum, finish.lut)


def _requantize_32(builder: Builder, op: Op, factor: float) -> None:
    """32-bit maps are scaled by the shift alone, so the multiplier is an operand."""
    scale, finish = register_scale(factor), builder.finish(op)
    if scale.shift < 31:
        raise FactorError(f"the factor between the scales of a 32-bit map must be below 1, got {factor:g}")
    builder.elementwise(
        ElementwiseMode.MUL,
        builder.input(op.inputs[0]),
        builder.result(finish),
        builder.number(scale.scale),
        scale=Scale(1, scale.shift),
        minimum=finish.minimum,
        maximum=finish.maximum,
        lut=finish.lut,
    )


def lower_function(builder: Builder, op: Op) -> None:
    """Every other function of one value: of 8 bits one look-up together with those that are fused into it.

    A look-up takes twice the time of the hardware's own absolute value.
    """
    source, target = builder.quantized(op.inputs[0]), builder.quantized(op.outputs[0])
    if source.element.bits > 8:
        _lower_wide(builder, op)
        return
    if op.kind == "ABS" and source.scale == target.scale and builder.index not in builder.fusions.fused_ops:
        _lower_abs(builder, builder.input(op.inputs[0]), builder.output(op.outputs[0]), source, target)
        return
    _look_up(builder, op)


def _look_up(builder: Builder, op: Op) -> None:
    finish = builder.tabulated(op)
    builder.point(builder.input(op.inputs[0]), builder.result(finish, is_raw=True), finish.minimum, finish.maximum, finish.lut)


def _lower_wide(builder: Builder, op: Op) -> None:
    """A function of int16 values: a function of the hardware, arithmetic, or a table of 512 lines."""
    x, y = builder.input(op.inputs[0]), builder.output(op.outputs[0])
    source, target = builder.quantized(op.inputs[0]), builder.quantized(op.outputs[0])
    if op.kind in _HARDWARE_FUNCTIONS:
        lower_hardware_function(builder, op.kind, x, y, float(source.scale))
    elif op.kind == "ABS":
        _lower_abs(builder, x, y, source, target)
    elif op.kind == "LEAKY_RELU":
        _lower_leaky_relu(builder, op, x, y, source, target)
    else:
        builder.point(x, y, lut=interpolated(op, source, target))


_HARDWARE_FUNCTIONS = {"LOGISTIC": "sigmoid", "TANH": "tanh"}


def lower_hardware_function(builder: Builder, kind: str, x: View, y: View, scale: float) -> None:
    """The hardware's table takes values in units of 1 / (3 * 4096)."""
    builder.emit(
        PoolingStep(
            source=builder.index,
            ifm=x,
            ofm=y,
            minimum=y.element.minimum,
            maximum=y.element.maximum,
            mode=PoolingMode.AVERAGE,
            scale=Scale(*table_factor(scale)),
            rounding=Rounding.NATURAL,
            function=_HARDWARE_FUNCTIONS[kind],
        )
    )


def _lower_abs(builder: Builder, x: View, y: View, source: Quantized, target: Quantized) -> None:
    same = source.scale == target.scale
    scale = IDENTITY if same else register_scale(float(source.scale / target.scale))
    ifm, ofm = replace(x, zero_point=source.zero_point), replace(y, zero_point=target.zero_point)
    builder.elementwise(ElementwiseMode.ABS, ifm, ofm, scale=scale)


def _lower_leaky_relu(builder: Builder, op: Op, x: View, y: View, source: Quantized, target: Quantized) -> None:
    """One operation if it can scale both branches, else both, of which the larger is the result up to a slope of 1."""
    options = op.attributes
    assert isinstance(options, LeakyReluOptions)
    x, y = replace(x, zero_point=source.zero_point), replace(y, zero_point=target.zero_point)
    slope = float(source.scale * np.float32(options.alpha) / target.scale)
    if source.scale == target.scale and 0 <= options.alpha < 1:
        builder.elementwise(ElementwiseMode.LRELU, x, y, scale=register_scale(slope))
        return
    factor = register_scale(float(source.scale / target.scale))
    if builder.family.scales_each_operand and slope >= 0:
        builder.elementwise(ElementwiseMode.LRELU, x, y, scale=register_scale(slope), positive=factor)
        return
    straight, bent = (
        replace(builder.temporary(name, x.shape, y.element), zero_point=y.zero_point) for name in ("x", "slope x")
    )
    builder.requantize(x, straight, factor)
    builder.requantize(x, bent, register_scale(abs(slope)))
    if slope < 0:
        builder.elementwise(ElementwiseMode.MUL, bent, bent, -1)
    mode = ElementwiseMode.MAX if options.alpha <= 1 else ElementwiseMode.MIN
    builder.elementwise(mode, replace(straight, zero_point=0), replace(y, zero_point=0), replace(bent, zero_point=0))


def interpolated(op: Op, source: Quantized, target: Quantized) -> npt.NDArray[np.uint8]:
    """2 KiB: first value and slope of each line."""
    function = real_function(op, target)
    assert function is not None
    return lines(samples_16bit(function, (source.scale, source.zero_point), (target.scale, target.zero_point)))


def lines(samples: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """The table of lines between 513 samples."""
    return table_of_lines(samples[:-1], np.diff(samples))


def table_of_lines(first: npt.NDArray[np.int64], rise: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """The table of 512 lines: the first value of each in the low 16 bits, what it rises by over 128 in the high ones."""
    words = (first & 0xFFFF) | (rise & 0xFFFF) << 16
    return words.astype("<u4").view(np.uint8)
