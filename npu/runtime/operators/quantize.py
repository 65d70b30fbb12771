"""Conversions between types and scales: QUANTIZE, DEQUANTIZE, CAST, FAKE_QUANT, DENSIFY."""

from __future__ import annotations

import numpy as np

from npu.graph.dtype import DType
from npu.numerics.arrays import Array
from npu.numerics.scaling import round_away
from npu.runtime.implementation import Implementation
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.operators.common import (
    INTEGER_RANGE,
    clipped,
    compute_in_parts,
    multipliers,
    requantize,
    require_quantized,
    rounded,
    run_in_parts,
)
from npu.runtime.types import for_codes


def build_quantize(node: OperatorNode) -> Run:
    ifm, output = node.input(0), node.output()
    low, high = INTEGER_RANGE[output.dtype]
    if ifm.dtype is DType.FLOAT32:
        require_quantized(node, output)
        scale, zero_point = _axis_parameters(node, position=None)

        def quantized(x: Array, scales: Array, zeros: Array) -> Array:
            values = round_away((x / scales).astype(np.float32)).astype(np.float64) + zeros
            return clipped(np.nan_to_num(values, nan=0.0, posinf=high, neginf=low), low, high)

        return lambda: compute_in_parts(quantized, (ifm.array, scale, zero_point), output.array)
    require_quantized(node, ifm, output)
    if output.quantization is not None and output.quantization.scales.size > 1:
        raise node.fail(f"output must have one scale unless the input is f32, got {output.quantization.scales.size}")
    scaling = multipliers([ifm.scale / output.scale])
    return run_in_parts(
        node, lambda x: requantize(x.astype(np.int64) - ifm.zero_point, scaling, output.zero_point, (low, high))
    )


def _axis_parameters(node: OperatorNode, position: int | None) -> tuple[Array, Array]:
    """Scales and zero points of an output (None) or an input, shaped to broadcast along its quantized axis."""
    tensor = node.output() if position is None else node.input(position)
    q = tensor.quantization
    assert q is not None
    scales, zero_points = q.scales.astype(np.float32), q.zero_points.astype(np.int64)
    if scales.size == 1:
        return scales[0], np.asarray(q.zero_point)
    rank = len(tensor.shape)
    if not 0 <= q.axis < rank or tensor.shape[q.axis] != scales.size:
        raise node.fail(f"scales must match dimension {q.axis} of {list(tensor.shape)}, got {scales.size}")
    shape = [1] * rank
    shape[q.axis] = scales.size
    return scales.reshape(shape), np.broadcast_to(zero_points, scales.shape).reshape(shape)


def build_dequantize(node: OperatorNode) -> Run:
    ifm, output = node.input(0), node.output()
    if ifm.dtype is DType.FLOAT16:
        return run_in_parts(node, lambda x: x.astype(np.float32))
    require_quantized(node, ifm)
    if ifm.dtype is DType.INT16 and ifm.quantization is not None and ifm.quantization.scales.size > 1:
        raise node.fail(f"an int16 input must have one scale, got {ifm.quantization.scales.size}")
    scale, zero_point = _axis_parameters(node, position=0)

    def real(x: Array, scales: Array, zeros: Array) -> Array:
        """The reference kernel multiplies in double and rounds once."""
        return (x.astype(np.int64) - zeros).astype(np.float64) * scales.astype(np.float64)

    return lambda: compute_in_parts(real, (ifm.array, scale, zero_point), output.array)


def build_cast(node: OperatorNode) -> Run:
    ifm, output = node.input(0), node.output()

    def cast(x: Array) -> Array:
        if output.dtype is DType.BOOL:
            return np.not_equal(x, 0)
        is_real = ifm.dtype is DType.COMPLEX64 and output.dtype is not DType.COMPLEX64
        return _converted(x.real if is_real else x, output.array.dtype)

    return run_in_parts(node, cast)


def _converted(values: Array, dtype: np.dtype[np.generic]) -> Array:
    return _truncate(values, dtype) if values.dtype.kind == "f" and dtype.kind in "iu" else values.astype(dtype)


def _truncate(values: Array, dtype: np.dtype[np.generic]) -> Array:
    """Float to integer toward zero; out of range saturates, and what is no number is the largest."""
    info = np.iinfo(dtype)  # type: ignore[type-var]
    clipped = np.clip(np.nan_to_num(np.trunc(values.astype(np.float64)), nan=np.inf), float(info.min), float(info.max))
    top = clipped >= float(info.max)
    return np.where(top, info.max, np.where(top, 0, clipped).astype(dtype))


def build_fake_quant(node: OperatorNode) -> Run:
    a = node.attributes
    if not a.max > a.min or not 2 <= a.num_bits <= 16:
        raise node.fail(f"minimum must be below maximum and bits in [2, 16], got {a.min}, {a.max} and {a.num_bits}")
    quant_min, quant_max = (1 if a.narrow_range else 0), (1 << a.num_bits) - 1
    f32 = np.float32
    scale = f32((f32(a.max) - f32(a.min)) / f32(quant_max - quant_min))
    from_min = f32(quant_min) - f32(a.min) / scale
    zero = f32(quant_min) if from_min < quant_min else f32(quant_max) if from_min > quant_max else f32(rounded(float(from_min)))
    low, high = (f32(quant_min) - zero) * scale, (f32(quant_max) - zero) * scale
    inverse = f32(1) / scale
    return run_in_parts(node, lambda x: round_away((np.clip(x, low, high) - low) * inverse) * scale + low)


def build_densify(node: OperatorNode) -> Run:
    ifm, output = node.input(0), node.output()

    def run() -> None:
        output.array[...] = ifm.array.reshape(output.shape)

    return run


_CASTABLE = "f32|f16|f64|i8|u8|i16|u16|i32|u32|i64|bool|c64"

OPERATORS = (
    Implementation(
        "QUANTIZE",
        build_quantize,
        ("f32 -> i8|u8|i16", "i8|u8 -> i8|u8|i16", "i16 -> i8|i16|i32", "i32 -> i8|i16"),
    ),
    Implementation("DEQUANTIZE", build_dequantize, ("i8|u8|i16|f16|i4 -> f32",)),
    Implementation("CAST", build_cast, (f"{_CASTABLE} -> {_CASTABLE}", "i4 -> f32")),
    Implementation("FAKE_QUANT", build_fake_quant, ("f32 -> f32",)),
    Implementation("DENSIFY", build_densify, for_codes("T -> T", "f32 f16 i8")),
)
