"""Multiply-accumulates of operators whose work lies in matrices, counted by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from npu.graph.dtype import DType
from npu.graph.graph import ABSENT, Graph, Op, Tensor
from npu.graph.work import macs

GATES = [(6, 8)] * 4
STATES = [(6, 5)] * 4
VECTORS: list[tuple[int, ...] | None] = [None] * 3

CASES: dict[str, tuple[str, Sequence[tuple[int, ...] | None], int]] = {
    "lstm over 3 time steps of 2 batches": (
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        [(2, 3, 8), *GATES, *STATES, *VECTORS, *[(6,)] * 4, (5, 6), None, (2, 5), (2, 6)],
        2 * 3 * (4 * 6 * 8 + 4 * 6 * 5 + 5 * 6),
    ),
    "lstm whose input gate is coupled": (
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        [(1, 1, 8), None, *GATES[1:], None, *STATES[1:], *VECTORS, *[(6,)] * 4, None, None, (1, 5), (1, 6)],
        3 * 6 * 8 + 3 * 6 * 5,
    ),
    "basic lstm": ("LSTM", [(2, 8), (2, 6), (24, 14), (24,), (2, 6)], 2 * 24 * 14),
    "rnn": ("RNN", [(2, 8), (6, 8), (6, 6), (6,), (2, 6)], 2 * (6 * 8 + 6 * 6)),
    "svdf": ("SVDF", [(1, 40), (16, 40), (16, 10), None, (1, 160)], 16 * 40 + 16 * 10),
    "convolution of volumes": ("CONV_3D", [(1, 4, 4, 4, 2), (3, 3, 3, 2, 5)], 64 * 5 * 27 * 2),
}


@pytest.mark.parametrize("case", CASES)
def test_every_weight_of_a_matrix_counts_once_per_use(case: str) -> None:
    kind, shapes, expected = CASES[case]
    tensors = [Tensor(str(number), shape, DType.INT8) for number, shape in enumerate(shapes) if shape is not None]
    numbers = iter(range(len(tensors)))
    inputs = tuple(ABSENT if shape is None else next(numbers) for shape in shapes)
    tensors.append(Tensor("output", (1, 4, 4, 4, 5), DType.INT8))
    op = Op(kind, inputs, (len(tensors) - 1,), None)
    assert macs(Graph("main", tuple(tensors), (op,), (0,), op.outputs), op) == expected
