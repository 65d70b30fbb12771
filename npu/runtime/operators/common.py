"""What many operators share: fused activations, quantized ranges, padding, broadcasting."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from operator import is_not
from typing import Any

import numpy as np
import numpy.typing as npt

from npu.errors import InterpreterError
from npu.graph.attributes import FusedActivation
from npu.graph.dtype import DType
from npu.native.kernel import Kernel
from npu.numerics.arrays import Array
from npu.numerics.rectifiers import RECTIFIERS, UNBOUNDED
from npu.numerics.scaling import quantize_multiplier, round_half_away
from npu.runtime.kernels.requantize import rescale, rescale_wide
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.tensor import MOVES, RuntimeTensor

INTEGER_RANGE: dict[DType, tuple[int, int]] = {
    DType.INT8: (-128, 127),
    DType.UINT8: (0, 255),
    DType.INT16: (-32768, 32767),
    DType.INT32: (-(1 << 31), (1 << 31) - 1),
    DType.INT64: (-(1 << 63), (1 << 63) - 1),
    DType.INT4: (-8, 7),
}


def rounded(x: float) -> int:
    """std::round. InterpreterError for what is no number: the file's scale or bound that it was made of is none."""
    if not math.isfinite(x):
        raise InterpreterError(f"quantization: scales and bounds must be finite numbers, got {x}")
    return round_half_away(x)


def activation_bounds(node: OperatorNode, activation: FusedActivation) -> tuple[float, float]:
    """The clamp of a fused activation in real numbers."""
    if activation is FusedActivation.NONE:
        return UNBOUNDED
    if activation.name not in RECTIFIERS:
        raise node.fail(f"fused activation must be NONE, RELU, RELU_N1_TO_1 or RELU6, got {activation.name}")
    return RECTIFIERS[activation.name]


def float_bounds(
    node: OperatorNode, activation: FusedActivation, dtype: npt.DTypeLike = np.float32
) -> tuple[np.floating[Any], np.floating[Any]]:
    """The same for float kernels, which keep results within the finite numbers of their type without an activation too."""
    low, high = activation_bounds(node, activation)
    limits = np.finfo(np.dtype(dtype))
    return limits.dtype.type(max(low, limits.min)), limits.dtype.type(min(high, limits.max))


def require_no_activation(node: OperatorNode) -> None:
    """Refuse a fused activation."""
    activation = node.attributes.fused_activation_function
    if activation is not FusedActivation.NONE:
        raise node.fail(f"fused activation must be NONE, got {activation.name}")


def stored_limits(node: OperatorNode) -> tuple[Any, Any] | None:
    """The limits of a fused activation on stored values of a float or quantized output, None without one.

    For operators of which LiteRT's kernels refuse any activation, though the TFLite guide and schema give them one.
    """
    activation, output = node.attributes.fused_activation_function, node.output()
    if activation is FusedActivation.NONE:
        return None
    if output.dtype is DType.FLOAT32:
        return float_bounds(node, activation)
    if not output.is_quantized or output.dtype not in INTEGER_RANGE:
        raise node.fail(f"fused activation must be NONE for {output.dtype}, got {activation.name}")
    return quantized_range(node, activation, output)


def quantized_range(node: OperatorNode, activation: FusedActivation, output: RuntimeTensor) -> tuple[int, int]:
    """The clamp of a fused activation in the output's quantized values (TFLite's CalculateActivationRangeQuantized)."""
    return quantized_bounds(node, activation_bounds(node, activation), output)


def quantized_bounds(node: OperatorNode, bounds: tuple[float, float], output: RuntimeTensor) -> tuple[int, int]:
    """The same of a clamp to these real numbers."""
    (low, high), (lower, upper) = INTEGER_RANGE[output.dtype], bounds
    scale = np.float32(output.scale)
    largest = max((abs(bound) for bound in bounds if math.isfinite(bound)), default=0.0)
    if bounds != UNBOUNDED and not (scale > 0 and largest / float(scale) < 1 << 31):
        raise node.fail(
            f"output must have a scale above {largest / (1 << 31):g} for its fused activation, got {output.scale:g}"
        )
    if math.isfinite(lower):
        low = max(low, output.zero_point + rounded(float(np.float32(lower) / scale)))
    if math.isfinite(upper):
        high = min(high, output.zero_point + rounded(float(np.float32(upper) / scale)))
    return low, high


def require_quantized(node: OperatorNode, *tensors: RuntimeTensor) -> None:
    """Refuse tensors without a positive scale."""
    for tensor in tensors:
        if not tensor.is_quantized or not all(s > 0 and math.isfinite(s) for s in tensor.quantization.scales):  # type: ignore[union-attr]
            raise node.fail(f"tensor '{tensor.name}' must have positive quantization scales, got none")


def require_factors(node: OperatorNode, *tensors: RuntimeTensor) -> None:
    """Refuse operands of a product without a scale. One of 0 says that every value is: the first state of an LSTM has it."""
    for tensor in tensors:
        if not tensor.is_quantized or not all(s >= 0 and math.isfinite(s) for s in tensor.quantization.scales):  # type: ignore[union-attr]
            raise node.fail(f"tensor '{tensor.name}' must have positive quantization scales, got none")


