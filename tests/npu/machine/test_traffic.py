"""Beats and bursts of boxes of NHWC maps, beside a count of every run."""

import itertools

import numpy as np
import pytest

from npu.hardware.catalogue import load_variant
from npu.isa.operations import OfmTranspose
from npu.machine.kernels import rows as r
from npu.machine.kernels.blocks import expand
from npu.machine.kernels.traffic import nhwc_traffic
from npu.machine.parameters import machine_rows

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


def _written(shape, order, steps):
    """Beats and bursts of the OFM of a copy of one block of `shape`, whose axes are stored in `order` with strides `steps`."""
    op, fetches = np.zeros(1, r.OPERATION), np.zeros(1, r.FETCH)
    row, names = op[0], ("height", "width", "depth")
    row["kind"], row["upscale"] = r.POOL, 1
    for name in ("kernel_height", "kernel_width", "stride_y", "stride_x", "dilation_y", "dilation_x"):
        row[name] = 1
    row["sub_kernel_height"] = row["sub_kernel_width"] = 1
    row["ublock_height"], row["ublock_width"], row["ublock_depth"] = 2, 2, 16
    row["stored_rows"], row["stored_columns"], row["stored_channels"] = order
    for name, extent in zip(names, shape, strict=True):
        row[f"block_{name}"] = row["ifm"][name] = row["ofm"][name] = extent
    for fm in (row["ifm"], row["ofm"]):
        fm["element_bytes"], fm["burst_bytes"] = 1, _BURST
    row["ofm"]["stride_y"], row["ofm"]["stride_x"] = steps
    assert expand(op, machine_rows(load_variant("ethos-u85-256")), fetches) == 1
    return fetches["ofm_beats"][0], fetches["ofm_bursts"][0]


@pytest.mark.parametrize("order", OfmTranspose)
@pytest.mark.parametrize("shape", [(4, 20, 3), (7, 9, 48), (16, 5, 16), (1, 33, 2)])
def test_what_is_stored_transposed_is_written_as_a_map_that_lies_so(shape, order):
    stored = tuple(shape[axis] for axis in order.axes)
    steps = (stored[1] * stored[2], stored[2])
    assert _written(shape, order.axes, steps) == _written(stored, OfmTranspose.HWC.axes, steps)
