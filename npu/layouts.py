"""Where the elements of a feature map lie in memory: the layouts NHWC and NHCWB16."""

from __future__ import annotations

BRICK_DEPTH = 16
"""Channels of a brick, the unit of a feature map in the format NHCWB16; the same in every product."""
