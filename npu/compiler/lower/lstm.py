"""UNIDIRECTIONAL_SEQUENCE_LSTM with 8-bit activations: a row of steps for every time, exact in the reference's fixed point.

All gates of all times read the input at once. Per time one product with the output before it, both sums in 32 bits, gates in
gemmlowp's 16-bit fixed point, the cell, and the output, which is the next one's recurrent input. Source: TFLite's
LstmStepInteger8x8_16.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npu.compiler.ir import StepWeights, View
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.convolution import weight_values
from npu.compiler.lower.fixed_point import FixedPoint
from npu.compiler.lower.geometry import crop
from npu.compiler.lower.quantize import register_scale
from npu.graph.attributes import UnidirectionalSequenceLSTMOptions
from npu.graph.graph import ABSENT, Op
from npu.isa.operations import INT16, INT32, ElementType, ElementwiseMode, Scale
from npu.layouts import MapShape
from npu.records import dataclass

MOST_TIMES = 64
"""Times that are unrolled; each takes about 90 operations."""
_INPUT, _FORGET, _CELL, _OUTPUT = range(4)
_WEIGHTS, _RECURRENT, _BIAS, _STATE, _CELL_STATE = 1, 5, 12, 18, 19
_EXTRAS = (9, 10, 11, 16, 17, 20, 21, 22, 23)
"""Peepholes, projection and layer normalisation."""
_HIDDEN = 4
"""Position of the intermediate tensor that describes the output."""
MOST_INTEGER_BITS = 5
"""Of the cell state: its tanh has one more, and exp() knows the factors of seven bits."""
_GATE_SCALE = np.float32(2.0**-12)
_EXACT = 1 << 31
"""A scale of 1 behind the first rounding, which so leaves a product whole: the second takes ties away from zero."""


def lower_lstm(builder: Builder, op: Op) -> None:
    """A cell without peepholes, projection and normalisation."""
    options = op.attributes
    assert isinstance(options, UnidirectionalSequenceLSTMOptions)
    if any(position < len(op.inputs) and op.inputs[position] != ABSENT for position in _EXTRAS):
        raise builder.error(op, "a cell must have neither peepholes nor projection nor normalisation")
    if len(op.intermediates) != _HIDDEN + 1:
        raise builder.error(op, f"must have 5 intermediate tensors, got {len(op.intermediates)}")
    mantissa, exponent = np.frexp(float(builder.scale(op.inputs[_CELL_STATE])))
    if mantissa != 0.5 or not -15 <= exponent - 1 <= MOST_INTEGER_BITS - 15:
        raise builder.error(op, "scale of the cell state must be a power of two in [2**-15, 2**-10]")
    batches, times = builder.tensor(op.inputs[0]).shape[:2][:: -1 if options.time_major else 1]
    if times > MOST_TIMES:
        raise builder.error(op, f"must have at most {MOST_TIMES} times, got {times}")
    _LstmSteps(builder, op, int(exponent) - 1, batches, is_time_major=options.time_major).lower(times, options.cell_clip)


@dataclass(frozen=True, slots=True)
class _LstmSteps:
    """The steps of one cell; `exponent` is that of the cell state's scale."""

    builder: Builder
    op: Op
    exponent: int
    batches: int
    is_time_major: bool

    @property
    def units(self) -> int:
        return self.builder.tensor(self.op.inputs[_WEIGHTS + _OUTPUT]).shape[0]

    @property
    def gates(self) -> tuple[int, ...]:
        """The gates in the order in which their sums lie side by side: the cell's, whose function is another, is the last."""
        is_coupled = self.op.inputs[_WEIGHTS + _INPUT] == ABSENT
        return (_FORGET, _OUTPUT, _CELL) if is_coupled else (_INPUT, _FORGET, _OUTPUT, _CELL)

    def lower(self, times: int, cell_clip: float) -> None:
        state, cell = (self._state(position) for position in (_STATE, _CELL_STATE))
        output = self.builder.output(self.op.outputs[0])
        entry, recurrent = self._entry(), self._weights(_RECURRENT, self.op.inputs[_STATE], has_bias=False)
        h, c = state, cell
        for time in range(times):
            gates = self._sums(self._at(entry, time), h, recurrent)
            c = self._next_cell(gates, c, cell_clip)
            h = self._output(gates[_OUTPUT], c, self._at(output, time))
        self.builder.copy(h, state)
        self.builder.copy(c, cell)

    def _row(self, depth: int) -> MapShape:
        return (1, self.batches, depth) if self.is_time_major else (self.batches, 1, depth)

    def _at(self, view: View, time: int) -> View:
        return crop(view, (time, 0, 0) if self.is_time_major else (0, time, 0), self._row(view.shape[2]))

    def _state(self, position: int) -> View:
        return self.builder.reshaped(self.builder.input(self.op.inputs[position]), self._row(self.units))

    def _entry(self) -> View:
        """Rescaled products of the input with the weights of all gates, bias included, for all times."""
        ifm = self.builder.input(self.op.inputs[0], self.builder.zero_point(self.op.inputs[0]))
        target = self._new((*ifm.shape[:2], len(self.gates) * self.units))
        self._multiply(ifm, target, self._weights(_WEIGHTS, self.op.inputs[0], has_bias=True))
        return target

    def _weights(self, first: int, source: int, *, has_bias: bool) -> StepWeights:
        """Those of all gates as one convolution; effective scales are rounded to float32."""
        values, biases, scales = [], [], []
        for gate in self.gates:
            tensor = self.op.inputs[first + gate]
            factor = self.builder.scale(tensor) * self.builder.scale(source) / _GATE_SCALE
            values.append(weight_values(self.builder, self.op, tensor))
            bias = self.builder.constant_data(self.op.inputs[_BIAS + gate]) if has_bias else np.zeros(self.units)
            biases.append(bias.reshape(-1).astype(np.int64))
            scales += [register_scale(float(factor))] * self.units
        stacked = np.concatenate(values)
        return StepWeights(
            values=stacked.reshape(len(stacked), 1, 1, -1),
            biases=np.concatenate(biases),
            scales=np.array([scale.scale for scale in scales], np.uint32),
            shifts=np.array([scale.shift for scale in scales], np.uint8),
        )

    def _multiply(self, ifm: View, ofm: View, weights: StepWeights) -> None:
        self.builder.convolve(ifm, ofm, weights)

    def _sums(self, entry: View, h: View, weights: StepWeights) -> dict[int, View]:
        """The gates' values behind their functions."""
        recurrent, wide = (self._new(entry.shape, INT32) for _ in range(2))
        ifm = replace(h, zero_point=self.builder.zero_point(self.op.inputs[_STATE]))
        self._multiply(ifm, recurrent, weights)
        self.builder.widen(entry, wide)
        sums, functions = self._new(entry.shape), self._new(entry.shape)
        self.builder.elementwise(ElementwiseMode.ADD, wide, sums, recurrent)
        FixedPoint(self.builder).gates(sums, functions, entry.shape[2] - self.units)
        starts = {gate: number * self.units for number, gate in enumerate(self.gates)}
        gates = {gate: crop(functions, (0, 0, start), self._row(self.units)) for gate, start in starts.items()}
        if _INPUT not in gates:
            gates[_INPUT] = self._new(self._row(self.units))
            self.builder.elementwise(ElementwiseMode.SUB, gates[_FORGET], gates[_INPUT], INT16.maximum, is_reversed=True)
        return gates

    def _next_cell(self, gates: dict[int, View], cell: View, clip: float) -> View:
        kept, added, made = (self._new(cell.shape) for _ in range(3))
        self._product(gates[_FORGET], cell, kept, 15)
        self._product(gates[_INPUT], gates[_CELL], added, 30 + self.exponent)
        steps = float(np.float32(clip) / self.builder.scale(self.op.inputs[_CELL_STATE])) if clip > 0 else INT16.maximum + 1
        most = int(min(steps, INT16.maximum))
        least = -most if clip > 0 else INT16.minimum
        self.builder.elementwise(ElementwiseMode.ADD, kept, made, added, minimum=least, maximum=most)
        return made

    def _product(self, x: View, y: View, ofm: View, bits: int) -> None:
        self.builder.elementwise(ElementwiseMode.MUL, x, ofm, y, scale=Scale(_EXACT, 31 + bits))

    def _output(self, gate: View, cell: View, ofm: View) -> View:
        bent = self._new(cell.shape)
        FixedPoint(self.builder).tanh(cell, bent, 15 + self.exponent)
        hidden = self.builder.quantized(self.op.intermediates[_HIDDEN])
        factor = float(np.float32(2.0**-15 / float(hidden.scale) * 2.0**-15))
        target = replace(ofm, zero_point=hidden.zero_point)
        self.builder.elementwise(ElementwiseMode.MUL, gate, target, bent, scale=register_scale(factor))
        return ofm

    def _new(self, shape: MapShape, element: ElementType = INT16) -> View:
        return self.builder.temporary("cell", shape, element)
