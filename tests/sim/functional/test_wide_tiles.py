"""Tiles wider than their map, as Vela 4.2 writes them for slices: only the columns of the map are read and written."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sim.functional.prepared import Tier
from sim.machine import Machine
from sim.memory import NpuMemory

from tests.naive.operations import run_operation
from tests.support.machine import Workbench


@pytest.mark.parametrize("tier", [None, Tier.GENERAL])
def test_a_tile_that_is_wider_than_its_map_is_exact(tier: Tier | None) -> None:
    for seed in range(40):
        bench = Workbench(seed)
        operation = bench.operation()
        maps = {name: getattr(operation, name) for name in ("ifm", "ifm2", "ofm") if getattr(operation, name, None) is not None}
        wide = {name: replace(fm, tile_width_0=fm.width + 3) for name, fm in maps.items()}
        operation = replace(operation, **wide)
        memory = bench.memory()
        expected = NpuMemory({region: data.copy() for region, data in memory.regions.items()}, bench.variant)
        expected.shram[:] = memory.shram
        run_operation(operation, expected)
        Machine(bench.variant, tier).run([operation], memory)
        np.testing.assert_array_equal(memory.regions[1], expected.regions[1], f"seed {seed}: {operation}")
