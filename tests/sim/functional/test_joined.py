"""Depth slices of a convolution run as one where nothing in between has to do with them, and leave the same bytes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import npu
from npu.isa.decode import decode
from npu.isa.operations import Convolution, Dma, Operation
from sim.functional.joined import RepeatedRows
from sim.functional.kernels import rows
from sim.functional.prepared import PreparedStream
from sim.machine import Machine
from sim.memory import NpuMemory

from tests.npu.reports.test_stream_operators import convolutions
from tests.sim.functional.test_repeats import Bench

ARENA = 1
RUNS = 4


@functools.cache
def compiled() -> Bench:
    """Three convolutions of 256 channels, whose weights are read in slices."""
    return Bench(npu.compile(convolutions(16, 256), "ethos-u55-128").content, "ethos-u55-128")


def with_room(of: Bench) -> NpuMemory:
    """Memory with 16 bytes more than the file asks for."""
    held = of.memory().regions
    return NpuMemory({**held, ARENA: np.zeros(held[ARENA].size + 16, np.uint8)}, of.variant)


def sliced() -> tuple[Bench, list[Operation]]:
    of = compiled()
    return of, [decoded.operation for decoded in decode(of.words, of.variant)]


def prepared(machine: Machine, operations: Sequence[Operation], memory: NpuMemory) -> tuple[PreparedStream, RepeatedRows]:
    """The stream after its runs, each compared with the same operations one by one."""
    rng, other = np.random.default_rng(0), NpuMemory({**memory.regions, ARENA: memory.regions[ARENA].copy()}, memory.variant)
    for _ in range(RUNS):
        memory.regions[ARENA][:] = other.regions[ARENA][:] = rng.integers(0, 256, memory.regions[ARENA].size, np.uint8)
        machine.run(operations, memory)
        Machine(machine.variant).run(operations, other)
        np.testing.assert_array_equal(memory.regions[ARENA], other.regions[ARENA])
    stream = machine._prepared(operations, memory)
    assert stream.repeated is not None
    return stream, stream.repeated


def joined(stream: PreparedStream, repeated: RepeatedRows) -> list[int]:
    """The first operations of slices that are one row."""
    pairs = zip(repeated.origins, repeated.table, strict=False)
    return [origin for origin, row in pairs if row["blocks"] > stream.rows[origin]["blocks"]]


def test_slices_are_one_row_with_all_their_channels() -> None:
    of, operations = sliced()
    stream, repeated = prepared(Machine(of.variant), operations, of.memory())
    assert len(joined(stream, repeated)) >= 2
    is_product = stream.rows["kind"] == rows.CONVOLUTION
    assert repeated.table["blocks"][repeated.table["kind"] == rows.CONVOLUTION].sum() == stream.rows["blocks"][is_product].sum()
    assert (repeated.table["kind"] == rows.CONVOLUTION).sum() < is_product.sum()
    assert not (repeated.table["kind"] == rows.NOTHING).any()


@pytest.mark.parametrize("between", ["writes a slice", "reads a slice", "writes the input"])
def test_slices_stay_apart_where_a_transfer_has_to_do_with_them(between: str) -> None:
    of, operations = sliced()
    stream, repeated = prepared(Machine(of.variant), operations, with_room(of))
    first = joined(stream, repeated)[0]
    slices = [k for k in range(first, len(operations)) if isinstance(operations[k], Convolution)][:2]
    one, two = (operations[k] for k in slices)
    assert isinstance(one, Convolution)
    assert isinstance(two, Convolution)
    copy = next(operation for operation in operations if isinstance(operation, Dma) and operation.source.region == 0)
    constant, output, inputs = replace(copy.source, address=0), two.ofm.addresses[0], one.ifm.addresses[0]
    free = of.job.scratch_bytes
    place = replace(copy.source, region=ARENA)
    reads = replace(place, address=output), free
    transfers = {
        "writes a slice": [(constant, output), reads],  # what nobody reads would be left out
        "reads a slice": [reads],
        "writes the input": [(constant, inputs)],
    }[between]
    for source, target in reversed(transfers):
        destination = replace(copy.destination, region=ARENA, address=target, core_mask=0)
        transfer = replace(copy, source=source, destination=destination, length_bytes=16, rows=1, planes=1)
        operations.insert(slices[1], transfer)
    stream, repeated = prepared(Machine(of.variant), operations, with_room(of))
    assert first not in joined(stream, repeated)
