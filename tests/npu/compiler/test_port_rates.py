"""More bandwidth is never worse: the blocks that are chosen follow what a port sustains, not its beats alone."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from npu.api import time_model
from npu.tflite.writer import write_model

from tests.support import single_ops

SHAPES = {
    "pointwise": ((1, 25, 5, 64), (1, 1), 64),
    "narrow_pointwise": ((1, 32, 32, 32), (1, 1), 32),
    "window": ((1, 16, 16, 64), (3, 3), 64),
}
NOISE = 1.003
"""Part by which the order of requests may make a faster port slower."""


@pytest.mark.parametrize("shape", SHAPES)
def test_a_faster_sram_behind_few_outstanding_reads_is_not_slower(shape: str, tmp_path: Path) -> None:
    ifm, kernel, channels = SHAPES[shape]
    model = write_model(single_ops.conv(ifm=ifm, kernel=kernel, out_channels=channels))
    path = tmp_path / "board.yaml"
    cycles = []
    for scale in (1, 2, 4, 16):
        memories = f"{{axi0: {{clock_scale: {scale}}}}}"
        path.write_text(f"extends: ethos-u55-128\nsystem: {{adapters: {{}}, memories: {memories}}}\n")
        cycles.append(time_model(model, config=path).report.totals.npu_cycles or 0)
    assert all(after <= before * NOISE for before, after in itertools.pairwise(cycles)), cycles
