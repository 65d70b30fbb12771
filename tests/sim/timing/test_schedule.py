"""Cycles of hand-made streams, written out from the rules of the block model."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npu.errors import SimulationError
from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Port
from npu.isa.decoded import Decoded
from npu.isa.operations import (
    Block,
    DmaWait,
    ElementwiseMode,
    IfmPadding,
    KernelWait,
    KernelWindow,
    Layout,
    Operation,
    ShramLayout,
    Stop,
)
from npu.machine.parameters import port_rows
from sim.timing import schedule
from sim.trace import Bound, TimedUnit, Trace, TraceColumn

from tests.support.operations import operations as random_streams
from tests.support.timing import addition, convolution, copy_operation, feature_map, round_variant, transfer, with_adapter

SMALL = Block(4, 4, 16)
# One block of 4x4x16 from 32 input channels on the round machine: 4x4x32 bytes are 64 beats; 8 micro-blocks of 1x2 in the
# plane take max(32, 4 x 8) = 32 cycles per 8 output channels, so 64; the output unit takes 256 cycles for 256 elements.
FETCH, MAC, OUTPUT = 64, 64, 256


def run(*stream: Operation, words: int = 0, variant=None) -> Trace:  # type: ignore[no-untyped-def]
    return schedule(list(stream), variant or round_variant(), stream_words=words)


def rows(trace: Trace) -> list[Any]:
    """One record per operation of the stream: the columns of the trace's table by their names."""
    names = [column.name.lower() for column in TraceColumn]
    return [SimpleNamespace(**dict(zip(names, row, strict=True))) for row in trace.table.tolist()]


def test_one_block_takes_fetch_then_mac_then_output() -> None:
    trace = run(convolution(4, 4, 16, 32, SMALL))
    assert trace.totals.total_cycles == FETCH + MAC + OUTPUT
    operation = rows(trace)[0]
    assert (operation.start, operation.end, operation.blocks) == (0, 384, 1)
    assert (operation.mac_active, operation.output_active) == (MAC, OUTPUT)
    assert operation.macs == 4 * 4 * 16 * 32


def test_two_blocks_overlap_so_that_only_the_slowest_unit_counts_twice() -> None:
    trace = run(convolution(4, 8, 16, 32, SMALL))
    assert trace.totals.total_cycles == FETCH + MAC + 2 * OUTPUT


def test_the_third_block_waits_for_an_accumulator() -> None:
    trace = run(convolution(4, 12, 16, 32, SMALL))
    assert trace.totals.total_cycles == FETCH + MAC + 3 * OUTPUT
    # Block 2 is fetched at 192 and the array is free at 192, but the output of block 0 holds its accumulator until 384.
    assert rows(trace)[0].mac_stalled_by_accumulator == 384 - 192


def test_blockdep_zero_drains_between_operations() -> None:
    first = convolution(4, 4, 16, 32, SMALL)
    drained = run(first, replace(first, blockdep=0))
    overlapped = run(first, replace(first, blockdep=3))
    assert drained.totals.total_cycles == 2 * (FETCH + MAC + OUTPUT)
    assert overlapped.totals.total_cycles == FETCH + MAC + 2 * OUTPUT
    assert rows(drained)[1].blockdep_stall == 384 - 64
    assert rows(overlapped)[1].blockdep_stall == 0


def test_a_transfer_behind_a_kernel_costs_nothing_and_one_before_it_costs_its_time() -> None:
    kernel = convolution(4, 4, 16, 32, SMALL, ifm=feature_map(4, 4, 32, region=1))
    alone = run(kernel).totals.total_cycles
    hidden = run(kernel, transfer(512, destination=None)).totals.total_cycles
    exposed = run(transfer(512, destination=None), DmaWait(0), kernel).totals.total_cycles
    assert hidden == alone
    assert exposed == alone + 512 // 8


