"""Operators of the comparison family."""

from __future__ import annotations

from npu.runtime.implementation import Implementation

OPERATORS: tuple[Implementation, ...] = ()
