"""How fast the functional simulator runs a compiled model, beside LiteRT on the same source model, in one process.

    python benchmarks/simulate_mobilenet.py MODEL.tflite [--target ethos-u55-128] [--repeats 40] [--general]

The model is compiled with Vela, so that the figures do not depend on this project's compiler. Printed per tier: the first
run (command and weight decode, plan, packing; compilation of the kernels apart; least of several), the median and minimum of
the others, the ratio of the minima to LiteRT's reference kernels with one thread, and to XNNPACK with one thread: of the
minima, and the median of the ratios of each round. Rounds alternate between the contestants, so that a busy machine hurts
all of them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

sys.path.insert(0, str(Path(__file__).parents[1]))

from npu.hardware.catalogue import load_variant
from npu.isa.payload import parse_payload
from sim.functional.prepared import Tier, best_tier
from sim.machine import Machine
from sim.memory import NpuMemory

from tests.support.vela import compile_with_vela, only_job

_FIRST_RUNS = 7


def milliseconds(run: Callable[[], object]) -> float:
    """Time of one call."""
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


def litert(model: bytes, *, is_reference: bool) -> Callable[[], object]:
    """`invoke` of a one-thread interpreter with random inputs."""
    kind = OpResolverType.BUILTIN_REF if is_reference else OpResolverType.AUTO
    interpreter = Interpreter(model_content=model, experimental_op_resolver_type=kind, num_threads=1)
    interpreter.allocate_tensors()
    rng = np.random.default_rng(0)
    for detail in interpreter.get_input_details():
        limits = np.iinfo(detail["dtype"])
        interpreter.set_tensor(
            detail["index"], rng.integers(limits.min, limits.max + 1, detail["shape"]).astype(detail["dtype"])
        )
    return interpreter.invoke


def simulator(model: bytes, target: str, tier: Tier) -> tuple[float, float, Callable[[], object]]:
    """(ms of kernel compilation or loading, ms of the first run without it, the run) of one tier."""
    job = only_job(compile_with_vela(model, target))
    words = parse_payload(job.payload).words
    variant = load_variant(target)
    memory = NpuMemory(
        {0: job.read_only, 1: np.zeros(job.scratch_bytes, np.uint8), 2: np.zeros(job.fast_bytes, np.uint8)}, variant
    )
    loading = milliseconds(lambda: Machine(variant, tier).run(words, memory))
    first = min(milliseconds(lambda: Machine(variant, tier).run(words, memory)) for _ in range(_FIRST_RUNS))
    machine = Machine(variant, tier)
    machine.run(words, memory)
    return loading - first, first, lambda: machine.run(words, memory)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--target", default="ethos-u55-128")
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--general", action="store_true", help="also run the 64-bit tier")
    options = parser.parse_args()
    model = options.model.read_bytes()
    tiers = [tier for tier in Tier if tier is not Tier.GENERAL or options.general]
    if best_tier() is not Tier.VNNI:
        tiers.remove(Tier.VNNI)
    contestants: dict[str, Callable[[], object]] = {"LiteRT XNNPACK": litert(model, is_reference=False)}
    lines = []
    for tier in tiers:
        loading, first, contestants[f"simulator {tier.value}"] = simulator(model, options.target, tier)
        lines.append(f"{tier.value}: kernels ready after {loading:.0f} ms more than a first run of {first:.1f} ms")
    reference = litert(model, is_reference=True)
    times: dict[str, list[float]] = {name: [] for name in contestants}
    times["LiteRT reference"] = []
    for round_number in range(options.repeats):
        for name, run in contestants.items():
            times[name].append(milliseconds(run))
        if round_number < 5:
            times["LiteRT reference"].append(milliseconds(reference))
    sys.stdout.write(f"{options.model.name}, {options.target}, best tier of this CPU: {best_tier().value}\n")
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    base, slow = (np.min(times[name]) for name in ("LiteRT XNNPACK", "LiteRT reference"))
    for name, values in times.items():
        least = min(values)
        peer = times["LiteRT XNNPACK"]
        paired = np.median([one / other for one, other in zip(values, peer, strict=False)])
        ratios = f"{least / base:6.2f}x XNNPACK (rounds {paired:6.2f}x), {slow / least:6.1f} times as fast as the reference"
        sys.stdout.write(f"{name:22} median {np.median(values):9.3f} ms, minimum {least:9.3f} ms = {ratios}\n")


if __name__ == "__main__":
    main()