def test_kernel_wait_holds_the_parser_until_the_kernel_has_finished() -> None:
    kernel = convolution(4, 4, 16, 32, SMALL)
    trace = run(kernel, KernelWait(0), transfer(800, destination=None))
    assert rows(trace)[1].end == 384
    assert rows(trace)[2].start == 384
    assert trace.totals.total_cycles == 384 + 100


def test_dma_wait_one_lets_one_transfer_run_on() -> None:
    two = replace(round_variant().accelerator, max_outstanding_dma=2)
    variant = replace(round_variant(), accelerator=two)
    trace = run(transfer(800, destination=None), transfer(800, destination=None), DmaWait(1), DmaWait(0), variant=variant)
    assert [rows(trace)[2].end, rows(trace)[3].end] == [100, 200]


def test_the_third_kernel_waits_for_room_in_the_queue() -> None:
    kernel = convolution(4, 4, 16, 32, SMALL)
    trace = run(kernel, kernel, kernel)
    assert rows(trace)[2].issued == rows(trace)[0].end


def test_weight_stream_bounds_an_operation_with_little_arithmetic() -> None:
    trace = run(convolution(4, 4, 16, 32, SMALL, stream_bytes=8000, ofm=feature_map(4, 4, 16)))
    # The port serves the first request first: 64 beats of input, then 1000 beats of weights.
    assert trace.totals.total_cycles == 64 + 1000 + OUTPUT
    assert trace.bounds[0] is Bound.WEIGHT_READ


def test_adapter_latency_is_paid_once_per_dependent_step() -> None:
    variant = with_adapter(round_variant(), Port.AXI0, read_latency_cycles=32, write_latency_cycles=20)
    assert run(convolution(4, 4, 16, 32, SMALL), variant=variant).totals.total_cycles == 384 + 32 + 20


def test_a_cap_passes_its_beats_at_a_steady_rate_and_is_ahead_by_what_a_window_leaves() -> None:
    # 800 bytes are 100 beats of 10 cycles each. The 40 beats of a window pass in 40 cycles: the other 360 are ahead.
    capped = {"pulse_on_cycles": 400, "beats_per_window": 40}
    variant = with_adapter(round_variant(), Port.AXI1, max_outstanding_reads=2, **capped)
    assert run(transfer(320, destination=None), variant=variant).totals.total_cycles == 40
    assert run(transfer(800, destination=None), variant=variant).totals.total_cycles == 1000 - 360
    # Where as many may be outstanding as one wants, a window is ahead.
    variant = with_adapter(round_variant(), Port.AXI1, **capped)
    assert run(transfer(800, destination=None), variant=variant).totals.total_cycles == 1000 - 400


def test_a_cap_that_the_beats_fill_is_ahead_by_the_outstanding_bursts_but_one() -> None:
    # 50 bursts of 8 beats take the 400 cycles of a window: of eight slots seven bursts are ahead, though reads alone need none.
    capped = {"pulse_on_cycles": 400, "beats_per_window": 400, "max_outstanding_reads": 8}
    variant = with_adapter(round_variant(), Port.AXI0, **capped)
    assert float(port_rows(variant)[0]["cap_ahead_cycles"]) == pytest.approx(7 * 8)


def test_a_cap_works_on_whole_transactions() -> None:
    # 50 beats are 6.25 bursts of 8 beats: a window admits seven of them.
    capped = {"pulse_on_cycles": 400, "beats_per_window": 50, "max_outstanding_reads": 1}
    variant = with_adapter(round_variant(), Port.AXI1, **capped)
    assert run(transfer(7 * 64, destination=None), variant=variant).totals.total_cycles == 56
    assert run(transfer(14 * 64, destination=None), variant=variant).totals.total_cycles == 400 + 56


def test_latency_leaves_less_of_a_window_to_be_ahead_of_its_cap() -> None:
    # One slot brings a burst in 24 + 8 cycles, the seven of a window in half of its 448.
    capped = {"pulse_on_cycles": 448, "beats_per_window": 50, "max_outstanding_reads": 1}
    variant = with_adapter(round_variant(), Port.AXI1, read_latency_cycles=24, **capped)
    assert run(transfer(14 * 64, destination=None), variant=variant).totals.total_cycles == 448 + 224 + 24


