"""Repeated runs on one memory leave out work; each must leave the bytes that a run of the general kernels leaves."""

from __future__ import annotations

import functools
from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import npu
from npu.graph.dtype import DType
from npu.hardware.catalogue import load_variant
from npu.isa.decode import decode
from npu.isa.encode import encode
from npu.isa.operations import Convolution, Dma, DmaSide, Operation, Stop
from npu.isa.payload import parse_payload
from npu.isa.stream import CommandStream
from npu.tflite.reader import read_model
from sim.container import jobs_of
from sim.functional import threads
from sim.functional.kernels import rows
from sim.functional.prepared import Moved, Tier, best_tier
from sim.machine import Machine
from sim.memory import MAX_REGIONS, NpuMemory

from tests.support.processes import ROOT
from tests.support.shared import shared_models
from tests.support.vela import only_job
from tests.support.xnnpack import Layers

RUNS = 5
SPARE_BYTES = 1 << 17


def windows() -> bytes:
    """Convolutions of padded maps, with one to five groups of 16 channels, of pixels that leave some over of every tile."""
    net = Layers(DType.INT8, (1, 19, 13, 5))
    for channels, kernel, stride in ((16, 3, 1), (80, 3, 1), (48, 5, 1), (64, 3, 1), (24, 3, 2), (80, 3, 1)):
        net.conv(channels, kernel, stride)
    return net.build()


MODELS: dict[str, Path | bytes] = {
    "digits": ROOT / "examples" / "digits.tflite",
    "windows": windows(),
    **{
        name: path
        for name, path in shared_models().items()
        if name in ("mlperf_kws_int8", "mlperf_vww_int8", "mlperf_resnet8_int8")
    },
}


class Bench:
    """A compiled file's job and memories for it."""

    def __init__(self, content: bytes, target: str) -> None:
        self.job, self.variant = only_job(content), load_variant(target)
        self.words, self.spare_bytes = parse_payload(self.job.payload).words, 0

    def memory(self, constants: np.ndarray | None = None) -> NpuMemory:
        """Constants that nobody can change, unless others are given."""
        held = np.frombuffer(self.job.read_only.tobytes(), np.uint8) if constants is None else constants
        scratch = {1: np.zeros(self.job.scratch_bytes + self.spare_bytes, np.uint8), 2: np.zeros(self.job.fast_bytes, np.uint8)}
        return NpuMemory({0: held, **scratch}, self.variant)


@functools.cache
def bench(model: str, target: str, optimise: str = "performance") -> Bench:
    return Bench(npu.compile(MODELS[model], target, optimise=optimise).content, target)


def assert_runs_exact(of: Bench, machine: Machine, memory: NpuMemory, *, runs: int = RUNS) -> None:
    """Runs from random contents of what can be written, each compared with the general kernels."""
    rng = np.random.default_rng(runs)
    for _ in range(runs):
        for region in (1, 2):
            memory.regions[region][:] = rng.integers(0, 256, memory.regions[region].size, np.uint8)
        expected = of.memory(memory.regions[0])
        for region in (1, 2):
            expected.regions[region][:] = memory.regions[region]
        Machine(of.variant, Tier.GENERAL).run(of.words, expected)
        machine.run(of.words, memory)
        for region in memory.regions:
            np.testing.assert_array_equal(memory.regions[region], expected.regions[region])


def known(machine: Machine, of: Bench, memory: NpuMemory) -> dict[int, int]:
    """How many rows of each kind are known to need no check or no copy."""
    plan = machine._prepared(of.words, memory).rows
    return {kind: int(plan["is_known"][plan["kind"] == kind].sum()) for kind in (rows.CONVOLUTION, rows.COPY)}


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-512"])
@pytest.mark.parametrize("model", MODELS)
def test_repeated_runs_leave_the_bytes_of_the_general_kernels(model: str, target: str) -> None:
    of = bench(model, target)
    machine, memory = Machine(of.variant), of.memory()
    assert_runs_exact(of, machine, memory)
    assert known(machine, of, memory)[rows.CONVOLUTION] > 0


