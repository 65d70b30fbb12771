"""How long the timing model takes beside the functional run of the same command stream, in one process.

    python benchmarks/timing_engine.py MODEL.tflite... [--target ethos-u55-128] [--rounds 200]

Every model is compiled by Vela and by this project; a model that is not one NPU job is left out with a note. Timing is
`sim.timing.run_plan` on a planned stream, the functional run `Machine.run` on a prepared one: both warm, in turn, CPU time of
the calling thread. Printed as a Markdown table: medians (minima), and the median of the ratios of the rounds (ratio of minima).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Variant
from npu.isa.decode import decode
from npu.isa.payload import parse_payload
from npu.tflite.reader import read_model
from npu.toolchain.compile import compile_source
from sim.machine import Machine
from sim.memory import Memory
from sim.timing import run_plan
from sim.timing.plan import make_plan

from tests.support.vela import compile_with_vela, only_job

_HEAD = """| model | compiled by | operations | loads | functional ms | timing ms | timing / functional |
|---|---|---|---|---|---|---|
"""


def milliseconds(run: Callable[[], object]) -> float:
    """CPU time of one call."""
    start = time.thread_time_ns()
    run()
    return (time.thread_time_ns() - start) / 1e6


def measure(name: str, compiler: str, compiled: bytes, variant: Variant, rounds: int) -> str:
    """One row of the table. RuntimeError if the file is not one job."""
    job = only_job(compiled)
    words = parse_payload(job.payload).words
    regions = {0: job.read_only, 1: np.zeros(job.scratch_bytes, np.uint8), 2: np.zeros(job.fast_bytes, np.uint8)}
    machine, memory = Machine(variant), Memory(regions, variant)
    operations = [each.operation for each in decode(words, variant)]
    plan = make_plan(operations, variant, stream_words=len(words))
    for _ in range(3):
        machine.run(words, memory)
        run_plan(plan, variant)
    functional, timing = np.empty(rounds), np.empty(rounds)
    for number in range(rounds):
        functional[number] = milliseconds(lambda: machine.run(words, memory))
        timing[number] = milliseconds(lambda: run_plan(plan, variant))
    columns = [f"{np.median(each):.3f} ({each.min():.3f})" for each in (functional, timing)]
    ratio = f"{np.median(timing / functional):.3f} ({timing.min() / functional.min():.3f})"
    return f"| {name} | {compiler} | {len(operations)} | {len(plan.loads)} | {columns[0]} | {columns[1]} | {ratio} |\n"


def _compile(model: bytes, name: str, variant: Variant) -> bytes:
    return compile_source(read_model(model), name, variant).content


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--target", default="ethos-u55-128")
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    variant = load_variant(options.target)
    sys.stdout.write(_HEAD)
    for path in options.models:
        model = path.read_bytes()
        compilers: dict[str, Callable[[], bytes]] = {
            "Vela": partial(compile_with_vela, model, options.target),
            "npulab": partial(_compile, model, path.stem, variant),
        }
        for compiler, run in compilers.items():
            try:
                sys.stdout.write(measure(path.stem, compiler, run(), variant, options.rounds))
            except RuntimeError as error:
                sys.stderr.write(f"{path.name}, {compiler}: {str(error).splitlines()[0]}\n")


if __name__ == "__main__":
    main()
