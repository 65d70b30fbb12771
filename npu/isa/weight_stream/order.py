"""Order of the weights of one operation on one core; how many symbols there are and which weight each one is."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from npu.errors import StreamError
from npu.isa.operations import Traversal
from npu.isa.weight_stream.kernels import order as kernels
from npu.machine.rules import kernel_group, round_up, sub_kernel, widest_ifm_block
from npu.records import dataclass

Number = TypeVar("Number", np.uint8, np.int16)
WeightShape = tuple[int, int, int, int]
"""Output channels of the operation (all cores), kernel height, kernel width, IFM depth (1 for depthwise)."""

_MAX_SYMBOLS = 1 << 31
_NO_GROUPS, _NO_PLACES = np.empty(1, np.int8), np.empty(1, np.int64)
"""Not looked at; the address of an array without elements takes longer to get."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightOrder:
    """What, besides the shape, fixes the order of the weights.

    `block_depth` is the OFM block depth of the operation (all cores); `core` of `cores` takes every `cores`-th channel.
    """

    block_depth: int
    traversal: Traversal = Traversal.DEPTH_FIRST
    is_depthwise: bool = False
    ifm_bits: int = 8
    dilation_y: int = 1
    dilation_x: int = 1
    ofm_ublock_depth: int = 8
    ifm_ublock_depth: int = 8
    core: int = 0
    cores: int = 1
    has_4x4_sub_kernels: bool = False

    @property
    def mode(self) -> int:
        """Mode number of the kernels."""
        if self.is_depthwise:
            return kernels.DEPTHWISE
        is_part_kernel = self.traversal is Traversal.PART_KERNEL_FIRST
        return kernels.PART_KERNEL_FIRST if is_part_kernel else kernels.DEPTH_FIRST

    @property
    def ifm_block_depth(self) -> int:
        """IFM channels of a full block."""
        return widest_ifm_block(self.ifm_bits // 8, self.mode == kernels.PART_KERNEL_FIRST)

    @property
    def element_rounding(self) -> int:
        """Multiple that the elements of a sub-kernel are padded to."""
        if self.mode == kernels.PART_KERNEL_FIRST:
            return kernel_group(self.ifm_bits // 8)
        return kernel_group(1) if self.is_depthwise else 1

    @property
    def sub_kernel(self) -> tuple[int, int]:
        """Largest sub-kernel, height and width."""
        is_small = self.has_4x4_sub_kernels
        return sub_kernel(self.dilation_y, is_small=is_small), sub_kernel(self.dilation_x, is_small=is_small)

    @property
    def core_block_depth(self) -> int:
        """This core's share of the block depth."""
        return (self.block_depth + self.cores - 1 - self.core) // self.cores

    def channels(self, ofm_depth: int) -> int:
        """This core's share of `ofm_depth` channels."""
        return (ofm_depth - self.core + self.cores - 1) // self.cores


def count_symbols(shape: WeightShape, order: WeightOrder) -> int:
    """Symbols in the stream of one core, padding included: a pure function of shape and order."""
    channels, own = channels_and_symbols(shape, order)
    return channels * own


@functools.lru_cache(maxsize=1 << 10)
def channels_and_symbols(shape: WeightShape, order: WeightOrder) -> tuple[int, int]:
    """Output channels in the stream of one core, those that fill up blocks included, and symbols of each."""
    _check(shape, order)
    ofm_depth, height, width, ifm_depth = shape
    depth = order.channels(ofm_depth)
    blocks, rest = divmod(depth, order.core_block_depth)
    channels = blocks * round_up(order.core_block_depth, order.ofm_ublock_depth) + round_up(rest, order.ofm_ublock_depth)
    elements = sum(
        round_up(rows * columns, order.element_rounding)
        for rows in pieces(height, order.sub_kernel[0])
        for columns in pieces(width, order.sub_kernel[1])
    )
    return int(channels), int(elements * _lanes(ifm_depth, order))


def reorder(values: NDArray[np.int16], order: WeightOrder) -> NDArray[np.int16]:
    """Symbols of `order.core` in stream order, int16, from the weights (O, KH, KW, I) of all cores."""
    shape = _shape(values)
    symbols = np.empty(count_symbols(shape, order), dtype=np.int16)
    flat = np.require(values, np.int16, ["C", "W"]).reshape(-1)
    kernels.move(symbols, flat, _NO_GROUPS, _NO_PLACES, _row(shape, order, order.core, order.cores), kernels.TO_SYMBOLS)
    return symbols


def restore(symbols: NDArray[np.int16], shape: WeightShape, order: WeightOrder) -> NDArray[np.int16]:
    """Weights (O of this core, KH, KW, I), int16, from symbols in stream order; StreamError if their number is wrong."""
    ofm_depth, height, width, ifm_depth = shape
    expected = count_symbols(shape, order)
    if symbols.shape != (expected,):
        raise StreamError(f"weight stream: must have {expected} symbols for shape {shape}, got {symbols.shape}")
    weights = np.empty(order.channels(ofm_depth) * height * width * ifm_depth, dtype=np.int16)
    row = _row(shape, order, 0, 1)
    source = np.require(symbols, np.int16, ["C", "W"])
    stray = kernels.move(source, weights, _NO_GROUPS, _NO_PLACES, row, kernels.TO_WEIGHTS)
    check_padding(stray, int(symbols[stray]))
    return weights.reshape(order.channels(ofm_depth), height, width, ifm_depth)


def grouped_order(shape: WeightShape, order: WeightOrder, group_bytes: int) -> tuple[int, ...]:
    """The `kernels.ORDER` by which the stream of `order.core` becomes groups of 16 channels of all cores."""
    return _numbers(shape, order, order.core, order.cores, group_bytes)


def check_padding(stray: int, symbol: int) -> None:
    """Raise StreamError unless `stray`, the place of the first padding symbol that is not 0, is negative."""
    if stray >= 0:
        raise StreamError(f"weight stream: padding symbol {stray} must be 0, got {symbol}")


def interleave_cores(parts: Sequence[NDArray[Number]]) -> NDArray[Number]:
    """What belongs to all channels (O, ...) from the share of each core: channel j of core c is channel `j * cores + c`."""
    depth = sum(part.shape[0] for part in parts)
    merged = np.empty((depth, *parts[0].shape[1:]), dtype=parts[0].dtype)
    for core, part in enumerate(parts):
        merged[core :: len(parts)] = part
    return merged


def pieces(size: int, limit: int) -> list[int]:
    """A size in parts of at most the limit."""
    return [min(limit, size - start) for start in range(0, size, limit)]


def _lanes(ifm_depth: int, order: WeightOrder) -> int:
    """Symbols per OFM channel and kernel element."""
    if order.is_depthwise:
        return 1
    if order.mode == kernels.DEPTH_FIRST:
        return int(round_up(ifm_depth, order.ifm_block_depth))
    return sum(round_up(piece, order.ifm_ublock_depth) for piece in pieces(ifm_depth, order.ifm_block_depth))


def _shape(values: NDArray[np.int16]) -> WeightShape:
    if values.ndim != 4:
        raise StreamError(f"weights: must have the axes (O, KH, KW, I), got shape {values.shape}")
    return values.shape[0], values.shape[1], values.shape[2], values.shape[3]


def _check(shape: WeightShape, order: WeightOrder) -> None:
    if min(shape) < 1 or shape[0] * shape[1] * shape[2] * shape[3] >= _MAX_SYMBOLS:
        raise StreamError(f"weights: shape must be positive and below 2**31 elements, got {shape}")
    if order.is_depthwise and shape[3] != 1:
        raise StreamError(f"weights: a depthwise shape must have an IFM depth of 1, got {shape}")
    if order.ifm_bits not in (8, 16) or not {order.dilation_y, order.dilation_x} <= {1, 2}:
        raise StreamError(f"weights: IFM must have 8 or 16 bits and dilation must be 1 or 2, got {order}")
    if not 0 <= order.core < order.cores or order.core_block_depth < 1:
        raise StreamError(f"weights: core {order.core} of {order.cores} must have a block depth, got {order.block_depth}")


def _row(shape: WeightShape, order: WeightOrder, channel_start: int, channel_step: int) -> NDArray[np.void]:
    return np.array([_numbers(shape, order, channel_start, channel_step)], kernels.ORDER)


def _numbers(
    shape: WeightShape, order: WeightOrder, channel_start: int, channel_step: int, group_bytes: int = 0
) -> tuple[int, ...]:
    """A `kernels.ORDER`; the shape has been checked."""
    depth, ublocks = order.channels(shape[0]), (order.ofm_ublock_depth, order.ifm_ublock_depth)
    blocks = order.core_block_depth, order.ifm_block_depth
    channels = channel_start, channel_step, group_bytes
    return order.mode, depth, *shape[1:], *blocks, *ublocks, *order.sub_kernel, order.element_rounding, *channels
