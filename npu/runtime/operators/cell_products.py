"""Products of activations with the weights of recurrent cells, float32 or hybrid; the only place that knows both kinds.

Facts of the TFLite reference kernels of LSTM, RNN and SVDF: a float product is summed in order and added to the accumulator.
A hybrid one (float activations, 8-bit weights) quantizes every row of the activations once per step, symmetrically or with
`asymmetric_quantize_inputs` about a zero point, and adds the integer sum times (row scale times weight scale).
Weights of type uint8 are read as int8.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npu.graph.attributes import FusedActivation
from npu.graph.dtype import DType
from npu.numerics.arrays import Array
from npu.numerics.rectifiers import RECTIFIERS
from npu.records import dataclass
from npu.runtime.operator import OperatorNode
from npu.runtime.operators.activation import hyperbolic_tangent
from npu.runtime.operators.fully_connected import float_product
from npu.runtime.operators.hybrid import quantize_rows
from npu.runtime.tensor import RuntimeTensor

CellStep = Callable[[Array, Array | None], Array]
"""One time step: (batch, features) and the auxiliary input to (batch, outputs), updating the states."""


@dataclass(frozen=True, slots=True)
class CellInput:
    """Activations (batch, features) as float32, and quantized by rows where weights are 8-bit: values, scales, zero points."""

    real: Array
    quantized: tuple[Array, Array, Array] | None = None


def operand(values: Array, *, hybrid: bool, asymmetric: bool) -> CellInput:
    """Prepare activations (batch, features) for products with several matrices."""
    rows = np.ascontiguousarray(values)
    return CellInput(rows, quantize_rows(rows, asymmetric=asymmetric) if hybrid else None)


def signed(weights: RuntimeTensor) -> Array:
    """8-bit weights as int8, whatever the sign of their type."""
    return weights.array.view(np.int8)


def add_product(total: Array, x: CellInput, weights: RuntimeTensor) -> Array:
    """total (batch, units) plus x times the transposed weights (units, features), or times diagonal ones (units,)."""
    if len(weights.shape) == 1:
        diagonal = weights.array
        return total + (x.real * diagonal).astype(np.float32)
    if weights.dtype is DType.FLOAT32:
        return total + float_product(x.real, weights.array)
    assert x.quantized is not None, "activations for 8-bit weights are quantized"
    values, scales, zero_points = x.quantized
    centred = values.astype(np.float64) - zero_points[:, None]
    sums = (centred @ signed(weights).astype(np.float64).T).astype(np.float32)
    result: Array = total + sums * (scales * np.float32(weights.scale))[:, None]
    return result


def real_vector(vector: RuntimeTensor) -> Array:
    """Peephole weights (units,) as float32; 8-bit ones times their scale."""
    if vector.dtype is DType.FLOAT32:
        return vector.array
    return np.float32(vector.scale) * signed(vector).astype(np.float32)


def cell_activation(node: OperatorNode, activation: FusedActivation) -> Callable[[Array], Array]:
    """The activation that a recurrent operator applies to float values: none, a clamp, TANH or SIGN_BIT."""
    if activation is FusedActivation.TANH:
        return hyperbolic_tangent
    if activation is FusedActivation.SIGN_BIT:
        return lambda x: np.signbit(x).astype(np.float32)
    if activation is FusedActivation.NONE:
        return lambda x: x
    if activation.name not in RECTIFIERS:
        raise node.fail(f"activation must be NONE, RELU, RELU_N1_TO_1, RELU6, TANH or SIGN_BIT, got {activation.name}")
    low, high = RECTIFIERS[activation.name]
    return lambda x: np.clip(np.where(np.isnan(x), x.dtype.type(low), x), low, high)  # std::max of a bound and no number


def require_state(node: OperatorNode, tensor: RuntimeTensor, *shape: int) -> None:
    """Refuse a state that is not a variable, or does not have as many elements as `shape`."""
    if not tensor.is_variable or tensor.is_constant:
        raise node.fail(f"state '{tensor.name}' must be a variable tensor, got another one")
    if tensor.elements != int(np.prod(shape)):
        raise node.fail(f"state '{tensor.name}' must have the elements of {list(shape)}, got {list(tensor.shape)}")


def require_shape(node: OperatorNode, what: str, tensor: RuntimeTensor | None, *shape: int) -> None:
    """Refuse a tensor (if it is given) of another shape."""
    if tensor is not None and tensor.shape != shape:
        raise node.fail(f"{what} must have shape {list(shape)}, got {list(tensor.shape)}")
