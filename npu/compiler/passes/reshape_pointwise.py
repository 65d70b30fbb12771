"""Pass: steps that work element by element see their maps in the shape that blocks fit best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from npu.compiler.block_config import BlockChooser
from npu.compiler.ir import Step, Storage
from npu.compiler.lifetime import PlanNode
from npu.compiler.pointwise import shapes_to_try, with_shape
from npu.compiler.schedule import describe
from npu.compiler.state import GraphState, State
from npu.isa.operations import Layout

_NOTEWORTHY_CYCLES = 100
"""A shape must save so much by the estimate: the registers of another one than its neighbours' must be set, and read before."""


def reshape_pointwise(state: State) -> State:
    """The state with other views of the same storages where these are faster."""
    return state.with_graphs(tuple(_reshaped(graph, state.chooser) for graph in state.graphs))


def _reshaped(graph: GraphState, chooser: BlockChooser) -> GraphState:
    return replace(graph, nodes=tuple(_node(node, graph.layouts, chooser) for node in graph.nodes))


def _node(node: PlanNode, layouts: Mapping[Storage, Layout], chooser: BlockChooser) -> PlanNode:
    if node.program is None:
        return node
    steps = tuple(_best(step, layouts, chooser) for step in node.program.steps)
    return replace(node, program=replace(node.program, steps=steps))


def _best(step: Step, layouts: Mapping[Storage, Layout], chooser: BlockChooser) -> Step:
    def cycles(form: Step) -> float:
        return chooser.choose(describe(form, layouts, chooser.variant.memory_mode)).cycles

    forms = [with_shape(step, shape) for shape in shapes_to_try(step, layouts)]
    best = min(forms, key=cycles, default=step)
    return best if forms and cycles(best) + _NOTEWORTHY_CYCLES < cycles(step) else step
