"""LSTM, UNIDIRECTIONAL_SEQUENCE_LSTM and BIDIRECTIONAL_SEQUENCE_LSTM; float32 and hybrid cells.

Facts of the TFLite reference kernels of these operators. A gate is activation(W x + A aux + R h + p * c + b): logistic but for
the cell gate, which has the fused activation. With layer normalisation the sum (without b) is brought to mean 0 and
variance 1 (1e-8 is added to the variance), multiplied by the coefficients, and then gets b. The new cell state is
c * forget + input * cell gate, with 1 - forget for a missing input gate (CIFG), clipped to +-cell_clip; its peephole into the
output gate sees the new state. The output is output gate * activation(c), projected (W y + b, clipped to +-proj_clip) if
there is a projection; it is the next recurrent input.
"""

from __future__ import annotations

import numpy as np

from npu.graph.attributes import FusedActivation, LstmKernelType
from npu.graph.dtype import DType
from npu.numerics.arrays import Array
from npu.runtime.implementation import Implementation
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.operators.activation import float_logistic
from npu.runtime.operators.basic_lstm import build_basic_lstm
from npu.runtime.operators.cell_products import CellInput, CellStep, add_product, cell_activation, operand, real_vector
from npu.runtime.operators.integer_lstm import integer_step
from npu.runtime.operators.lstm_cell import (
    AUXILIARY_INPUT,
    BOTH_WAYS,
    CELL_GATE,
    FORGET_GATE,
    FORWARD,
    INPUT_GATE,
    OUTPUT_GATE,
    Gate,
    LstmCell,
    find_cell,
)
from npu.runtime.tensor import RuntimeTensor


def float_step(node: OperatorNode, cell: LstmCell) -> CellStep:
    """A step of a float32 or hybrid cell."""
    a = node.attributes
    hybrid, squash = (
        cell.gates[FORGET_GATE].weights.dtype is not DType.FLOAT32,
        cell_activation(node, a.fused_activation_function),
    )
    asymmetric = a.asymmetric_quantize_inputs
    # Without an activation LiteRT copies nothing to the buffer of the activated cell, in which the cell gate still is.
    leaves_state_out = a.fused_activation_function is FusedActivation.NONE

    def prepared(values: Array) -> CellInput:
        return operand(values, hybrid=hybrid, asymmetric=asymmetric)

    def step(x: Array, auxiliary: Array | None) -> Array:
        c, h = cell.cell.array.reshape(-1, cell.units), cell.state.array.reshape(-1, cell.outputs)
        inputs = (prepared(x), None if auxiliary is None else prepared(auxiliary), prepared(h))
        entry_gate = cell.gates[INPUT_GATE]
        entry = None if entry_gate is None else float_logistic(_gate_sum(entry_gate, inputs, c))
        forget = float_logistic(_gate_sum(cell.gates[FORGET_GATE], inputs, c))
        update = squash(_gate_sum(cell.gates[CELL_GATE], inputs, c))
        c[...] = _clip(forget * c + update * (np.float32(1) - forget if entry is None else entry), a.cell_clip)
        seen = update if leaves_state_out else squash(c)
        out = float_logistic(_gate_sum(cell.gates[OUTPUT_GATE], inputs, c)) * seen
        if cell.projection is not None:
            start = np.zeros((x.shape[0], cell.outputs), np.float32)
            start = start if cell.projection_bias is None else start + cell.projection_bias.array
            out = _clip(add_product(start, prepared(out), cell.projection), a.proj_clip)
        h[...] = out
        return h

    return step


def _gate_sum(gate: Gate, inputs: tuple[CellInput, CellInput | None, CellInput], cell: Array) -> Array:
    x, auxiliary, h = inputs
    total = np.zeros((x.real.shape[0], gate.bias.shape[0]), np.float32)
    if gate.norm is None:
        total = total + gate.bias.array
    total = add_product(total, x, gate.weights)
    if auxiliary is not None and gate.auxiliary is not None:
        total = add_product(total, auxiliary, gate.auxiliary)
    total = add_product(total, h, gate.recurrent)
    if gate.peephole is not None:
        total = total + real_vector(gate.peephole) * cell
    if gate.norm is not None:
        total = _normalized(total) * gate.norm.array + gate.bias.array
    return total


def _normalized(rows: Array) -> Array:
    count = np.float32(rows.shape[1])
    centred = rows - (np.add.accumulate(rows, axis=1)[:, -1:] / count)
    variance = np.add.accumulate(centred * centred, axis=1)[:, -1:] / count
    result: Array = centred * (np.float32(1) / np.sqrt(variance + np.float32(1e-8)))
    return result


def _clip(values: Array, limit: float) -> Array:
    """Values between -limit and limit, where it is above 0; what is no number is the limit, as of LiteRT's std::min."""
    clip = np.float32(limit)
    return np.fmax(np.fmin(values, clip), -clip) if clip > 0 else values


def _step(node: OperatorNode, cell: LstmCell, *, batch_at_once: bool) -> CellStep:
    if node.input(0).dtype is DType.FLOAT32:
        return float_step(node, cell)
    return integer_step(node, cell, batch_at_once=batch_at_once)


