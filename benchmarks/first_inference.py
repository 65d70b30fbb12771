"""What the first inference of a compiled model costs, in parts: Vela's file and ours beside LiteRT XNNPACK, in one process.

    python benchmarks/first_inference.py MODEL.tflite [--target ethos-u55-128] [--repeats 15]

Kernels are loaded, nothing else is prepared: every repetition uses a new `Machine`. Rounds take the contestants in turn, so
that a busy machine hurts all of them; garbage is looked for as rarely as in the commands. Printed are medians and minima in
milliseconds of the calling thread's CPU time: the whole first run, and its parts each measured alone (so they need not add up
to the whole): commands to operations, checks and plan, weight streams to the layout of the kernels, and a run with everything
prepared; packing is what their medians leave of the whole's. XNNPACK's line is a new interpreter's `allocate_tensors` and
first `invoke`. The decoder's rates count the time of `weights`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from ai_edge_litert.interpreter import Interpreter

sys.path.insert(0, str(Path(__file__).parents[1]))

import npu
from npu.garbage import collect_rarely
from npu.hardware.catalogue import load_variant
from npu.isa.decode import decode
from npu.isa.families import family_of
from npu.isa.operations import Convolution, DepthwiseConvolution, Operation, WeightedOperation
from npu.isa.payload import parse_payload
from npu.isa.stream import CommandStream
from npu.isa.weight_stream.decode import GroupedStream
from npu.isa.weight_stream.use import WeightUse, weight_shape
from sim.functional.fast import make_row
from sim.functional.prepared import best_tier, prepare_stream
from sim.functional.weights import weight_orders
from sim.machine import Machine
from sim.memory import NpuMemory

from tests.support.vela import Job, compile_with_vela, only_job

Parts = dict[str, float]
Streams = tuple[GroupedStream, npt.NDArray[np.uint8], npt.NDArray[np.int8]]


def milliseconds(run: Callable[[], object]) -> float:
    """CPU time of this thread in one call."""
    start = time.thread_time()
    run()
    return (time.thread_time() - start) * 1e3


@dataclass(frozen=True, slots=True)
class Contestant:
    """One compiled file, ready to be run for the first time."""

    job: Job
    target: str

    def parts(self) -> Parts:
        """Times of one first inference and, each alone, of its parts."""
        variant, tier = load_variant(self.target), best_tier()
        words = parse_payload(self.job.payload).words
        constants = np.frombuffer(self.job.read_only.tobytes(), np.uint8)  # as those of a file, which nobody can change
        regions = {0: constants, 1: np.zeros(self.job.scratch_bytes, np.uint8)}
        memory = NpuMemory({**regions, 2: np.zeros(self.job.fast_bytes, np.uint8)}, variant)
        machine = Machine(variant, tier)
        found = {"whole": milliseconds(lambda: machine.run(words, memory))}
        found["commands"] = milliseconds(lambda: CommandStream(words, variant).operations)
        alike = CommandStream(words, variant).alike
        found["plan"] = milliseconds(lambda: prepare_stream(alike, memory, tier))
        kept: list[Streams] = []

        def collect(_index: int, operation: Operation, held: NpuMemory) -> None:
            if isinstance(operation, Convolution | DepthwiseConvolution):
                kept.extend(_streams_of(operation, held))

        machine.run(words, memory, hook=collect)
        decode_groups = family_of(variant.accelerator.product).weights.of_cores.decode_groups
        found["weights"] = milliseconds(lambda: decode_groups([stream for stream, *_ in kept], 1))
        found["warm"] = min(milliseconds(lambda: machine.run(words, memory)) for _ in range(3))
        return found

    def size(self) -> tuple[int, int, int, int]:
        """Words, operations, bytes of weight stream, weights of one inference."""
        words, variant = parse_payload(self.job.payload).words, load_variant(self.target)
        decoded = decode(words, variant)
        weighted = [item.operation for item in decoded if isinstance(item.operation, WeightedOperation)]
        stream = sum(part.length_bytes for item in weighted for part in item.weights)
        weights = sum(
            item.ofm.depth * item.kernel.height * item.kernel.width * (item.ifm.depth if isinstance(item, Convolution) else 1)
            for item in weighted
        )
        return len(words), len(decoded), stream, weights


def _streams_of(operation: Convolution | DepthwiseConvolution, memory: NpuMemory) -> Iterator[Streams]:
    """The operation's streams, and what they point to: copies of them, and room for what they become."""
    packed, accelerator = make_row(operation, memory).order, memory.variant.accelerator
    assert packed is not None, "a file of these benchmarks has 8-bit weights alone"
    groups, shape = np.zeros(-(-operation.ofm.depth // 16) * packed.block_bytes, np.int8), weight_shape(operation)
    for part, order in zip(
        operation.weights, weight_orders(WeightUse.of(operation), operation.ofm.depth, accelerator), strict=False
    ):
        data = memory.view(part.region, part.address, part.length_bytes).copy()
        weights = family_of(accelerator.product).weights.of_cores.grouped(shape, order, packed.places, packed.block_bytes)
        yield weights.stream(data.ctypes.data, data.size, groups.ctypes.data), data, groups


def first_invoke(model: bytes) -> Parts:
    """A new XNNPACK interpreter's preparation and first run."""

    def run() -> None:
        interpreter = Interpreter(model_content=model, num_threads=1)
        interpreter.allocate_tensors()
        interpreter.invoke()

    return {"whole": milliseconds(run)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--target", default="ethos-u55-128")
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    collect_rarely()
    model = options.model.read_bytes()
    ours = npu.compile(options.model, target=options.target).content
    files = {"Vela's file": compile_with_vela(model, options.target), "our file": ours}
    contestants = {name: Contestant(only_job(content), options.target) for name, content in files.items()}
    measures: dict[str, Callable[[], Parts]] = {name: contestant.parts for name, contestant in contestants.items()}
    measures["XNNPACK"] = lambda: first_invoke(model)
    for measure in measures.values():
        measure()
    rounds: dict[str, list[Parts]] = {name: [] for name in measures}
    for _ in range(options.repeats):
        for name, measure in measures.items():
            rounds[name].append(measure())
    _report(rounds, {name: contestant.size() for name, contestant in contestants.items()})


def _report(rounds: dict[str, list[Parts]], sizes: dict[str, tuple[int, int, int, int]]) -> None:
    peer = [item["whole"] for item in rounds["XNNPACK"]]
    for name, values in rounds.items():
        ratio = np.median([item["whole"] / other for item, other in zip(values, peer, strict=True)])
        sys.stdout.write(f"{name}: {ratio:.2f} times XNNPACK's first run (median of rounds)\n")
        if name in sizes:
            words, operations, stream, weights = sizes[name]
            least = min(value["weights"] for value in values) / 1e3
            sys.stdout.write(f"  {words} words, {operations} operations, {stream} bytes of stream, {weights} weights\n")
            sys.stdout.write(
                f"  decoder: {stream / least / 1e6:.0f} MB/s of stream, {weights / least / 1e6:.0f} million weights/s\n"
            )
        medians = {part: float(np.median([value[part] for value in values])) for part in values[0]}
        for part, median in medians.items():
            sys.stdout.write(f"  {part:9} median {median:7.2f} ms, minimum {min(value[part] for value in values):7.2f} ms\n")
        if name in sizes:
            rest = max(0.0, 2 * medians["whole"] - sum(medians.values()))
            sys.stdout.write(f"  {'packing':9} median {rest:7.2f} ms, the rest of the whole\n")


if __name__ == "__main__":
    main()
