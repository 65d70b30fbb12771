"""Pass: partitions that are not worth an NPU job stay on the CPU."""

from __future__ import annotations

from dataclasses import replace

from npu.compiler.state import State
from npu.graph.idle import without_idle_jobs


def drop_idle_jobs(state: State) -> State:
    """The state with such operators placed on the CPU."""
    return replace(state, placement=without_idle_jobs(state.model, state.placement, state.variant.cpu))
