"""Timing of Ethos-U85: what its own rules make of streams of Vela 5.2, and what each figure of the description changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from npu.api import time_model
from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Variant
from npu.isa.decode import decode
from npu.isa.operations import Convolution
from npu.isa.payload import parse_payload
from sim.timing import schedule
from sim.timing.stream_rows import stream_rows
from sim.trace import JobTotals

from tests.sim.functional.test_ethos_u85 import chained, weighted
from tests.support.vela import only_job
from tests.support.vela_fork import compile_forked

SIZES = tuple(f"ethos-u85-{macs}" for macs in (128, 256, 512, 1024, 2048))
TARGET = "ethos-u85-512"


def words_of(compiled: bytes):
    return parse_payload(only_job(compiled).payload).words


def deep(channels: int, outputs: int, extent: int, taps: int = 1, target: str = TARGET):
    """The words of a convolution of `taps` x `taps`, whose OFM is of several depth blocks."""
    weights = np.random.default_rng(2).integers(-100, 101, (outputs, taps, taps, channels)).astype(np.int8)
    return words_of(compile_forked(weighted("CONV_2D", weights, (1, extent, extent, channels)), target))


def totals(words, variant: Variant) -> JobTotals:
    return schedule([one.operation for one in decode(words, variant)], variant, stream_words=len(words)).totals


def with_timing(target: str = TARGET, **changes: float) -> Variant:
    variant = load_variant(target)
    return replace(variant, timing=replace(variant.timing, **changes))


def test_slices_that_the_ifm_memory_still_holds_are_not_read_again() -> None:
    """Every depth block but the first saves as many slices of 64 channels as fit."""
    words = deep(512, 512, 8)
    variant = load_variant(TARGET)
    operations = [one.operation for one in decode(words, variant)]
    ((number, conv),) = ((n, one) for n, one in enumerate(operations) if isinstance(one, Convolution))
    depth_blocks, slices = -(-512 // conv.block.depth), 512 // 64
    plane = min(conv.block.height, 8) * min(conv.block.width, 8)
    assert plane == 64  # one block covers the map
    room = variant.timing.ifm_buffer_bytes // (conv.block.height * conv.block.width * 64)
    fetches = stream_rows(operations, variant, stream_words=len(words)).fetches
    beats = plane * 64 // 16
    assert fetches[fetches["operation"] == number]["ifm_beats"].sum() == beats * (
        slices + (depth_blocks - 1) * (slices - min(room, slices))
    )
    assert depth_blocks > 1


@pytest.mark.parametrize(
    "change",
    [
        {"ifm_buffer_bytes": 65_536},
        {"weights_per_cycle": 256},
        {"weight_decode_bits_per_cycle": 4096},
        {"scale_window_bytes": 1 << 16},
        {"operation_overhead_cycles": 0},
        {"core_input_bytes_per_cycle": 64},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_better_figure_makes_nothing_slower(change: dict[str, int]) -> None:
    for words in (deep(512, 512, 8), deep(64, 96, 20, 3), words_of(chained()[0])):
        assert totals(words, with_timing(**change)).total_cycles <= totals(words, load_variant(TARGET)).total_cycles


def test_two_ports_pass_two_beats_in_a_cycle() -> None:
    words = deep(512, 512, 8)
    fast = with_timing(weights_per_cycle=4096, weight_decode_bits_per_cycle=1 << 16, core_input_bytes_per_cycle=0)
    one_port = {port: replace(memory, ports=1) for port, memory in fast.system.memories.items()}
    one = replace(fast, system=replace(fast.system, memories=one_port))
    assert totals(words, fast).total_cycles < totals(words, one).total_cycles


def test_more_macs_are_faster_on_a_large_convolution() -> None:
    cycles = [totals(deep(128, 128, 24, 3, target), load_variant(target)).total_cycles for target in SIZES]
    assert cycles == sorted(cycles, reverse=True)
    assert cycles[0] > 6 * cycles[-1]


def test_a_chained_map_is_no_traffic() -> None:
    words, variant = words_of(chained()[0]), load_variant(TARGET)
    operations = [one.operation for one in decode(words, variant)]
    rows = stream_rows(operations, variant, stream_words=len(words)).fetches
    for number, operation in enumerate(operations):
        written = rows[rows["operation"] == number]["ofm_beats"].sum()
        if hasattr(operation, "ofm"):
            assert (written > 0) == operation.ofm.is_in_memory


def test_counters_of_ports_are_called_by_their_memories(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(chained()[0])
    report = time_model(path).report_with_pmu().pmu
    assert report is not None
    assert report["events"]["SRAM_RD_DATA_BEAT_RECEIVED"] == {"driver_id": None, "code": 0x82}
    assert report["events"]["EXT_WR_DATA_BEAT_WRITTEN"] == {"driver_id": None, "code": 0x187}
    assert report["total"]["SRAM_RD_DATA_BEAT_RECEIVED"] > 0
    assert not [
        name for part in ("events", "total", "notes", "not_modelled") for name in report[part] if name.startswith("AXI0")
    ]
