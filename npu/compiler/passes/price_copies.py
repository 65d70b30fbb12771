"""Pass: how much memory copies of constants may take besides the maps, by a price for it."""

from __future__ import annotations

from dataclasses import replace

from npu.compiler.goal import Goal
from npu.compiler.ir import ConvolutionStep
from npu.compiler.job_maker import JobMaker
from npu.compiler.memory import CopyPlan
from npu.compiler.state import GraphState, State
from npu.compiler.weights import ExpectedConstants

PRICE_OF_MEMORY = 0.05
"""The plan is taken whose cycles times its bytes to this power are least: twice the memory must save 3 % of the cycles.

docs/price-of-memory.md shows what other prices give.
"""

_SHARES = (0, 1 / 8, 1 / 4, 1 / 2, 3 / 4)
"""Bytes for copies that are tried, by those that copies take where nothing bounds them."""

_MORE_BYTES = (8192, 16384, 32768, 65536, 131072, 262144)
"""The same beyond what maps leave free where they take most: constants there are read in place, or in small slices."""

_UNSURE = 1.02
"""Plans with a bound take so much longer than estimated, relative to the one without."""

SMALL_PARTS = {True: 24, False: 128}
"""One part in so many costs nothing: of a fast memory for the NPU alone (16 of 384 KiB), of one that it shares (32 of 4096)."""

TINY_PARTS = {False: 64, True: 12}
"""SIZE takes at most one part in so many of a fast memory for the NPU alone: 6 of 384 KiB, 32 where weights are many."""

MANY_PART = 5
"""Weights of one operator that are many would fill one part in so many of such a memory (77 of 384 KiB)."""


def price_copies(state: State) -> State:
    """The state with the bytes that copies may take: what they are worth, for SIZE hardly any besides the maps."""
    return state.with_graphs(tuple(_priced(graph, state) for graph in state.graphs))


def _priced(graph: GraphState, state: State) -> GraphState:
    constants = ExpectedConstants(state.constants)
    maker = JobMaker(graph.graph, graph.nodes, graph.layouts, graph.far, state.chooser, constants, graph.room)
    least = state.goal is Goal.SIZE
    return replace(graph, copies_bytes=_least(graph, state, maker) if least else _worthwhile(state, maker), job_maker=maker)


def _least(graph: GraphState, state: State, maker: JobMaker) -> int:
    mode, cache_bytes = state.variant.memory_mode, state.variant.memory_mode.arena_cache_bytes
    if not mode.has_separate_cache:
        return 0
    largest = max((step.weights.values.size for step in graph.steps if isinstance(step, ConvolutionStep)), default=0)
    plans = {0: _plan(maker, 0)}
    most = max(cache_bytes // TINY_PARTS[largest * MANY_PART > cache_bytes] - plans[0].bytes, 0)
    plans |= {size: _plan(maker, size) for size in sorted({most >> halvings for halvings in range(5)} - {0})}
    return min(plans, key=lambda size: _cost(plans[size].cycles, max(plans[size].bytes, 1)))


def _worthwhile(state: State, maker: JobMaker) -> int | None:
    mode = state.variant.memory_mode
    given = mode.arena_cache_bytes // SMALL_PARTS[mode.has_separate_cache]

    free = _plan(maker, None)
    best, chosen, maps_bytes = _cost(free.cycles, given + free.bytes), None, free.maps.bytes
    copied = free.bytes - maps_bytes
    fewer = [(int(share * copied), free.cycles) for share in _SHARES] if copied else []
    # in a memory that all share, steps where maps take most may copy as much as others do; else only where more is free
    least = copied if copied and not mode.has_separate_cache else copied + 1
    more = [(size, maker.least_cycles) for size in sorted((copied, *_MORE_BYTES)) if size >= least]
    for copies_bytes, least_cycles in (*fewer, *more):
        if best <= _cost(least_cycles, given + maps_bytes + copies_bytes) * _UNSURE:
            continue  # not even if it took no more cycles
        plan = _plan(maker, copies_bytes)
        own = _cost(plan.cycles, given + plan.bytes) * _UNSURE
        if own < best:
            best, chosen = own, copies_bytes
    return chosen


def _cost(cycles: float, size: int) -> float:
    return float(cycles * size**PRICE_OF_MEMORY)


def _plan(maker: JobMaker, copies_bytes: int | None) -> CopyPlan:
    return maker.copies(maker.jobs(copies_bytes), copies_bytes)
