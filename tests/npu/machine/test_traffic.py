"""Beats and bursts of boxes of NHWC maps, beside a count of every run."""

import itertools

import numpy as np
import pytest

from npu.machine.kernels import rows as r
from npu.machine.kernels.traffic import nhwc_traffic

_BURST = 32
_PIECE = 16


def _counted(address, steps, rows, columns, depth, beat):
    """Every run of at most 16 channels by itself."""
    beats = bursts = 0
    for y, x, c in itertools.product(range(rows), range(columns), range(0, depth, _PIECE)):
        start = address + y * steps[0] + x * steps[1] + c
        touched = (start + min(_PIECE, depth - c) - 1) // beat - start // beat + 1
        beats, bursts = beats + touched, bursts + -(-touched * beat // _BURST)
    return beats, bursts


@pytest.mark.parametrize("beat", [1, 8, 16])
@pytest.mark.parametrize("pixel", [1, 3, 8, 12, 20, 48])
def test_runs_that_repeat_are_counted_as_each_by_itself(beat, pixel):
    for address, more, rows, columns in itertools.product((0, 5), (0, 1, 2, 7), (1, 7, 19), (1, 9, 33)):
        op = np.zeros(1, r.OPERATION)
        fm, steps = op[0]["ifm"], (pixel * columns + more, pixel)
        fm["address"], fm["element_bytes"], fm["burst_bytes"] = address, 1, _BURST
        fm["stride_y"], fm["stride_x"] = steps
        found = nhwc_traffic(fm, 0, rows, 0, columns, 0, pixel, 0, _PIECE, beat)
        assert found == _counted(address, steps, rows, columns, pixel, beat)
