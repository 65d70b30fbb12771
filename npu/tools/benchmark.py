"""Latency of a model on this machine: warm-up, runs, per-operator profile, memory. Measures, prints nothing."""

from __future__ import annotations

import csv
import io
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from npu.numerics.arrays import Array
from npu.plain import cell
from npu.progress import Progress
from npu.records import dataclass
from npu.runtime.interpreter import CpuInterpreter
from npu.tools.parameters import ToolParameters
from npu.tools.registrar import default_parameters
from npu.tools.runner import open_runner, random_inputs, set_inputs
from npu.tools.statistics import Statistics, summarize


@dataclass(frozen=True, slots=True)
class OperatorLatency:
    """Time of one operator over all measured runs; `share` of the sum over the steps of subgraph 0.

    Operators inside a delegate's node (`inside` is its number) and those of other subgraphs are parts of such a step.
    """

    subgraph: int
    node: int
    kind: str
    inside: int | None
    milliseconds: Statistics
    share: float

    @property
    def is_step(self) -> bool:
        """Whether the shares of all such rows make up the whole."""
        return self.inside is None and self.subgraph == 0


@dataclass(frozen=True, slots=True)
class Measurement:
    """Times in milliseconds, memory in bytes: of the process (0 where the system does not tell), and the interpreter's
    tensors that are no constants, of which the arena holds the intermediate ones. `delegates` says what each delegate took."""

    model: str
    log: tuple[str, ...]
    delegates: tuple[str, ...]
    threads: int
    load_ms: float
    first_ms: float
    warm_up: Statistics | None
    runs: Statistics
    operators: tuple[OperatorLatency, ...]
    peak_bytes: int
    peak_growth_bytes: int
    arena_bytes: int
    tensor_bytes: int

    def to_json(self) -> str:
        """All numbers for programs."""
        row = {
            "model": self.model,
            "delegates": list(self.log),
            "delegation": list(self.delegates),
            "threads": self.threads,
            "load_ms": self.load_ms,
            "first_ms": self.first_ms,
            "warm_up_ms": self.warm_up.row() if self.warm_up else None,
            "runs_ms": self.runs.row(),
            "operators": [
                {
                    "subgraph": operator.subgraph,
                    "node": operator.node,
                    "kind": operator.kind,
                    "inside": operator.inside,
                    "share": operator.share,
                    **operator.milliseconds.row(),
                }
                for operator in self.operators
            ],
            "peak_bytes": self.peak_bytes,
            "peak_growth_bytes": self.peak_growth_bytes,
            "arena_bytes": self.arena_bytes,
            "tensor_bytes": self.tensor_bytes,
        }
        return json.dumps(row, indent=2) + "\n"

    def to_csv(self) -> str:
        """One line for the whole model, then one for every operator; times in milliseconds."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        names = list(self.runs.row())
        writer.writerow(["subgraph", "node", "kind", "inside", "share", *names])
        writer.writerow(["", "", "model", "", 1.0, *self.runs.row().values()])
        for operator in self.operators:
            place = [
                operator.subgraph,
                operator.node,
                cell(operator.kind),
                "" if operator.inside is None else operator.inside,
                operator.share,
            ]
            writer.writerow([*place, *operator.milliseconds.row().values()])
        return buffer.getvalue()


def measure(
    path: Path,
    parameters: ToolParameters | None = None,
    *,
    runs: int = 50,
    warm_up_runs: int = 1,
    num_threads: int = 1,
    is_profiled: bool = False,
    inputs: Sequence[Array] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Measurement:
    """Load, warm up and run a model with random inputs (or `inputs`) and the delegates that `parameters` ask for."""
    before = peak_bytes()
    start = time.perf_counter()
    runner = open_runner(path, parameters or default_parameters(), num_threads=num_threads)
    load = time.perf_counter() - start
    interpreter = runner.interpreter
    given = random_inputs(interpreter, np.random.default_rng(seed)) if inputs is None else inputs
    set_inputs(interpreter, given)
    warm = [_timed(interpreter.invoke) for _ in range(warm_up_runs)]
    if is_profiled:
        interpreter.start_profile()
    times = []
    for done in range(runs):
        times.append(_timed(interpreter.invoke))
        if progress is not None:
            progress("runs", done + 1, runs)
    profile = interpreter.take_profile() if is_profiled else []
    measurement = Measurement(
        model=path.name,
        log=runner.log,
        delegates=runner.delegation,
        threads=num_threads,
        load_ms=load * 1e3,
        first_ms=(warm or times)[0],
        warm_up=summarize(warm) if warm else None,
        runs=summarize(times),
        operators=_operators(profile, interpreter),
        peak_bytes=peak_bytes(),
        peak_growth_bytes=peak_bytes() - before,
        arena_bytes=interpreter.arena_bytes(),
        tensor_bytes=interpreter.tensor_bytes(),
    )
    interpreter.close()
    return measurement


def peak_bytes() -> int:
    """The most memory that this process has held so far; 0 on Windows, whose Python does not tell."""
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _timed(function: Callable[[], None]) -> float:
    start = time.perf_counter()
    function()
    return (time.perf_counter() - start) * 1e3


def _operators(profile: Sequence[tuple[int, int, str, float]], interpreter: CpuInterpreter) -> tuple[OperatorLatency, ...]:
    times: dict[tuple[int, int, str], list[float]] = {}
    for subgraph, node, kind, seconds in profile:
        times.setdefault((subgraph, node, kind), []).append(seconds * 1e3)
    plans = {subgraph: interpreter.execution_plan(subgraph) for subgraph, _, _ in times}
    owners = {(subgraph, node): step["index"] for subgraph, plan in plans.items() for step in plan for node in step["replaces"]}
    steps = {(0, step["index"]) for step in plans.get(0, [])}
    total = sum(sum(values) for place, values in times.items() if place[:2] in steps) or 1.0
    return tuple(
        OperatorLatency(*place, owners.get(place[:2]), summarize(values), sum(values) / total)
        for place, values in times.items()
    )
