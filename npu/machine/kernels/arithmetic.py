"""The rules of `npu.machine.rules` as parts of compiled functions."""

from __future__ import annotations

from npu.machine import rules
from npu.native import types as ty
from npu.native.kernel import Inlined, kernel

inlined = Inlined
"""A function that becomes part of its caller: as a call of its own it would take longer than what it does."""

block_place = inlined(rules.block_place)
ceil_div = inlined(rules.ceil_div)
kernel_group = inlined(rules.kernel_group)
input_range = kernel(ty.several(ty.int64, 2)(*[ty.int64] * 9), error_model="numpy")(rules.input_range)
