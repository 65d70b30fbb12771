"""Pass: every storage gets its layout."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace

from npu.compiler.allocate import allocate, live_bytes
from npu.compiler.block_config import BlockChooser
from npu.compiler.goal import Goal
from npu.compiler.ir import Step, Storage
from npu.compiler.layout import choose_layouts, lies_alike, reads, storage_bytes, views
from npu.compiler.lifetime import shared_spans
from npu.compiler.memory import MemoryPlanner
from npu.compiler.pointwise import is_pointwise
from npu.compiler.state import GraphState, State
from npu.compiler.step_problems import StepEstimates, least_cycles
from npu.hardware.variant import MemoryMode, PipelineTiming
from npu.isa.operations import Layout
from npu.layouts import BRICK_DEPTH
from npu.machine.port_rates import port_rate

_WORTH = 0.97
"""Of the bytes times the cycles with full bricks everywhere, what other layouts have at most: estimates are not closer."""

_MOST_CHANGES = 8
"""So many times the maps at the peak lose what pads them: then it is somewhere else."""


def assign_layouts(state: State) -> State:
    """The state with the layouts of all storages."""
    return state.with_graphs(
        tuple(replace(graph, layouts=_in_rows(graph.steps, _layouts(graph, state), state.chooser)) for graph in state.graphs)
    )


def _in_rows(steps: Sequence[Step], layouts: Mapping[Storage, Layout], chooser: BlockChooser) -> Mapping[Storage, Layout]:
    """The layouts without bricks for operands of what works element by element and writes to afar, where this takes less.

    A result without bricks is written there in pieces, unless the operands have none either: then it is one row. It must save
    more than a latency, by which neighbours of small operations move.
    """
    mode = chooser.variant.memory_mode
    if not mode.has_separate_cache:
        return layouts
    latency = port_rate(chooser.variant, mode.arena).read_latency
    for step in steps:
        if not step.ofm.storage.is_boundary or layouts[step.ofm.storage] is not Layout.NHWC or not is_pointwise(step):
            continue
        operands = {view.storage for view in reads(step)}
        bricked = {one for one in operands if layouts[one] is Layout.NHCWB16 and not lies_alike(one)}
        if bricked:
            users = [one for one in steps if not bricked.isdisjoint(view.storage for view in views(one))]
            changed = {**layouts, **dict.fromkeys(bricked, Layout.NHWC)}
            if least_cycles(users, changed, chooser) + latency < least_cycles(users, layouts, chooser):
                layouts = changed
    return layouts


def _layouts(graph: GraphState, state: State) -> Mapping[Storage, Layout]:
    """The usual layouts; for SIZE without bricks that are not full where these cost more memory than they save cycles."""
    best = layouts = _usual(graph.steps, state.variant.timing)
    if state.goal is not Goal.SIZE or not any(_is_padded(storage, layouts) for storage in layouts):
        return layouts
    estimates = StepEstimates(state.chooser, state.constants, in_place=not state.variant.memory_mode.has_separate_cache)
    most, least = _most(state.variant.memory_mode), math.inf
    for change in range(_MOST_CHANGES):
        taken, maps = _taken(graph, layouts, state)
        product = taken * estimates(graph.steps, layouts=layouts)
        if product < least:
            best, least = layouts, product if change else product * _WORTH
        padded = [storage for storage in maps if _is_padded(storage, layouts)]
        if not padded or taken > most:
            break
        layouts = {**layouts, **dict.fromkeys(padded, Layout.NHWC)}
    return best


def _usual(steps: Sequence[Step], timing: PipelineTiming) -> Mapping[Storage, Layout]:
    """The usual layouts, but none with a part of a brick for each position where operands are read as fast without."""
    layouts = choose_layouts(steps)
    if timing.nhwc_operand_factor > 1:
        return layouts
    few = [storage for storage in layouts if storage.shape[2] < BRICK_DEPTH and _is_padded(storage, layouts)]
    return {**layouts, **dict.fromkeys(few, Layout.NHWC)}


def _most(mode: MemoryMode) -> float:
    """Bytes beyond which something else counts: maps that do not fit a memory of the NPU alone lie behind it."""
    return mode.arena_cache_bytes if mode.has_separate_cache else math.inf


def _is_padded(storage: Storage, layouts: Mapping[Storage, Layout]) -> bool:
    return storage_bytes(storage, layouts[storage]) > storage_bytes(storage, Layout.NHWC)


def _taken(graph: GraphState, layouts: Mapping[Storage, Layout], state: State) -> tuple[int, list[Storage]]:
    """Bytes of the memory whose size counts, and the maps in it when most of it is in use."""
    is_separate = state.variant.memory_mode.has_separate_cache
    works = [node.steps for node in graph.nodes]
    lifetimes, sharing = MemoryPlanner(graph.graph, graph.nodes, layouts, state.variant, graph.room).sharing(works)
    groups = shared_spans(lifetimes, sharing)
    spans = {root: span for root, span in groups.items() if not (is_separate and isinstance(root, int))}
    usage = live_bytes(list(spans.values()), lifetimes.events)
    peak = max(usage, default=0)
    fullest = [*(event for event, size in enumerate(usage) if size == peak), lifetimes.events]
    there = {root for root, span in spans.items() if fullest[bisect_left(fullest, span.first)] <= span.last}
    maps = [buffer for buffer, root in sharing.owner.items() if root in there and isinstance(buffer, Storage)]
    return allocate(list(spans.values())).total_bytes, maps
