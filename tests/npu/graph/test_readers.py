"""Who reads which tensor."""

from __future__ import annotations

from npu.graph.attributes import AddOptions
from npu.graph.graph import ABSENT, Graph, Op
from npu.graph.readers import readers_of

from tests.support.single_ops import tensor


def test_readers_are_in_order_once_for_each_operand_and_known_for_every_tensor() -> None:
    ops = (
        Op("ADD", (0, 0), (1,), AddOptions()),
        Op("ADD", (1, 0), (2,), AddOptions()),
        Op("ADD", (0, ABSENT), (3,), AddOptions()),
    )
    graph = Graph("main", tuple(tensor((4,), scale=0.1) for _ in range(4)), ops, (0,), (2,), unneeded=frozenset({2}))
    assert readers_of(graph) == {0: [0, 0, 1], 1: [1], 2: [], 3: [], ABSENT: []}
    assert readers_of(graph) is readers_of(graph)