def test_a_short_burst_loses_half_of_what_it_keeps_a_window_from_passing_beyond_its_cap() -> None:
    # Two bursts of 8 beats meet the cap of 12 and pass 4 beyond it, in 160 cycles; the last burst of 86 beats lacks 2.
    capped = {"pulse_on_cycles": 160, "beats_per_window": 12, "max_outstanding_reads": 1}
    variant = with_adapter(round_variant(), Port.AXI1, **capped)
    assert run(transfer(88 * 8, destination=None), variant=variant).totals.total_cycles == 88 * 10 - (160 - 16)
    assert run(transfer(86 * 8, destination=None), variant=variant).totals.total_cycles == 87 * 10 - (160 - 16)
    # A burst of one beat lacks 7; no more than the 4 can be lost.
    assert run(transfer(81 * 8, destination=None), variant=variant).totals.total_cycles == 83 * 10 - (160 - 16)


def test_closed_parts_slow_what_goes_on_for_long_by_their_share() -> None:
    # 100,000 beats, of which half of the closed part of a window is ahead; addresses pass in 4 of 5 cycles.
    variant = with_adapter(round_variant(), Port.AXI1, pulse_on_cycles=4000, pulse_off_cycles=1000)
    assert run(transfer(800_000, destination=None), variant=variant).totals.total_cycles == 125_000 - 500


def test_an_address_after_a_rest_waits_for_an_opening_in_the_mean() -> None:
    # The address before has passed, so the closed part has begun since with a likelihood of 1 in 4000 a cycle. It has begun in
    # one of 4 cases if the rest is as long as the closed part, of which half is left in the mean.
    variant = with_adapter(round_variant(), Port.AXI1, read_latency_cycles=2000, pulse_on_cycles=4000, pulse_off_cycles=1000)
    chain = [transfer(8, destination=None), DmaWait(outstanding=0), transfer(8, destination=None)]
    assert run(*chain, variant=variant).totals.total_cycles == 2 * (2000 + 1) + 125


def test_outstanding_reads_bound_the_rate() -> None:
    # One slot is held for 64 cycles and the 8 beats of a burst.
    variant = with_adapter(round_variant(), Port.AXI1, max_outstanding_reads=1, read_latency_cycles=64)
    assert run(transfer(512, destination=None), variant=variant).totals.total_cycles == pytest.approx(8 * 72 + 64, abs=1)


def test_as_many_bursts_as_there_are_slots_pass_at_once() -> None:
    # The input is eight bursts of 64 bytes: four rows of two bricks. With four slots the first four pass at once; each holds
    # its slot for 64 + 8 cycles, so that the others pass at 72 and arrive at 72 + 64. With eight slots nothing waits.
    four = with_adapter(round_variant(), Port.AXI0, max_outstanding_reads=4, read_latency_cycles=64)
    eight = with_adapter(round_variant(), Port.AXI0, max_outstanding_reads=8, read_latency_cycles=64)
    kernel = convolution(4, 4, 16, 32, SMALL)
    assert run(kernel, variant=four).totals.total_cycles == 72 + 64 + MAC + OUTPUT
    assert run(kernel, variant=eight).totals.total_cycles == FETCH + 64 + MAC + OUTPUT


def test_slots_that_are_taken_come_free_only_while_the_channel_rests() -> None:
    # Two loads of eight bursts, one behind the other: the second finds all four slots taken, and its bursts take 8 x 72 / 4.
    variant = with_adapter(round_variant(), Port.AXI0, max_outstanding_reads=4, read_latency_cycles=64)
    trace = run(convolution(4, 4, 16, 64, SMALL), variant=variant)
    assert trace.totals.total_cycles == 72 + 8 * 72 // 4 + 64 + MAC + OUTPUT


