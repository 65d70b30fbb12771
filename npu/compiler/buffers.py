"""Where the buffers of kernels lie in SHRAM, the same for as many kernels in a row as fit.

A kernel whose input buffer ends elsewhere, or whose accumulators begin elsewhere, than those of the kernel before it waits
until that one is done (docs/timing-model.md). Buffers may be larger than a block needs, so neighbours can share boundaries.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from npu.compiler.ir import ElementwiseStep
from npu.compiler.jobs import Job
from npu.hardware.variant import Shram
from npu.isa.operations import AccumulatorFormat, ShramLayout
from npu.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class _Need:
    """The first bank at which the input buffer may end, the last at which accumulators may begin, and both granules."""

    ifm_end: int
    accumulator_start: int
    ifm_granule: int
    accumulator_granule: int

    def joined(self, other: _Need) -> _Need | None:
        """What serves both; None where nothing does."""
        ends = max(self.ifm_end, other.ifm_end), min(self.accumulator_start, other.accumulator_start)
        steps = (
            math.lcm(self.ifm_granule, other.ifm_granule),
            math.lcm(self.accumulator_granule, other.accumulator_granule),
        )
        both = _Need(*ends, *steps)
        return both if both.serves(self) and both.serves(other) and both.ifm_end <= both.accumulator_start else None

    def serves(self, need: _Need) -> bool:
        """Whether its buffers are larger by whole granules of the other's."""
        more, earlier = self.ifm_end - need.ifm_end, need.accumulator_start - self.accumulator_start
        return more % need.ifm_granule == 0 and earlier % need.accumulator_granule == 0


def common_layouts(jobs: Sequence[Job], banks: Shram) -> list[ShramLayout]:
    """The boundaries of every job: those of its own block, moved to where its neighbours have theirs if they share banks."""
    if banks.granules is None:
        return [job.choice.shram for job in jobs]
    layouts: list[ShramLayout] = []
    for first, last, need in _runs([_need(job, banks) for job in jobs]):
        is_elementwise = all(isinstance(job.step, ElementwiseStep) for job in jobs[first:last])
        ifm_end = need.accumulator_start if is_elementwise else need.ifm_end
        moved: dict[ShramLayout, ShramLayout] = {}
        for own in [job.choice.shram for job in jobs[first:last]]:
            if own not in moved:
                moved[own] = replace(own, ifm_end=ifm_end, accumulator_start=need.accumulator_start)
            layouts.append(moved[own])
    return layouts


def _runs(needs: Sequence[_Need]) -> Iterator[tuple[int, int, _Need]]:
    """(first, end, what serves all of them) of the longest runs from the start on."""
    first = 0
    while first < len(needs):
        last, need = first + 1, needs[first]
        while last < len(needs) and (joined := need.joined(needs[last])) is not None:
            last, need = last + 1, joined
        yield first, last, need
        first = last


def _need(job: Job, banks: Shram) -> _Need:
    shram, granules = job.choice.shram, banks.shared_granules
    if isinstance(job.step, ElementwiseStep):
        start = banks.reserved_output_banks
        maps = 1 if job.step.ifm2 is None else 2
        return _Need(start + maps * (shram.ifm2_start - start), shram.accumulator_start, 1, 1)
    ifm = {8: granules.ifm_8_bit, 16: granules.ifm_16_bit}.get(job.step.ifm.element.bits, granules.ifm_32_bit)
    is_wide = job.accumulator is AccumulatorFormat.INT40
    accumulator = granules.accumulator_40_bit if is_wide else granules.accumulator_32_bit
    return _Need(shram.ifm_end, shram.accumulator_start, ifm, accumulator)
