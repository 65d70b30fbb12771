"""Pass: the operators of every NPU node become a program; those that cannot be lowered are refused.

A placement follows a profile, which may list more than the compiler lowers (`v0.1` takes a bias that is computed), or is what
its author wrote. Such an operator runs on the CPU for the reason LOWERING.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from npu.compiler.block_config import BlockChooser
from npu.compiler.goal import Goal
from npu.compiler.ir import Program
from npu.compiler.lower.admit import LoweringError
from npu.compiler.lower.partition import lower_partition
from npu.compiler.memory import arena_budget
from npu.compiler.state import GraphState, Refusal, State
from npu.compiler.step_problems import StepEstimates
from npu.compiler.weights import Constants
from npu.graph.graph import Graph
from npu.graph.placement import LOWERING, Violation

_EXPOSED = 0.5
"""Of the time for copies of weights, as the estimates of `StepEstimates` have it."""


def lower_partitions(state: State) -> State:
    """The state with the programs of all nodes; else every operator is refused that cannot be lowered even by itself.

    Of the kind of the first that cannot, for all kinds would take as long as lowering everything. If each can by itself, only
    that one is refused.
    """
    graphs: list[GraphState] = []
    for number, graph in enumerate(state.graphs):
        nodes = []
        for node in graph.nodes:
            program = _try_lower(state, number, graph.graph, node.ops) if node.is_npu else None
            if isinstance(program, Refusal):
                return state.refuse(tuple(_defects(state, graph.graph.ops[program.op].kind)) or (program,))
            nodes.append(replace(node, program=program))
        graphs.append(replace(graph, nodes=tuple(nodes)))
    return state.with_graphs(tuple(graphs))


def estimates_of_ways(chooser: BlockChooser, constants: Constants, *, saves_memory: bool) -> StepEstimates:
    """What ways to make the same steps are compared by."""
    return StepEstimates(chooser, constants, in_place=saves_memory, exposed=1.0 if saves_memory else _EXPOSED)


def _try_lower(state: State, number: int, graph: Graph, ops: Sequence[int]) -> Program | Refusal:
    """The program of operators `ops` of graph `number`, or the first of them that cannot be lowered, and why."""
    mode, is_small = state.variant.memory_mode, state.goal is Goal.SIZE
    saves_memory = is_small and not mode.has_separate_cache
    estimates = estimates_of_ways(state.chooser, state.constants, saves_memory=saves_memory)
    try:
        return lower_partition(
            graph,
            ops,
            state.variant,
            state.lstm_gates,
            saves_memory=saves_memory,
            estimates=estimates,
            keeps_maps=is_small,
            joins=state.joins,
            budget=min(arena_budget(state.variant), mode.arena_cache_bytes),  # in a cache of their own maps are faster
        )
    except LoweringError as error:
        message = f"{graph.ops[error.index].name} cannot be lowered: {error.must}"
        return Refusal(number, error.index, Violation(LOWERING, message, "what the compiler lowers", error.must))


def _defects(state: State, kind: str) -> list[Refusal]:
    """The operators of a kind on the NPU that cannot be lowered even by themselves."""
    graphs = state.model.graphs
    alike = (op for op in state.placement.ops if not op.violations and graphs[op.graph].ops[op.index].kind == kind)
    outcomes = (_try_lower(state, op.graph, graphs[op.graph], (op.index,)) for op in alike)
    return [one for one in outcomes if isinstance(one, Refusal)]
