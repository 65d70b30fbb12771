"""What a plan remembers never changes its times."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npu.hardware.loader import load_variant
from npu.isa.operations import Block
from sim.timing.plan import make_plan
from sim.timing.scheduler import run_plan

from tests.support.timing import convolution


def test_a_plan_run_on_another_system_is_prepared_again() -> None:
    variant = load_variant("ethos-u55-128")
    without = replace(variant, system=replace(variant.system, adapters={}))
    stream = [convolution(16, 16, 32, 64, Block(4, 4, 16), stream_bytes=2000)]
    shared = make_plan(stream, variant, stream_words=20)
    for system in (variant, without, variant):
        fresh = run_plan(make_plan(stream, variant, stream_words=20), system)
        assert np.array_equal(run_plan(shared, system).table, fresh.table)
    assert run_plan(shared, variant).totals.total_cycles != run_plan(shared, without).totals.total_cycles
