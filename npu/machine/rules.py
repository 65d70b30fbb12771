"""How the machine cuts an operation into pieces: arithmetic on plain numbers, for Python and for compiled functions alike.

Functions here call no other function of this module, because some are compiled on their own.
"""

from __future__ import annotations

from typing import Any

SUB_KERNEL = 8
"""The MAC array walks kernels in pieces of at most 8x8 (dilated)."""

ARRAY_CHANNELS = 8
"""Channels of the IFM that the MAC array takes together, and a weight stream has together; of the OFM, too, in a stream."""

SET_DEPTH = 32
"""Weights of a channel of a micro-block that come to the MAC array together."""

TAP_GROUP, LEAST_TAPS = 5, 2
"""Kernel elements that a deep set of weights has together part kernel first, and those that take no less time."""

_SMALL_SUB_KERNEL = 4
"""The same when an operation asks for the decomposition into 4x4."""

_WIDEST_IFM_BLOCK = 32
_NARROW_IFM_BLOCK = 16
"""Channels of an IFM block of what combines channels: 16 if it goes part kernel first, or has 16 bits."""

SCALE_RECORD_BYTES = 10
"""Bias, scale and shift of a channel."""

_DEEP_SET, _PART_KERNEL_SET = 64, 16
"""Channels of a deep set of weights, and of the IFM block for it: depth first and part kernel first."""

BUFFER_HALVES = 2
"""IFM buffer and accumulators are double buffers."""


def ceil_div(value: Any, divisor: Any) -> Any:
    """The quotient rounded up, of numbers or of each element."""
    return -(-value // divisor)


def round_up(value: Any, multiple: Any) -> Any:
    """The next multiple, of a number or of each element."""
    return -(-value // multiple) * multiple


def block_place(number: int, across: int, deep: int) -> tuple[int, int, int]:
    """Which block along height, width and depth an OFM block is: blocks run depth first, then width, then height."""
    return number // (across * deep), number // deep % across, number % deep


def sub_kernel(dilation: int, *, is_small: bool = False) -> int:
    """Most taps along a side of a sub-kernel."""
    return (_SMALL_SUB_KERNEL if is_small else SUB_KERNEL) // dilation


def kernel_group(element_bytes: int) -> int:
    """Kernel elements of a part-kernel-first convolution that the MAC array takes in one step; 4 of any depthwise one."""
    return 2 if element_bytes == 2 else 4


def widest_ifm_block(element_bytes: int, is_part_kernel: bool) -> int:
    """Most channels of an IFM block of what combines channels; its IFM blocks follow one another in depth."""
    return _NARROW_IFM_BLOCK if is_part_kernel or element_bytes == 2 else _WIDEST_IFM_BLOCK


def ifm_block_depth(ifm_depth: int, element_bytes: int, is_part_kernel: bool) -> int:
    """Channels of an IFM block of what combines channels: all of them, filled up for the MAC array, as far as a block goes."""
    if element_bytes == 2:
        return -(-min(ifm_depth, _NARROW_IFM_BLOCK) // 4) * 4
    return -(-min(ifm_depth, _NARROW_IFM_BLOCK if is_part_kernel else _WIDEST_IFM_BLOCK) // 8) * 8


def deep_set_depth(is_part_kernel: bool) -> int:
    """Channels of an IFM block of what combines channels, and of a set of its weights, on Ethos-U85."""
    return _PART_KERNEL_SET if is_part_kernel else _DEEP_SET


def input_range(
    first: int, count: int, stride: int, dilation: int, tap: int, taps: int, pad: int, extent: int, upscale: int
) -> tuple[int, int]:
    """(start, length) of the input rows that `count` outputs from `first` read through taps [tap, tap + taps), clipped."""
    low = max(first * stride - pad + tap * dilation, 0) // upscale
    high = (first + count - 1) * stride - pad + (tap + taps - 1) * dilation + 1
    return low, max(-(-min(high, extent * upscale) // upscale) - low, 0)
