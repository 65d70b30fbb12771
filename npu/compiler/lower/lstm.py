"""UNIDIRECTIONAL_SEQUENCE_LSTM with 8-bit activations: a row of steps for every time, exact in the reference's fixed point.

The input's products are made for all times, or for as many as there is room for where memory counts more. Per time, for each
group of gates: the product with the output before it, the sums in 32 bits, and their functions in gemmlowp's 16-bit fixed
point. The tanh of the cell is made with the output's gate, whose weights so have time to arrive. Where memory counts more, a
single time goes from gate to gate. Source: TFLite's LstmStepInteger8x8_16.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from npu.compiler.ir import StepWeights, View
from npu.compiler.lower.activation import lower_hardware_function
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.convolution import weight_values
from npu.compiler.lower.fixed_point import Curve, FixedPoint
from npu.compiler.lower.geometry import crop
from npu.compiler.lower.quantize import register_scale
from npu.graph.attributes import UnidirectionalSequenceLSTMOptions
from npu.graph.graph import ABSENT, Op
from npu.isa.operations import INT16, INT32, ElementType, ElementwiseMode, Rounding, Scale
from npu.layouts import BRICK_DEPTH, MapShape
from npu.machine.rules import ceil_div, round_up
from npu.numerics.lstm_gates import CELL_EXPONENTS, MOST_TIMES, SIGMOID_RANGE, LstmGates
from npu.records import dataclass, replace

_INPUT, _FORGET, _CELL, _OUTPUT, _TANH_OF_CELL = range(5)
"""Gates in the order of the operator's tensors, and what the output's is multiplied with."""
_WEIGHTS, _RECURRENT, _BIAS, _STATE, _CELL_STATE = 1, 5, 12, 18, 19
_EXTRAS = (9, 10, 11, 16, 17, 20, 21, 22, 23)
"""Peepholes, projection and layer normalisation."""
_HIDDEN = 4
"""Position of the intermediate tensor that describes the output."""
_GATE_SCALE = np.float32(2.0**-12)
_GATE_BITS = 3
"""Integer bits of the sums of a gate."""
_LONG_STEP_CYCLES = 300
"""Where the elements of one gate take so long, what a step takes to begin is little beside them."""
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
    if mantissa != 0.5 or not CELL_EXPONENTS[0] <= exponent - 1 <= CELL_EXPONENTS[1]:
        raise builder.error(op, "scale of the cell state must be a power of two in [2**-15, 2**-10]")
    batches, times = builder.tensor(op.inputs[0]).shape[:2][:: -1 if options.time_major else 1]
    if times > MOST_TIMES:
        raise builder.error(op, f"must have at most {MOST_TIMES} times, got {times}")
    _LstmSteps(builder, op, int(exponent) - 1, batches, options.time_major, times).lower(options.cell_clip)


@dataclass(frozen=True, slots=True)
class _LstmSteps:
    """The steps of one cell; `exponent` is that of the cell state's scale."""

    builder: Builder
    op: Op
    exponent: int
    batches: int
    is_time_major: bool
    times: int

    @property
    def units(self) -> int:
        return self.builder.tensor(self.op.inputs[_WEIGHTS + _OUTPUT]).shape[0]

    @property
    def is_by_table(self) -> bool:
        """Whether the functions are those of the hardware, and the arithmetic about them as in streams of Vela."""
        return self.builder.lstm_gates is LstmGates.TABLE

    @property
    def is_coupled(self) -> bool:
        """Whether the input gate is what the forget gate leaves of 1."""
        return self.op.inputs[_WEIGHTS + _INPUT] == ABSENT

    def lower(self, cell_clip: float) -> None:
        if self.times == 1 and self.builder.saves_memory and not self.is_by_table:
            self._lower_gate_by_gate(cell_clip)
        else:
            self._lower_in_groups(cell_clip)

    def _lower_gate_by_gate(self, cell_clip: float) -> None:
        """One time with the least memory: of the gates before, no more is kept than the cell, in its place, and one gate."""
        state, cell = (self._state(position) for position in (_STATE, _CELL_STATE))
        forget = self._gate(_FORGET, state)
        self._product(forget, cell, cell, 15)
        if self.is_coupled:
            self._remainder(forget, forget)
        entered = forget if self.is_coupled else self._gate(_INPUT, state)
        added = self._gate(_CELL, state)
        self._product(entered, added, added, 30 + self.exponent)
        self._sum(cell, added, cell, cell_clip)
        gate, bent = self._gate(_OUTPUT, state), self.new(cell.shape)
        self._function(cell, bent, _TANH_OF_CELL)
        h = self._output(gate, bent, self.at(self.builder.output(self.op.outputs[0]), 0))
        self.builder.copy(h, state)

    def _gate(self, gate: int, h: View) -> View:
        """A gate of the only time."""
        values = self.new(h.shape)
        self._function(_GateGroup(self, (gate,)).operands_in_place(h), values, gate)
        return values

    def _function(self, x: View, ofm: View, part: int) -> None:
        FixedPoint(self.builder, saves_memory=True).functions(x, ofm, [self.curve(part)])

    def _lower_in_groups(self, cell_clip: float) -> None:
        state, cell = (self._state(position) for position in (_STATE, _CELL_STATE))
        output = self.builder.output(self.op.outputs[0])
        groups = [_GateGroup(self, gates) for gates in self._groups()]
        h, c = state, cell
        for time in range(self.times):
            values: dict[int, View] = {}
            for group in groups:
                operands = group.operands(time, h)
                if group is groups[-1]:
                    c = self._next_cell(values, c, cell_clip, group.part(operands, _TANH_OF_CELL))
                values |= group.values(time, operands)
            h = self._output(values[_OUTPUT], values[_TANH_OF_CELL], self.at(output, time))
        self.builder.copy(h, state)
        self.builder.copy(c, cell)

    def _groups(self) -> list[tuple[int, ...]]:
        """Gates that are made together; the output's with the tanh of the cell.

        While the weights of the next are copied, the gates before them are made. Where their elements take long, and weights
        are not there from the time before, they have steps of their own.
        """
        inputs = (_FORGET,) if self.is_coupled else (_INPUT, _FORGET)
        if self.is_by_table:
            return [*((gate,) for gate in (*inputs, _CELL)), (_OUTPUT, _TANH_OF_CELL)]
        takes_long = self.units * self.builder.variant.timing.output_cycles.mul_or_40_bit_accumulator > _LONG_STEP_CYCLES
        return [*((inputs, (_CELL,)) if takes_long and self.times == 1 else ((*inputs, _CELL),)), (_OUTPUT, _TANH_OF_CELL)]

    @property
    def times_at_once(self) -> int:
        """For how many times the products of the input are made, which read their weights again for the next."""
        gates = _OUTPUT + 1 - self.is_coupled
        one = gates * self.units * self.batches * INT16.bytes
        return max(self.builder.rooms.granted(self.builder.index, one * self.times) // one, 1)

    def row(self, depth: int, times: int = 1) -> MapShape:
        return (times, self.batches, depth) if self.is_time_major else (self.batches, times, depth)

    def at(self, view: View, time: int, times: int = 1) -> View:
        """A time, or as many as there are of so many from it on."""
        left = view.shape[0 if self.is_time_major else 1] - time
        return crop(view, (time, 0, 0) if self.is_time_major else (0, time, 0), self.row(view.shape[2], min(times, left)))

    def _state(self, position: int) -> View:
        return self.builder.reshaped(self.builder.input(self.op.inputs[position]), self.row(self.units))

    def _next_cell(self, gates: dict[int, View], cell: View, clip: float, made: View) -> View:
        kept, added = (self.new(cell.shape) for _ in range(2))
        if self.is_coupled:
            gates[_INPUT] = self.new(cell.shape)
            self._remainder(gates[_FORGET], gates[_INPUT])
        self._product(gates[_FORGET], cell, kept, 15)
        self._product(gates[_INPUT], gates[_CELL], added, 30 + self.exponent)
        self._sum(kept, added, made, clip)
        return made

    def _remainder(self, gate: View, ofm: View) -> None:
        """What a gate leaves of 1."""
        self.builder.elementwise(ElementwiseMode.SUB, gate, ofm, INT16.maximum, is_reversed=True)

    def _sum(self, kept: View, added: View, made: View, clip: float) -> None:
        """The next cell."""
        steps = float(np.float32(clip) / self.builder.scale(self.op.inputs[_CELL_STATE])) if clip > 0 else INT16.maximum + 1
        most = int(min(steps, INT16.maximum))
        least = -most if clip > 0 else INT16.minimum
        self.builder.elementwise(ElementwiseMode.ADD, kept, made, added, minimum=least, maximum=most)

    def _product(self, x: View, y: View, ofm: View, bits: int) -> None:
        scale = Scale(_EXACT >> 1, 30 + bits) if self.is_by_table else Scale(_EXACT, 31 + bits)
        self.builder.elementwise(ElementwiseMode.MUL, x, ofm, y, scale=scale)

    def _output(self, gate: View, bent: View, ofm: View) -> View:
        hidden = self.builder.quantized(self.op.intermediates[_HIDDEN])
        factor = float(np.float32(2.0**-15 / float(hidden.scale) * 2.0**-15))
        target = replace(ofm, zero_point=hidden.zero_point)
        self.builder.elementwise(ElementwiseMode.MUL, gate, target, bent, scale=register_scale(factor))
        return ofm

    def new(self, shape: MapShape, element: ElementType = INT16) -> View:
        return self.builder.temporary("cell", shape, element)

    def curve(self, part: int) -> Curve:
        bits = 15 + self.exponent if part == _TANH_OF_CELL else _GATE_BITS
        return Curve(self.units, is_tanh=part in (_CELL, _TANH_OF_CELL), integer_bits=bits)


class _GateGroup:
    """Gates whose sums lie side by side in one map, as what else has a function may."""

    def __init__(self, cell: _LstmSteps, parts: tuple[int, ...]) -> None:
        self._cell, self._parts = cell, parts
        self._gates = [part for part in parts if part != _TANH_OF_CELL]
        self._recurrent = self._weights(_RECURRENT, cell.op.inputs[_STATE], has_bias=False)
        self._times_at_once, self._entries = cell.times_at_once, dict[int, View]()

    def operands(self, time: int, h: View) -> View:
        """Of the functions: sums of the products of input and output before, saturated. By the table only the latter."""
        cell, builder = self._cell, self._cell.builder
        operands = cell.new(cell.row(cell.units * len(self._parts)))
        gates = crop(operands, (0, 0, 0), cell.row(cell.units * len(self._gates)))
        output = replace(h, zero_point=builder.zero_point(cell.op.inputs[_STATE]))
        if cell.is_by_table:
            builder.convolve(output, gates, self._recurrent)
            return operands
        self._add(output, self._recurrent, self._entry(time), gates)
        return operands

    def operands_in_place(self, h: View) -> View:
        """The same for the only time, where the products of the input were, half of the channels after the other."""
        cell, builder, recurrent = self._cell, self._cell.builder, self._recurrent
        entry, output = self._entry(0), replace(h, zero_point=builder.zero_point(cell.op.inputs[_STATE]))
        half = round_up(ceil_div(cell.units, 2), BRICK_DEPTH)
        for start in range(0, cell.units, half):
            part = crop(entry, (0, 0, start), cell.row(min(half, cell.units - start)))
            self._add(output, recurrent.channels(slice(start, start + half)), part, part)
        return entry

    def _add(self, output: View, recurrent: StepWeights, entry: View, sums: View) -> None:
        """The products of the output before and those of the input."""
        builder = self._cell.builder
        products, wide = (self._cell.new(entry.shape, INT32) for _ in range(2))
        builder.convolve(output, products, recurrent)
        builder.widen(entry, wide)
        builder.elementwise(ElementwiseMode.ADD, wide, sums, products)

    def _entry(self, time: int) -> View:
        """Products of the input at a time, bias included; made where first read: till then weights are copied."""
        first = time - time % self._times_at_once
        if first not in self._entries:
            op, builder = self._cell.op, self._cell.builder
            ifm = self._cell.at(builder.input(op.inputs[0], builder.zero_point(op.inputs[0])), first, self._times_at_once)
            self._entries[first] = self._cell.new((*ifm.shape[:2], len(self._gates) * self._cell.units))
            builder.convolve(ifm, self._entries[first], self._entering)
        return self._cell.at(self._entries[first], time - first)

    @cached_property
    def _entering(self) -> StepWeights:
        return self._weights(_WEIGHTS, self._cell.op.inputs[0], has_bias=True)

    def part(self, view: View, part: int) -> View:
        """The channels of one of them."""
        units = self._cell.units
        return crop(view, (0, 0, self._parts.index(part) * units), self._cell.row(units))

    def values(self, time: int, operands: View) -> dict[int, View]:
        """Their functions."""
        values = self._cell.new(operands.shape)
        made = {part: self.part(values, part) for part in self._parts}
        if self._cell.is_by_table:
            entry = self._entry(time)
            for gate in self._gates:
                self._look_up(gate, self.part(entry, gate), self.part(operands, gate), made[gate])
            if _TANH_OF_CELL in made:
                cell = self.part(operands, _TANH_OF_CELL)
                lower_hardware_function(self._cell.builder, "TANH", cell, made[_TANH_OF_CELL], 2.0**self._cell.exponent)
        else:
            FixedPoint(self._cell.builder).functions(operands, values, [self._cell.curve(part) for part in self._parts])
        return made

    def _look_up(self, gate: int, entry: View, recurrent: View, ofm: View) -> None:
        """The hardware's function of the sum, of which nothing is clipped before. It takes three times a Q3 number."""
        function, (least, most) = ("tanh", (INT16.minimum, INT16.maximum)) if gate == _CELL else ("sigmoid", SIGMOID_RANGE)
        self._cell.builder.elementwise(
            ElementwiseMode.ADD, entry, ofm, recurrent, scale=Scale(3, 0), rounding=Rounding.NATURAL,
            minimum=least, maximum=most, function=function,
        )  # fmt: skip

    def _weights(self, first: int, source: int, *, has_bias: bool) -> StepWeights:
        """Those of the gates as one convolution; effective scales are rounded to float32."""
        cell, builder = self._cell, self._cell.builder
        values, biases, scales = [], [], []
        for gate in self._gates:
            tensor = cell.op.inputs[first + gate]
            factor = builder.scale(tensor) * builder.scale(source) / _GATE_SCALE
            values.append(weight_values(builder, cell.op, tensor))
            bias = builder.constant_data(cell.op.inputs[_BIAS + gate]) if has_bias else np.zeros(cell.units)
            biases.append(bias.reshape(-1).astype(np.int64))
            scales += [register_scale(float(factor))] * cell.units
        stacked = np.concatenate(values)
        return StepWeights(
            values=stacked.reshape(len(stacked), 1, 1, -1),
            biases=np.concatenate(biases),
            scales=np.array([scale.scale for scale in scales], np.uint32),
            shifts=np.array([scale.shift for scale in scales], np.uint8),
        )
