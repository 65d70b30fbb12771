"""How many banks of SHRAM the buffers of a block take: arithmetic on numbers or arrays of them, for compiled functions too.

`npu.isa.shram` says what the rule of an operation is. Functions here call none of this module, as in `npu.machine.rules`.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class BufferRule(NamedTuple):
    """What, besides the size of a block, its buffers depend on; `reach` is of a sub-kernel, `room` all banks that there are."""

    stride_y: int
    stride_x: int
    reach_y: int
    reach_x: int
    upscale: int
    ublock_height: int
    ublock_width: int
    ifm_depth: int
    """Channels of an IFM block; 0: those of the OFM block."""
    ifm_bits: int
    ifm_granule: int
    ifm_buffers: int
    """1, or 2 where a second operand comes from memory."""
    has_one_line: int
    """Whether accumulators are needed for one line of the block."""
    has_accumulators: int
    accumulator_bytes: int
    accumulator_granule: int
    bank_bytes: int
    room: int


def ifm_banks(rule: Any, height: Any, width: Any, depth: Any) -> Any:
    """Banks of the double buffer of an operand."""
    rows = -(-((height - 1) * rule.stride_y + rule.reach_y) // rule.upscale)
    columns = -(-((width - 1) * rule.stride_x + rule.reach_x) // rule.upscale)
    plane = -(-rows // rule.ublock_height) * rule.ublock_height * (-(-columns // rule.ublock_width) * rule.ublock_width)
    element = (rule.ifm_depth if rule.ifm_depth > 0 else depth) * rule.ifm_bits // 8
    banks = 2 * -(-(plane * (-(-element // 8) * 8)) // rule.bank_bytes)
    return -(-banks // rule.ifm_granule) * rule.ifm_granule


def accumulator_banks(rule: Any, height: Any, width: Any, depth: Any) -> Any:
    """Banks of the double buffer of accumulators."""
    lines = 1 if rule.has_one_line else height
    banks = 2 * -(-(lines * width * (-(-depth // 8) * 8) * rule.accumulator_bytes) // rule.bank_bytes)
    return -(-banks // rule.accumulator_granule) * rule.accumulator_granule