def test_an_operation_starts_some_cycles_after_all_that_it_waits_for() -> None:
    variant = round_variant(operation_overhead_cycles=90)
    first = convolution(4, 4, 16, 32, SMALL)
    drained = run(first, replace(first, blockdep=0), variant=variant)
    overlapped = run(first, replace(first, blockdep=3), variant=variant)
    assert drained.totals.total_cycles == 2 * (90 + FETCH + MAC + OUTPUT)
    # Here the output of the first hides the start of the second.
    assert overlapped.totals.total_cycles == 90 + FETCH + MAC + 2 * OUTPUT


def test_the_array_loses_a_cycle_between_two_sets_of_weights() -> None:
    variant = round_variant(weight_switch_cycles=1)
    # 16 output channels are two micro-blocks deep: two sets of weights; with a kernel of 3x3 taps, nine times two.
    assert rows(run(convolution(4, 4, 16, 32, SMALL), variant=variant))[0].mac_active == MAC + 2
    wide = convolution(4, 4, 16, 32, SMALL, kernel=KernelWindow(3, 3), padding=IfmPadding(1, 1, 1, 1))
    assert rows(run(wide, variant=variant))[0].mac_active == 9 * (MAC + 2)
    # A block of one micro-block has its own bubble, here 0: 32 cycles for each of the two.
    assert rows(run(convolution(1, 2, 16, 32, Block(1, 2, 16)), variant=variant))[0].mac_active == 2 * 32


def test_a_core_takes_in_a_wide_beat_in_two_cycles() -> None:
    base = round_variant()
    wide = replace(base, accelerator=replace(base.accelerator, axi_data_bytes=16))
    slow = replace(wide, timing=replace(wide.timing, core_input_bytes_per_cycle=8))
    both = replace(slow, accelerator=replace(slow.accelerator, cores=2))
    kernel = convolution(4, 4, 16, 32, SMALL)
    # 512 bytes are 32 beats of 16 bytes.
    assert run(kernel, variant=wide).totals.total_cycles == 32 + MAC + OUTPUT
    assert run(kernel, variant=slow).totals.total_cycles == 64 + MAC + OUTPUT
    # Two cores take in 16 bytes per cycle and do one micro-block of the depth each.
    assert run(kernel, variant=both).totals.total_cycles == 32 + MAC // 2 + OUTPUT
    # A transfer passes the cores by.
    assert run(transfer(512, destination=None), variant=slow).totals.total_cycles == 32


def test_reads_and_writes_share_a_cap() -> None:
    stream = [addition(8, 8, 16, Block(8, 8, 16))]
    variant = with_adapter(round_variant(), Port.AXI0, pulse_on_cycles=1024, beats_per_window=256)
    free = run(*stream).totals.total_cycles
    assert free == 2 * 128 + 1024
    # A window admits 256 beats: the input. The output passes at 4 cycles a beat while the next blocks would be worked on.
    assert run(*stream, variant=variant).totals.total_cycles == 256 + 1024
    # At 16 cycles a beat the window that is ahead is used up by the input, and its second half and the output wait for the cap.
    tight = with_adapter(round_variant(), Port.AXI0, pulse_on_cycles=2048, beats_per_window=128)
    assert run(*stream, variant=tight).totals.total_cycles == (256 + 128) * 16 - 2048


def test_two_cores_share_a_block_by_micro_block_depth() -> None:
    base = round_variant()
    both = replace(base, accelerator=replace(base.accelerator, cores=2))
    one_slice = convolution(4, 4, 8, 32, Block(4, 4, 8))
    two_slices = convolution(4, 4, 16, 32, SMALL)
    assert rows(run(one_slice, variant=both))[0].mac_active == 32
    assert rows(run(two_slices, variant=both))[0].mac_active == 32
    assert rows(run(two_slices, variant=base))[0].mac_active == 64


def test_elementwise_works_through_its_own_channels_only() -> None:
    shallow = addition(4, 4, 8, Block(4, 4, 8))
    plain = replace(shallow, ofm=feature_map(4, 4, 8, layout=Layout.NHWC))
    assert rows(run(shallow))[0].output_active == rows(run(plain))[0].output_active == 4 * 4 * 8


