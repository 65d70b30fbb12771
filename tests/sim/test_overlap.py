"""What an operator adds to the total and how long it is at work itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npu.isa.operations import Block, Operation, Stop
from sim.overlap import OperatorSpan, find_spans
from sim.timeline import TimedJob, build_timeline
from sim.timing import schedule
from sim.trace import TraceColumn

from tests.support.timing import convolution, round_variant, transfer

BLOCK = Block(4, 4, 16)


def trace_of(*intervals: tuple[str, int, int]):  # type: ignore[no-untyped-def]
    """A trace whose operations work in the given intervals: (kind, start, end)."""
    stream = [convolution(4, 4, 16, 32, BLOCK) for _ in intervals]
    trace = schedule(stream, round_variant(), stream_words=0)
    trace.table[:, TraceColumn.START] = [start for _, start, _ in intervals]
    trace.table[:, TraceColumn.END] = [end for _, _, end in intervals]
    return replace(trace, kinds=tuple(kind for kind, _, _ in intervals))


def test_a_small_operator_between_two_large_ones_is_hidden_by_the_one_that_its_time_counts_for() -> None:
    trace = trace_of(("conv", 0, 100), ("elementwise", 10, 95), ("pool", 40, 101), ("conv", 90, 300))
    assert find_spans(trace, np.array([0, 1, 2, 3])) == {
        0: OperatorSpan(100), 1: OperatorSpan(85, behind=0), 2: OperatorSpan(61, behind=0), 3: OperatorSpan(210),
    }  # fmt: skip


def test_spans_count_overlapping_operations_once_and_leave_gaps_and_transfers_out() -> None:
    trace = trace_of(("dma", 0, 50), ("conv", 60, 100), ("conv", 80, 120), ("conv", 200, 210), ("dma", 100, 130))
    spans = find_spans(trace, np.array([0, 0, 0, 0, 1]))
    # The second operator has transfers only; they end before the last operation of the first does.
    assert {operator: span.cycles for operator, span in spans.items()} == {0: 60 + 10, 1: 30}


def test_shares_add_up_to_the_job_and_spans_do_not() -> None:
    variant = round_variant()
    stream: list[Operation] = [transfer(4096), convolution(16, 16, 16, 32, BLOCK), convolution(16, 16, 16, 32, BLOCK), Stop()]
    timeline = build_timeline([TimedJob(schedule(stream, variant, stream_words=0), (0, 1, 2, -1))], variant)
    times = timeline.operators
    assert sum(time.cycles for time in times.values()) == timeline.cycles_of("npu")
    assert sum(time.span_cycles for time in times.values()) > timeline.cycles_of("npu")
