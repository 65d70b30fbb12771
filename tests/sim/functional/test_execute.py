"""Every tier of the simulator against the naive twin, on random operations in random corners of memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from npu.isa.operations import Convolution, KernelOperation, Layout, Operation
from sim.functional.fast import make_row
from sim.functional.kernels import rows
from sim.machine import Machine
from sim.memory import NpuMemory

from tests.naive.operations import run_operation
from tests.support.machine import TIERS, Workbench

TARGETS = ("ethos-u55-128", "ethos-u55-32", "ethos-u65-512")


def assert_all_equal(bench: Workbench, operation: Operation, where: str) -> None:
    expected = bench.memory()
    run_operation(operation, expected)
    for tier in TIERS:
        found = bench.memory()
        machine = Machine(bench.variant, tier)
        for _ in range(2):
            found.regions[1][:] = bench.arena
            machine.run([operation], found)
            assert_same(found, expected, f"{where}, {tier}: {operation}")


def assert_same(found: NpuMemory, expected: NpuMemory, where: str) -> None:
    for region, data in found.regions.items():
        different = np.flatnonzero(data != expected.regions[region])
        assert different.size == 0, f"{where}: {different.size} bytes differ, first at {different[0]:#x}"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("part", range(3))
def test_any_operation_equals_its_naive_twin_on_every_tier(part: int, target: str) -> None:
    for seed in range(part * 1000, part * 1000 + 25):
        bench = Workbench(seed, target=target)
        assert_all_equal(bench, bench.operation(), f"seed {seed}")


@pytest.mark.parametrize("part", range(3))
def test_operations_of_the_fast_kernels_equal_their_naive_twin_on_every_tier(part: int) -> None:
    for seed in range(part * 1000, part * 1000 + 50):
        bench = Workbench(seed, plain=True)
        assert_all_equal(bench, bench.operation(), f"seed {seed}")


SIZES = {
    "more_inputs_than_are_made_ready_at_a_time": (10, 11, 64, 20),
    "fewer_pixels_than_a_tile_and_many_channels": (1, 3, 8, 77),
    "a_pixel_more_than_a_tile": (1, 7, 5, 16),
}


@pytest.mark.parametrize("case", SIZES)
def test_convolutions_of_many_sizes_equal_their_naive_twin_on_every_tier(case: str) -> None:
    kinds = set()
    for seed in range(4):
        bench = Workbench(seed, plain=True)
        operation = bench.dense_convolution(*SIZES[case])
        kinds.add(make_row(operation, bench.memory()).kind)
        assert_all_equal(bench, operation, f"seed {seed}")
    assert rows.CONVOLUTION in kinds


def test_the_random_operations_reach_every_fast_kernel() -> None:
    kinds: Counter[int] = Counter()
    for seed in range(150):
        bench = Workbench(seed, plain=True)
        operation = bench.operation()
        kinds[make_row(operation, bench.memory()).kind] += 1
    assert min(kinds[kind] for kind in (rows.CONVOLUTION, rows.DEPTHWISE, rows.ELEMENTWISE)) >= 5, kinds


def packed(operation: KernelOperation, order: Sequence[str]) -> KernelOperation:
    """The operation with its maps as NHWC without gaps, one directly behind the other in region 1."""
    address, maps = 64, {}
    for name in order:
        fm = getattr(operation, name, None)
        if fm is None:
            continue
        address += -address % fm.element.bytes
        pixel = fm.depth * fm.element.bytes
        strides = {"stride_y": pixel * fm.width, "stride_x": pixel, "stride_c": fm.element.bytes}
        whole = {"tile_height_0": fm.height, "tile_height_1": fm.height, "tile_width_0": fm.width}
        maps[name] = replace(fm, addresses=(address, 0, 0, 0), layout=Layout.NHWC, region=1, **strides, **whole)
        address += pixel * fm.width * fm.height
    return replace(operation, **maps)


@pytest.mark.parametrize("order", [("ifm", "ofm", "ifm2"), ("ifm2", "ofm", "ifm"), ("ofm", "ifm", "ifm2")], ids=str)
def test_maps_without_a_gap_between_them_equal_their_naive_twin_on_every_tier(order: tuple[str, ...]) -> None:
    """Groups of 16 channels that are read beyond the end of a map reach into the next one, or into what is being written."""
    kinds: Counter[int] = Counter()
    for seed in range(60):
        bench = Workbench(seed, plain=True)
        operation = packed(bench.operation(), order)
        kinds[make_row(operation, bench.memory()).kind] += operation.ifm.depth % 16 > 0 or operation.ofm.depth % 16 > 0
        assert_all_equal(bench, operation, f"seed {seed}")
    assert min(kinds[kind] for kind in (rows.CONVOLUTION, rows.DEPTHWISE, rows.ELEMENTWISE)) >= 3, kinds


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_many_operations_equal_their_naive_twin_on_every_tier(part: int) -> None:
    for seed in range(10_000 + part * 200, 10_000 + part * 200 + 200):
        bench = Workbench(seed, target=TARGETS[seed % 3], plain=seed % 2 == 0)
        assert_all_equal(bench, bench.operation(), f"seed {seed}")


def test_weights_that_change_in_memory_are_decoded_again() -> None:
    machine = None
    for seed in range(200):
        bench = Workbench(seed, plain=True)
        operation = bench.convolution()
        if isinstance(operation, Convolution) and make_row(operation, bench.memory()).kind == rows.CONVOLUTION:
            break
    memory = bench.memory()
    machine = Machine(bench.variant)
    memory = NpuMemory({number: data.copy() for number, data in memory.regions.items()}, bench.variant)
    machine.run([operation], memory)
    part = operation.scales[0]
    memory.regions[0][part.address] ^= 0x5A
    memory.regions[0][part.address + 1] ^= 0x3C
    memory.regions[1][:] = bench.arena
    machine.run([operation], memory)
    expected = NpuMemory({0: memory.regions[0].copy(), 1: bench.arena.copy()}, bench.variant)
    run_operation(operation, expected)
    assert_same(memory, expected, "after the change")