def build_lstm(node: OperatorNode) -> Run:
    """LSTM: one time step per invoke, input (batch, features); or the basic kernel with its five inputs."""
    if node.attributes.kernel_type is LstmKernelType.BASIC:
        return build_basic_lstm(node)
    ifm, output = node.input(0), node.output()
    if len(ifm.shape) != 2:
        raise node.fail(f"input must have rank 2, got {list(ifm.shape)}")
    cell = find_cell(node, FORWARD, ifm.shape[1], ifm.shape[0])
    step = _step(node, cell, batch_at_once=True)

    def run() -> None:
        output.array[...] = step(ifm.array, None)

    return run


def _sequence(node: OperatorNode, tensor: RuntimeTensor) -> tuple[int, int, int]:
    """Time axis, batches and features of a sequence."""
    if len(tensor.shape) != 3:
        raise node.fail(f"input must have rank 3, got {list(tensor.shape)}")
    axis = 0 if node.attributes.time_major else 1
    return axis, tensor.shape[1 - axis], tensor.shape[2]


def build_sequence_lstm(node: OperatorNode) -> Run:
    """UNIDIRECTIONAL_SEQUENCE_LSTM: input (batch, time, features), or (time, batch, features) if time-major."""
    ifm, output = node.input(0), node.output()
    axis, batches, features = _sequence(node, ifm)
    cell = find_cell(node, FORWARD, features, batches)
    step = _step(node, cell, batch_at_once=axis == 0)

    def run() -> None:
        x, y = np.moveaxis(ifm.array, axis, 0), np.moveaxis(output.array, axis, 0)
        for time in range(x.shape[0]):
            y[time] = step(x[time], None)

    return run


def build_bidirectional_lstm(node: OperatorNode) -> Run:
    """BIDIRECTIONAL_SEQUENCE_LSTM.

    An auxiliary input without weights is what the backward cell reads instead of the input; with weights both cells add it.
    With `merge_outputs` the only output holds the forward results, then the backward ones, along the last axis.
    """
    ifm, auxiliary = node.input(0), node.optional(AUXILIARY_INPUT)
    axis, batches, features = _sequence(node, ifm)
    crossed = auxiliary is not None and node.optional(AUXILIARY_INPUT + 2) is not None
    if auxiliary is not None and auxiliary.shape != ifm.shape:
        raise node.fail(f"auxiliary input must have the input's shape {list(ifm.shape)}, got {list(auxiliary.shape)}")
    cells = [find_cell(node, at, features, batches, features if crossed else None) for at in BOTH_WAYS]
    outputs, merged = [cell.outputs for cell in cells], node.attributes.merge_outputs
    if merged and axis == 1 and batches > 1:
        raise node.fail(f"merged outputs of several batches must be time-major, got batch-major with {batches}")
    steps = [float_step(node, cell) for cell in cells]
    read_back = auxiliary if auxiliary is not None and not crossed else ifm

    def run() -> None:
        for way, source in enumerate((ifm, read_back)):
            x = np.moveaxis(source.array, axis, 0)
            extra = np.moveaxis(auxiliary.array, axis, 0) if crossed and auxiliary is not None else None
            y = node.output(0 if merged else way).array
            y = y[..., outputs[0] :] if merged and way else y[..., : outputs[way]]
            y = np.moveaxis(y, axis, 0)
            for time in range(x.shape[0])[:: -1 if way else 1]:
                y[time] = steps[way](x[time], None if extra is None else extra[time])

    return run


def _pattern(groups: int, rest: str) -> str:
    """Types of the inputs of so many cells, then `rest`."""
    one = "W? W W W R? R R R W? W? W? f32? f32 f32 f32 W? f32?"
    return f"f32 {' '.join([one] * groups)} {rest}"


def _each(pattern: str) -> tuple[str, ...]:
    """The float32 and the hybrid variant of a pattern: W stands for weights, R for recurrent ones, which may be diagonal."""
    words = pattern.split()
    float32 = [{"W": "f32", "R": "f32"}.get(w.rstrip("?"), w.rstrip("?")) + "?" * w.endswith("?") for w in words]
    hybrid = [{"W": "i8|u8", "R": "i8|u8|f32"}.get(w.rstrip("?"), w.rstrip("?")) + "?" * w.endswith("?") for w in words]
    return " ".join(float32), " ".join(hybrid)


_ONE_WAY = _each(_pattern(1, "f32 f32 f32? f32? f32? f32? -> f32"))
_BIDIRECTIONAL = _each(_pattern(2, "f32 f32 f32 f32 f32? W? W? W? W? W? W? W? W? -> f32 f32?"))
_INTEGER = "i8 i8? i8 i8 i8 i8? i8 i8 i8 i16? i16? i16? i32? i32 i32 i32 i8? i32? i8 i16 i16? i16? i16? i16? -> i8"
_BASIC = ("f32 f32 f32 f32 f32 -> f32 f32 f32 f32", "u8 u8 u8 i32 i16 -> u8 i16 u8 i16")

OPERATORS = (
    Implementation("LSTM", build_lstm, (*_ONE_WAY, _INTEGER, *_BASIC)),
    Implementation("UNIDIRECTIONAL_SEQUENCE_LSTM", build_sequence_lstm, (*_ONE_WAY, _INTEGER)),
    Implementation("BIDIRECTIONAL_SEQUENCE_LSTM", build_bidirectional_lstm, _BIDIRECTIONAL),
)
