"""The rules of `npu.machine.rules` as parts of compiled functions."""

from __future__ import annotations

import numba as nb

from npu.machine import rules

inlined = nb.njit(inline="always", error_model="numpy")
"""A function that becomes part of its caller: as a call of its own it would take longer than what it does."""

block_place = inlined(rules.block_place)
ceil_div = inlined(rules.ceil_div)
kernel_group = inlined(rules.kernel_group)
ifm_block_depth = inlined(rules.ifm_block_depth)
input_range = nb.njit(error_model="numpy")(rules.input_range)
