"""The tensors of an LSTM cell by name: the only place that knows their positions among the inputs, and checks their shapes."""

from __future__ import annotations

from typing import Final

from npu.graph.dtype import DType
from npu.records import dataclass
from npu.runtime.operator import OperatorNode
from npu.runtime.operators.cell_products import require_shape, require_state
from npu.runtime.tensor import RuntimeTensor

INPUT_GATE: Final = 0
FORGET_GATE: Final = 1
CELL_GATE: Final = 2
OUTPUT_GATE: Final = 3


@dataclass(frozen=True, slots=True)
class Positions:
    """Where the inputs of one cell start: four weights each, three peepholes, four biases, then projection and its bias."""

    weights: int
    recurrent: int
    peephole: int
    bias: int
    projection: int
    state: int
    cell: int
    norm: int | None = None
    auxiliary: int | None = None


FORWARD = Positions(1, 5, 9, 12, 16, 18, 19, norm=20)
"""LSTM and UNIDIRECTIONAL_SEQUENCE_LSTM."""
BOTH_WAYS = (Positions(1, 5, 9, 12, 16, 35, 36, auxiliary=40), Positions(18, 22, 26, 29, 33, 37, 38, auxiliary=44))
"""The forward and the backward cell of BIDIRECTIONAL_SEQUENCE_LSTM."""
AUXILIARY_INPUT = 39


@dataclass(frozen=True, slots=True)
class Gate:
    """Tensors of one gate; `auxiliary` are the weights of the auxiliary input."""

    weights: RuntimeTensor
    recurrent: RuntimeTensor
    bias: RuntimeTensor
    peephole: RuntimeTensor | None
    norm: RuntimeTensor | None
    auxiliary: RuntimeTensor | None


@dataclass(frozen=True, slots=True)
class LstmCell:
    """Tensors of one cell. `gates` in the order input, forget, cell, output; the input gate is None if it is coupled (CIFG)."""

    gates: tuple[Gate | None, Gate, Gate, Gate]
    projection: RuntimeTensor | None
    projection_bias: RuntimeTensor | None
    state: RuntimeTensor
    cell: RuntimeTensor
    units: int
    outputs: int

    @property
    def given(self) -> tuple[Gate, ...]:
        """The gates that the cell has."""
        return tuple(gate for gate in self.gates if gate is not None)


def find_cell(
    node: OperatorNode, at: Positions, features: int, batches: int, auxiliary_features: int | None = None
) -> LstmCell:
    """The cell at these positions, its shapes checked; an InterpreterError names what does not fit."""
    weights, recurrent = node.input(at.weights + OUTPUT_GATE), node.input(at.recurrent + OUTPUT_GATE)
    if len(weights.shape) != 2 or len(recurrent.shape) not in (1, 2):
        raise node.fail(f"weights must have rank 2, got {list(weights.shape)} and {list(recurrent.shape)}")
    coupled = node.optional(at.weights) is None
    if (node.optional(at.recurrent) is None) != coupled or (node.optional(at.bias) is None) != coupled:
        raise node.fail("weights, recurrent weights and bias of the input gate must be given together, got some of them")
    gates = [None if coupled and i == 0 else _gate(node, at, i) for i in range(4)]
    cell = LstmCell(
        gates=(gates[0], *_mandatory(gates)),
        projection=node.optional(at.projection),
        projection_bias=node.optional(at.projection + 1),
        state=node.input(at.state),
        cell=node.input(at.cell),
        units=weights.shape[0],
        outputs=recurrent.shape[-1],
    )
    _check(node, cell, features, batches, auxiliary_features)
    return cell


def _mandatory(gates: list[Gate | None]) -> tuple[Gate, Gate, Gate]:
    _, forget, cell, output = gates
    assert forget is not None
    assert cell is not None
    assert output is not None
    return forget, cell, output


def _gate(node: OperatorNode, at: Positions, index: int) -> Gate:
    peephole = {INPUT_GATE: 0, FORGET_GATE: 1, OUTPUT_GATE: 2}.get(index)
    return Gate(
        weights=node.input(at.weights + index),
        recurrent=node.input(at.recurrent + index),
        bias=node.input(at.bias + index),
        peephole=None if peephole is None else node.optional(at.peephole + peephole),
        norm=None if at.norm is None else node.optional(at.norm + index),
        auxiliary=None if at.auxiliary is None else node.optional(at.auxiliary + index),
    )


def _check(node: OperatorNode, cell: LstmCell, features: int, batches: int, auxiliary_features: int | None) -> None:
    for gate in cell.given:
        require_shape(node, "weights", gate.weights, cell.units, features)
        if len(gate.recurrent.shape) == 1:
            require_shape(node, "diagonal recurrent weights", gate.recurrent, cell.units)
        else:
            require_shape(node, "recurrent weights", gate.recurrent, cell.units, cell.outputs)
        for what, vector in (("bias", gate.bias), ("peephole weights", gate.peephole), ("layer norm weights", gate.norm)):
            require_shape(node, what, vector, cell.units)
        if auxiliary_features is not None:
            require_shape(node, "auxiliary weights", gate.auxiliary, cell.units, auxiliary_features)
    _check_presence(node, cell, auxiliary_features)
    _check_types(node, cell)
    require_state(node, cell.state, batches, cell.outputs)
    require_state(node, cell.cell, batches, cell.units)


def _check_presence(node: OperatorNode, cell: LstmCell, auxiliary_features: int | None) -> None:
    peepholes = {gate.peephole is None for gate in cell.given if gate is not cell.gates[CELL_GATE]}
    norms = {gate.norm is None for gate in cell.given}
    if len(peepholes) > 1 or len(norms) > 1:
        raise node.fail("peepholes and layer norm weights must be given for all gates or none, got some")
    if auxiliary_features is not None and any(gate.auxiliary is None for gate in cell.given):
        raise node.fail("auxiliary weights must be given for all gates with the auxiliary input, got some or none")
    if cell.projection is None and (cell.projection_bias is not None or cell.outputs != cell.units):
        raise node.fail(f"without a projection there must be no projection bias and {cell.units} outputs, got {cell.outputs}")
    require_shape(node, "projection", cell.projection, cell.outputs, cell.units)
    require_shape(node, "projection bias", cell.projection_bias, cell.outputs)
    for limit in (node.attributes.cell_clip, node.attributes.proj_clip):
        if not limit >= 0:
            raise node.fail(f"clipping must be at 0 (none) or above, got {limit}")


def _check_types(node: OperatorNode, cell: LstmCell) -> None:
    """All matrices have one type; diagonal recurrent weights are float32 where activations are."""
    kind = cell.gates[FORGET_GATE].weights.dtype
    matrices = [gate.weights for gate in cell.given]
    matrices += [gate.recurrent for gate in cell.given if len(gate.recurrent.shape) == 2]
    matrices += [gate.auxiliary for gate in cell.given if gate.auxiliary is not None]
    matrices += [cell.projection] if cell.projection is not None else []
    diagonals = [gate.recurrent for gate in cell.given if len(gate.recurrent.shape) == 1]
    if any(matrix.dtype is not kind for matrix in matrices) or any(d.dtype is not DType.FLOAT32 for d in diagonals):
        raise node.fail(f"weights must all have type {kind} and diagonal ones float32, got others")
    for gate in cell.given:
        if gate.peephole is not None and gate.peephole.dtype not in (kind, DType.INT16):
            raise node.fail(f"peephole weights must have the type of the weights, got {gate.peephole.dtype}")
