"""How well a piece of a compiled file fits an operator of the source, by what is around it, kind, extent and zero point."""

from __future__ import annotations

from collections.abc import Sequence

from npu.graph.attributes import Pool2DOptions
from npu.graph.graph import Op, Tensor
from npu.graph.ops import BY_NAME, MOVES, Cost
from npu.isa.operations import ActivationFunction, Elementwise, Pooling, PoolingMode, WeightedOperation
from npu.records import dataclass
from npu.reports.operator_map import GUESSED, LIKELY, Match
from npu.reports.source_graph import WEIGHTED, SourceGraph, is_table
from npu.reports.stream_dataflow import Piece

SHAPE, ORDER = "kind and shape", "place between others"

_ELEMENTWISE = {
    "ADD": {"ADD"}, "SUB": {"SUB"}, "MUL": {"MUL"}, "MIN": {"MINIMUM"}, "MAX": {"MAXIMUM"}, "LRELU": {"LEAKY_RELU"},
    "ABS": {"ABS"},
}  # fmt: skip
_POOLS = {PoolingMode.MAX: "MAX_POOL_2D", PoolingMode.AVERAGE: "AVERAGE_POOL_2D", PoolingMode.SUM: "AVERAGE_POOL_2D"}
_SINGLE = frozenset({*WEIGHTED, "ADD", "SUB", "MUL", "MINIMUM", "MAXIMUM", "LEAKY_RELU", "ABS", "AVERAGE_POOL_2D",
                     "MAX_POOL_2D", "QUANTIZE"})  # fmt: skip
"""Operators that are one operation of the hardware: others may take several."""


_KIND, _PARTIAL, _VIEW, _WHOLE, _PART, _ZERO_POINT, _DIRECT, _AGAIN = 8, 4, 2, 4, 1, 1, 2, -6
"""What agreement is worth: of the kind, of a part of it, of a view that was copied; of the whole output, of a part of it; of
its zero point; of a neighbour. A second piece for an operator that is one operation counts against it."""


def match_of(score: int, rivals: int, *, is_alone: bool, is_vague: bool) -> Match:
    """`is_vague`: a copy, since operators that move data are much alike, or a piece beside others that were only guessed."""
    if not is_vague and score >= _KIND + _WHOLE + 2 * _DIRECT and rivals == 1:
        return Match(SHAPE, LIKELY)
    return Match(ORDER, LIKELY if is_alone and not is_vague else GUESSED)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The operators known to be before and after a piece, those that are taken, and those that weights tell."""

    source: SourceGraph
    before: set[int]
    after: set[int]
    taken: set[int]
    anchored: set[int]

    def between(self) -> list[int]:
        """The operators that depend on all of `before`, and on which all of `after` depend; both may be among them."""
        below = self.source.below
        return [
            index
            for index in range(len(below))
            if all(below[one] >> index & 1 for one in self.before) and all(below[index] >> one & 1 for one in self.after)
        ]

    def score(self, piece: Piece, index: int) -> int:
        """How well a piece fits an operator; 0 if it cannot be a part of it."""
        op = self.source.graph.ops[index]
        kind = _kind_score(piece, op, self.source.has_constant_weights(index))
        if not kind or (index in self.anchored and op.kind in WEIGHTED):
            return 0
        score = kind + _extent_score(piece, [self.source.graph.tensors[tensor] for tensor in op.outputs])
        if all(one == index or self.source.is_next(one, index) for one in self.before):
            score += _DIRECT
        if all(one == index or self.source.is_next(index, one) for one in self.after):
            score += _DIRECT
        if index in self.taken and op.kind in _SINGLE:
            score += _AGAIN
        return max(score, 0)


def _extent_score(piece: Piece, outputs: Sequence[Tensor]) -> int:
    """What the sizes and the zero point of an operator's outputs say."""
    score = 0
    if any(tensor.elements == piece.elements for tensor in outputs):
        score += _WHOLE
    elif any(piece.elements and tensor.elements % piece.elements == 0 for tensor in outputs):
        score += _PART
    zero_points = {tensor.quantization.zero_point for tensor in outputs if tensor.quantization is not None}
    if piece.operations and piece.operations[-1].ofm.zero_point in zero_points:
        score += _ZERO_POINT
    return score


def is_copy(piece: Piece) -> bool:
    """Whether a piece is a pooling of one element: a copy, a table or another scale."""
    operation = piece.operations[0] if piece.operations else None
    return (
        isinstance(operation, Pooling)
        and operation.kernel.height == operation.kernel.width == 1
        and operation.mode is not PoolingMode.REDUCE_SUM
    )


def has_table(piece: Piece) -> bool:
    return bool(piece.operations) and piece.operations[0].activation.function is not ActivationFunction.NONE


def _kind_score(piece: Piece, op: Op, has_weights: bool) -> int:
    """Whether a piece is the operation that the operator is, one that it may be cut into, or neither (0)."""
    if not piece.operations:
        return 0
    operation = piece.operations[0]
    if isinstance(operation, Elementwise) and op.kind in _ELEMENTWISE.get(operation.mode.name, ()):
        return _KIND
    if is_copy(piece):
        if is_table(op) if has_table(piece) else op.kind in MOVES:
            return _KIND
        row = BY_NAME.get(op.kind)
        return _VIEW if row is not None and row.cost is Cost.VIEW else 0
    if isinstance(operation, Pooling) and isinstance(op.attributes, Pool2DOptions):
        window = operation.kernel.height, operation.kernel.width
        is_same = op.kind == _POOLS.get(operation.mode) and window == (op.attributes.filter_height, op.attributes.filter_width)
        return _KIND if is_same else 0
    if isinstance(operation, WeightedOperation) and op.kind in WEIGHTED:
        return _KIND if has_weights else _PARTIAL
    row = BY_NAME.get(op.kind)
    if op.kind in _SINGLE or row is None or row.cost is Cost.VIEW:
        return 0
    return _PARTIAL