def multipliers(factors: Sequence[float]) -> tuple[Array, Array]:
    """Multipliers and exponents, as int64 arrays, of real factors."""
    pairs = [quantize_multiplier(float(factor)) for factor in factors]
    return np.array([m for m, _ in pairs], np.int64), np.array([e for _, e in pairs], np.int64)


def requantize(
    acc: Array, scaling: tuple[Array, Array], zero_point: int, limits: tuple[int, int], *, wide: bool = False
) -> Array:
    """Rescale accumulators (n, channels); the factors are one per channel or one for all. int64 result of the same shape."""
    rows = np.ascontiguousarray(acc, np.int64)
    if not rows.size:  # no channels have no factors
        return rows
    flat = rows.reshape(-1, scaling[0].size)
    out = np.empty_like(flat)
    (rescale_wide if wide else rescale)(flat, scaling[0], scaling[1], zero_point, limits[0], limits[1], out)
    return out.reshape(rows.shape)


def scaled(values: Array, factor: tuple[int, int]) -> Array:
    """values * factor with two roundings, unclamped, int64."""
    scaling = np.array([factor[0]], np.int64), np.array([factor[1]], np.int64)
    return requantize(values, scaling, 0, (-(1 << 62), 1 << 62))


def clipped(values: Array, low: float, high: float) -> Array:
    """Values within limits."""
    result: Array = np.clip(values, low, high)
    return result


MOST_AT_ONCE = 1 << 22
"""Elements of an output that are computed at once where what is in between takes many bytes for each."""


def compute_in_parts(function: Callable[..., Array], operands: Sequence[Array], out: Array) -> None:
    """Set `out` to an element-wise function of broadcast operands; a small file may ask for a large output."""
    if out.size <= MOST_AT_ONCE:
        out[...] = function(*operands)
        return
    whole = [np.broadcast_to(operand, out.shape) for operand in operands]
    for part in _boxes(out.shape):
        out[part] = function(*(operand[part] for operand in whole))


def run_in_parts(node: OperatorNode, function: Callable[..., Array]) -> Run:
    """Prepare an element-wise operator of one input."""
    ifm, output = node.input(0), node.output()
    return lambda: compute_in_parts(function, (ifm.array,), output.array)


def run_rows_in_parts(node: OperatorNode, function: Callable[[Array], Array]) -> Run:
    """Prepare an operator of rows along the last axis of one input: `function` takes (n, depth) and gives as many rows."""
    ifm, output = node.input(0), node.output()

    def run() -> None:
        if not output.elements:
            return
        depth = ifm.shape[-1]
        rows, made = ifm.array.reshape(-1, depth), output.array.reshape(-1, depth)
        most = max(MOST_AT_ONCE // depth, 1)
        for start in range(0, len(rows), most):
            made[start : start + most] = function(rows[start : start + most])

    return run


def _boxes(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Boxes of at most MOST_AT_ONCE elements that make up a shape."""
    inner = math.prod(shape[1:])
    for start in range(0, shape[0], max(MOST_AT_ONCE // inner, 1)):
        first = slice(start, start + max(MOST_AT_ONCE // inner, 1))
        if inner <= MOST_AT_ONCE:
            yield (first,)
        else:
            yield from ((first, *rest) for rest in _boxes(shape[1:]))


def bound_again(kernel: Kernel, tensors: Sequence[RuntimeTensor], arguments: Callable[[], tuple[Any, ...]]) -> Run:
    """Runs a kernel on tensors with arguments that are asked for again when a buffer has moved."""
    call: Run | None = None
    buffers: list[Array | None] = []
    seen: object = None
    moves = MOVES

    def run() -> None:
        nonlocal call, buffers, seen
        if call is None or seen is not moves.last:
            last, current = moves.last, [tensor.data for tensor in tensors]
            if call is None or any(map(is_not, current, buffers)):
                call, buffers = kernel.bind(*arguments()), current
            seen = last
        call()

    return run


def pad_before(size: int, out: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """Padding before and after one spatial dimension for the given output size; after may be negative (unused input)."""
    total = (out - 1) * stride + (kernel - 1) * dilation + 1 - size
    before = max(total, 0) // 2
    return before, total - before


def normalized_axis(node: OperatorNode, axis: int, rank: int) -> int:
    """An axis counted from the front; errors if it is outside the rank."""
    if not -rank <= axis < max(rank, 1):
        raise node.fail(f"axis must be in [{-rank}, {max(rank, 1)}), got {axis}")
    return axis + rank if axis < 0 else axis


def from_values(node: OperatorNode, positions: Sequence[int], shape_of: Callable[[], tuple[int, ...]]) -> Callable[[], None]:
    """Of an operator without shape rule: set the output shape now if the inputs at `positions` are constants, else in every
    run; returns what a run calls first."""
    if all(node.input(i).is_constant for i in positions):
        node.set_shape(shape_of())
        return lambda: None
    node.set_dynamic()
    return lambda: node.set_shape(shape_of())


def ints(tensor: RuntimeTensor) -> list[int]:
    """The elements of a tensor of integers."""
    return [int(value) for value in tensor.array.reshape(-1)]
