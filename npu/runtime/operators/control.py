"""Operators of the control family."""

from __future__ import annotations

from npu.runtime.implementation import Implementation

OPERATORS: tuple[Implementation, ...] = ()
