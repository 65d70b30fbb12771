"""Elementwise operations hand maps on in a chaining buffer where nothing else reads them, and results stay the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

import npu
from npu.api import verify
from npu.compiler import emit
from npu.compiler.chains import with_chains
from npu.compiler.dependencies import insert_waits
from npu.compiler.jobs import Job
from npu.graph.ethos_u import Region
from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Variant
from npu.isa.decode import decode
from npu.isa.encode import encode
from npu.isa.operations import Dma, DmaSide, Elementwise, KernelOperation, KernelWait, MapStorage, Operation, Stop
from npu.records import replace

from tests.support.architectures.layers import Layers
from tests.support.litert import random_inputs, run_reference

TARGET = "ethos-u85-1024"
VARIANT = load_variant(TARGET)


def softmax(height: int, width: int, depth: int) -> bytes:
    net = Layers(1)
    return net.finish(net.softmax(net.conv(net.input(height, width, 8), depth, 1)))


def pairs_of(operations: Sequence[Operation]) -> list[tuple[Elementwise, Elementwise]]:
    """The operations of chains, which follow each other."""
    places = [at for at, one in enumerate(operations) if isinstance(one, Elementwise) and one.ofm.storage is MapStorage.CHAINED]
    pairs = [(operations[at], operations[at + 1]) for at in places]
    return [(first, second) for first, second in pairs if isinstance(first, Elementwise) and isinstance(second, Elementwise)]


def operations_of(content: bytes, target: str = TARGET) -> tuple[Operation, ...]:
    (partition,) = npu.compile(content, target).compiled_model.partitions
    return tuple(partition.operations)


Given = tuple[list[Operation], dict[int, Job]]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Given:
    """What is given to `with_chains` for a SOFTMAX: operations, and the jobs of its kernels."""
    seen: list[Given] = []

    def spy(operations: Sequence[Operation], job_of: Mapping[int, Job], variant: Variant) -> list[Operation]:
        seen.append((list(operations), dict(job_of)))
        return with_chains(operations, job_of, variant)

    monkeypatch.setattr(emit, "with_chains", spy)
    operations_of(softmax(30, 20, 60))
    return seen[0]


@pytest.mark.parametrize("target", ["ethos-u85-128", "ethos-u85-512", "ethos-u85-2048"])
@pytest.mark.parametrize("shape", [(30, 20, 60), (4, 100, 100), (12, 9, 250)])
def test_results_stay_the_same(shape: tuple[int, int, int], target: str) -> None:
    content = softmax(*shape)
    made = npu.compile(content, target)
    (partition,) = made.compiled_model.partitions
    assert pairs_of(partition.operations)
    inputs = random_inputs(content, 2)
    np.testing.assert_array_equal(npu.run(made.content, inputs, target).outputs[0], run_reference(content, inputs)[0])
    assert verify(made.content) == []


def test_both_operations_have_one_block_and_start_alike() -> None:
    for first, second in pairs_of(operations_of(softmax(30, 20, 60))):
        assert first.options is not None
        assert second.options is not None
        assert (first.block, first.options.ublock, first.blockdep) == (second.block, second.options.ublock, second.blockdep)
        assert [fm.region for fm in second.ifms if not fm.is_in_memory] == [first.ofm.region]
        assert all(fm.is_in_memory for fm in first.ifms)


@pytest.mark.parametrize("target", ["ethos-u55-256", "ethos-u65-512"])
def test_others_have_no_such_buffers(target: str) -> None:
    assert not pairs_of(operations_of(softmax(30, 20, 60), target))


def test_small_maps_go_through_memory() -> None:
    assert not pairs_of(operations_of(softmax(1, 1, 10)))


def test_nothing_is_written_over_what_is_read_later(given: Given) -> None:
    operations, job_of = given
    at, first = next(
        (at, one) for at, one in enumerate(with_chains(operations, job_of, VARIANT)) if pairs_of([one, operations[at + 1]])
    )
    second = operations[at + 1]
    assert isinstance(first, Elementwise)
    assert isinstance(second, Elementwise)
    for moved in (0, 64):
        start, *others = first.ifm.addresses
        ofm = replace(second.ofm, region=first.ifm.region, addresses=(start + moved, *others))
        changed = [*operations[: at + 1], replace(second, ofm=ofm), *operations[at + 2 :]]
        is_in_place = moved == 0 and replace(ofm, zero_point=first.ifm.zero_point) == first.ifm
        assert bool(pairs_of(with_chains(changed, job_of, VARIANT)[at : at + 2])) is is_in_place


def test_nothing_stands_between_them(given: Given) -> None:
    operations, job_of = given
    at = next(at for at, one in enumerate(with_chains(operations, job_of, VARIANT)) if pairs_of([one, operations[at + 1]]))
    copy = Dma(source=DmaSide(Region.CONSTANTS, 0), destination=DmaSide(Region.FAST, 1 << 18), length_bytes=64)
    apart = [*operations[: at + 1], copy, *operations[at + 1 :]]
    jobs = {place + (place > at): job for place, job in job_of.items()}
    assert len(pairs_of(with_chains(apart, jobs, VARIANT))) == len(pairs_of(with_chains(operations, job_of, VARIANT))) - 1


def test_a_chain_is_one_kernel_that_waits_are_counted_in() -> None:
    """What a transfer overwrites is read by the kernel before the chain: behind it one is newer, not two."""
    operations = operations_of(softmax(30, 20, 60))
    first, second = pairs_of(operations)[0]
    before = next(one for one in operations if isinstance(one, Elementwise) and not one.is_chained)
    before = replace(before, ifm=replace(before.ifm, region=Region.ARENA, addresses=(1 << 20, 0, 0, 0)))
    copy = Dma(source=DmaSide(Region.CONSTANTS, 0), destination=DmaSide(Region.ARENA, 1 << 20), length_bytes=64)
    ordered, _ = insert_waits([before, first, second, copy], [0] * 4, VARIANT)
    assert [one.outstanding for one in ordered if isinstance(one, KernelWait)] == [1]
    assert isinstance(ordered[ordered.index(copy) - 1], KernelWait)


def test_registers_of_maps_are_written_anew_around_a_chain() -> None:
    operations = operations_of(softmax(30, 20, 60))
    first, second = pairs_of(operations)[0]
    plain = next(one for one in operations if isinstance(one, Elementwise) and not one.is_chained and one.ifm2 is not None)
    words = encode([plain, plain, first, second, plain, Stop()], VARIANT)
    ends = [one.word_index for one in decode(words, VARIANT)]
    lengths = np.diff([0, *ends]).tolist()
    assert lengths[1] == 1  # the same again: nothing but its start
    assert min(lengths[2:5]) > 20
    found = [one.operation for one in decode(words, VARIANT)]
    assert [one for one in found if isinstance(one, KernelOperation)] == [plain, plain, first, second, plain]
