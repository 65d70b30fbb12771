"""An int8 or int16 LSTM cell, value by value, in LiteRT's arithmetic and in that of the streams that Vela makes for it.

Both share everything but the two activation functions, the sums of a gate and the rounding of the cell's products. LiteRT has
no kernel for int16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from npu.graph.graph import Graph, Op
from npu.numerics.arrays import Array

from tests.naive import gemmlowp
from tests.naive.operations import sigmoid, tanh

_GATES = ("input", "forget", "cell", "output")


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """What differs: functions of Q3.12 sums times 3 or of a Q3.12 number, the sum of a gate, a power-of-two rescale."""

    sigmoid: Callable[[int], int]
    tanh: Callable[[int], int]
    add: Callable[[int, int], int]
    divide: Callable[[int, int], int]


def _clip(value: int, bits: int = 16) -> int:
    return min(max(value, -(1 << bits - 1)), (1 << bits - 1) - 1)


def _away(value: int, bits: int) -> int:
    """value / 2**bits, ties away from zero."""
    half = 1 << bits >> 1
    return (value + half) >> bits if value >= 0 else -((-value + half) >> bits)


def _scaled(value: int, multiplier: int, shift: int) -> int:
    """value * multiplier / 2**shift, rounded at bit 31 and then again, ties away from zero."""
    product = value * multiplier
    return (product + (1 << shift - 1)) >> shift if shift <= 31 else _away((product + (1 << 30)) >> 31, shift - 31)


def _scaled_by_16_bits(value: int, multiplier: int, shift: int) -> int:
    """value times the multiplier reduced to 16 bits / 2**shift, ties up, as TFLite's 16-bit kernels do."""
    reduced = (multiplier + (1 << 15)) >> 16 if multiplier < 0x7FFF0000 else 0x7FFF
    return (value * reduced + (1 << shift - 17)) >> shift - 16


def _factor(scale: np.float32) -> tuple[int, int]:
    mantissa, exponent = np.frexp(float(scale))
    return round(float(mantissa) * 2**31), 31 - int(exponent)


LITERT = Arithmetic(
    sigmoid=gemmlowp.logistic,
    tanh=lambda v: gemmlowp.tanh(_clip(v), 3),
    add=lambda a, b: _clip(a + b),
    divide=_away,
)
"""The reference kernel: gemmlowp's polynomials, gate sums saturated to 16 bits, products rounded once."""
STREAM = Arithmetic(
    sigmoid=lambda v: min(max(sigmoid(3 * v), 11), 32757),
    tanh=lambda v: tanh(3 * v),
    add=lambda a, b: a + b,
    divide=lambda value, bits: _scaled(value, 1 << 30, 30 + bits),
)
"""Vela's stream: the output unit's tables of 256 entries, the sum before them unbounded, each product rounded twice."""


class Cell:
    """UNIDIRECTIONAL_SEQUENCE_LSTM `op` of a graph: batch-major, no projection, peepholes or normalisation."""

    def __init__(self, graph: Graph, op: Op) -> None:
        tensors = [None if index < 0 else graph.tensors[index] for index in op.inputs]
        hidden = graph.tensors[op.intermediates[4]].quantization
        x, state, cell = (tensors[k].quantization for k in (0, 18, 19))
        self.weights = {name: tensors[1 + k].data.astype(int) for k, name in enumerate(_GATES)}
        self.recurrent = {name: tensors[5 + k].data.astype(int) for k, name in enumerate(_GATES)}
        self.bias = {name: tensors[12 + k].data.astype(int) for k, name in enumerate(_GATES)}
        self.input_factor, self.state_factor = (
            {
                name: _factor(np.float32(tensors[first + k].quantization.scales[0] * given.scales[0]) / np.float32(2**-12))
                for k, name in enumerate(_GATES)
            }
            for first, given in ((1, x), (5, state))
        )
        self.zero, self.state_zero = int(x.zero_points[0]), int(state.zero_points[0])
        self.cell_bits = int(np.log2(cell.scales[0]))
        self.clip = int(min(op.attributes.cell_clip / cell.scales[0], 32767)) or 32768
        self.bits = 8 if graph.tensors[op.inputs[0]].dtype.name == "INT8" else 16
        is_wide = tensors[12].dtype.name == "INT64"
        self.rescale_state = _scaled if self.bits == 8 else _scaled_by_16_bits
        self.rescale_input = self.rescale_state if self.bits == 8 or is_wide else _scaled
        self.out_factor = _factor(np.float32(2**-15) / np.float32(hidden.scales[0]) * np.float32(2**-15))
        self.out_zero = int(hidden.zero_points[0])

    def run(self, inputs: Array, how: Arithmetic) -> Array:
        """Outputs (steps, units) for inputs (steps, features), both int8 or both int16, from a fresh state."""
        units = self.bias["input"].size
        state, cell = [self.state_zero] * units, [0] * units
        rows = []
        for x in inputs.astype(int):
            gates = {name: list(self._gate(name, x, state, how)) for name in _GATES}
            for u in range(units):
                kept = how.divide(how.sigmoid(gates["forget"][u]) * cell[u], 15)
                new = how.divide(how.sigmoid(gates["input"][u]) * how.tanh(gates["cell"][u]), 30 + self.cell_bits)
                cell[u] = max(min(_clip(kept + new), self.clip), -min(self.clip, 32768))
            wide = [value << self.cell_bits + 12 for value in cell]
            shown = [how.sigmoid(gates["output"][u]) * how.tanh(wide[u]) for u in range(units)]
            state = [_clip(_scaled(value, *self.out_factor) + self.out_zero, self.bits) for value in shown]
            rows.append(state)
        return np.array(rows, np.int8 if self.bits == 8 else np.int16)

    def _gate(self, name: str, x: Array, state: list[int], how: Arithmetic) -> Iterator[int]:
        entry = self.weights[name] @ (x - self.zero) + self.bias[name]
        kept = self.recurrent[name] @ (np.array(state) - self.state_zero)
        for a, b in zip(entry, kept, strict=True):
            both = self.rescale_input(int(a), *self.input_factor[name]), self.rescale_state(int(b), *self.state_factor[name])
            yield how.add(_clip(both[0]), _clip(both[1]))
