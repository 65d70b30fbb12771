"""Between which real numbers a rectifier keeps values, as an operator or fused into one."""

from __future__ import annotations

import math
from collections.abc import Mapping

UNBOUNDED = (-math.inf, math.inf)
RECTIFIERS: Mapping[str, tuple[float, float]] = {
    "RELU": (0.0, math.inf),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU_0_TO_1": (0.0, 1.0),
}
"""Bounds by the name that operator and fused activation share."""
