"""A command stream is timed once, and never answered with the times of something else."""

from __future__ import annotations

import numpy as np
import pytest

from npu.graph.ethos_u import is_npu_job
from npu.graph.graph import Graph
from npu.hardware.catalogue import load_variant
from npu.toolchain import timing
from npu.toolchain.compile import compile_source
from npu.toolchain.timing import TimedStream, time_streams
from sim.timing import schedule

from tests.support import single_ops

VARIANT = load_variant("ethos-u55-128")


def compiled(channels: int) -> Graph:
    return compile_source(single_ops.conv(out_channels=channels), "conv", VARIANT).result.model.graphs[0]


GRAPH = compiled(8)


def only_stream(graph: Graph, variant: str | None = None, *, with_events: bool = False) -> TimedStream:
    streams = time_streams(graph, load_variant(variant) if variant else VARIANT, with_events=with_events)
    assert list(streams) == [index for index, op in enumerate(graph.ops) if is_npu_job(op)]
    return next(iter(streams.values()))


@pytest.fixture(autouse=True)
def nothing_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "_TIMED", {})


def test_the_second_question_is_answered_from_memory() -> None:
    assert only_stream(GRAPH) is only_stream(GRAPH)


def test_other_streams_and_variants_have_times_of_their_own() -> None:
    first = only_stream(GRAPH).trace.totals.npu_active_cycles
    slow = only_stream(GRAPH, "ethos-u55-32").trace
    assert slow.variant == "ethos-u55-32"
    assert slow.totals.npu_active_cycles != first
    assert only_stream(compiled(40)).trace.totals.npu_active_cycles != first
    assert only_stream(GRAPH).trace.totals.npu_active_cycles == first


def test_events_are_there_when_they_are_asked_for_and_only_then() -> None:
    assert only_stream(GRAPH).trace.events is None
    with_events = only_stream(GRAPH, with_events=True)
    assert with_events.trace.events is not None
    assert only_stream(GRAPH, with_events=True) is with_events
    assert only_stream(GRAPH).trace.events is None


def test_only_the_last_streams_are_kept() -> None:
    for channels in range(1, 12):
        stream = only_stream(compiled(channels))
        expected = schedule(stream.decoded, VARIANT, stream_words=stream.decoded[-1].word_index + 1)
        assert np.array_equal(stream.trace.table, expected.table)
    assert len(timing._TIMED) == 8
