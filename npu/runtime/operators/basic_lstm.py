"""LSTM with the basic kernel: five inputs, four outputs, one matrix for all gates.

Facts of the TFLite kernel of LSTM (basic): the input and the former activation side by side, times the matrix plus bias, give
the input gate, the new input, the forget gate and the output gate, in this order. Logistic and tanh of gemmlowp's fixed
point in the uint8 variant, whose state has four integer bits and whose activations have the scale 1/128 and zero point 128.
The former activation and state are variables and get the new ones.
"""

from __future__ import annotations

import numpy as np

from npu.graph.dtype import DType
from npu.numerics.arrays import Array
from npu.numerics.scaling import quantize_multiplier
from npu.runtime.kernels.fixed16 import logistic_table, multiply, tanh_table
from npu.runtime.kernels.integer_functions import halve
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.operators.activation import float_logistic, hyperbolic_tangent
from npu.runtime.operators.cell_products import require_shape, require_state
from npu.runtime.operators.fully_connected import float_product

_INT16 = (-32768, 32767)


def build_basic_lstm(node: OperatorNode) -> Run:
    """Prepare the float32 or uint8 kernel: input (batch, features), activation and state (batch, units)."""
    if len(node.inputs) != 5 or len(node.outputs) != 4:
        raise node.fail(f"the basic kernel must have 5 inputs and 4 outputs, got {len(node.inputs)} and {len(node.outputs)}")
    ifm, former, weights, bias, state = (node.input(i) for i in range(5))
    if len(ifm.shape) != 2 or len(former.shape) != 2:
        raise node.fail(f"input and activation must have rank 2, got {list(ifm.shape)} and {list(former.shape)}")
    batches, units, depth = ifm.shape[0], former.shape[1], ifm.shape[1] + former.shape[1]
    require_shape(node, "activation", former, batches, units)
    require_shape(node, "state", state, batches, units)
    require_shape(node, "weights", weights, 4 * units, depth)
    require_shape(node, "bias", bias, 4 * units)
    require_state(node, former, batches, units)
    require_state(node, state, batches, units)
    compute = _float(node) if ifm.dtype is DType.FLOAT32 else _integer(node)

    def run() -> None:
        node.output(2).array[...] = np.concatenate([ifm.array, former.array], axis=1)
        compute()
        former.array[...] = node.output(0).array
        state.array[...] = node.output(1).array

    return run


def _float(node: OperatorNode) -> Run:
    weights, bias, state = (node.input(i) for i in range(2, 5))
    activation, new_state, joined, gates = (node.output(i) for i in range(4))

    def run() -> None:
        gates.array[...] = float_product(joined.array, weights.array) + bias.array
        entry, update, forget, out = np.split(gates.array, 4, axis=1)
        kept = float_logistic(forget) * state.array
        new_state.array[...] = float_logistic(entry) * hyperbolic_tangent(update) + kept
        activation.array[...] = float_logistic(out) * hyperbolic_tangent(new_state.array)

    return run


def _integer(node: OperatorNode) -> Run:
    weights, bias, state = (node.input(i) for i in range(2, 5))
    activation, new_state, joined, gates = (node.output(i) for i in range(4))
    if new_state.scale != 2.0**-11:
        raise node.fail(f"state scale must be 2**-11, got {new_state.scale}")
    multiplier, exponent = quantize_multiplier(4096 * bias.scale)
    if not 0 < bias.scale < 1:
        raise node.fail(f"bias scale must be in (0, 1), got {bias.scale}")

    def table(values: Array, which: Array) -> Array:
        looked_up: Array = which[values.astype(np.int64) + 32768]
        return looked_up

    def run() -> None:
        logistic, tanh, tanh_state = logistic_table(), tanh_table(3), tanh_table(4)
        centred = weights.array.astype(np.int64) - weights.zero_point
        sums = (joined.array.astype(np.int64) - 128) @ centred.T + bias.array
        gates.array[...] = np.clip(_rescale(sums, multiplier, exponent), *_INT16)
        entry, update, forget, out = np.split(gates.array, 4, axis=1)
        added = halve(multiply(table(entry, logistic), table(update, tanh)), 4)
        kept = multiply(table(forget, logistic), state.array.astype(np.int64))
        new_state.array[...] = np.clip(added + kept, *_INT16)
        output = multiply(table(out, logistic), table(new_state.array, tanh_state))
        activation.array[...] = 128 + np.clip(halve(output, 8), -128, 127)

    return run


def _rescale(sums: Array, multiplier: int, exponent: int) -> Array:
    """sums * multiplier / 2**31 * 2**exponent with two roundings, both with ties up: this kernel's matrix product does so."""
    right = max(-exponent, 0)
    high = ((sums << max(exponent, 0)) * multiplier + (1 << 30)) >> 31
    return (high + ((1 << right) >> 1)) >> right