def test_two_cores_share_elementwise_work_by_bricks() -> None:
    base = round_variant()
    two = replace(base, accelerator=replace(base.accelerator, cores=2))
    # The rate is of both cores together, so one that works alone takes twice as long for an element.
    for depth, busiest in ((16, 16), (24, 16), (32, 16), (40, 32)):
        operation = addition(4, 4, depth, Block(4, 4, depth))
        assert rows(run(operation, variant=two))[0].output_active == 2 * 4 * 4 * busiest


def test_operands_in_nhwc_slow_down_what_scales_them() -> None:
    variant = round_variant(nhwc_operand_factor=1.5)
    usual = addition(4, 4, 16, SMALL)
    plain = feature_map(4, 4, 16, layout=Layout.NHWC)
    for operation, cycles in (
        (usual, 256),
        (replace(usual, ifm=plain), 384),
        (replace(usual, ifm2=plain), 384),
        (replace(usual, ifm=plain, ifm2=plain), 384),
        (replace(usual, ofm=plain), 256),
        (replace(usual, ifm=plain, mode=ElementwiseMode.SUB), 384),
        (replace(usual, ifm=plain, mode=ElementwiseMode.MUL), 256),
        (copy_operation(4, 4, 16, SMALL, ifm=plain), 256),
    ):
        assert rows(run(operation, variant=variant))[0].output_active == cycles


def test_a_new_layout_of_shram_waits_for_the_output_of_the_operation_before() -> None:
    first = convolution(4, 4, 16, 32, SMALL, shram=ShramLayout(10, 14))
    for layout, start in ((ShramLayout(10, 14), 64), (ShramLayout(10, 16), 384), (ShramLayout(8, 14), 384)):
        trace = run(first, convolution(4, 4, 16, 32, SMALL, shram=layout))
        assert rows(trace)[1].start == start
        assert rows(trace)[1].blockdep_stall == 0
    base = round_variant()
    two = replace(base, accelerator=replace(base.accelerator, cores=2))
    trace = run(first, first, variant=two)
    assert rows(trace)[1].start == rows(trace)[0].end


def test_commands_take_their_turn_on_the_constant_port() -> None:
    trace = run(transfer(0, source=None, destination=None), Stop(), words=100)
    assert trace.totals.axi1_read_beats == 50
    assert trace.totals.total_cycles >= 49


def test_commands_are_fetched_one_burst_ahead_of_the_parser() -> None:
    variant = with_adapter(round_variant(), Port.AXI1, read_latency_cycles=64)
    kernel = convolution(4, 4, 16, 32, SMALL)
    # 32 words an operation are 16 beats, more than a burst of 8: the second ones are asked for when the first have been taken.
    long = rows(run(kernel, kernel, words=64, variant=variant))
    assert [operation.issued for operation in long] == [16 + 64, 2 * (16 + 64)]
    # 8 words are 4 beats: both are asked for at once.
    short = rows(run(kernel, kernel, words=16, variant=variant))
    assert [operation.issued for operation in short] == [4 + 64, 8 + 64]


def test_decoded_records_and_plain_operations_give_the_same_trace() -> None:
    stream = [convolution(4, 8, 16, 32, SMALL), Stop()]
    decoded = [Decoded(operation, index, index) for index, operation in enumerate(stream)]
    plain = schedule(stream, round_variant(), stream_words=10)
    wrapped = schedule(decoded, round_variant(), stream_words=10)
    assert np.array_equal(plain.table, wrapped.table)


def test_an_empty_stream_takes_no_time() -> None:
    trace = run()
    assert trace.totals.total_cycles == 0
    assert rows(trace) == []


def test_more_loads_than_anyone_needs_are_refused() -> None:
    with pytest.raises(SimulationError, match="at most 1000000 input loads"):
        run(copy_operation(2048, 2048, 16, Block(1, 1, 16)))


