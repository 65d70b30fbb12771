"""Pass: inputs that lie behind the NPU's own fast memory and are read again and again are copied into it first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from npu.compiler.block_config import BlockChooser
from npu.compiler.goal import Goal
from npu.compiler.ir import ConvolutionStep, ElementwiseStep, PoolingStep, Program, Step, Storage, View
from npu.compiler.layout import reads
from npu.compiler.peaks import hidden_peak
from npu.compiler.state import GraphState, State
from npu.compiler.step_problems import StepEstimates, describe
from npu.hardware.variant import MemoryMode
from npu.isa.operations import Layout, PoolingMode, Rounding, Scale

_CACHE_SHARE = 8
"""A copy takes at most one part in so many of the fast memory: what the maps in between lose by it is not weighed."""

_WORTH_COPYING = 2.0
"""How many times its own cycles a copy must save by the estimate, which does not see the streams of weights beside it."""

_SLICE_DEPTH = 32
"""Channels that a block of a convolution is taken to have: those of a slice of its weights."""


def copy_inputs(state: State) -> State:
    """The state with copies of the inputs where these pay, which is in a fast memory that nobody else uses.

    For SIZE only those that save more of the cycles than they add to the memory.
    """
    mode = state.variant.memory_mode
    if not mode.has_separate_cache:
        return state
    return state.with_graphs(tuple(_copied(graph, state, mode) for graph in state.graphs))


def _copied(graph: GraphState, state: State, mode: MemoryMode) -> GraphState:
    estimates = StepEstimates(state.chooser, state.constants)
    for number, node in enumerate(graph.nodes):
        for storage in _candidates(node.program, mode) if node.program else ():
            program = graph.nodes[number].program
            assert program is not None
            copy = _copy(program, storage)
            layouts = {**graph.layouts, copy.ofm.storage: Layout.NHWC}
            if _saved(program, copy, layouts, state.chooser) > 0:
                with_it = replace(node, program=_with_copy(program, copy))
                copied = replace(graph, nodes=(*graph.nodes[:number], with_it, *graph.nodes[number + 1 :]), layouts=layouts)
                if state.goal is not Goal.SIZE or _product(copied, estimates) < _product(graph, estimates):
                    graph = copied
    return graph


def _product(graph: GraphState, estimates: StepEstimates) -> float:
    """Bytes of all maps, times the cycles of all steps."""
    cycles = sum(estimates(node.steps) for node in graph.nodes)
    return cycles * (graph.visible_bytes + hidden_peak(graph.graph, graph.nodes, graph.layouts))


def _candidates(program: Program, mode: MemoryMode) -> Iterator[Storage]:
    """The inputs that the program reads and nothing in it writes, and that are small beside the fast memory."""
    read = {view.storage for step in program.steps for view in reads(step)}
    written = {step.ofm.storage for step in program.steps}
    for _, storage in program.inputs:
        is_only_read = storage in read and storage not in written
        if is_only_read and storage.element.bits < 32 and storage.bytes * _CACHE_SHARE <= mode.arena_cache_bytes:
            yield storage


def _copy(program: Program, storage: Storage) -> PoolingStep:
    """The step that copies a storage, for the operator that reads it first."""
    source = next(step.source for step in program.steps if _reads(step, storage))
    near = Storage(f"{storage.name} copied", storage.shape, storage.element)
    return PoolingStep(
        source=source,
        ifm=View.whole(storage),
        ofm=View.whole(near),
        minimum=storage.element.minimum,
        maximum=storage.element.maximum,
        mode=PoolingMode.AVERAGE,
        scale=Scale(1, 0),
        rounding=Rounding.NATURAL,
    )


def _saved(program: Program, copy: PoolingStep, layouts: Mapping[Storage, Layout], chooser: BlockChooser) -> float:
    """Cycles that reading the copy saves, less what it must save."""

    def cycles(step: Step) -> float:
        limit = _SLICE_DEPTH if isinstance(step, ConvolutionStep) else 0
        return chooser.choose(describe(step, layouts, chooser.variant.memory_mode), depth_limit=limit).cycles

    readers = [step for step in program.steps if _reads(step, copy.ifm.storage)]
    return sum(cycles(step) - cycles(_from_copy(step, copy)) for step in readers) - _WORTH_COPYING * cycles(copy)


def _from_copy(step: Step, copy: PoolingStep) -> Step:
    """A step that reads the copy in place of what was copied."""

    def near(view: View) -> View:
        return replace(view, storage=copy.ofm.storage) if view.storage is copy.ifm.storage else view

    if isinstance(step, ElementwiseStep) and step.ifm2 is not None:
        return replace(step, ifm=near(step.ifm), ifm2=near(step.ifm2))
    return replace(step, ifm=near(step.ifm))


def _with_copy(program: Program, copy: PoolingStep) -> Program:
    """The program with the copy ahead of the first step that reads what it copies."""
    first = next(i for i, step in enumerate(program.steps) if _reads(step, copy.ifm.storage))
    steps = [_from_copy(step, copy) for step in program.steps]
    return replace(program, steps=(*steps[:first], copy, *steps[first:]))


def _reads(step: Step, storage: Storage) -> bool:
    return any(view.storage is storage for view in reads(step))
