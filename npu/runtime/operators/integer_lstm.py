"""LSTM cells with 8-bit activations and weights, 16-bit gates and cell state.

Facts of the TFLite reference kernels of LSTM and UNIDIRECTIONAL_SEQUENCE_LSTM, integer 8x8 to 16. Every effective scale is a
float32 before it becomes multiplier and shift. A gate adds two rescaled, saturated products to int16 (Q3.12, or the scale of
the gate's intermediate tensor before layer normalisation), then its peephole; bias goes into the first product, or after the
normalisation. Clips are truncated to integers. The peephole loop runs over as many elements as the cell has outputs.

With `LstmGates.TABLE` plain cells are computed as the NPU does by its table: sums of a gate are not saturated, the functions
are those of int16 LOGISTIC and TANH, and products are rounded at bit 31 first.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npu.numerics.arrays import Array
from npu.numerics.lstm_gates import SIGMOID_RANGE, LstmGates
from npu.records import dataclass
from npu.runtime.kernels.fixed16 import logistic_table, rounded_shift, tanh_table
from npu.runtime.kernels.integer_norm import normalize_rows
from npu.runtime.kernels.softmax import sigmoid_16bit, tanh_16bit
from npu.runtime.operator import OperatorNode
from npu.runtime.operators.common import multipliers, requantize, require_quantized
from npu.runtime.operators.lstm_cell import CELL_GATE, FORGET_GATE, INPUT_GATE, OUTPUT_GATE, Gate, LstmCell
from npu.runtime.tensor import RuntimeTensor

_INT8, _INT16, _WIDE = (-128, 127), (-32768, 32767), (-(1 << 62), 1 << 62)
_HIDDEN = 4
"""Position of the intermediate tensor that describes the output before projection."""

Scaling = tuple[Array, Array]


def _effective(*factors: float, over: float) -> Scaling:
    """Product of float32 scales over another, rounded to float32 at each step."""
    product = np.float32(1)
    for factor in factors:
        product = product * np.float32(factor)
    return multipliers([float(product / np.float32(over))])


@dataclass(frozen=True, slots=True)
class _GateProduct:
    """Weights (features, units) as float64, sums with zero points (and bias) folded in, and the scale to the gate's."""

    matrix: Array
    offsets: Array
    scaling: Scaling

    def __call__(self, x: Array) -> Array:
        sums = (x.astype(np.float64) @ self.matrix).astype(np.int64) + self.offsets
        return requantize(sums, self.scaling, 0, _WIDE)


def _product(weights: RuntimeTensor, bias: RuntimeTensor | None, zero_point: int, scaling: Scaling) -> _GateProduct:
    w = weights.array.astype(np.int64)
    offsets = w.sum(axis=1) * zero_point
    return _GateProduct(w.T.astype(np.float64), offsets if bias is None else offsets + bias.array, scaling)


@dataclass(frozen=True, slots=True)
class _Norm:
    weights: Array
    bias: Array
    scaling: Scaling
    guard: int


@dataclass(frozen=True, slots=True)
class _IntegerGate:
    entry: _GateProduct
    recurrent: _GateProduct
    peephole: tuple[Array, Scaling, int] | None
    norm: _Norm | None

    def unsaturated(self, x: Array, state: Array, _cell: Array) -> Array:
        """The sum of both saturated products."""
        total: Array = np.clip(self.entry(x), *_INT16) + np.clip(self.recurrent(state), *_INT16)
        return total

    def __call__(self, x: Array, state: Array, cell: Array) -> Array:
        """Gate values (batch, units) before the activation, int64 within int16."""
        total = np.clip(self.entry(x), *_INT16)
        total = np.clip(self.recurrent(state) + total, *_INT16)
        if self.peephole is not None:
            total = self._with_peephole(total, cell)
        if self.norm is not None:
            norm, out = self.norm, np.empty_like(total)
            normalize_rows(total, norm.weights, norm.bias, norm.scaling[0], norm.scaling[1], norm.guard, out)
            total = out
        return total

    def _with_peephole(self, total: Array, cell: Array) -> Array:
        assert self.peephole is not None
        weights, scaling, outputs = self.peephole
        batches = total.shape[0]
        flat = total.reshape(-1).copy()
        count = batches * outputs
        factors = np.tile(weights[:outputs], batches)
        added = requantize(factors * cell.reshape(-1)[:count].astype(np.int64), scaling, 0, _WIDE)
        flat[:count] = np.clip(flat[:count] + added, *_INT16)
        return flat.reshape(total.shape)