def test_absurd_sizes_are_refused() -> None:
    with pytest.raises(SimulationError, match="DMA transfer must move at most"):
        run(transfer((1 << 32) + 1))
    with pytest.raises(SimulationError, match="an operation must need at most"):
        run(convolution(65536, 65536, 65536, 65536, Block(32, 64, 128)))
    with pytest.raises(SimulationError, match=f"at most {1 << 50} products, got {1 << 51}"):
        run(convolution(65536, 65536, 1, 1 << 15, Block(32, 64, 8), kernel=KernelWindow(1, 16)))


PLAIN_SLICE = replace(feature_map(2, 3, 8, layout=Layout.NHWC), stride_y=96, stride_x=32)
"""8 of 32 channels."""

TRAFFIC_CASES = {
    # (operation, IFM bytes, OFM bytes, weight bytes)
    "one_slice_is_fetched_once_for_all_depth_blocks": (
        convolution(4, 4, 64, 32, SMALL, stream_bytes=160), 4 * 4 * 32, 4 * 4 * 64, 160,
    ),
    "two_slices_stay_in_the_two_halves_of_the_buffer": (
        convolution(4, 4, 64, 64, SMALL, stream_bytes=160), 4 * 4 * 64, 4 * 4 * 64, 160,
    ),
    "three_slices_are_fetched_for_every_depth_block": (
        convolution(4, 4, 64, 96, SMALL, stream_bytes=160), 4 * 4 * 4 * 96, 4 * 4 * 64, 160,
    ),
    "weights_are_streamed_for_every_block_of_the_plane": (
        convolution(8, 8, 16, 32, SMALL, stream_bytes=160), 8 * 8 * 32, 8 * 8 * 16, 4 * 160,
    ),
    "depth_counts_in_bricks": (
        convolution(4, 4, 20, 20, Block(4, 4, 32), stream_bytes=160), 4 * 4 * 32, 4 * 4 * 32, 160,
    ),
    "overlapping_windows_are_fetched_twice": (
        copy_operation(
            4, 8, 16, SMALL, kernel=KernelWindow(3, 3), padding=IfmPadding(1, 1, 1, 1)
        ), (4 * 5 + 4 * 5) * 16, 4 * 8 * 16, 0,
    ),
    "each_sub_kernel_window_is_fetched_for_itself": (
        copy_operation(
            4, 4, 16, SMALL, kernel=KernelWindow(9, 1), ifm=feature_map(12, 4, 16)
        ), (11 + 4) * 4 * 16, 4 * 4 * 16, 0,
    ),
    "rows_of_plain_maps_cost_the_beats_they_touch": (
        copy_operation(
            2, 3, 3, Block(2, 4, 8), ifm=feature_map(2, 3, 3, layout=Layout.NHWC), ofm=feature_map(2, 3, 3, layout=Layout.NHWC)
        ), (2 + 2) * 8, (2 + 2) * 8, 0,
    ),
    "slices_of_plain_maps_cost_their_own_pixels": (
        copy_operation(2, 3, 8, Block(2, 4, 8), ifm=PLAIN_SLICE, ofm=PLAIN_SLICE), 2 * 3 * 8, 2 * 3 * 8, 0,
    ),
    "broadcast_operand_is_read_once": (
        addition(4, 8, 16, SMALL, ifm2=feature_map(1, 1, 16)), 4 * 8 * 16 + 16, 4 * 8 * 16, 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TRAFFIC_CASES)
def test_traffic(case: str) -> None:
    operation, ifm, ofm, weights = TRAFFIC_CASES[case]
    timing = rows(run(operation))[0]
    assert (timing.ifm_bytes, timing.ofm_bytes, timing.weight_bytes) == (ifm, ofm, weights)
    assert timing.axi0_read_bytes == ifm + weights
    assert timing.axi0_write_bytes == ofm


STREAM = (
    transfer(4096),
    DmaWait(0),
    convolution(16, 16, 32, 64, SMALL, stream_bytes=2000),
    transfer(4096),
    addition(16, 16, 32, Block(8, 8, 32), blockdep=1),
    DmaWait(0),
    copy_operation(16, 16, 32, Block(8, 8, 16), blockdep=0),
    KernelWait(0),
    Stop(),
)


SINGLE_READER = {
    "transfer": (transfer(4096),),
    "convolution": (convolution(16, 16, 32, 64, SMALL),),
    "addition": (addition(16, 16, 32, Block(8, 8, 32)),),
    "copy_after_transfer": (transfer(4096), DmaWait(0), copy_operation(16, 16, 32, Block(8, 8, 16), blockdep=0)),
}


@pytest.mark.parametrize("name", ["ethos-u55-32", "ethos-u55-128", "ethos-u65-256", "ethos-u65-512"])
@pytest.mark.parametrize("case", SINGLE_READER)
def test_more_latency_is_never_faster_for_one_reader(case: str, name: str) -> None:
    """With several readers a delay can reorder requests on a port, which may help by chance."""
    variant = load_variant(name)
    cycles = []
    for latency in (0, 16, 64, 256, 1024):
        slow = with_adapter(variant, Port.AXI1, read_latency_cycles=latency, max_outstanding_reads=4)
        slow = with_adapter(slow, Port.AXI0, read_latency_cycles=latency, write_latency_cycles=latency)
        cycles.append(schedule(SINGLE_READER[case], slow, stream_words=0).totals.total_cycles)
    assert cycles == sorted(cycles)


def test_a_wider_port_is_never_slower() -> None:
    base = round_variant()
    cycles = []
    for width in (4, 8, 16, 32):
        wide = replace(base, accelerator=replace(base.accelerator, axi_data_bytes=width))
        cycles.append(schedule(STREAM, wide, stream_words=200).totals.total_cycles)
    assert cycles == sorted(cycles, reverse=True)


def test_a_smaller_cap_is_never_faster() -> None:
    cycles = []
    for cap in (50, 100, 400, 0):
        variant = with_adapter(round_variant(), Port.AXI0, pulse_on_cycles=400, beats_per_window=cap)
        cycles.append(schedule(STREAM, variant, stream_words=200).totals.total_cycles)
    assert cycles == sorted(cycles, reverse=True)


def test_the_same_stream_gives_the_same_trace_byte_for_byte() -> None:
    variant = load_variant("ethos-u65-512")
    first, second = (schedule(STREAM, variant, stream_words=200, with_events=True) for _ in range(2))
    assert first.table.tobytes() == second.table.tobytes()
    assert first.events is not None
    assert second.events is not None
    assert first.events.start.tobytes() == second.events.start.tobytes()


def check_invariants(trace: Trace) -> None:
    total = trace.totals.total_cycles
    for operation in rows(trace):
        assert 0 <= operation.start <= operation.end <= total
        busy = (operation.mac_active, operation.output_active, operation.decoder_active, operation.dma_active)
        assert all(0 <= value <= total for value in busy)
    moved = sum(o.ifm_bytes + o.weight_bytes + o.command_bytes for o in rows(trace))
    read = sum(trace.totals.memory_read_bytes.values())
    assert read >= moved
    if trace.events is not None:
        assert np.all(trace.events.end >= trace.events.start)
        assert np.all(trace.events.end <= total + 1)
        for unit in (TimedUnit.MAC, TimedUnit.OUTPUT):
            mask = trace.events.unit == unit
            spans = sorted(zip(trace.events.start[mask].tolist(), trace.events.end[mask].tolist(), strict=True))
            assert all(a[1] <= b[0] + 1 for a, b in itertools.pairwise(spans))


@pytest.mark.parametrize("name", ["ethos-u55-32", "ethos-u55-64", "ethos-u55-256", "ethos-u65-512"])
def test_invariants_hold_on_every_variant(name: str) -> None:
    check_invariants(schedule(STREAM, load_variant(name), stream_words=200, with_events=True))


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_any_valid_stream_can_be_timed(data: st.DataObject) -> None:
    variant = load_variant("ethos-u55-128")
    stream = data.draw(random_streams(variant))
    try:
        trace = schedule(stream, variant, stream_words=300, with_events=True)
    except SimulationError:
        return
    check_invariants(trace)
