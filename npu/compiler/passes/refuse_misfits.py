"""Pass: operators at whose steps the live feature maps exceed the arena's budget are refused."""

from __future__ import annotations

from npu.compiler.memory import arena_budget
from npu.compiler.state import Refusal, State
from npu.graph.placement import MEMORY_ARENA, Violation
from npu.hardware.variant import Variant


def refuse_misfits(state: State) -> State:
    """The state, with refusals if anything does not fit."""
    misfits = _misfits(state)
    return state.refuse(
        tuple(
            Refusal(number, index, _violation(state.model.graphs[number].ops[index].kind, live, state.variant))
            for (number, index), live in misfits.items()
        )
    )


def _misfits(state: State) -> dict[tuple[int, int], int]:
    """Graph and index of such operators, and the bytes that are live at them at most."""
    budget = arena_budget(state.variant)
    found: dict[tuple[int, int], int] = {}
    for number, each in enumerate(state.graphs):
        plan = each.planned
        for row, start in zip(each.jobs, plan.starts, strict=False):
            for event, job in enumerate(row, start):
                live = plan.feature_bytes[event]
                if live > budget:
                    key = (number, job.step.source)
                    found[key] = max(found.get(key, 0), live)
    return found


def _violation(kind: str, live: int, variant: Variant) -> Violation:
    budget = arena_budget(variant)
    message = (
        f"{kind} needs {live} bytes of feature maps at a time, and cutting them in stripes does not bring that to the "
        f"{budget} bytes which {variant.memory_mode.name} gives the arena"
    )
    return Violation(MEMORY_ARENA, message, f"<= {budget} bytes", f"{live} bytes", "use a larger arena or smaller maps")
