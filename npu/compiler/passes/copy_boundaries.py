"""Pass: maps at the boundary lie behind the NPU's own fast memory, of which copies in it are faster to work with.

Inputs that are read again and again are copied first. Outputs that are written in small pieces, or read again, are made in the
fast memory and copied last, in one piece.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

from npu.compiler.fast_memory import far_maps
from npu.compiler.goal import Goal
from npu.compiler.ir import ConvolutionStep, Program, Step, Storage
from npu.compiler.layout import reads
from npu.compiler.near_copies import WORTH_COPYING, copying_step, may_be_copied, near_copy, on_copy, touches
from npu.compiler.pace import JOB_CYCLES
from npu.compiler.peaks import hidden_peak
from npu.compiler.slicing import LARGEST_SLICE_BYTES
from npu.compiler.state import GraphState, State
from npu.compiler.step_problems import ShapeCycles, StepEstimates
from npu.hardware.variant import MemoryMode
from npu.machine.port_rates import port_rate

_MUCH = 0.05
"""The part of all cycles that a copy which takes the room of others must save."""

_SLICE_DEPTH = 32
"""Channels that a block of a convolution is taken to have: those of a slice of its weights."""

_DEAR = 2
"""A copy for SIZE must save so many times the part of the cycles that it adds to the bytes of all maps."""

_EXPOSED = 0.5
"""Part of the latency of the memory behind for which nothing works when a copy begins or ends: docs/compiler-constants.md."""


def copy_boundaries(state: State) -> State:
    """The state with copies of inputs and outputs where these pay, which is in a fast memory that nobody else uses.

    For SIZE only those that save much more of the cycles than they add to the memory.
    """
    if not state.variant.memory_mode.has_separate_cache:
        return state
    return state.with_graphs(tuple(_BoundaryCopies(state).all_of(graph) for graph in state.graphs))


def _far_maps(graph: GraphState) -> frozenset[Storage]:
    return far_maps(graph.graph, graph.nodes, graph.room, graph.layouts)


_Copied: TypeAlias = Callable[[Program, Storage, Storage], Program]
"""Puts a copy of a map into a program: the map, and the one that it is copied to, or from."""


class _BoundaryCopies:
    """The copies of a graph where these pay."""

    def __init__(self, state: State) -> None:
        self._chooser, self._mode, self._goal = state.chooser, state.variant.memory_mode, state.goal
        self._estimates = StepEstimates(state.chooser, state.constants)
        self._bytes_per_weight = state.constants.bytes_per_weight
        port = port_rate(state.variant, self._mode.arena)
        self._read, self._latency = port.read, port.read_latency

    def all_of(self, graph: GraphState) -> GraphState:
        """The graph with copies of inputs, then of outputs."""
        return self._chosen(self._chosen(graph, _small_inputs, _with_input), _outputs, _with_output)

    def _chosen(
        self, graph: GraphState, find: Callable[[Program, MemoryMode], Iterable[Storage]], copied: _Copied
    ) -> GraphState:
        """The graph with all copies of a kind that save cycles, if they find room; else with those that do one by one.

        A copy that saves much of all cycles may take the room that is left to copies of constants.
        """
        programs = [(number, node.program) for number, node in enumerate(graph.nodes) if node.program]
        candidates = [(number, one) for number, program in programs for one in find(program, self._mode)]
        worth = [(number, one, saved) for number, one in candidates if (saved := self._saved(graph, number, one, copied)) > 0]
        if not worth:
            return graph
        far = _far_maps(graph)
        if self._goal is Goal.PERFORMANCE:
            together = graph
            for number, one, _ in worth:
                together = _with_copy(together, number, one, copied)
            if _far_maps(together) <= far:
                return together
        for number, one, saved in worth:
            changed = _with_copy(graph, number, one, copied)
            if self._goal is Goal.SIZE and not self._is_worth_memory(graph, changed, saved):
                continue
            changed_far = _far_maps(changed)
            if not changed_far <= far and saved > _MUCH * self._cycles(graph):
                changed = replace(changed, room=self._mode.arena_cache_bytes)
                changed_far = _far_maps(changed)
            # with more in the arena than before, it is the copy, or a map that makes room for it
            if changed_far <= far:
                graph, far = changed, changed_far
        return graph

    def _saved(self, graph: GraphState, number: int, storage: Storage, copied: _Copied) -> float:
        """Cycles that steps on the copy save, less what it must save."""
        program, near = graph.nodes[number].program, near_copy(storage)
        assert program is not None
        with_it = copied(program, storage, near)
        shapes = ShapeCycles({**graph.layouts, near: graph.layouts[storage]}, self._chooser)

        def cycles(step: Step) -> float:
            limit = _SLICE_DEPTH if isinstance(step, ConvolutionStep) else 0
            own = min(shapes.of(step, limit).values())
            return max(own, self._port_cycles(step)) if isinstance(step, ConvolutionStep) else own

        before = sum(cycles(step) for step in program.steps if touches(step, storage))
        after = sum(cycles(step) for step in with_it.steps if touches(step, near) and not touches(step, storage))
        copy = next(step for step in with_it.steps if touches(step, near) and touches(step, storage))
        return before - after - _EXPOSED * self._latency - WORTH_COPYING * (cycles(copy) + JOB_CYCLES)

    def _port_cycles(self, step: ConvolutionStep) -> float:
        """Those in which weights pass the port of the arena, if they do, and with each slice of them an input behind it."""
        if self._mode.constants is not self._mode.arena:
            return 0.0
        size = step.weights.values.size * self._bytes_per_weight(step.weights)
        again = math.prod(step.ifm.shape) * step.ifm.element.bytes if step.ifm.storage.is_boundary else 0
        return (size + again * math.ceil(size / LARGEST_SLICE_BYTES)) / self._read

    def _is_worth_memory(self, graph: GraphState, changed: GraphState, saved: float) -> bool:
        """Whether a copy saves so much of all cycles that what it adds to the bytes of all maps is worth it."""
        cycles = self._cycles(changed)
        before = max(self._cycles(graph), cycles + saved)  # only `saved` knows of inputs that slices of weights read again
        growth = _map_bytes(changed) / _map_bytes(graph)
        return cycles * growth**_DEAR <= before

    def _cycles(self, graph: GraphState) -> float:
        """Those of all steps by the estimate, in the usual layouts."""
        return sum(self._estimates(node.steps) for node in graph.nodes)


def _map_bytes(graph: GraphState) -> int:
    """Those of all maps at a time."""
    return graph.visible_bytes + hidden_peak(graph.graph, graph.nodes, graph.layouts)


def _with_copy(graph: GraphState, number: int, storage: Storage, copied: _Copied) -> GraphState:
    """The graph with a copy of a map of one node."""
    node, near = graph.nodes[number], near_copy(storage)
    assert node.program is not None
    changed = replace(node, program=copied(node.program, storage, near))
    nodes = (*graph.nodes[:number], changed, *graph.nodes[number + 1 :])
    return replace(graph, nodes=nodes, layouts={**graph.layouts, near: graph.layouts[storage]})


def _small_inputs(program: Program, mode: MemoryMode) -> Iterator[Storage]:
    """The inputs that the program reads and nothing in it writes, and that are small beside the fast memory."""
    read = {view.storage for step in program.steps for view in reads(step)}
    written = {step.ofm.storage for step in program.steps}
    for _, storage in program.inputs:
        is_only_read = storage in read and storage not in written
        if is_only_read and may_be_copied(storage, mode, is_made=False):
            yield storage


def _outputs(program: Program, mode: MemoryMode) -> Iterator[Storage]:
    """The outputs that the program makes, and that find room in the fast memory."""
    written = {step.ofm.storage for step in program.steps}
    inputs = {storage for _, storage in program.inputs}
    for storage in dict.fromkeys(storage for _, storage in program.outputs):
        is_made = storage in written and storage not in inputs
        if is_made and may_be_copied(storage, mode, is_made=True):
            yield storage


def _with_input(program: Program, storage: Storage, near: Storage) -> Program:
    """The program with the copy ahead of the first step that reads what it copies."""
    first = next(i for i, step in enumerate(program.steps) if touches(step, storage))
    steps = [on_copy(step, storage, near) for step in program.steps]
    return replace(program, steps=(*steps[:first], copying_step(program.steps[first], storage, near), *steps[first:]))


def _with_output(program: Program, storage: Storage, near: Storage) -> Program:
    """The program with the copy behind the last step that writes what it copies."""
    behind = 1 + max(i for i, step in enumerate(program.steps) if step.ofm.storage is storage)
    steps = [on_copy(step, storage, near) for step in program.steps]
    return replace(program, steps=(*steps[:behind], copying_step(program.steps[behind - 1], near, storage), *steps[behind:]))
