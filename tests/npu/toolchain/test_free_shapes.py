"""A shape that `explain` calls free costs, compiled and timed as a whole, what the smaller one costs."""

from __future__ import annotations

import pytest

from npu.tflite.writer import write_model
from npu.toolchain.explain import ExplainedOperator, explain_model

from tests.support import single_ops


def explained(channels: int, extent: int, target: str) -> ExplainedOperator:
    model = single_ops.conv(ifm=(1, extent, extent, 24), out_channels=channels)
    return explain_model(write_model(model), target).operators[0]


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-256"])
@pytest.mark.parametrize(("channels", "extent"), [(17, 9), (20, 13), (33, 9)])
def test_output_channels_up_to_the_free_number_cost_almost_nothing(channels: int, extent: int, target: str) -> None:
    usual = explained(channels, extent, target)
    (hint,) = (each for each in usual.hints if each.axis == "output channels")
    assert hint.extent == channels < hint.free_up_to
    free, dearer = (explained(count, extent, target).cycles for count in (hint.free_up_to, hint.free_up_to + 1))
    assert free <= usual.cycles * 1.02  # the wider map takes a little longer to write
    if target == "ethos-u55-128":  # bound by its MAC array; the other target by its writes
        assert dearer > usual.cycles * 1.05
