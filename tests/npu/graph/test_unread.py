"""Which operators nobody reads, and which of them have an effect all the same."""

from __future__ import annotations

import pytest

from npu.graph.dtype import DType
from npu.graph.graph import ABSENT, Graph, Model, Op, Tensor
from npu.graph.unread import unread_operators, without_unread

Row = tuple[str, list[int], list[int]]
# Operators as (kind, inputs, outputs) from tensor 0 to tensor 1, and those that nobody reads.
CASES: dict[str, tuple[list[Row], set[int]]] = {
    "a chain to the output": ([("RELU", [0], [2]), ("ADD", [2, 2], [1])], set()),
    "a branch": ([("RELU", [0], [2]), ("ADD", [0, 0], [1]), ("LOGISTIC", [2], [3])], {0, 2}),
    "a branch from what the output needs": ([("RELU", [0], [1]), ("ADD", [1, 1], [2])], {1}),
    "one of several outputs": ([("SPLIT", [0], [1, 2])], set()),
    "an absent input is no reader of an absent output": ([("SPLIT", [0], [2, ABSENT]), ("RELU", [0, ABSENT], [1])], {0}),
    "a variable": ([("RELU", [0], [1]), ("VAR_HANDLE", [], [2]), ("ASSIGN_VARIABLE", [2, 0], [])], set()),
    "a read of a variable": ([("RELU", [0], [1]), ("VAR_HANDLE", [], [2]), ("READ_VARIABLE", [2], [3])], set()),
    "a call": ([("CALL_ONCE", [], []), ("RELU", [0], [1])], set()),
    "a custom operator": ([("CUSTOM", [0], [2]), ("RELU", [0], [1])], set()),
    "an operator of a newer schema": ([("UNKNOWN_999", [0], [2]), ("RELU", [0], [1])], set()),
    "a loop": ([("WHILE", [0], [2]), ("RELU", [0], [1])], set()),
}


def _graph(rows: list[Row], *, variable: int = ABSENT) -> Graph:
    count = 1 + max(tensor for _, inputs, outputs in rows for tensor in (1, *inputs, *outputs))
    tensors = tuple(Tensor(f"t{index}", (4,), DType.INT8, is_variable=index == variable) for index in range(count))
    return Graph("main", tensors, tuple(Op(kind, tuple(inputs), tuple(outputs)) for kind, inputs, outputs in rows), (0,), (1,))


@pytest.mark.parametrize("case", CASES)
def test_operators_without_readers_and_without_effect_are_found(case: str) -> None:
    rows, expected = CASES[case]
    assert unread_operators(_graph(rows)) == expected


@pytest.mark.parametrize("variable", [2, 3])
def test_a_cell_that_keeps_its_state_has_an_effect(variable: int) -> None:
    rows: list[Row] = [("RELU", [0], [1]), ("SVDF", [0, 2], [3])]
    assert unread_operators(_graph(rows, variable=variable)) == set()


def test_they_keep_their_places_and_a_model_without_any_is_itself() -> None:
    rows, unread = CASES["a branch"]
    (graph,) = without_unread(Model((_graph(rows),))).graphs
    assert (len(graph.ops), graph.unneeded) == (3, unread)
    plain = Model((_graph(CASES["a chain to the output"][0]),))
    assert without_unread(plain) is plain
