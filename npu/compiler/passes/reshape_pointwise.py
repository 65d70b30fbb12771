"""Pass: steps that work element by element see their maps in the shape that blocks fit best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from npu.compiler.block_config import BlockChooser
from npu.compiler.ir import Step
from npu.compiler.lifetime import PlanNode
from npu.compiler.pointwise import is_pointwise, with_shape
from npu.compiler.state import GraphState, State
from npu.compiler.step_problems import ShapeCycles
from npu.layouts import MapShape
from npu.records import dataclass

_SWITCH_CYCLES = 100
"""What it costs to go from one shape to another: some twenty registers, and nothing of two layouts of the buffers overlaps."""


@dataclass(frozen=True, slots=True)
class _Path:
    """The steps so far, from the last one back, the shape of its maps, and their cycles."""

    step: Step
    shape: MapShape
    cycles: float
    before: _Path | None


def reshape_pointwise(state: State) -> State:
    """The state with other views of the same storages where these are faster."""
    return state.with_graphs(tuple(_reshaped(graph, state.chooser) for graph in state.graphs))


def _reshaped(graph: GraphState, chooser: BlockChooser) -> GraphState:
    return replace(graph, nodes=tuple(_node(node, graph, chooser) for node in graph.nodes))


def _node(node: PlanNode, graph: GraphState, chooser: BlockChooser) -> PlanNode:
    if node.program is None:
        return node
    steps = _fastest(node.program.steps, graph, chooser)
    return replace(node, program=replace(node.program, steps=steps))


def _fastest(steps: Sequence[Step], graph: GraphState, chooser: BlockChooser) -> tuple[Step, ...]:
    """The steps in the shapes whose cycles and changes take least in sum; of equal ones the steps' own."""
    paths: dict[MapShape, _Path] = {}
    cycles = ShapeCycles(graph.layouts, chooser, graph.far)
    for step in steps:
        costs = cycles.of(step) if is_pointwise(step) else {step.ofm.shape: 0.0}
        paths = {shape: _extended(paths, step, shape, cost) for shape, cost in costs.items()}
    path = min(paths.values(), key=lambda path: path.cycles, default=None)
    steps_back: list[Step] = []
    while path is not None:
        steps_back.append(path.step if path.shape == path.step.ofm.shape else with_shape(path.step, path.shape))
        path = path.before
    return tuple(reversed(steps_back))


def _extended(paths: Mapping[MapShape, _Path], step: Step, own: MapShape, cycles: float) -> _Path:
    """The least path that ends with `step` in a shape of its own."""

    def after(shape: MapShape) -> float:
        return paths[shape].cycles + (_SWITCH_CYCLES if shape != own else 0)

    before = min(paths, key=after, default=None)
    return _Path(step, own, cycles, None) if before is None else _Path(step, own, cycles + after(before), paths[before])
