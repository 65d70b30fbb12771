"""The search for cascades over rows of numbers finds what a look at the steps of every trial finds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from npu.compiler.chains import chains_around, is_line
from npu.compiler.cut_rows import CutPlan, LineSearch
from npu.compiler.ir import ConvolutionStep, Program, Step
from npu.compiler.lifetime import PlanNode
from npu.compiler.stripes import in_stripes
from npu.compiler.usage import CutWindow, LiveMaps, live_maps
from npu.graph.graph import Graph

from tests.npu.compiler.test_cascade import long_chain, program, residual_blocks, squeeze_and_excite
from tests.npu.compiler.test_usage import graph_of

PROGRAMS = {"program": program, "residual": residual_blocks, "long": long_chain, "squeeze": squeeze_and_excite}
COUNTS = (2, 3, 4, 8)
Trial = tuple[int, int, tuple[Step, ...]]
"""Peak, work and steps."""


def work(steps: tuple[Step, ...]) -> int:
    weights = sum(step.weights.values.size for step in steps if isinstance(step, ConvolutionStep))
    return weights + sum(step.ofm.shape[0] * step.ofm.shape[1] * step.ofm.shape[2] for step in steps)


def trials_of(made: Program, live: LiveMaps, chain: tuple[int, int], budget: int, *, is_rolling: bool) -> Iterator[Trial]:
    """The chain in more and more stripes until the budget is met."""
    first, last = chain
    window = CutWindow(live, 0, first, last)
    for count in COUNTS:
        stripes = in_stripes(made.steps[first : last + 1], count, is_rolling=is_rolling)
        if stripes is not None:
            steps = (*made.steps[:first], *stripes, *made.steps[last + 1 :])
            peak = max(window.usage(stripes))
            yield peak, work(steps), steps
            if peak <= budget:
                return


def next_steps(graph: Graph, node: PlanNode, budget: int, *, hides_tensors: bool) -> tuple[Step, ...] | None:
    """Those with one more cascade around the peak."""
    made = node.program
    assert made is not None
    live = live_maps(graph, [node], hidden_only=hides_tensors)
    usage, lower = list(live.usage), list[Trial]()
    for first, last in chains_around(made.steps, usage.index(max(usage)), has_branches=False):
        ways = [True, False] if is_line(made.steps[first : last + 1]) and last - first > 1 and not hides_tensors else [True]
        own: list[Trial] = []
        for is_rolling in ways:
            if all(peak > budget for peak, _, _ in own):
                own += trials_of(made, live, (first, last), budget, is_rolling=is_rolling)
        lower += [trial for trial in own if trial[0] < max(usage)]
    best = min(lower, key=lambda trial: (max(trial[0], budget), trial[1], len(trial[2])), default=None)
    return best and best[2]


def rows_of(steps: tuple[Step, ...]) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    return [(view.storage.name, view.storage.shape, view.offset) for step in steps for view in (step.ifm, step.ofm)]


@pytest.mark.parametrize("hides_tensors", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_next_cascade_is_the_best_of_all_that_can_be_tried(name: str, *, hides_tensors: bool) -> None:
    made: Program = PROGRAMS[name]()
    graph, tried = graph_of(made), 0
    search = LineSearch(graph, [PlanNode((0,), made, is_npu=True)], COUNTS, hides_tensors=hides_tensors)
    for budget in (0, *(int(search.start.peak * share) for share in (0.3, 0.5, 0.6, 0.7, 0.8, 0.9))):
        state: CutPlan | None = search.start
        while state is not None and state.peak > budget:
            (node,) = search.nodes(state)
            usage = list(live_maps(graph, [node], hidden_only=hides_tensors).usage)
            assert (state.peak, state.worst) == (max(usage), usage.index(max(usage)))
            expected, state = next_steps(graph, node, budget, hides_tensors=hides_tensors), search.next(state, budget)
            assert (expected is None) == (state is None)
            if expected is not None and state is not None:
                program_of_next = search.nodes(state)[0].program
                assert program_of_next is not None
                assert rows_of(program_of_next.steps) == rows_of(expected)
                tried += 1
    assert tried >= 5


def test_a_state_is_made_once_for_all_budgets() -> None:
    made = long_chain()
    search = LineSearch(graph_of(made), [PlanNode((0,), made, is_npu=True)], COUNTS)
    assert search.next(search.start, 0) is search.next(search.start, 1)
    assert search.next(search.start, 0) is not None
