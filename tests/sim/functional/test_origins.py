"""Where constants come from: forecasts, and runs in which one is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npu.isa.decoded import Alike
from npu.isa.operations import (
    INT8,
    AddressRange,
    Convolution,
    Dma,
    DmaSide,
    DmaStride,
    IfmPadding,
    KernelWindow,
    Operation,
    Scale,
)
from npu.numerics.arrays import Ints
from sim.functional import prepared
from sim.functional.origins import constant_origins
from sim.functional.prepared import Tier, best_tier
from sim.functional.weights import source_ranges
from sim.machine import Machine
from sim.memory import NpuMemory

from tests.support.machine import ARENA_BYTES, Workbench

STAGING = ARENA_BYTES - 16384


def transfer(source: AddressRange, destination: int, *, rows: int = 1) -> Dma:
    """A copy of constants into the arena, in one piece or in several."""
    stride = DmaStride.ROWS if rows > 1 else DmaStride.CONTIGUOUS
    sides = {"source": DmaSide(0, source.address, stride), "destination": DmaSide(1, destination, stride)}
    return Dma(**sides, length_bytes=source.length_bytes // rows, rows=rows)


def staged(operation: Convolution, *, at: int, rows: int = 1) -> list[Operation]:
    """The operation with its constants read from the arena, after transfers that bring them there."""
    weights, scales = operation.weights[0], operation.scales[0]
    behind = at + -(-weights.length_bytes // 16) * 16
    moved = replace(
        operation, weights=(replace(weights, region=1, address=at),), scales=(replace(scales, region=1, address=behind),)
    )
    return [transfer(weights, at, rows=rows), transfer(scales, behind), moved]


def convolutions() -> tuple[Workbench, Convolution, Convolution]:
    bench = Workbench(5, plain=True)
    return bench, bench.dense_convolution(5, 6, 16, 32), bench.dense_convolution(7, 5, 32, 16)


BENCH, FIRST, SECOND = convolutions()
ELSEWHERE = STAGING + 8192
FORESEEN: dict[str, list[Operation]] = {
    "in_place": [FIRST, SECOND],
    "elsewhere": [*staged(FIRST, at=STAGING), *staged(SECOND, at=ELSEWHERE)],
    "all_transfers_ahead": [
        operation for pair in zip(staged(FIRST, at=STAGING), staged(SECOND, at=ELSEWHERE), strict=True) for operation in pair
    ],
    "one_buffer": [*staged(FIRST, at=STAGING), *staged(SECOND, at=STAGING)],
    "a_buffer_before_and_over_another": [*staged(FIRST, at=STAGING), *staged(SECOND, at=STAGING - 64)],
}
UNFORESEEN: dict[str, list[Operation]] = {
    "in_rows": staged(FIRST, at=STAGING, rows=2),
    "in_rows_over_others": [transfer(SECOND.weights[0], STAGING), *staged(FIRST, at=STAGING, rows=2)],
    "behind_a_shorter_one_over_its_start": [
        *staged(FIRST, at=STAGING)[:2],
        transfer(replace(FIRST.weights[0], length_bytes=32), STAGING),
        staged(FIRST, at=STAGING)[2],
    ],
}


@pytest.mark.parametrize("stream", FORESEEN)
def test_bytes_that_one_transfer_brings_are_known_before(stream: str) -> None:
    memory = BENCH.memory()
    expected = [
        BENCH.constants[part.address : part.address + part.length_bytes]
        for operation in (FIRST, SECOND)
        for part in source_ranges(operation)
    ]
    own = [index for index, operation in enumerate(FORESEEN[stream]) if isinstance(operation, Convolution)]
    constants = constant_origins(Alike.none(FORESEEN[stream]), memory, np.array(own))
    found = [source.tobytes() for index in own for source in constants.source(index)]
    assert found == expected


@pytest.mark.parametrize("stream", FORESEEN | UNFORESEEN)
def test_runs_are_exact_whether_constants_were_foreseen_or_not(stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    operations, memory, expected = (FORESEEN | UNFORESEEN)[stream], BENCH.memory(), BENCH.memory()
    late, pack = [], prepared.pack_streams

    def watched(forms: Any, of: Ints, *others: Any) -> Any:
        late.append(of.size == 1)
        return pack(forms, of, *others)

    monkeypatch.setattr(prepared, "pack_streams", watched)
    machine = Machine(BENCH.variant, best_tier())
    Machine(BENCH.variant, Tier.GENERAL).run(operations, expected)
    machine.run(operations, memory)
    assert np.array_equal(memory.regions[1], expected.regions[1])
    assert late == ([False] if stream in FORESEEN else [True, True])


def test_constants_that_the_batch_leaves_are_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, tried, pack = Workbench(6, plain=True), list[int](), prepared.pack_streams
    constants = (np.full((16, 1, 1, 16), 255), [0] * 16, [Scale(1 << 30, 40)] * 16)  # weights of 9 bits
    wide = bench.windowed(KernelWindow(1, 1), IfmPadding(), (3, 4), 16, 16, INT8, constants)
    assert isinstance(wide, Convolution)

    def watched(forms: Any, of: Ints, *others: Any) -> Any:
        tried.append(of.size)
        return pack(forms, of, *others)

    monkeypatch.setattr(prepared, "pack_streams", watched)
    memory, expected = bench.memory(), bench.memory()
    operations, machine = [wide, *staged(wide, at=STAGING)], Machine(bench.variant, best_tier())
    machine.run(operations, memory)
    Machine(bench.variant, Tier.GENERAL).run(operations, expected)
    assert np.array_equal(memory.regions[1], expected.regions[1])
    assert tried == [2]


def test_constants_that_can_be_written_are_copied() -> None:
    memory = BENCH.memory()
    writable = NpuMemory({0: memory.regions[0].copy(), 1: memory.regions[1]}, BENCH.variant)
    for region, is_kept in ((memory, True), (writable, False)):
        constants = constant_origins(Alike.none([FIRST]), region, np.array([0]))
        first, end = region.bases[0], region.bases[0] + region.regions[0].size
        assert [first <= address < end for address in constants.addresses] == [is_kept, is_kept]
