"""The passes in order, and the loop that runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeAlias

from npu.compiler.goal import Goal
from npu.compiler.lower.late_joins import JOINING, Joins
from npu.compiler.memory import arena_budget, is_hopeless
from npu.compiler.passes.assign_layouts import assign_layouts
from npu.compiler.passes.assign_memories import assign_memories
from npu.compiler.passes.copy_boundaries import copy_boundaries
from npu.compiler.passes.cut_cascades import cut_cascades
from npu.compiler.passes.drop_idle_jobs import drop_idle_jobs
from npu.compiler.passes.emit_operations import emit_operations
from npu.compiler.passes.encode_streams import encode_streams
from npu.compiler.passes.lower_partitions import lower_partitions
from npu.compiler.passes.partition_graphs import partition_graphs
from npu.compiler.passes.plan_memory import plan_memory
from npu.compiler.passes.price_copies import price_copies
from npu.compiler.passes.rebuild_graphs import rebuild_graphs
from npu.compiler.passes.refuse_misfits import exceeds_budget, refuse_misfits
from npu.compiler.passes.reshape_pointwise import reshape_pointwise
from npu.compiler.passes.schedule_jobs import schedule_jobs
from npu.compiler.state import GraphState, State, initial_state, without_refused
from npu.graph.cpu_cost import cpu_cycles
from npu.graph.placement import OpPlacement, Placement

Pass: TypeAlias = Callable[[State], State]
Observer: TypeAlias = Callable[[str, State], None]
"""Is told the name of the pass that has run and the state that it made."""

PLANNING: tuple[Pass, ...] = (
    drop_idle_jobs,  # operators that would only copy go to the CPU
    partition_graphs,  # operators of the NPU that can run in one go become one node
    lower_partitions,  # TFLite operators become hardware operations over storages
    cut_cascades,  # stripes, so that the feature maps fit the memory
    assign_layouts,  # NHWC or NHCWB16 for every storage
    copy_boundaries,  # what others see of maps that are read again and again, or written in small pieces
    assign_memories,  # what finds no room there
    reshape_pointwise,  # the shape in which element by element work is fastest
    price_copies,  # how much memory copies of constants are worth
    schedule_jobs,  # blocks, slices of output channels, encoded weights
    plan_memory,  # addresses, and transfers ahead of use
    refuse_misfits,  # what only fits on the CPU goes there
)
WRITING: tuple[Pass, ...] = (
    emit_operations,  # machine operations with addresses and waits
    encode_streams,  # command words and driver payloads
    rebuild_graphs,  # TFLite again, with one operator for each node of the NPU
)
PASSES = (*PLANNING, *WRITING)

_SURE = 0.9
"""Of what a model costs, what it costs at most with results of joins that are made late: copies take memory elsewhere."""

DEFAULT_OBSERVERS: tuple[Observer, ...] = ()
"""Observers of every compilation; the tests verify all of theirs."""


def pass_names() -> tuple[str, ...]:
    """Names of the passes in order."""
    return tuple(step.__name__ for step in PASSES)


def run_passes(state: State, observers: tuple[Observer, ...] = ()) -> State:
    """The state after the last pass, or as soon as nothing is left for the NPU."""
    state = _planned(state, observers)
    return _after(WRITING, state, observers) if state.has_work else state


def _planned(state: State, observers: tuple[Observer, ...]) -> State:
    """The best plan.

    If the maps, with copies of constants, do not fit the memory as they are, the model is tried for SIZE too: what is made
    smaller in another way may fit, or be faster. With results of joins that are made late it takes least: the last way before
    operators run on the CPU.
    """
    settled = _run_until_settled(state, observers)
    budget = arena_budget(state.variant)
    is_tight = any(graph.whole_bytes > budget for graph in settled.graphs) or _moved(settled)
    if not is_tight or _is_hopeless(settled):
        return settled
    if state.goal is Goal.PERFORMANCE:
        settled = min(settled, _run_until_settled(_anew(state, Goal.SIZE), observers), key=_excess)
    has_joins = any(op.kind in JOINING for graph in state.model.graphs for op in graph.ops)
    if has_joins and (exceeds_budget(settled) or _moved(settled)):
        late = _run_until_settled(replace(_anew(state, Goal.SIZE), joins=Joins.LATE), observers)
        is_over, cost = _excess(settled)
        settled = late if _excess(late) < (is_over, cost * _SURE) else settled
    return settled


def _is_hopeless(state: State) -> bool:
    return is_hopeless(arena_budget(state.variant), max(graph.visible_bytes for graph in state.graphs))


def _moved(state: State) -> list[OpPlacement]:
    """The operators that run on the CPU for lack of memory."""
    return [op for op in state.placement.ops if op.lacks_memory]


def _excess(state: State) -> tuple[bool, float]:
    """Whether a model takes more than the memory, and cycles of the NPU, and of the CPU in its place; times its bytes if so."""
    clocks = state.variant.system.clock_hz / state.variant.cpu.clock_hz
    on_cpu = ((state.model.graphs[op.graph], op.index) for op in _moved(state))
    cycles = sum(cpu_cycles(graph, graph.ops[index], state.variant.cpu) for graph, index in on_cpu) * clocks
    cycles += sum(graph.memory.cycles for graph in state.graphs if graph.memory)
    is_over, taken = exceeds_budget(state), max(map(_taken, state.graphs))
    return is_over, cycles * max(taken, arena_budget(state.variant))


def _taken(graph: GraphState) -> int:
    """Bytes of the arena, 0 without a plan."""
    return 0 if graph.memory is None else graph.memory.arena_end


def _anew(state: State, goal: Goal, placement: Placement | None = None) -> State:
    """The state before the first pass, for a goal, with another placement if one is given."""
    given = state.placement if placement is None else placement
    return initial_state(state.model, given, state.chooser, state.constants.encoder, goal, state.progress, state.lstm_gates)


def _run_until_settled(state: State, observers: tuple[Observer, ...]) -> State:
    """What `_run_until_placed` makes: with no operator on the CPU for lack of memory, if the model does not fit even so."""
    settled = _run_until_placed(state, observers)
    if _moved(settled) and exceeds_budget(settled):
        settled = _run_until_placed(replace(_anew(state, state.goal), keeps_misfits=True, joins=state.joins), observers)
    return settled


def _run_until_placed(state: State, observers: tuple[Observer, ...]) -> State:
    """Operators that a pass refuses go to the CPU, and the passes begin anew: other partitions, other programs."""
    start = state
    while True:
        state = _after(PLANNING, start, observers)
        if not state.refusals:
            return state
        placement = without_refused(state.placement, state.refusals)
        start = replace(_anew(start, start.goal, placement), keeps_misfits=start.keeps_misfits, joins=start.joins)


def _after(passes: Iterable[Pass], state: State, observers: tuple[Observer, ...]) -> State:
    """The state after passes, or as soon as one refuses something or nothing is left for the NPU."""
    for step in passes:
        state = step(state)
        for observe in (*DEFAULT_OBSERVERS, *observers):
            observe(step.__name__, state)
        if state.refusals or not state.has_work:
            return state
    return state