def _gate(node: OperatorNode, cell: LstmCell, gate: Gate, index: int) -> _IntegerGate:
    ifm = node.input(0)
    require_quantized(node, ifm, cell.state, gate.weights, gate.recurrent)
    scale, norm = 2.0**-12, None
    if gate.norm is not None:
        intermediate = _intermediate(node, index)
        require_quantized(node, gate.norm)
        scale = intermediate.scale
        guard = max(1, int(np.float32(10000) * np.float32(gate.norm.scale)))
        norm = _Norm(
            gate.norm.array.astype(np.int64), gate.bias.array.astype(np.int64), _effective(gate.norm.scale, over=1), guard
        )
    peephole = None
    if gate.peephole is not None:
        require_quantized(node, gate.peephole)
        scaling = multipliers([float(np.float32(cell.cell.scale * gate.peephole.scale / scale))])
        peephole = (gate.peephole.array.astype(np.int64), scaling, cell.outputs)
    entry = _effective(gate.weights.scale, ifm.scale, over=scale)
    recurrent = _effective(gate.recurrent.scale, cell.state.scale, over=scale)
    return _IntegerGate(
        _product(gate.weights, None if norm else gate.bias, -ifm.zero_point, entry),
        _product(gate.recurrent, None, -cell.state.zero_point, recurrent),
        peephole,
        norm,
    )


def _intermediate(node: OperatorNode, index: int) -> RuntimeTensor:
    tensor = node.intermediates[index]
    require_quantized(node, tensor)
    return tensor


def _clip_limit(limit: float, scale: float, bounds: tuple[int, int]) -> int:
    """A clip in quantized steps, truncated; 0 where there is none."""
    steps = float(np.float32(limit) / np.float32(scale))
    return int(min(max(steps, bounds[0]), bounds[1])) if limit > 0 else 0


def _check(node: OperatorNode, cell: LstmCell) -> int:
    """The exponent of the cell state's scale."""
    if len(node.intermediates) != 5:
        raise node.fail(f"intermediate tensors must be 5 (8-bit activations, 16-bit gates), got {len(node.intermediates)}")
    require_quantized(node, cell.cell, cell.state, node.output())
    mantissa, exponent = np.frexp(cell.cell.scale)
    if mantissa != 0.5 or not -15 <= exponent - 1 <= -9:
        raise node.fail(f"cell state scale must be a power of two in [2**-15, 2**-9], got {cell.cell.scale}")
    if any(gate.peephole is not None for gate in cell.given) and cell.outputs > cell.units:
        raise node.fail(f"a cell with peepholes must have at most {cell.units} outputs, got {cell.outputs}")
    if any(len(gate.recurrent.shape) != 2 for gate in cell.given):
        raise node.fail("recurrent weights must have rank 2, got diagonal ones")
    return int(exponent) - 1


@dataclass(frozen=True, slots=True)
class _GateArithmetic:
    """What differs between the two ways to make gates: their sums and functions, and x / 2**bits."""

    total: Callable[[_IntegerGate, Array, Array, Array], Array]
    logistic: Callable[[Array], Array]
    tanh: Callable[[Array], Array]
    tanh_of_cell: Callable[[Array], Array]
    rounded_shift: Callable[[Array, int], Array]


def _exact(exponent: int) -> _GateArithmetic:
    return _GateArithmetic(  # the tables are made by the first step: whoever only prepares operators needs none
        total=lambda gate, x, h, c: gate(x, h, c),
        logistic=lambda total: logistic_table()[total + 32768],
        tanh=lambda total: tanh_table(3)[total + 32768],
        tanh_of_cell=lambda cell: tanh_table(15 + exponent)[cell + 32768],
        rounded_shift=rounded_shift,
    )


