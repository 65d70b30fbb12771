"""Operators of the elementwise family."""

from __future__ import annotations

from npu.runtime.implementation import Implementation

OPERATORS: tuple[Implementation, ...] = ()
