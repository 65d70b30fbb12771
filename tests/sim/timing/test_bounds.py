"""What is said to bound an operation is what makes it faster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Port, Variant
from npu.isa.operations import AddressRange, Block, DmaWait, KernelWait, Layout
from sim.timing import schedule
from sim.trace import Bound, TraceColumn

from tests.support.timing import convolution, feature_map, transfer

BASE = load_variant("ethos-u55-128")


def with_timing(**fields: float) -> Variant:
    return replace(BASE, timing=replace(BASE.timing, **fields))


def test_a_slow_parser_bounds_every_operation() -> None:
    stream = [convolution(8, 8, 16, 32, Block(8, 8, 16), stream_bytes=640) for _ in range(4)]
    trace = schedule(stream, with_timing(command_cycles_per_word=1000.0), stream_words=200)
    assert set(trace.bounds) == {Bound.ISSUE}
    usual = schedule(stream, BASE, stream_words=200)
    assert Bound.ISSUE not in usual.bounds


@pytest.mark.parametrize("channels", [8, 64])
def test_an_operation_whose_port_is_busier_than_its_array_is_bound_by_the_port(channels: int) -> None:
    slow = with_timing(port_beat_cycles=40.0)
    one = [convolution(32, 32, channels, 32, Block(8, 8, channels), stream_bytes=64)]
    assert schedule(one, slow, stream_words=0).bounds[0] in (Bound.IFM_READ, Bound.OFM_WRITE)
    assert schedule(one, with_timing(ublock_mac_cycles=64), stream_words=0).bounds[0] is Bound.MAC


def test_short_bursts_count_as_the_time_that_they_take() -> None:
    # 64 channels of a pixel are written 16 bytes at a time, each as long as a whole burst behind the latency of the DRAM.
    variant = load_variant("ethos-u65-256")
    ofm = feature_map(32, 10, 64, layout=Layout.NHWC)
    stream = [
        convolution(
            32, 10, 64, 256, Block(4, 10, 64), ifm=feature_map(32, 10, 256, region=2), ofm=ofm,
            weights=(AddressRange(2, 0, 8192),), scales=(AddressRange(2, 0, 0),),
        )
    ]  # fmt: skip
    trace = schedule(stream, variant, stream_words=0)
    (mac_active,) = trace.column(TraceColumn.MAC_ACTIVE)
    assert (
        trace.totals.total_cycles / 2 < mac_active < 32 * 10 * 4 * variant.system.adapters[Port.AXI1].write_latency_cycles / 12
    )
    assert trace.bounds[0] is Bound.OFM_WRITE
    faster = replace(variant, timing=replace(variant.timing, ublock_mac_cycles=2))
    assert schedule(stream, faster, stream_words=0).totals.total_cycles > 0.95 * trace.totals.total_cycles


def test_a_wait_is_named_as_one_whatever_it_waits_for() -> None:
    stream = [convolution(8, 8, 16, 32, Block(8, 8, 16), stream_bytes=640), KernelWait(0), transfer(64), DmaWait(0)]
    bounds = schedule(stream, BASE, stream_words=0).bounds
    assert bounds[1:] == (Bound.WAIT, Bound.DMA, Bound.WAIT)
