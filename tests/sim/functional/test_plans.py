"""Operations that share a plan: the bytes and the refusals of operations that are planned one by one, wherever they are."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from npu.errors import SimulationError
from npu.isa.decoded import Alike, Decoded, placed, places_of
from npu.isa.operations import Dma, DmaSide, KernelOperation, Operation
from sim.functional.plans import shared_plans
from sim.functional.prepared import Tier, prepare_stream, run_prepared
from sim.memory import NpuMemory

from tests.naive.operations import run_operation
from tests.support.machine import ARENA_BYTES, TIERS, Workbench

MAPS = 12
"""Columns of addresses of maps among the places of an operation."""
RUNS = 3
"""The third knows what the others left."""


def in_one_tile(operation: KernelOperation) -> KernelOperation:
    maps = {name: getattr(operation, name, None) for name in ("ifm", "ofm", "ifm2")}
    whole = {name: fm for name, fm in maps.items() if fm is not None}
    return replace(
        operation,
        **{name: replace(fm, tile_width_0=fm.width, tile_height_0=fm.height) for name, fm in whole.items()},  # type: ignore[arg-type]
    )


def alike(operations: list[Operation]) -> Alike:
    """Operations that differ in their places alone."""
    decoded = [Decoded(one, index, index) for index, one in enumerate(operations)]
    return Alike(decoded, [0], np.zeros(len(decoded), np.int64), np.array([places_of(one) for one in operations]))


def elsewhere(bench: Workbench, operation: KernelOperation, highest: int) -> KernelOperation:
    """The operation with each of its maps somewhere else, or one where another is."""
    places = places_of(operation)
    for first in range(0, MAPS, 4):
        shift = 16 * bench.number(-(places[first] // 16), (highest - places[first]) // 16)
        places[first : first + 4] = [place + shift for place in places[first : first + 4]]
    if bench.maybe(0.3):
        places[4:8] = places[bench.choose(0, 8) :][:4]
    return placed(operation, places)  # type: ignore[return-value]


def expected_runs(operations: list[Operation], memory: NpuMemory) -> list[np.ndarray]:
    """The arena after each of several runs of all operations."""
    arenas = []
    for _ in range(RUNS):
        for operation in operations:
            run_operation(operation, memory)
        arenas.append(memory.regions[1].copy())
    return arenas


@cache
def drawn(seed: int) -> tuple[Workbench, list[Operation]]:
    """An operation at several places, and where it works."""
    bench = Workbench(seed, plain=True)
    first = in_one_tile(bench.operation())
    return bench, [first, *(elsewhere(bench, first, ARENA_BYTES - (1 << 15)) for _ in range(6))]


@cache
def arenas_of(seed: int, accepted: tuple[int, ...]) -> list[np.ndarray]:
    """What the accepted operations of a seed leave, by the naive twin: the same for every tier."""
    bench, operations = drawn(seed)
    return expected_runs([operations[index] for index in accepted], bench.memory())


def is_accepted(operation: Operation, memory: NpuMemory, tier: Tier) -> bool:
    try:
        prepare_stream(Alike.none([operation]), memory, tier)
    except SimulationError:
        return False
    return True


@pytest.mark.parametrize("tier", TIERS, ids=[tier.value for tier in TIERS])
def test_operations_with_one_plan_are_exact_at_every_place(tier: Tier) -> None:
    shared = 0
    for seed in range(30):
        bench, operations = drawn(seed)
        memory = bench.memory()
        accepted = tuple(index for index, operation in enumerate(operations) if is_accepted(operation, memory, tier))
        if not accepted:
            continue
        stream = prepare_stream(alike([operations[index] for index in accepted]), memory, tier)
        shared += len(accepted) - shared_plans(stream.alike, memory)[0].size
        for number, arena in enumerate(arenas_of(seed, accepted)):
            run_prepared(stream, memory)
            np.testing.assert_array_equal(memory.regions[1], arena, f"seed {seed}, run {number}: {operations[0]}")
    assert shared > 50


def test_an_operation_outside_memory_is_refused_though_those_before_it_are_not() -> None:
    refused = 0
    for seed in range(40):
        bench = Workbench(seed, plain=True)
        first = in_one_tile(bench.operation())
        memory, messages = bench.memory(), []
        last = elsewhere(bench, first, 2 * ARENA_BYTES)
        operations = [first, elsewhere(bench, first, ARENA_BYTES - (1 << 15)), last]
        for listed in (alike(list(operations)), Alike.none(operations)):
            try:
                prepare_stream(listed, memory, TIERS[0])
                messages.append("")
            except SimulationError as error:
                messages.append(str(error))
        assert messages[0] == messages[1]
        refused += messages[0].startswith("command 2")
    assert refused >= 8


@pytest.mark.parametrize("length", [16, 48])
def test_transfers_with_one_plan_go_where_they_should(length: int) -> None:
    bench = Workbench(1)
    sides = [(DmaSide(1, 64 * k + 7), DmaSide(1, 8192 + 100 * k)) for k in range(9)]
    operations = [Dma(source=one, destination=other, length_bytes=length + k) for k, (one, other) in enumerate(sides)]
    memory, expected = bench.memory(), bench.memory()
    stream = prepare_stream(alike(list(operations)), memory, TIERS[0])
    assert shared_plans(stream.alike, memory)[0].size == 1
    for arena in expected_runs(list(operations), expected):
        run_prepared(stream, memory)
        np.testing.assert_array_equal(memory.regions[1], arena)


@pytest.mark.parametrize(("at", "length"), [(ARENA_BYTES - 15, 16), (0, 0), (-16, 16)])
def test_a_transfer_outside_memory_is_refused_though_those_before_it_are_not(at: int, length: int) -> None:
    bench = Workbench(1)
    bench.store(bytes(64))
    good = [Dma(source=DmaSide(0, 16 * k), destination=DmaSide(1, 16 * k), length_bytes=16) for k in range(3)]
    operations = [*good, replace(good[0], destination=DmaSide(1, at), length_bytes=length)]
    with pytest.raises(SimulationError, match="command 3"):
        prepare_stream(alike(list(operations)), bench.memory(), TIERS[0])
