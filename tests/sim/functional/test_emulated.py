"""Kernels for aarch64, with and without dot products, on an emulated CPU: the bytes of the naive twin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from npu.isa.operations import KernelOperation
from npu.native import cpu
from sim.functional import packing, prepared
from sim.functional.kernels import rows
from sim.functional.prepared import PreparedStream, Tier
from sim.machine import Machine
from sim.memory import NpuMemory

from tests.naive.operations import run_operation
from tests.support.emulator import Emulator
from tests.support.machine import Workbench

SEEDS = 40


def operations(seed: int) -> Iterator[tuple[Workbench, KernelOperation]]:
    """Some of each kind, on memories of their own."""
    makers = (Workbench.convolution, Workbench.convolution, Workbench.pooling, Workbench.elementwise, Workbench.elementwise)
    for k, make in enumerate(makers):
        bench = Workbench(len(makers) * seed + k, plain=seed % 4 != 0)
        yield bench, make(bench)


def copied(memory: NpuMemory) -> NpuMemory:
    copy = NpuMemory({region: data.copy() for region, data in memory.regions.items()}, memory.variant)
    copy.shram[:] = memory.shram
    return copy


def ready(bench: Workbench, operation: KernelOperation, memory: NpuMemory) -> PreparedStream:
    """The operation with constants packed, as it is before its first run."""
    stream = Machine(bench.variant, Tier.PORTABLE)._prepared([operation], memory)
    prepared._pack_ahead(stream, memory, 1)
    if stream.rows[0]["kind"] == rows.GENERAL and stream.operations[0].row.planned.kind != rows.GENERAL:
        prepared._pack(stream, 0, operation, memory)  # type: ignore[arg-type]
    return stream


@pytest.mark.emulator
@pytest.mark.parametrize("tier", [tier for tier in cpu.TIERS if tier.machine == cpu.AARCH64], ids=lambda tier: tier.name)
def test_kernels_for_aarch64_give_the_bytes_of_the_naive_twin(
    tier: cpu.CpuTier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulator = Emulator.build(tier, tmp_path)
    monkeypatch.setattr(packing, "current", lambda: tier)
    tasks, expected, kinds = list[tuple[PreparedStream, NpuMemory, bool]](), list[NpuMemory](), list[int]()
    for seed in range(SEEDS):
        for bench, operation in operations(seed):
            start = bench.memory()
            for with_dot_product in {False, tier.has_dot_product}:
                memory = copied(start)
                stream = ready(bench, operation, memory)
                if stream.rows[0]["kind"] == rows.GENERAL:
                    continue
                twin = copied(start)
                run_operation(operation, twin)
                tasks.append((stream, memory, with_dot_product))
                expected.append(twin)
                kinds.append(int(stream.rows[0]["kind"]))
    assert min(np.bincount(kinds, minlength=5)[rows.CONVOLUTION :]) >= SEEDS // 8
    assert emulator.run(tasks, tmp_path) == [1] * len(tasks)
    for (stream, memory, _), twin in zip(tasks, expected, strict=True):
        for region, data in twin.regions.items():
            np.testing.assert_array_equal(memory.regions[region], data, str(stream.operations[0].operation))
