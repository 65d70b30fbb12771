"""Operators of the activation family."""

from __future__ import annotations

from npu.runtime.implementation import Implementation

OPERATORS: tuple[Implementation, ...] = ()
