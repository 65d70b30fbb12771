"""What a plan remembers never changes its times."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from npu.hardware.catalogue import load_variant
from npu.isa.operations import Block, DmaWait, Operation
from sim.timing.preparation import _known_totals
from sim.timing.scheduler import time_rows
from sim.timing.stream_rows import StreamRows, stream_rows
from sim.trace import TraceColumn

from tests.support.timing import convolution, transfer

COPIES: dict[str, Callable[[StreamRows], StreamRows]] = {
    "itself": lambda plan: plan,
    "copied": copy.deepcopy,
    "pickled": lambda plan: pickle.loads(pickle.dumps(plan)),
}


def stream() -> list[Operation]:
    """A transfer beside a convolution, one behind it, and another convolution."""
    kernel = convolution(16, 16, 32, 64, Block(4, 4, 16), stream_bytes=2000)
    return [transfer(5000), kernel, DmaWait(0), transfer(700), kernel]


def test_a_plan_run_on_another_system_is_prepared_again() -> None:
    variant = load_variant("ethos-u55-128")
    without = replace(variant, system=replace(variant.system, adapters={}))
    shared = stream_rows(stream(), variant, stream_words=20)
    for system in (variant, without, variant):
        fresh = time_rows(stream_rows(stream(), variant, stream_words=20), system)
        assert np.array_equal(time_rows(shared, system).table, fresh.table)
    assert time_rows(shared, variant).totals.total_cycles != time_rows(shared, without).totals.total_cycles


@pytest.mark.parametrize("name", COPIES)
def test_a_plan_that_has_run_gives_the_same_trace_again(name: str) -> None:
    variant = load_variant("ethos-u55-128")
    plan = stream_rows(stream(), variant, stream_words=20)
    first = time_rows(plan, variant)
    kept = first.table.copy()
    second = time_rows(COPIES[name](plan), variant)
    assert np.array_equal(second.table, kept)
    assert np.array_equal(first.table, kept)
    assert (second.totals, second.tails, second.kinds) == (first.totals, first.tails, first.kinds)


def test_a_trace_owns_what_it_holds() -> None:
    variant = load_variant("ethos-u55-128")
    plan = stream_rows(stream(), variant, stream_words=20)
    first, second = time_rows(plan, variant), time_rows(plan, variant)
    assert not np.shares_memory(first.table, second.table)
    assert first.totals.memory_read_bytes is not second.totals.memory_read_bytes


def test_a_beat_that_is_not_full_counts() -> None:
    variant = load_variant("ethos-u55-128")
    beat = variant.accelerator.axi_data_bytes
    for bytes_read, beats in ((0, 0), (1, 1), (beat, 1), (beat + 1, 2)):
        sums = [0] * len(TraceColumn)
        for column in (
            TraceColumn.AXI0_READ_BYTES,
            TraceColumn.AXI0_WRITE_BYTES,
            TraceColumn.AXI1_READ_BYTES,
            TraceColumn.AXI1_WRITE_BYTES,
        ):
            sums[column] = bytes_read
        totals = _known_totals(sums, variant)
        found = (totals.axi0_read_beats, totals.axi0_write_beats, totals.axi1_read_beats, totals.axi1_write_beats)
        assert found == (beats,) * 4
