"""Kernels in a row have the boundaries of their buffers in common where that leaves each of them enough banks."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

import npu
from npu.hardware.catalogue import load_variant
from npu.isa.decode import decode
from npu.isa.operations import KernelOperation, ShramLayout
from npu.isa.shram import buffers_of, shram_layout
from sim.container import jobs_of

DIGITS = Path(__file__).parents[3] / "examples" / "digits.tflite"


def _changes(layouts: list[ShramLayout]) -> int:
    """Kernels that wait for the one before them."""
    return sum((a.ifm_end, a.accumulator_start) != (b.ifm_end, b.accumulator_start) for a, b in pairwise(layouts))


@pytest.mark.parametrize("target", ["ethos-u55-32", "ethos-u55-128", "ethos-u65-256"])
def test_neighbours_share_boundaries_and_nobody_lacks_banks(target: str, tmp_path: Path) -> None:
    npu.compile(DIGITS, target=target).save(tmp_path / "m.tflite")
    assert npu.verify(tmp_path / "m.tflite") == []
    variant = load_variant(target)
    (job,) = jobs_of(npu.load(tmp_path / "m.tflite"))
    kernels = [item.operation for item in decode(job.payload.words, variant) if isinstance(item.operation, KernelOperation)]
    own = [shram_layout(buffers_of(kernel), kernel.block, variant) for kernel in kernels]
    assert _changes([kernel.shram for kernel in kernels]) < _changes([layout for layout in own if layout is not None])
