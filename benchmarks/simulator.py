"""How fast compiled models run on the simulated NPU, beside LiteRT with XNNPACK on the same source, in one process.

    python benchmarks/simulator.py MODEL.tflite... [--vela FOLDER] [--target ethos-u55-128] [--rounds 250]
        [--images 1000] [--avx2]

`invoke` of an interpreter each, with one and two threads; the contestants take turns, so that a busy machine hurts all of them.
FOLDER holds Vela's files, MODEL/TARGET.tflite; without it only this project's compiler takes part. Printed as a Markdown table,
worst ratio first: minima in microseconds, and the median of the ratios of the rounds in brackets.

With --avx2 both sides use kernels for AVX2 alone. With --images, also the time for so many random inputs on two cores:
`invoke_batch` with two threads, and LiteRT's `invoke` with two threads, input by input.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter as LiteRt
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))

import npu
from benchmarks.contestants import prepare
from benchmarks.limited_peer import limit_to_avx2

Inputs = list[NDArray[np.generic]]
_PEER = "XNNPACK"
_WARM_UP = 4
_PAUSE_SECONDS = _READY_SECONDS = 0.005


def random_inputs(interpreter: npu.Interpreter | LiteRt, count: int) -> Inputs:
    """`count` values of every input, in their type's whole range."""
    rng, inputs = np.random.default_rng(0), []
    for detail in interpreter.get_input_details():
        limits = np.iinfo(detail["dtype"])
        shape = (count, *(int(size) for size in detail["shape"]))
        inputs.append(rng.integers(limits.min, limits.max + 1, shape).astype(detail["dtype"]))
    return inputs


def ready(interpreter: npu.Interpreter | LiteRt) -> Callable[[], object]:
    """`invoke` on random inputs, with everything prepared."""
    interpreter.allocate_tensors()
    for detail, values in zip(interpreter.get_input_details(), random_inputs(interpreter, 1), strict=True):
        interpreter.set_tensor(detail["index"], values[0])
    for _ in range(_WARM_UP):
        interpreter.invoke()
    return interpreter.invoke


def microseconds(run: Callable[[], object]) -> float:
    """Time of one call."""
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e6


def microseconds_warm(run: Callable[[], object]) -> float:
    """Time of a call after others, when nothing of the other contestants is busy."""
    prepare(run, _PAUSE_SECONDS, _READY_SECONDS)
    return microseconds(run)


def compiled_files(model: Path, target: str, vela: Path | None) -> dict[str, bytes]:
    """By compiler."""
    files = {"npulab": npu.compile(str(model), target).content}
    theirs = vela / model.stem / f"{target}.tflite" if vela is not None else None
    return files | ({"Vela": theirs.read_bytes()} if theirs is not None and theirs.exists() else {})


def measure(model: Path, target: str, vela: Path | None, rounds: int) -> list[tuple[float, str]]:
    """(ratio of minima, row of the table) of every compiler and number of threads."""
    runs = {(_PEER, threads): ready(LiteRt(str(model), num_threads=threads)) for threads in (1, 2)}
    for compiler, content in compiled_files(model, target, vela).items():
        for threads in (1, 2):
            runs[compiler, threads] = ready(npu.Interpreter(model_content=content, num_threads=threads))
    times = {key: np.empty(rounds) for key in runs}
    for k in range(rounds):
        for key, run in runs.items():
            times[key][k] = microseconds_warm(run)
    rows = []
    for (compiler, threads), mine in times.items():
        peer = times[_PEER, threads]
        if compiler != _PEER:
            ratio, paired = mine.min() / peer.min(), np.median(mine / peer)
            row = (
                f"| {model.stem} | {compiler} | {threads} | {mine.min():.0f} | {peer.min():.0f} | {ratio:.2f} ({paired:.2f}) |"
            )
            rows.append((ratio, row))
    return rows


def evaluate(model: Path, target: str, count: int) -> str:
    """A sentence on `count` inputs, one after the other in LiteRT and as a batch here."""
    peer, mine = (
        LiteRt(str(model), num_threads=2),
        npu.Interpreter(model_content=npu.compile(str(model), target).content, num_threads=2),
    )
    ready(peer)
    mine.allocate_tensors()
    inputs = random_inputs(mine, count)
    mine.invoke_batch(*(values[: 2 * _WARM_UP] for values in inputs))

    def one_by_one() -> None:
        for k in range(count):
            for detail, values in zip(peer.get_input_details(), inputs, strict=True):
                peer.set_tensor(detail["index"], values[k])
            peer.invoke()
            peer.get_tensor(peer.get_output_details()[0]["index"])

    theirs = microseconds(one_by_one) / 1e6
    ours = microseconds(lambda: mine.invoke_batch(*inputs)) / 1e6
    return f"{model.stem}: {count} inputs in {ours:.2f} s, LiteRT {theirs:.2f} s: {ours / theirs:.2f}\n"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--vela", type=Path)
    parser.add_argument("--target", default="ethos-u55-128")
    parser.add_argument("--rounds", type=int, default=250)
    parser.add_argument("--images", type=int, default=0)
    parser.add_argument("--avx2", action="store_true")
    options = parser.parse_args()
    if options.avx2:
        os.environ["NPULAB_CPU"] = "avx2"
        limit_to_avx2()
    rows = [row for model in options.models for row in measure(model, options.target, options.vela, options.rounds)]
    sys.stdout.write("| model | compiler | threads | simulator µs | XNNPACK µs | ratio (paired) |\n|---|---|---|---|---|---|\n")
    sys.stdout.write("".join(f"{row}\n" for _, row in sorted(rows, reverse=True)))
    for model in options.models if options.images else ():
        sys.stdout.write(evaluate(model, options.target, options.images))


if __name__ == "__main__":
    main()
