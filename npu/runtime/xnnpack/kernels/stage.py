"""Fills the output stages of 8-bit results."""

from __future__ import annotations

from npu.native.kernel import kernel
from npu.numerics.output_stage import STAGE_ARGUMENTS, fill_channels


@kernel(STAGE_ARGUMENTS)
def make_stage(biases, scales, shifts, bounds, zero_point, limit, is_floor, stage):  # type: ignore[no-untyped-def]
    """`fill_channels`, for Python."""
    return fill_channels(biases, scales, shifts, bounds, zero_point, limit, is_floor, stage)
