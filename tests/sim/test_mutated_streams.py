"""Random and mutated command streams end in an error or in a run that stays inside memory: never in a crash or a hang."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import npu
from npu.errors import SimulationError, StreamError
from npu.graph.graph import Model
from npu.hardware.catalogue import load_variant
from npu.isa.ethos_u55_u65 import ETHOS_U55_U65
from sim.container import NpuJob, jobs_of
from sim.functional.prepared import Tier
from sim.machine import Machine
from sim.memory import NpuMemory

DIGITS = Path(__file__).parents[2] / "examples" / "digits.tflite"
TARGET = "ethos-u55-128"
GUARD_BYTES = 4096
"""Before and after each region, to show writes that leave it."""


@cache
def compiled() -> Model:
    return npu.load(npu.compile(DIGITS, target=TARGET).content)


def job() -> NpuJob:
    return next(jobs_of(compiled()))


class Arena:
    """Regions between guards."""

    def __init__(self) -> None:
        self._guarded = {
            region: np.full(size + 2 * GUARD_BYTES, 0xA5, np.uint8) for region, size in job().region_bytes.items() if region < 2
        }
        self._pattern = np.full(GUARD_BYTES, 0xA5, np.uint8)
        regions = {region: data[GUARD_BYTES:-GUARD_BYTES] for region, data in self._guarded.items()}
        graph = compiled().graphs[0]
        constants = graph.tensors[graph.ops[0].inputs[1]].data
        assert constants is not None
        regions[0][:] = constants
        self.memory = NpuMemory({**regions, 2: regions[1]}, load_variant(TARGET))

    def is_intact(self) -> bool:
        ends = [end for data in self._guarded.values() for end in (data[:GUARD_BYTES], data[-GUARD_BYTES:])]
        return all(np.array_equal(end, self._pattern) for end in ends)


def mutated(words: npt.NDArray[np.uint32], generator: np.random.Generator) -> npt.NDArray[np.uint32]:
    """The stream with bits flipped, words replaced, moved, doubled or left out."""
    result = words.copy()
    for _ in range(int(generator.integers(1, 5))):
        at, kind = int(generator.integers(len(result))), int(generator.integers(5))
        if kind == 0:
            result[at] ^= np.uint32(1 << int(generator.integers(32)))
        elif kind == 1:
            result[at] = generator.integers(1 << 32, dtype=np.uint32)
        elif kind == 2:
            result = np.delete(result, at)
        elif kind == 3:
            result = np.insert(result, at, result[int(generator.integers(len(result)))])
        else:
            result[at] = (result[at] & np.uint32(0xFFFF)) | np.uint32(int(generator.integers(1 << 16)) << 16)
    return result


def random_commands(generator: np.random.Generator) -> npt.NDArray[np.uint32]:
    """Words with known opcodes and random parameters."""
    opcodes = [command.opcode | payload for command in ETHOS_U55_U65.by_name.values() for payload in (0, 0x4000)]
    count = int(generator.integers(1, 60))
    chosen = generator.choice(opcodes, count).astype(np.uint32)
    return (chosen | (generator.integers(1 << 16, size=count).astype(np.uint32) << np.uint32(16))).astype(np.uint32)


def run_all(count: int, seed: int, tier: Tier) -> tuple[int, int]:
    """Run `count` streams: how many were refused and how many ran."""
    generator, arena = np.random.default_rng(seed), Arena()
    machine, words = Machine(load_variant(TARGET), tier), job().payload.words
    refused = ran = 0
    for number in range(count):
        if number % 8 == 0:
            stream = random_commands(generator)
        else:
            stream = mutated(words[: int(generator.integers(40, len(words)))] if number % 4 else words, generator)
        try:
            machine.run(stream, arena.memory)
            ran += 1
        except (StreamError, SimulationError):
            refused += 1
        assert number % 100 or arena.is_intact()
    assert arena.is_intact()
    return refused, ran


def test_mutated_streams_stay_inside_memory() -> None:
    refused, ran = run_all(2000, seed=2, tier=Tier.GENERAL)
    assert refused > 800
    assert ran > 15


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_mutated_streams_stay_inside_memory(seed: int) -> None:
    assert sum(run_all(10_000, seed, Tier.PORTABLE)) == 10_000
