"""The search for cascades over rows of numbers finds what a look at the steps of every trial finds."""

from __future__ import annotations

import itertools

import pytest

from npu.compiler.cut_rows import CascadeSearch, CutPlan
from npu.compiler.ir import Program, Step, View
from npu.compiler.kernels.cascades import LONGEST
from npu.compiler.lifetime import PlanNode
from npu.compiler.lower.partition import lower_partition
from npu.compiler.step_rows import LineChains
from npu.compiler.stripes import Overlap, RollingRows
from npu.graph.dtype import DType
from npu.hardware.catalogue import load_variant
from npu.tflite.reader import read_model

from tests.naive.cascades import NaiveSearch
from tests.naive.chains import chains_around
from tests.naive.cut_program import CutProgram
from tests.naive.stripes import rolling_rows
from tests.npu.compiler.test_cascade import long_chain
from tests.npu.compiler.test_usage import PROGRAMS, graph_of
from tests.support.mixed_graphs import mixed_graph

COUNTS = (2, 3, 4, 8)
MODES = {"lines": {}, "lines in a cache": {"hides_tensors": True}, "branches": {"has_branches": True}}
MODES |= {
    "lines, none ahead": {"comes_ahead": False},
    "lines with leads": {"has_leads": True},
    "branches with leads": {"has_branches": True, "has_leads": True},
}


def boxes_of(steps: tuple[Step, ...]) -> list[tuple[str, tuple[int, ...], View]]:
    return [(view.storage.name, view.offset, view.shape) for step in steps for view in (step.ifm, step.ofm)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_next_cascade_is_the_best_of_all_that_can_be_tried(name: str, mode: str) -> None:
    made: Program = PROGRAMS[name]()
    graph, node, tried = graph_of(made), PlanNode((0,), made, is_npu=True), 0
    search, naive = CascadeSearch(graph, [node], COUNTS, **MODES[mode]), NaiveSearch(graph, node, COUNTS, **MODES[mode])
    for share in (0.9, 0.8, 0.7, 0.6, 0.5, 0.3, 0, 0.4, 0.85):  # what is known of one budget answers for others
        budget = int(search.start.peak * share)
        plan: CutPlan | None = search.start
        expected: CutProgram | None = CutProgram(made.steps)
        while plan is not None and expected is not None and plan.peak > budget:
            assert plan.live.tolist() == naive.usage(expected)
            plan, expected = search.next(plan, budget), naive.next(expected, budget)
            assert (plan is None) == (expected is None)
            if plan is not None and expected is not None:
                (cut,) = search.nodes(plan)
                assert cut.program is not None
                assert boxes_of(cut.program.steps) == boxes_of(expected.steps())
                tried += 1
    assert tried >= 4


def test_rows_of_a_cascade_in_the_rolling_buffer_of_another_lie_where_its_steps_write_them() -> None:
    """The graph of `test_a_cascade_ends_in_the_rolling_buffer_of_another`: rows behind the last one are the first again."""
    (graph,) = read_model(mixed_graph(910005270, DType.INT8)).graphs
    made = lower_partition(graph, range(len(graph.ops)), load_variant("ethos-u55-64"))
    search, wrapped = CascadeSearch(graph, [PlanNode((0,), made, is_npu=True)], COUNTS), 0
    plan: CutPlan | None = search.start
    while plan is not None:
        (cut,) = search.nodes(plan)
        assert cut.program is not None
        for row, step in zip(plan.steps, cut.program.steps, strict=True):
            if step.ofm.storage.is_rolling:
                assert step.ofm.row_places is not None
                assert row["ofm"]["first"] == step.ofm.row_places[0]
                wrapped += step.ofm.storage.name == "t10 rolling" and step.ofm.offset[0] < 2
        plan = search.next(plan, 0)
    assert wrapped


def test_the_longest_chain_in_many_stripes_has_room() -> None:
    """Eleven maps in each of 32 stripes: more than most searches need."""
    made = long_chain(LONGEST, rows=64)
    graph, node, counts = graph_of(made), PlanNode((0,), made, is_npu=True), (32,)
    search, naive = CascadeSearch(graph, [node], counts, has_branches=True), NaiveSearch(graph, node, counts, has_branches=True)
    plan, expected = search.next(search.start, 0), naive.next(CutProgram(made.steps), 0)
    assert plan is not None
    assert expected is not None
    assert [(cut.first, cut.last) for cut in plan.cuts] == [(0, LONGEST - 1)]
    (cut,) = search.nodes(plan)
    assert cut.program is not None
    assert boxes_of(cut.program.steps) == boxes_of(expected.steps())


def test_a_plan_is_made_once_for_all_budgets() -> None:
    made = long_chain()
    search = CascadeSearch(graph_of(made), [PlanNode((0,), made, is_npu=True)], COUNTS)
    assert search.next(search.start, 0) is search.next(search.start, 1)
    assert search.next(search.start, 0) is not None


@pytest.mark.parametrize("name", PROGRAMS)
def test_chains_and_their_rows_are_those_found_step_by_step(name: str) -> None:
    steps, tried = PROGRAMS[name]().steps, 0
    chains = LineChains(steps)
    for number in range(len(steps)):
        assert chains.around(number) == list(chains_around(steps, number, has_branches=False))
        for first, last in chains_around(steps, number, has_branches=True):
            rows = RollingRows(steps[first : last + 1])
            for count, overlap in itertools.product(range(2, 13), (Overlap.KEPT, Overlap.KEPT_AHEAD)):
                expected = rolling_rows(steps[first : last + 1], count, is_ahead=overlap is Overlap.KEPT_AHEAD)
                cut = rows.cut(count, overlap)
                assert (expected is None) == (cut is None)
                if expected is not None and cut is not None:
                    assert cut[0].tolist() == [[[own.start, own.end] for own in stripe] for stripe in expected[0]]
                    assert {old: new.shape[0] for old, new in cut[1].items()} == expected[1]
                    tried += 1
    assert tried >= 8
