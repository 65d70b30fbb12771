"""Operators without a kernel are known as such."""

from __future__ import annotations

from npu.graph.ops import BY_NAME
from npu.runtime.absent import has_no_kernel
from npu.runtime.registry import OPERATORS


def test_every_builtin_operator_has_a_kernel_or_is_known_to_have_none() -> None:
    missing = set(BY_NAME) - set(OPERATORS) - {"CUSTOM"}  # custom operators are known by their own names
    assert {kind for kind in BY_NAME if has_no_kernel(kind)} == missing
    assert has_no_kernel("UNKNOWN_300")
