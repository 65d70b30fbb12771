"""How products of bytes as pairs (`npu.numerics.pair_code`) are cut, for those who plan them, too."""

HEIGHT = 4
"""Pixels of a tile: with its sums for 16 channels, weights and an input, what 16 registers of 8 lanes hold."""
PANEL_BYTES = 1 << 17
"""Inputs that are made ready at a time, for all channels: what stays in the second-level cache beside the weights."""
