"""ADD and SUB in fixed point: repeated runs leave the naive twin's bytes, and nearly all operations take it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npu.isa.operations import (
    INT8,
    UINT8,
    Activation,
    ElementType,
    Elementwise,
    ElementwiseMode,
    Layout,
    OperandScaling,
    Rounding,
    Scale,
)
from npu.numerics import byte_sums
from sim.functional.kernels import rows
from sim.functional.prepared import Tier
from sim.machine import Machine
from sim.memory import NpuMemory

from tests.naive.operations import run_operation
from tests.support.machine import TIERS, Workbench

FAST = [tier for tier in TIERS if tier is not Tier.GENERAL]
RUNS = 4
"""The first two do not know yet that there are more."""


def runs_in_fixed_point(bench: Workbench, operation: Elementwise, tier: Tier) -> bool | None:
    """Whether it does after some runs, each compared with the naive twin; None if no fast kernel takes it."""
    memory, machine = bench.memory(), Machine(bench.variant, tier)
    for _ in range(RUNS):
        memory.regions[1][:] = bench.rng.integers(0, 256, memory.regions[1].size, np.uint8)
        expected = NpuMemory({region: data.copy() for region, data in memory.regions.items()}, bench.variant)
        run_operation(operation, expected)
        machine.run([operation], memory)
        np.testing.assert_array_equal(memory.regions[1], expected.regions[1], f"{tier}: {operation}")
    row = machine._prepared([operation], memory).operations[0].row
    if row.numbers["kind"] != rows.ELEMENTWISE:
        return None
    return bool(row.planned.arrays["operands"][0]["fixed_point"]["is_exact"])


def sum_of_bytes(bench: Workbench, mode: ElementwiseMode, element: ElementType, *, is_flat: bool) -> Elementwise:
    """An operation that fast kernels take, on maps with room for more than one vector and a rest, with gaps unless flat."""
    layout, maps = bench.choose(*Layout), {}
    depth = bench.choose(16, 32) if is_flat else bench.choose(8, 19, 32)
    for name in ("ifm", "ifm2", "ofm"):
        fm = bench.feature_map(5, 7, depth, element)
        if is_flat:
            steps = (7 * depth, 16, 7 * 16) if layout is Layout.NHCWB16 else (7 * depth, depth, 1)
            fm = replace(fm, layout=layout, **dict(zip(("stride_y", "stride_x", "stride_c"), steps, strict=True)))
        maps[name] = replace(fm, tile_height_0=5, tile_height_1=5, tile_width_0=7)
    return replace(
        bench.elementwise(),
        mode=mode,
        scalar=None,
        operand_scaling=bench.choose(OperandScaling.A_32, OperandScaling.B_32),
        operand_rounding=Rounding.DOUBLE,
        rounding=Rounding.DOUBLE,
        opa_scale=Scale(bench.number(1 << 30, (1 << 31) - 1), bench.number(11, 15)),
        scale=Scale(bench.number(1 << 30, (1 << 31) - 1), bench.number(49, 51)),
        activation=Activation(element.minimum + 5, element.maximum - 7),
        **maps,
    )


@pytest.mark.parametrize("seeds", [range(5), pytest.param(range(12), marks=pytest.mark.slow)], ids=["few", "many"])
@pytest.mark.parametrize("is_flat", [False, True])
@pytest.mark.parametrize("element", [INT8, UINT8], ids=str)
@pytest.mark.parametrize("mode", [ElementwiseMode.ADD, ElementwiseMode.SUB])
def test_nearly_all_sums_of_bytes_run_in_fixed_point_with_the_same_bytes(
    mode: ElementwiseMode, element: ElementType, is_flat: bool, seeds: range
) -> None:
    for tier in FAST:
        taken = []
        for seed in seeds:
            bench = Workbench(seed, plain=True)
            taken.append(runs_in_fixed_point(bench, sum_of_bytes(bench, mode, element, is_flat=is_flat), tier))
        assert taken.count(True) >= len(seeds) - 1, taken


def test_halves_are_rounded_away_from_zero_in_fixed_point() -> None:
    bench = Workbench(0, plain=True)
    operation = sum_of_bytes(bench, ElementwiseMode.ADD, INT8, is_flat=True)
    halves = replace(operation, opa_scale=Scale(1 << 30, 11), scale=Scale(1 << 30, 50))
    for tier in FAST:
        assert runs_in_fixed_point(bench, halves, tier)


def test_results_that_fixed_point_would_change_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_sums, "_NUDGES", ((0, 1 << 10),))  # a hundredth is added to results
    bench = Workbench(1, plain=True)
    operation = sum_of_bytes(bench, ElementwiseMode.SUB, INT8, is_flat=True)
    for tier in FAST:
        assert runs_in_fixed_point(bench, operation, tier) is False
