"""How many banks of SHRAM the buffers of a block take: arithmetic on numbers or arrays of them, for compiled functions too.

`npu.isa.shram` says what the rule of an operation is. Functions here call none of this module, as in `npu.machine.rules`.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class BufferRule(NamedTuple):
    """What, besides the size of a block, its buffers depend on; `reach` is of a sub-kernel, rooms are in banks.

    The IFM is stored in units of rows, columns and bytes of a pixel: `wide_` ones where a pixel has more than `narrow_bytes`,
    `widest_` ones where it has more than twice as many.
    """

    stride_y: int
    stride_x: int
    reach_y: int
    reach_x: int
    upscale: int
    unit_height: int
    unit_width: int
    unit_bytes: int
    wide_height: int
    wide_width: int
    wide_bytes: int
    widest_height: int
    widest_width: int
    widest_bytes: int
    narrow_bytes: int
    ifm_depth: int
    """Channels of an IFM block; 0: those of the OFM block."""
    ifm_bits: int
    ifm_granule: int
    ifm_buffers: int
    """1, or 2 where a second operand comes from memory; 0 where there are none."""
    has_one_line: int
    """Whether accumulators are needed for one line of the block."""
    has_accumulators: int
    accumulator_bytes: int
    accumulator_granule: int
    accumulator_unit: int
    """Channels that have accumulators together."""
    halves: int
    """Blocks that find room at the same time."""
    bank_bytes: int
    ifm_room: int
    accumulator_room: int
    room: int
    """All banks that there are."""
    row_bytes: int
    """Most bytes of a row of the OFM block, of the width of IFM elements; 0: any number."""
    row_width: int
    """Most columns of the OFM block; 0: any number."""


def ifm_banks(rule: Any, height: Any, width: Any, depth: Any) -> Any:
    """Banks of the buffer of an operand, which has several blocks."""
    rows = -(-((height - 1) * rule.stride_y + rule.reach_y) // rule.upscale)
    columns = -(-((width - 1) * rule.stride_x + rule.reach_x) // rule.upscale)
    element = (rule.ifm_depth if rule.ifm_depth > 0 else depth) * rule.ifm_bits // 8
    is_wide, is_widest = (element > rule.narrow_bytes) * 1, (element > 2 * rule.narrow_bytes) * 1
    down = (
        rule.unit_height + is_wide * (rule.wide_height - rule.unit_height) + is_widest * (rule.widest_height - rule.wide_height)
    )
    across = rule.unit_width + is_wide * (rule.wide_width - rule.unit_width) + is_widest * (rule.widest_width - rule.wide_width)
    deep = rule.unit_bytes + is_wide * (rule.wide_bytes - rule.unit_bytes) + is_widest * (rule.widest_bytes - rule.wide_bytes)
    plane = -(-rows // down) * down * (-(-columns // across) * across)
    banks = rule.halves * -(-(plane * (-(-element // deep) * deep)) // rule.bank_bytes)
    return -(-banks // rule.ifm_granule) * rule.ifm_granule


def accumulator_banks(rule: Any, height: Any, width: Any, depth: Any) -> Any:
    """Banks of the buffer of accumulators, which has several blocks."""
    lines = 1 if rule.has_one_line else height
    channels = -(-depth // rule.accumulator_unit) * rule.accumulator_unit
    banks = rule.halves * -(-(lines * width * channels * rule.accumulator_bytes) // rule.bank_bytes)
    return -(-banks // rule.accumulator_granule) * rule.accumulator_granule
