"""How subgraphs call each other: the only place that refuses chains too deep for Python's stack, and calls without end."""

from __future__ import annotations

from npu.errors import InterpreterError
from npu.graph.graph import Model
from npu.graph.verify import called_graphs

DEEPEST = 64
"""The most subgraphs of one chain of calls; real models have a handful."""

MOST_CALLS = 1_000_000
"""The most calls of subgraphs in one inference without loops; a few lines that each call the next twice make 2**64."""


def check_calls(model: Model) -> None:
    """Raise an InterpreterError for subgraphs whose calls nest deeper than DEEPEST, or never end (a cycle)."""
    calls = [{callee for op in graph.ops for callee in called_graphs(op)} for graph in model.graphs]
    done: set[int] = set()
    for _ in range(DEEPEST):
        done.update([index for index, called in enumerate(calls) if called <= done])
    if len(done) < len(calls):
        left = sorted(set(range(len(calls))) - done)
        raise InterpreterError(f"subgraphs {left[:8]}: calls must nest at most {DEEPEST} deep, got deeper ones or a cycle")
    total = _count_calls(model, 0, {})
    if total > MOST_CALLS:
        raise InterpreterError(f"subgraphs: one inference must make at most {MOST_CALLS:,} calls, got {total:.3g}")


def _count_calls(model: Model, index: int, known: dict[int, int]) -> int:
    """Calls that one run of a subgraph makes, each loop run once and of two branches the longer one."""
    if index not in known:
        known[index] = 0
        for op in model.graphs[index].ops:
            calls = [1 + _count_calls(model, callee, known) for callee in called_graphs(op)]
            known[index] += max(calls, default=0) if op.kind == "IF" else sum(calls)
    return known[index]