@pytest.mark.parametrize("num_threads", [2, 3])
@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-512"])
@pytest.mark.parametrize("model", MODELS)
def test_threads_leave_the_bytes_of_the_general_kernels(
    model: str, target: str, num_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "_SMALLEST_STREAM", 8)
    monkeypatch.setattr(threads, "_SMALLEST_CHUNK", 8)  # so that small networks are shared as well
    of = bench(model, target)
    for tier in (Tier.PORTABLE, best_tier()):
        machine, memory = Machine(of.variant, tier, num_threads), of.memory()
        assert_runs_exact(of, machine, memory)
        stream = machine._prepared(of.words, memory)
        if target == "ethos-u55-128":  # where all weights are known
            assert stream.repeated is not None
            assert (stream.repeated.table["chunk"] > 0).any()


@pytest.mark.parametrize("rows_below", [0, 1, -1])
def test_threads_pad_all_of_an_input_before_it_is_overwritten(rows_below: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_SMALLEST_STREAM", 8)
    monkeypatch.setattr(threads, "_SMALLEST_CHUNK", 8)
    monkeypatch.setattr(threads, "help_shared", lambda work: None)  # all chunks one after the other
    of = bench("windows", "ethos-u55-128")
    operations = [one.operation for one in decode(of.words, of.variant)]
    padded = [
        one for one in operations if isinstance(one, Convolution) and not one.padding.is_none and one.kernel.stride_y == 1
    ]
    assert len(padded) >= 4
    for conv in padded[1:]:  # its output goes where its input is
        ifm = conv.ifm
        place = SPARE_BYTES // 2 + ifm.addresses[0] + rows_below * ifm.stride_y
        moved = replace(ifm, addresses=(SPARE_BYTES // 2 + ifm.addresses[0], *ifm.addresses[1:]))
        overlaid = replace(conv, ifm=moved, ofm=replace(conv.ofm, addresses=(place, *conv.ofm.addresses[1:])))
        of_one = copy(of)
        of_one.words = encode([overlaid if one is conv else one for one in operations], of.variant)
        of_one.spare_bytes = SPARE_BYTES
        assert_runs_exact(of_one, Machine(of.variant, num_threads=2), of_one.memory(), runs=8)


def test_constants_that_can_change_are_compared_at_every_run() -> None:
    of = bench("digits", "ethos-u55-128")
    machine, memory = Machine(of.variant), of.memory(of.job.read_only.copy())
    assert_runs_exact(of, machine, memory)
    assert known(machine, of, memory) == {rows.CONVOLUTION: 0, rows.COPY: 0}


def test_runs_in_one_call_end_where_constants_are_others() -> None:
    of = bench("digits", "ethos-u55-128")
    machine, memory = Machine(of.variant), of.memory(of.job.read_only.copy())
    nothing = np.zeros((0, 2), np.int64)
    moved = Moved(nothing, nothing, (np.zeros((4, 0), np.int64), np.zeros((4, 0), np.int64)))
    stream = CommandStream(of.words, of.variant)
    assert machine.run_again(stream, memory, moved) == 0
    for _ in range(RUNS):
        machine.run(stream, memory)
    assert machine.run_again(stream, memory, moved) == 4
    assert machine.run_again(stream, of.memory(), moved) == 0
    (conv,) = [one for one in stream.alike.decoded if isinstance(one.operation, Convolution)][:1]
    memory.regions[0][conv.operation.scales[0].address] ^= 1
    assert machine.run_again(stream, memory, moved) == 0
    for _ in range(RUNS):
        machine.run(stream, memory)
    assert machine.run_again(stream, memory, moved) == 4


def test_a_plan_forgets_what_it_knew_when_another_memory_comes_between() -> None:
    of = bench("digits", "ethos-u55-128")
    machine, memory = Machine(of.variant), of.memory()
    assert_runs_exact(of, machine, memory)
    conv = next(step for step in machine._prepared(of.words, memory).operations if step.row.planned.kind == rows.CONVOLUTION)
    scales = of.job.read_only.copy()
    part = conv.operation.scales[0]  # type: ignore[union-attr]
    scales[part.address] ^= 1
    other = of.memory(np.frombuffer(scales.tobytes(), np.uint8))
    for _ in range(2):
        assert_runs_exact(of, machine, other, runs=1)
        assert_runs_exact(of, machine, memory, runs=1)


def test_a_watched_run_makes_every_transfer() -> None:
    of = bench("digits", "ethos-u65-512")
    machine, memory, seen = Machine(of.variant), of.memory(), []
    assert_runs_exact(of, machine, memory)
    for tier in (machine.tier, Tier.GENERAL):
        watched, copies = (machine, memory) if tier is machine.tier else (Machine(of.variant, tier), of.memory())
        for region in (1, 2):
            copies.regions[region][:] = 0
        states: list[bytes] = []
        watched.run(of.words, copies, hook=lambda _i, _o, held, states=states: states.append(held.regions[1].tobytes()))  # type: ignore[misc]
        seen.append(states)
    assert seen[0] == seen[1]


@pytest.mark.parametrize("model", MODELS)
def test_transfers_that_leave_no_results_are_left_out(model: str) -> None:
    of = bench(model, "ethos-u55-128")
    (job,) = jobs_of(read_model(npu.compile(MODELS[model], "ethos-u55-128").content))
    results, inputs = [output.place for output in job.outputs], [given.place for given in job.inputs]
    whole, machine, plain = of.memory(), Machine(of.variant), Machine(of.variant)
    memory = NpuMemory(
        {region: whole.regions[region].copy() if region else whole.regions[0] for region in range(3)},
        of.variant,
        results,
        inputs,
    )
    rng = np.random.default_rng(5)
    for _ in range(RUNS):
        whole.regions[1][:] = memory.regions[1][:] = rng.integers(0, 256, memory.regions[1].size, np.uint8)
        plain.run(of.words, whole)
        machine.run(of.words, memory)
        for region, start, end in results:
            np.testing.assert_array_equal(memory.regions[region][start:end], whole.regions[region][start:end])
    assert known(machine, of, memory)[rows.COPY] >= known(plain, of, whole)[rows.COPY]
    kept = machine._prepared(of.words, memory).rows
    kept = kept[(kept["kind"] == rows.COPY) & (kept["is_known"] == 0)]
    assert all(kept["out_region"] == MAX_REGIONS) or model == "mlperf_kws_int8"  # whose maps are transferred as well


def test_what_the_next_run_reads_is_left_there() -> None:
    """The stream moves what it finds at 0 to 64, its result, and puts constants at 0."""
    variant = load_variant("ethos-u55-128")
    constants = np.arange(64, dtype=np.uint8)
    memory = NpuMemory({0: np.frombuffer(constants.tobytes(), np.uint8), 1: np.zeros(192, np.uint8)}, variant, [(1, 64, 128)])
    stream: list[Operation] = [
        transfer((1, 0), (1, 64)),
        transfer((0, 0), (1, 0)),
        transfer((0, 0), (1, 128)),
        Stop(mask=0xFFFF),
    ]
    machine = Machine(variant)
    for run in range(RUNS):
        memory.regions[1][64:] = 99
        machine.run(stream, memory)
        expected = constants if run else np.zeros(64, np.uint8)
        np.testing.assert_array_equal(memory.regions[1][64:128], expected)
        np.testing.assert_array_equal(memory.regions[1][:64], constants)
    assert memory.regions[1][128:].tolist() == [99] * 64


def transfer(source: tuple[int, int], destination: tuple[int, int]) -> Dma:
    """64 bytes from an address of a region to another."""
    return Dma(source=DmaSide(*source), destination=DmaSide(*destination), length_bytes=64)