def _by_table(exponent: int) -> _GateArithmetic:
    bits = exponent + 12
    return _GateArithmetic(
        total=_IntegerGate.unsaturated,
        logistic=lambda total: np.clip(sigmoid_16bit(total, 3, 0), *SIGMOID_RANGE),
        tanh=lambda total: tanh_16bit(total, 3, 0),
        tanh_of_cell=lambda cell: tanh_16bit(cell, 3 << max(bits, 0), max(-bits, 0)),
        rounded_shift=lambda x, bits: rounded_shift((x + 1) >> 1, bits - 1),
    )


def _is_by_table(node: OperatorNode, cell: LstmCell) -> bool:
    """Whether the NPU would compute it, and by its table."""
    has_more = cell.projection is not None or any(gate.peephole is not None or gate.norm is not None for gate in cell.given)
    is_alone = node.kind == "UNIDIRECTIONAL_SEQUENCE_LSTM" and not has_more
    return is_alone and node.options.lstm_gates is LstmGates.TABLE


def integer_step(node: OperatorNode, cell: LstmCell, *, batch_at_once: bool) -> Callable[[Array, Array | None], Array]:
    """A step of an int8 cell; batches one at a time where the kernel takes them so (batch-major sequences)."""
    exponent = _check(node, cell)
    gates = [None if gate is None else _gate(node, cell, gate, i) for i, gate in enumerate(cell.gates)]
    finish = _finish(node, cell)
    clip = _clip_limit(node.attributes.cell_clip, cell.cell.scale, _INT16)
    arithmetic = _by_table(exponent) if _is_by_table(node, cell) else _exact(exponent)
    rounded_shift = arithmetic.rounded_shift

    def step(x: Array, h: Array, c: Array) -> None:
        def value(index: int) -> Array:
            gate = gates[index]
            assert gate is not None
            function = arithmetic.tanh if index == CELL_GATE else arithmetic.logistic
            return function(arithmetic.total(gate, x, h, c))

        forget, update = value(FORGET_GATE), value(CELL_GATE)
        entry = 32767 - forget if gates[INPUT_GATE] is None else value(INPUT_GATE)
        kept = rounded_shift(forget * c.astype(np.int64), 15)
        new_cell = np.clip(kept + rounded_shift(entry * update, 30 + exponent), *_INT16)
        c[...] = np.clip(new_cell, -clip, clip) if clip > 0 else new_cell
        h[...] = finish(value(OUTPUT_GATE) * arithmetic.tanh_of_cell(c.astype(np.int64)))

    def run(x: Array, _auxiliary: Array | None) -> Array:
        h, c = cell.state.array.reshape(-1, cell.outputs), cell.cell.array.reshape(-1, cell.units)
        for rows in [slice(None)] if batch_at_once else [slice(b, b + 1) for b in range(x.shape[0])]:
            step(x[rows], h[rows], c[rows])
        return h

    return run


def _finish(node: OperatorNode, cell: LstmCell) -> Callable[[Array], Array]:
    """Gate times tanh (Q0.30) to the output: rescaled to int8, then projected."""
    hidden = _intermediate(node, _HIDDEN)
    scaling = multipliers([float(np.float32(2.0**-15 / hidden.scale * 2.0**-15))])
    if cell.projection is None:
        return lambda product: requantize(product, scaling, hidden.zero_point, _INT8)
    require_quantized(node, cell.projection)
    weights, state = cell.projection, cell.state
    factor = _effective(weights.scale, hidden.scale, over=state.scale)
    project = _product(weights, cell.projection_bias, hidden.zero_point, factor)
    clip = _clip_limit(node.attributes.proj_clip, node.output().scale, _INT8)

    def finish(product: Array) -> Array:
        narrow = requantize(product, scaling, -hidden.zero_point, _INT8)
        result = np.clip(project(narrow) + state.zero_point, *_INT8)
        clipped: Array = np.clip(result, -clip, clip) if clip > 0 else result
        return clipped

    return finish
