"""Operators with state: SVDF, RNN and the LSTM family."""

from __future__ import annotations

from npu.runtime.implementation import Implementation

OPERATORS: tuple[Implementation, ...] = ()
