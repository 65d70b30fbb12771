"""A shape that `explain` calls free costs, compiled and timed as a whole, what the smaller one costs."""

from __future__ import annotations

import pytest

from npu.api import explain as explain_model
from npu.api import time_model
from npu.tflite.writer import write_model
from npu.toolchain.explain import ExplainedOperator, Hint
from sim.trace import TraceColumn

from tests.support import single_ops


def explained(channels: int, extent: int, target: str) -> ExplainedOperator:
    model = single_ops.conv(ifm=(1, extent, extent, 24), out_channels=channels)
    return explain_model(write_model(model), target).operators[0]


@pytest.mark.parametrize(("channels", "extent"), [(17, 9), (20, 13), (33, 9)])
def test_output_channels_up_to_the_free_number_cost_almost_nothing(channels: int, extent: int) -> None:
    usual = explained(channels, extent, "ethos-u55-128")
    (hint,) = (item for item in usual.hints if item.axis == "output channels")
    assert hint.extent == channels < hint.free_up_to
    free, dearer = (explained(count, extent, "ethos-u55-128").cycles for count in (hint.free_up_to, hint.free_up_to + 1))
    assert free <= usual.cycles * 1.02  # the wider map takes a little longer to write
    assert dearer > usual.cycles * 1.05


def test_nothing_is_said_of_the_array_where_the_traffic_bounds() -> None:
    usual = explained(36, 9, "ethos-u65-256")  # 81 pixels in pieces of 16, 16 and 4 channels are 243 bursts
    assert usual.bound_by == "OFM write"
    assert usual.hints == ()


def test_the_saving_is_that_of_the_whole_operator_where_its_channels_are_cut() -> None:
    def cycles(channels: int) -> ExplainedOperator:
        model = single_ops.conv(ifm=(1, 49, 10, 8), kernel=(10, 4), out_channels=channels)
        return explain_model(write_model(model), "ethos-u55-128").operators[0]

    usual = cycles(140)
    (hint,) = (item for item in usual.hints if item.axis == "output channels")
    assert (hint.free_up_to, hint.cheaper) == (144, 136)
    assert hint.text == "140 output channels cost as much as 144 in the MAC array; 136 would take 6% less of it"
    assert 1 - cycles(136).cycles / usual.cycles == pytest.approx(1 / 18, abs=0.005)  # one micro-block of 18


@pytest.mark.parametrize(("channels", "free", "cheaper"), [(33, 40, 32), (17, 32, 16), (24, 32, 16), (100, 128, 96)])
def test_input_channels_are_weighed_in_the_traversal_that_suits_them(channels: int, free: int, cheaper: int) -> None:
    def model(ifm_channels: int) -> bytes:
        return write_model(single_ops.conv(ifm=(1, 9, 21, ifm_channels), kernel=(3, 3), out_channels=100))

    def array_cycles(ifm_channels: int) -> int:
        trace = time_model(model(ifm_channels), "ethos-u55-128").jobs[0].trace
        return int(trace.column(TraceColumn.MAC_ACTIVE).sum())

    (hint,) = (
        item for item in explain_model(model(channels), "ethos-u55-128").operators[0].hints if item.axis == "input channels"
    )
    assert (hint.free_up_to, hint.cheaper) == (free, cheaper)
    assert array_cycles(free) == pytest.approx(array_cycles(channels), rel=0.02)
    assert array_cycles(cheaper) / array_cycles(channels) == pytest.approx(hint.cheaper_cycles / hint.cycles, abs=0.02)


def test_hints_are_sentences() -> None:
    said = [Hint("input channels", 1, 8, 0, 10, 10).text, Hint("output width", 5, 6, 4, 10, 8).text]
    assert said == [
        "1 input channel costs as much as 8 in the MAC array",
        "output width 5 costs as much as 6 in the MAC array; 4 would take 20% less of it",
    ]
