"""Which accepted operators stay on the CPU because the NPU would have nothing to compute."""

from __future__ import annotations

import pytest

from npu.graph.dtype import DType
from npu.graph.graph import Graph, Model, Op, Tensor
from npu.graph.idle import RULE, without_idle_jobs, working_partitions
from npu.graph.placement import OpPlacement, Placement, Violation
from npu.hardware.catalogue import load_variant

CPU = load_variant("ethos-u55-128").cpu
REFUSED = Violation("TEST", "refused", "-", "-")

# Operators as (kind, inputs, outputs), those the profile refuses, and those that keep their place on the NPU.
CASES: dict[str, tuple[list[tuple[str, list[int], list[int]]], set[int], set[int]]] = {
    "between two CPU operators": ([("TOPK", [0], [1]), ("RESHAPE", [1], [2]), ("TOPK", [2], [3])], {0, 2}, set()),
    "two views between CPU operators": (
        [("TOPK", [0], [1]), ("RESHAPE", [1], [2]), ("SQUEEZE", [2], [3]), ("TOPK", [3], [4])], {0, 3}, set(),
    ),
    "first of a graph": ([("EXPAND_DIMS", [0], [1]), ("TOPK", [1], [2])], {1}, set()),
    "last of a graph": ([("TOPK", [0], [1]), ("RESHAPE", [1], [2])], {0}, set()),
    "beside work": ([("TOPK", [0], [1]), ("RESHAPE", [1], [2]), ("ADD", [2, 2], [3])], {0}, {1, 2}),
    "behind work": ([("ADD", [0, 0], [1]), ("RESHAPE", [1], [2]), ("TOPK", [2], [3])], {2}, {0, 1}),
    "one idle, one at work": (
        [("ADD", [0, 0], [1]), ("TOPK", [1], [2]), ("RESHAPE", [2], [3]), ("TOPK", [3], [4]), ("ADD", [4, 4], [5])],
        {1, 3}, {0, 4},
    ),
    "waits with work for a CPU operator": (
        [("RESHAPE", [0], [1]), ("TOPK", [0], [2]), ("ADD", [1, 2], [3])], {1}, {2},
    ),
    "a copy of few bytes": ([("TOPK", [0], [1]), ("CONCATENATION", [1, 1], [2]), ("TOPK", [2], [3])], {0, 2}, set()),
    "a copy beside work": ([("TOPK", [0], [1]), ("TRANSPOSE", [1], [2]), ("ADD", [2, 2], [3])], {0}, {1, 2}),
    "a variable": ([("TOPK", [0], [1]), ("ASSIGN_VARIABLE", [0, 1], []), ("TOPK", [1], [2])], {0, 2}, {1}),
    "nothing else in the graph": ([("RESHAPE", [0], [1]), ("SQUEEZE", [1], [2])], set(), {0, 1}),
    "all refused": ([("RESHAPE", [0], [1])], {0}, set()),
    "an empty graph": ([], set(), set()),
}  # fmt: skip


def graph_of(ops: list[tuple[str, list[int], list[int]]], elements: int = 4) -> Graph:
    """A graph from tensor 0 to the last one, of so many elements each."""
    count = 1 + max((tensor for _, _, outputs in ops for tensor in outputs), default=0)
    tensors = tuple(Tensor(f"t{index}", (elements,), DType.INT8) for index in range(count))
    made = tuple(Op(kind, tuple(inputs), tuple(outputs)) for kind, inputs, outputs in ops)
    return Graph("main", tensors, made, (0,), (count - 1,))


@pytest.mark.parametrize("case", CASES)
def test_views_that_have_no_work_beside_them_stay_on_the_cpu_and_say_why(case: str) -> None:
    ops, refused, kept = CASES[case]
    graph = graph_of(ops)
    placed = tuple(
        OpPlacement(0, index, op.kind, op.kind, (REFUSED,) if index in refused else ()) for index, op in enumerate(graph.ops)
    )
    given = Placement("test", placed)
    found = without_idle_jobs(Model((graph,)), given, CPU)
    assert set(found.npu_indices()) == kept
    idle = {op.index: [one.rule for one in op.violations] for op in found.ops if op.index not in kept | refused}
    assert idle == {index: [RULE] for index in range(len(ops)) if index not in kept | refused}
    assert [op for op in found.ops if op.index in refused] == [op for op in placed if op.index in refused]
    assert (found is given) == (not idle)
    assert without_idle_jobs(Model((graph,)), found, CPU) is found
    assert sorted(index for part in working_partitions(graph, given.npu_indices(), CPU) for index in part.ops) == sorted(kept)


def test_one_value_is_not_worth_a_job() -> None:
    ops: list[tuple[str, list[int], list[int]]] = [("TOPK", [0], [1]), ("ADD", [1, 1], [2]), ("TOPK", [2], [3])]
    assert working_partitions(graph_of(ops, 1), [1], CPU) == []
    assert len(working_partitions(graph_of(ops, 2), [1], CPU)) == 1


@pytest.mark.parametrize("extra", [-1, 0])
def test_a_copy_has_a_job_of_its_own_from_what_the_cpu_takes_around_a_job(extra: int) -> None:
    elements = round(CPU.cycles_around_job / CPU.cycles_per_element["TRANSPOSE"]) + extra
    graph = graph_of([("TOPK", [0], [1]), ("TRANSPOSE", [1], [2]), ("TOPK", [2], [3])], elements)
    assert len(working_partitions(graph, [1], CPU)) == 1 + extra
