"""RNN, UNIDIRECTIONAL_SEQUENCE_RNN and BIDIRECTIONAL_SEQUENCE_RNN, float32 and hybrid.

Facts of the TFLite reference kernels of these operators: state = output = activation(W x + A aux + R state + b), where hybrid
products follow `cell_products`. BIDIRECTIONAL_SEQUENCE_RNN has two peculiarities that are kept: a batch-major backward cell
reads the input even where an auxiliary input without weights stands for it, and a hybrid time-major run goes over the
whole sequence as many times as it has steps, the states going on.
"""

from __future__ import annotations

import numpy as np

from npu.graph.dtype import DType
from npu.numerics.arrays import Array
from npu.records import dataclass
from npu.runtime.implementation import Implementation
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.operators.cell_products import CellStep, add_product, cell_activation, operand, require_shape, require_state
from npu.runtime.tensor import RuntimeTensor

"""One time step: (batch, features) and the auxiliary input to (batch, units), updating the state."""


@dataclass(frozen=True, slots=True)
class _RnnCell:
    weights: RuntimeTensor
    recurrent: RuntimeTensor
    bias: RuntimeTensor
    state: RuntimeTensor
    auxiliary: RuntimeTensor | None = None

    @property
    def units(self) -> int:
        return self.weights.shape[0]


def _cell(node: OperatorNode, start: int, features: int, batches: int, auxiliary: int | None = None) -> _RnnCell:
    weights, recurrent, bias, state = (node.input(start + i) for i in range(4))
    if len(weights.shape) != 2:
        raise node.fail(f"weights must have rank 2, got {list(weights.shape)}")
    units = weights.shape[0]
    extra = None if auxiliary is None else node.input(auxiliary)
    require_shape(node, "weights", weights, units, features)
    require_shape(node, "recurrent weights", recurrent, units, units)
    require_shape(node, "bias", bias, units)
    require_shape(node, "auxiliary weights", extra, units, features)
    require_shape(node, "state", state, batches, units)
    require_state(node, state, batches, units)
    return _RnnCell(weights, recurrent, bias, state, extra)


def _step(node: OperatorNode, cell: _RnnCell) -> CellStep:
    squash = cell_activation(node, node.attributes.fused_activation_function)
    hybrid, asymmetric = cell.weights.dtype is not DType.FLOAT32, node.attributes.asymmetric_quantize_inputs

    def step(x: Array, auxiliary: Array | None) -> Array:
        state = cell.state.array
        total = np.tile(cell.bias.array, (x.shape[0], 1))
        total = add_product(total, operand(x, hybrid=hybrid, asymmetric=asymmetric), cell.weights)
        if auxiliary is not None and cell.auxiliary is not None:
            total = add_product(total, operand(auxiliary, hybrid=hybrid, asymmetric=asymmetric), cell.auxiliary)
        total = add_product(total, operand(state, hybrid=hybrid, asymmetric=asymmetric), cell.recurrent)
        state[...] = squash(total)
        return state

    return step


def build_rnn(node: OperatorNode) -> Run:
    """RNN: one time step per invoke, input (batch, features)."""
    ifm, output = node.input(0), node.output()
    if len(ifm.shape) != 2:
        raise node.fail(f"input must have rank 2, got {list(ifm.shape)}")
    cell = _cell(node, 1, ifm.shape[1], ifm.shape[0])
    step = _step(node, cell)

    def run() -> None:
        output.array[...] = step(ifm.array, None)

    return run


def _sequence(node: OperatorNode) -> tuple[int, int, int]:
    """Time axis, batches and features of the input."""
    ifm = node.input(0)
    if len(ifm.shape) != 3:
        raise node.fail(f"input must have rank 3, got {list(ifm.shape)}")
    axis = 0 if node.attributes.time_major else 1
    return axis, ifm.shape[1 - axis], ifm.shape[2]


def build_sequence_rnn(node: OperatorNode) -> Run:
    """UNIDIRECTIONAL_SEQUENCE_RNN: input (batch, time, features), or (time, batch, features) if time-major."""
    ifm, output = node.input(0), node.output()
    axis, batches, features = _sequence(node)
    cell = _cell(node, 1, features, batches)
    step = _step(node, cell)

    def run() -> None:
        x, y = np.moveaxis(ifm.array, axis, 0), np.moveaxis(output.array, axis, 0)
        for time in range(x.shape[0]):
            y[time] = step(x[time], None)

    return run


def build_bidirectional_rnn(node: OperatorNode) -> Run:
    """BIDIRECTIONAL_SEQUENCE_RNN: as UNIDIRECTIONAL_SEQUENCE_RNN, forward and backward; `merge_outputs` joins the results."""
    ifm, auxiliary = node.input(0), node.optional(9)
    axis, batches, features = _sequence(node)
    crossed = auxiliary is not None and node.optional(10) is not None
    if auxiliary is not None and auxiliary.shape != ifm.shape:
        raise node.fail(f"auxiliary input must have the input's shape {list(ifm.shape)}, got {list(auxiliary.shape)}")
    cells = [_cell(node, 1, features, batches, 10 if crossed else None)]
    cells.append(_cell(node, 5, features, batches, 11 if crossed else None))
    merged, units = node.attributes.merge_outputs, [cell.units for cell in cells]
    steps = [_step(node, cell) for cell in cells]
    read_back = auxiliary if auxiliary is not None and not crossed and axis == 0 else ifm
    passes = ifm.shape[0] if axis == 0 and cells[0].weights.dtype is not DType.FLOAT32 else 1

    def run() -> None:
        for way, source in [(0, ifm), (1, read_back)] * passes:
            x = np.moveaxis(source.array, axis, 0)
            extra = np.moveaxis(auxiliary.array, axis, 0) if crossed and auxiliary is not None else None
            y = node.output(0 if merged else way).array
            y = y[..., units[0] :] if merged and way else y[..., : units[way]]
            y = np.moveaxis(y, axis, 0)
            for time in range(x.shape[0])[:: -1 if way else 1]:
                y[time] = steps[way](x[time], None if extra is None else extra[time])

    return run


_TYPES = tuple(f"f32 {w} {w} f32 f32 -> f32" for w in ("f32", "i8|u8"))
_BOTH_WAYS = tuple(f"f32 {w} {w} f32 f32 {w} {w} f32 f32 f32? {w}? {w}? -> f32 f32?" for w in ("f32", "i8|u8"))

OPERATORS = (
    Implementation("RNN", build_rnn, _TYPES),
    Implementation("UNIDIRECTIONAL_SEQUENCE_RNN", build_sequence_rnn, _TYPES),
    Implementation("BIDIRECTIONAL_SEQUENCE_RNN", build_bidirectional_rnn, _BOTH_WAYS),
)
