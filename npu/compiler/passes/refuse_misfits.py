"""Pass: operators that only fit the arena on the CPU are refused.

An operator on the CPU has its tensors in the same arena, each of them whole. Only what the NPU needs beyond them, maps between
its steps and bricks that are not full, is saved there; where that is not what exceeds the budget, the CPU would be slower for
nothing.
"""

from __future__ import annotations

from npu.compiler.allocate import live_bytes
from npu.compiler.lifetime import PlanNode, trace_lifetimes
from npu.compiler.memory import arena_budget
from npu.compiler.state import GraphState, Refusal, State
from npu.errors import CompileError
from npu.graph.graph import Graph
from npu.graph.placement import MEMORY_ARENA, Violation
from npu.hardware.variant import Variant

_LARGEST_ARENA = (1 << 31) - 1
"""A file declares it as a tensor of bytes, and offsets in it are of 32 bits with a sign."""


def refuse_misfits(state: State) -> State:
    """The state, with refusals if anything would fit that does not. CompileError if nothing of it could be written."""
    numbers = range(0 if state.keeps_misfits else len(state.graphs))
    refusals = tuple(one for number in numbers for one in _refusals(state, number))
    taken = max(graph.planned.arena_end for graph in state.graphs)
    if not refusals and taken > _LARGEST_ARENA:
        limit = f"{_LARGEST_ARENA:,} bytes, which the shape of a tensor can say"
        raise CompileError(f"arena: must take at most {limit}, got {taken:,}")
    return state.refuse(refusals)


def exceeds_budget(state: State) -> bool:
    """Whether any graph takes more than the arena may have, with the gaps between its maps."""
    return any(_taken(graph) > arena_budget(state.variant) for graph in state.graphs)


def _taken(state: GraphState) -> int:
    """Bytes of the arena; without a plan nothing is left for the NPU."""
    return max(_needed_by_tensors(state.graph), default=0) if state.memory is None else state.memory.arena_end


def _refusals(state: State, number: int) -> list[Refusal]:
    budget, graph = arena_budget(state.variant), state.graphs[number].graph
    needed = {op: live for op, live in _needed_by_steps(state.graphs[number]).items() if live > budget}
    on_cpu = _needed_by_tensors(graph) if needed else []
    return [
        Refusal(number, op, _violation(graph.ops[op].kind, live, state.variant))
        for op, live in needed.items()
        if on_cpu[op] <= budget
    ]


def _needed_by_steps(state: GraphState) -> dict[int, int]:
    """Bytes of feature maps that are live at the jobs of each operator at most."""
    most: dict[int, int] = {}
    for row, start in zip(state.jobs, state.planned.starts, strict=False):
        for event, job in enumerate(row, start):
            source = job.step.source
            most[source] = max(most.get(source, 0), state.planned.feature_bytes[event])
    return most


def _needed_by_tensors(graph: Graph) -> list[int]:
    """Bytes of tensors that are live at each operator if all run on the CPU."""
    nodes = [PlanNode((index,)) for index in range(len(graph.ops))]
    lifetimes = trace_lifetimes(graph, nodes, [()] * len(nodes), {})
    return live_bytes(list(lifetimes.spans.values()), lifetimes.events)


def _violation(kind: str, live: int, variant: Variant) -> Violation:
    budget = arena_budget(variant)
    message = (
        f"{kind} needs {live} bytes of feature maps at a time, and cutting them in stripes does not bring that to the "
        f"{budget} bytes which {variant.memory_mode.name} gives the arena; its tensors alone fit"
    )
    return Violation(MEMORY_ARENA, message, f"<= {budget} bytes", f"{live} bytes", "use a larger arena or smaller maps")
