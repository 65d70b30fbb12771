"""How deep subgraphs call each other: the only place that refuses a chain that Python's stack could not hold."""

from __future__ import annotations

from npu.errors import InterpreterError
from npu.graph.graph import Model
from npu.graph.verify import called_graphs

DEEPEST = 64
"""The most subgraphs of one chain of calls; real models have a handful."""


def check_calls(model: Model) -> None:
    """Raise an InterpreterError for subgraphs whose calls nest deeper than DEEPEST, or never end (a cycle)."""
    calls = [{callee for op in graph.ops for callee in called_graphs(op)} for graph in model.graphs]
    done: set[int] = set()
    for _ in range(DEEPEST):
        done.update([index for index, called in enumerate(calls) if called <= done])
    if len(done) < len(calls):
        left = sorted(set(range(len(calls))) - done)
        raise InterpreterError(f"subgraphs {left[:8]}: calls must nest at most {DEEPEST} deep, got deeper ones or a cycle")
