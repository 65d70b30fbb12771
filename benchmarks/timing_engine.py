"""How long the timing model takes beside the functional run of the same command stream, in one process.

    python benchmarks/timing_engine.py MODEL.tflite... [--target ethos-u55-128] [--rounds 200] [--first-rounds 20]

Every model is compiled by Vela and by this project; a model that is not one NPU job is left out with a note. Kernels are
loaded before; streams are decoded before. CPU time of the calling thread, both in turn.

First run: what a process does once for a stream. `sim.timing.schedule` on the decoded operations beside `Machine.run` on a new
machine, both with all their preparations. Again: `sim.timing.time_rows` on a planned stream beside `Machine.run` on a prepared
one (a session remembers the result instead: it depends on no tensor).

Printed as a Markdown table: medians, and the median of the ratios of the rounds (for the runs again with the ratio of minima).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from npu.compiler.block_config import BlockChooser

sys.path.insert(0, str(Path(__file__).parents[1]))

from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Variant
from npu.isa.decode import decode
from npu.isa.payload import parse_payload
from npu.tflite.reader import read_model
from npu.toolchain.compile import compile_in_memory
from sim.machine import Machine
from sim.memory import NpuMemory
from sim.timing import schedule, time_rows
from sim.timing.stream_rows import stream_rows

from tests.support.vela import compile_with_vela, only_job

_HEAD = """| model | compiler | operations | fetches | first: run ms | timing | ratio | again: run ms | timing | ratio |
|---|---|---|---|---|---|---|---|---|---|
"""


def milliseconds(run: Callable[[], object]) -> float:
    """CPU time of one call."""
    start = time.thread_time_ns()
    run()
    return (time.thread_time_ns() - start) / 1e6


def measure(name: str, compiler: str, compiled: bytes, variant: Variant, rounds: int, first_rounds: int) -> str:
    """One row of the table. RuntimeError if the file is not one job."""
    job = only_job(compiled)
    words = parse_payload(job.payload).words
    regions = {0: job.read_only, 1: np.zeros(job.scratch_bytes, np.uint8), 2: np.zeros(job.fast_bytes, np.uint8)}
    memory = NpuMemory(regions, variant)
    operations = [item.operation for item in decode(words, variant)]
    plan = stream_rows(operations, variant, stream_words=len(words))
    machine = Machine(variant)
    first = _in_turn(
        lambda: Machine(variant).run(words, memory),
        lambda: schedule(operations, variant, stream_words=len(words)),
        first_rounds,
    )
    again = _in_turn(lambda: machine.run(words, memory), lambda: time_rows(plan, variant), rounds)
    columns = [
        name,
        compiler,
        len(operations),
        len(plan.fetches),
        *_milliseconds_and_ratio(first, 2),
        *_milliseconds_and_ratio(again, 3),
    ]
    return "| " + " | ".join(map(str, columns)) + f" ({again[1].min() / again[0].min():.3f}) |\n"


def _in_turn(functional: Callable[[], object], timing: Callable[[], object], rounds: int) -> NDArray[np.float64]:
    """(2, rounds) milliseconds; two more rounds before them are not measured."""
    times = [[milliseconds(functional), milliseconds(timing)] for _ in range(rounds + 2)]
    return np.array(times[2:]).T


def _milliseconds_and_ratio(times: NDArray[np.float64], digits: int) -> tuple[str, str, str]:
    functional, timing = times
    return (
        f"{np.median(functional):.{digits}f}",
        f"{np.median(timing):.{digits}f}",
        f"{np.median(timing / functional):.{digits}f}",
    )


def _compile(model: bytes, name: str, variant: Variant) -> bytes:
    return compile_in_memory(read_model(model), name, BlockChooser(variant)).written(name).content


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--target", default="ethos-u55-128")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--first-rounds", type=int, default=20)
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
                sys.stdout.write(measure(path.stem, compiler, run(), variant, options.rounds, options.first_rounds))
            except RuntimeError as error:
                sys.stderr.write(f"{path.name}, {compiler}: {str(error).splitlines()[0]}\n")


if __name__ == "__main__":
    main()
