"""Operators with state: UNIDIRECTIONAL_SEQUENCE_LSTM, SVDF, RNN and UNIDIRECTIONAL_SEQUENCE_RNN."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from npu.graph.attributes import FusedActivation, LstmKernelType
from npu.graph.dtype import DType
from npu.runtime.implementation import Implementation
from npu.runtime.kernels.fixed16 import logistic_table, rounded_shift, tanh_table
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.operators.activation import float_logistic, hyperbolic_tangent
from npu.runtime.operators.common import (
    activation_bounds,
    clamp_float,
    multipliers,
    requantize,
    require_quantized,
    round_half_away,
)
from npu.runtime.operators.fully_connected import float_product
from npu.runtime.tensor import Array, RuntimeTensor

_INT16 = (-32768, 32767)
_OUTPUT_STATE, _CELL_STATE = 18, 19

Step = Callable[[Array], Array]
"""One time step: (batch, features) to (batch, units), updating the states."""


def _sequence_shape(node: OperatorNode) -> tuple[int, int, int]:
    """Batches, features and units of an LSTM; sets the output shape."""
    ifm = node.input(0)
    if len(ifm.shape) != (2 if node.kind == "LSTM" else 3):
        raise node.fail(f"input must have rank {2 if node.kind == 'LSTM' else 3}, got {list(ifm.shape)}")
    units = node.input(2).shape[0]
    if node.optional(16) is not None or any(node.optional(i) is not None for i in (9, 10, 11)):
        raise node.fail("projections and peepholes are not supported, got one")
    if any(node.optional(i) is not None for i in range(20, len(node.inputs))):
        raise node.fail("layer normalisation is not supported, got it")
    node.set_shape((*ifm.shape[:-1], units))
    batches = ifm.shape[1] if node.kind != "LSTM" and node.attributes.time_major else ifm.shape[0]
    for position in (_OUTPUT_STATE, _CELL_STATE):
        if node.input(position).shape != (batches, units):
            raise node.fail(f"state {position} must have shape {[batches, units]}, got {list(node.input(position).shape)}")
    for position in (12, 13, 14, 15):
        bias = node.optional(position)
        if bias is not None and bias.shape != (units,):
            raise node.fail(f"bias {position} must have shape {[units]}, got {list(bias.shape)}")
    for position in (1, 2, 3, 4):
        if node.optional(position) is None:
            continue
        if node.input(position).shape != (units, ifm.shape[-1]) or node.input(position + 4).shape != (units, units):
            raise node.fail(
                f"weights {position} must have shape {[units, ifm.shape[-1]]}, got {list(node.input(position).shape)}"
            )
    return batches, ifm.shape[-1], units


def _run_sequence(node: OperatorNode, step: Step, *, time_major: bool) -> Run:
    ifm, output = node.input(0), node.output()
    axis = 0 if time_major else 1

    def run() -> None:
        x = np.moveaxis(ifm.array, axis, 0)
        y = np.moveaxis(output.array, axis, 0)
        for time in range(x.shape[0]):
            y[time] = step(np.ascontiguousarray(x[time]))

    return run


def build_lstm(node: OperatorNode) -> Run:
    _sequence_shape(node)
    step = _float_lstm(node) if node.input(0).dtype is DType.FLOAT32 else _integer_lstm(node)
    return _run_sequence(node, step, time_major=node.attributes.time_major)


def build_single_lstm(node: OperatorNode) -> Run:
    """LSTM: one time step per invoke."""
    if node.attributes.kernel_type is not LstmKernelType.FULL:
        raise node.fail(f"kernel type must be FULL, got {node.attributes.kernel_type.name}")
    _sequence_shape(node)
    step, ifm, output = _float_lstm(node), node.input(0), node.output()

    def run() -> None:
        output.array[...] = step(np.ascontiguousarray(ifm.array))

    return run


def _gate_activation(node: OperatorNode) -> Callable[[Array], Array]:
    activation = node.attributes.fused_activation_function
    if activation is FusedActivation.TANH:
        return hyperbolic_tangent
    bounds = activation_bounds(node, activation)
    return lambda x: clamp_float(x, bounds)


def _float_lstm(node: OperatorNode) -> Step:
    state, cell = node.input(_OUTPUT_STATE), node.input(_CELL_STATE)
    is_coupled = node.optional(1) is None
    squash, clip = _gate_activation(node), np.float32(node.attributes.cell_clip)

    def gate(index: int, x: Array) -> Array:
        total = np.broadcast_to(node.input(12 + index).array, (x.shape[0], state.shape[1]))
        total = total + float_product(x, node.input(1 + index).array)
        return total + float_product(state.array, node.input(5 + index).array)

    def step(x: Array) -> Array:
        forget = float_logistic(gate(1, x))
        update = squash(gate(2, x))
        entry = np.float32(1) - forget if is_coupled else float_logistic(gate(0, x))
        new_cell = cell.array * forget + update * entry
        cell.array[...] = np.clip(new_cell, -clip, clip) if clip > 0 else new_cell
        state.array[...] = float_logistic(gate(3, x)) * squash(cell.array)
        return state.array

    return step


@dataclass(frozen=True, slots=True)
class _IntegerGate:
    """Weights (features, units) as float64, biases with zero points folded in, and the scale to Q3.12, for both inputs."""

    weights: Array
    bias: Array
    scaling: tuple[Array, Array]
    recurrent: Array
    recurrent_bias: Array
    recurrent_scaling: tuple[Array, Array]

    def __call__(self, x: Array, state: Array) -> Array:
        first = (x.astype(np.float64) @ self.weights).astype(np.int64) + self.bias
        total = requantize(first, self.scaling, 0, _INT16)
        second = (state.astype(np.float64) @ self.recurrent).astype(np.int64) + self.recurrent_bias
        result: Array = np.clip(requantize(second, self.recurrent_scaling, 0, (-(1 << 62), 1 << 62)) + total, *_INT16)
        return result


def _integer_gate(node: OperatorNode, index: int) -> _IntegerGate:
    ifm, state = node.input(0), node.input(_OUTPUT_STATE)
    weights, recurrent, bias = node.input(1 + index), node.input(5 + index), node.input(12 + index)
    require_quantized(node, ifm, state, weights, recurrent)
    w, r = weights.array.astype(np.int64), recurrent.array.astype(np.int64)
    return _IntegerGate(
        weights=w.T.astype(np.float64),
        bias=bias.array.astype(np.int64) - w.sum(axis=1) * ifm.zero_point,
        scaling=multipliers([ifm.scale * weights.scale / 2.0**-12]),
        recurrent=r.T.astype(np.float64),
        recurrent_bias=-r.sum(axis=1) * state.zero_point,
        recurrent_scaling=multipliers([state.scale * recurrent.scale / 2.0**-12]),
    )


def _integer_lstm(node: OperatorNode) -> Step:
    """8-bit activations and weights, 16-bit gates and cell state."""
    state, cell = node.input(_OUTPUT_STATE), node.input(_CELL_STATE)
    require_quantized(node, state, cell)
    exponent = int(np.frexp(cell.scale)[1]) - 1
    if np.frexp(cell.scale)[0] != 0.5 or not -15 <= exponent <= -9:
        raise node.fail(f"cell state scale must be a power of two in [2**-15, 2**-9], got {cell.scale}")
    is_coupled = node.optional(1) is None
    gates = {i: _integer_gate(node, i) for i in range(4) if not (is_coupled and i == 0)}
    hidden = node.intermediates[4] if len(node.intermediates) > 4 and node.intermediates[4].is_quantized else state
    output_scaling = multipliers([2.0**-15 / hidden.scale * 2.0**-15])
    clip = min(max(round_half_away(node.attributes.cell_clip / cell.scale), *_INT16[:1]), 32767)
    logistic, tanh, tanh_cell = logistic_table(), tanh_table(3), tanh_table(15 + exponent)

    def step(x: Array) -> Array:
        forget = logistic[gates[1](x, state.array) + 32768]
        update = tanh[gates[2](x, state.array) + 32768]
        entry = 32767 - forget if is_coupled else logistic[gates[0](x, state.array) + 32768]
        kept = rounded_shift(forget * cell.array.astype(np.int64), 15)
        new_cell = np.clip(kept + rounded_shift(entry * update, 30 + exponent), *_INT16)
        cell.array[...] = np.clip(new_cell, -clip, clip) if clip > 0 else new_cell
        out = logistic[gates[3](x, state.array) + 32768]
        product = out * tanh_cell[cell.array.astype(np.int64) + 32768]
        state.array[...] = requantize(product, output_scaling, hidden.zero_point, (-128, 127))
        return state.array

    return step


def build_svdf(node: OperatorNode) -> Run:
    ifm, feature, time, bias, state = (node.input(0), node.input(1), node.input(2), node.optional(3), node.input(4))
    rank = node.attributes.rank
    filters = feature.shape[0] if feature.shape else 0
    if rank < 1 or filters % rank or len(ifm.shape) != 2 or len(time.shape) != 2:
        raise node.fail(f"filters must be a multiple of the rank, got {filters} and {rank}")
    batches, units, memory = ifm.shape[0], filters // rank, time.shape[1]
    if state.shape != (batches, filters * memory) or feature.shape[1] != ifm.shape[1] or time.shape[0] != filters:
        raise node.fail(f"state must have shape {[batches, filters * memory]}, got {list(state.shape)}")
    if bias is not None and bias.shape != (units,):
        raise node.fail(f"bias must have shape {[units]}, got {list(bias.shape)}")
    node.set_shape((batches, units))
    if ifm.dtype is not DType.FLOAT32:
        return _integer_svdf(node, units, memory)
    squash = _gate_activation(node)
    output = node.output()

    def run() -> None:
        history = state.array.reshape(batches, filters, memory)
        history[:, :, :-1] = history[:, :, 1:].copy()
        history[:, :, -1] = float_product(np.ascontiguousarray(ifm.array), feature.array)
        total = np.zeros((batches, filters), np.float32)
        for i in range(memory):
            total += history[:, :, i] * time.array[:, i]
        result = np.zeros((batches, units), np.float32) if bias is None else np.tile(bias.array, (batches, 1))
        result = result + _rank_sums(total, rank)
        output.array[...] = squash(result)

    return run


def _rank_sums(values: Array, rank: int) -> Array:
    """Sums of `rank` neighbours, in order."""
    grouped = values.reshape(values.shape[0], -1, rank)
    total = np.zeros(grouped.shape[:2], values.dtype)
    for i in range(rank):
        total += grouped[:, :, i]
    return total


def _integer_svdf(node: OperatorNode, units: int, memory: int) -> Run:
    """int8 input and feature weights; the state and the time weights are int16 (or int8, as tflite-micro allows).

    The fused activation is left out, as the reference kernel does.
    """
    ifm, feature, time, bias, state = (node.input(0), node.input(1), node.input(2), node.optional(3), node.input(4))
    output, batches, filters = node.output(), ifm.shape[0], feature.shape[0]
    require_quantized(node, ifm, feature, time, state, output)
    limits = (-128, 127) if state.dtype is DType.INT8 else _INT16
    state_scaling = multipliers([ifm.scale * feature.scale / state.scale])
    output_scaling = multipliers([state.scale * time.scale / output.scale])

    def run() -> None:
        history = state.array.reshape(batches, filters, memory)
        history[:, :, :-1] = history[:, :, 1:].copy()
        x = ifm.array.astype(np.int64) - ifm.zero_point
        history[:, :, -1] = requantize(x @ feature.array.astype(np.int64).T, state_scaling, state.zero_point, limits)
        wide = history.astype(np.int64) - state.zero_point
        sums = (wide * time.array.astype(np.int64)).sum(axis=2).reshape(batches, units, -1).sum(axis=2)
        if bias is not None:
            sums = sums + bias.array
        output.array[...] = requantize(sums, output_scaling, output.zero_point, (-128, 127))

    return run


def _rnn_step(node: OperatorNode, state: RuntimeTensor) -> Step:
    squash = _gate_activation(node)

    def step(x: Array) -> Array:
        total = np.tile(node.input(3).array, (x.shape[0], 1))
        total = total + float_product(x, node.input(1).array)
        total = total + float_product(state.array, node.input(2).array)
        state.array[...] = squash(total)
        return state.array

    return step


def _check_rnn(node: OperatorNode, features: int, batches: int) -> int:
    weights, recurrent, bias, state = (node.input(i) for i in range(1, 5))
    units = weights.shape[0] if weights.shape else 0
    expected = ((units, features), (units, units), (units,), (batches, units))
    got = (weights.shape, recurrent.shape, bias.shape, state.shape)
    if got != expected:
        raise node.fail(f"weights, recurrent weights, bias and state must have shapes {list(expected)}, got {list(got)}")
    return units


def build_rnn(node: OperatorNode) -> Run:
    ifm, output, state = node.input(0), node.output(), node.input(4)
    if len(ifm.shape) != 2:
        raise node.fail(f"input must have rank 2, got {list(ifm.shape)}")
    node.set_shape((ifm.shape[0], _check_rnn(node, ifm.shape[1], ifm.shape[0])))
    step = _rnn_step(node, state)

    def run() -> None:
        output.array[...] = step(np.ascontiguousarray(ifm.array))

    return run


def build_sequence_rnn(node: OperatorNode) -> Run:
    ifm = node.input(0)
    if len(ifm.shape) != 3:
        raise node.fail(f"input must have rank 3, got {list(ifm.shape)}")
    batches = ifm.shape[1] if node.attributes.time_major else ifm.shape[0]
    node.set_shape((*ifm.shape[:2], _check_rnn(node, ifm.shape[2], batches)))
    return _run_sequence(node, _rnn_step(node, node.input(4)), time_major=node.attributes.time_major)


_OPTIONAL = " ".join(["any?"] * 4)
_FLOAT_LSTM = f"f32 f32? f32 f32 f32 f32? f32 f32 f32 f32? f32? f32? f32? f32 f32 f32 f32? f32? f32 f32 {_OPTIONAL} -> f32"

OPERATORS = (
    Implementation(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        build_lstm,
        (
            _FLOAT_LSTM,
            f"i8 i8? i8 i8 i8 i8? i8 i8 i8 i16? i16? i16? i32? i32 i32 i32 i8? i32? i8 i16 {_OPTIONAL} -> i8",
        ),
    ),
    Implementation("LSTM", build_single_lstm, (_FLOAT_LSTM,)),
    Implementation("SVDF", build_svdf, ("f32 f32 f32 f32? f32 -> f32", "i8 i8 i16 i32? i16 -> i8", "i8 i8 i8 i32? i8 -> i8")),
    Implementation("RNN", build_rnn, ("f32 f32 f32 f32 f32 -> f32",)),
    Implementation("UNIDIRECTIONAL_SEQUENCE_RNN", build_sequence_rnn, ("f32 f32 f32 f32 f32 -> f32",)),
)
