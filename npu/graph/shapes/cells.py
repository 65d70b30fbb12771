"""Shapes of recurrent cells and of look-ups in tables."""

from __future__ import annotations

from npu.graph.attributes import LshProjectionType, LstmKernelType
from npu.graph.operands import Mismatch, Operands
from npu.graph.shapes.common import Shapes, check_indices, rank_of


def embedding_lookup(operands: Operands) -> Shapes:
    rows, table = operands.shape(0), operands.shape(1)
    rank_of(rows, 1, "rows")
    if len(table) < 2:
        raise Mismatch(f"table must have rank 2 or more, got {list(table)}")
    check_indices(operands, 0, table[:1])
    return [(rows[0], *table[1:])]


def hashtable_lookup(operands: Operands) -> Shapes:
    asked, keys, values = operands.shapes
    if len(asked) != 1 or len(keys) != 1 or not values or keys[0] != values[0]:
        raise Mismatch(f"lookup and keys must have rank 1 and keys one value each, got {list(keys)} and {list(values)}")
    return [(asked[0], *values[1:]), asked]


def lsh_projection(operands: Operands) -> Shapes:
    hashes = operands.shape(0)
    rank_of(hashes, 2, "seeds")
    is_sparse = operands.options.type is LshProjectionType.SPARSE
    return [(hashes[0] if is_sparse else hashes[0] * hashes[1],)]


def recurrent(operands: Operands) -> Shapes:
    """Of one time step: input (batch, features), weights (units, features)."""
    ifm = operands.shape(0)
    rank_of(ifm, 2, "input")
    return [(ifm[0], _rows(operands, 1))]


def sequence_recurrent(operands: Operands) -> Shapes:
    """Of a sequence of time steps: the first two dimensions are batch and time, in either order."""
    ifm = operands.shape(0)
    rank_of(ifm, 3, "input")
    return [(*ifm[:2], _rows(operands, 1))]


def bidirectional_recurrent(operands: Operands) -> Shapes:
    return _both_ways(operands, _rows(operands, 1), _rows(operands, 5))


def _both_ways(operands: Operands, forward: int, backward: int) -> Shapes:
    ifm = operands.shape(0)
    rank_of(ifm, 3, "input")
    if operands.options.merge_outputs:
        return [(*ifm[:2], forward + backward)]
    return [(*ifm[:2], forward), (*ifm[:2], backward)]


def _rows(operands: Operands, position: int) -> int:
    weights = operands.shape(position)
    rank_of(weights, 2, f"input {position}")
    return weights[0]


def _cell_outputs(operands: Operands, first: int = 0) -> int:
    """Units that an LSTM cell whose operands start at `first` gives: columns of the recurrent weights of its output gate."""
    recurrent = operands.shape(first + 8)
    if len(recurrent) not in (1, 2):
        raise Mismatch(f"recurrent weights must have rank 1 or 2, got {list(recurrent)}")
    return recurrent[-1]


def lstm(operands: Operands) -> Shapes:
    ifm = operands.shape(0)
    rank_of(ifm, 2, "input")
    if operands.options.kernel_type is LstmKernelType.FULL:
        return [(ifm[0], _cell_outputs(operands))]
    former = operands.shape(1)
    rank_of(former, 2, "activation")
    units, depth = former[1], ifm[1] + former[1]
    return [(ifm[0], width) for width in (units, units, depth, 4 * units)]


def sequence_lstm(operands: Operands) -> Shapes:
    ifm = operands.shape(0)
    rank_of(ifm, 3, "input")
    return [(*ifm[:2], _cell_outputs(operands))]


def bidirectional_lstm(operands: Operands) -> Shapes:
    return _both_ways(operands, _cell_outputs(operands), _cell_outputs(operands, 17))


def svdf(operands: Operands) -> Shapes:
    ifm, rank = operands.shape(0), operands.options.rank
    rank_of(ifm, 2, "input")
    filters = _rows(operands, 1)
    if rank < 1 or filters % rank:
        raise Mismatch(f"filters must be a multiple of the rank, got {filters} and {rank}")
    return [(ifm[0], filters // rank)]
