"""Order of weights: against the loop nest of the format, written out one weight at a time."""

from __future__ import annotations

import numpy as np
import pytest

from npu.errors import StreamError
from npu.isa.operations import Traversal
from npu.isa.weight_stream.order import (
    WeightOrder,
    WeightShape,
    count_symbols,
    interleave_cores,
    reorder,
    restore,
)

from tests.naive.weight_stream import sequence
from tests.support.streams import random_weights

CASES: dict[str, tuple[WeightShape, WeightOrder, str]] = {
    "one_by_one": ((40, 1, 1, 70), WeightOrder(block_depth=16), "depth_first"),
    "one_weight": ((1, 1, 1, 1), WeightOrder(block_depth=8), "depth_first"),
    "depth_first_3x3": ((17, 3, 3, 33), WeightOrder(block_depth=16), "depth_first"),
    "depth_first_int16": ((9, 3, 2, 20), WeightOrder(block_depth=8, ifm_bits=16), "depth_first"),
    "small_ublock": ((10, 2, 2, 9), WeightOrder(block_depth=4, ofm_ublock_depth=4), "depth_first"),
    "part_kernel": ((24, 3, 3, 20), WeightOrder(block_depth=16, traversal=Traversal.PART_KERNEL_FIRST), "part_kernel"),
    "part_kernel_11x11": ((8, 11, 11, 3), WeightOrder(block_depth=8, traversal=Traversal.PART_KERNEL_FIRST), "part_kernel"),
    "part_kernel_int16": (
        (5, 3, 1, 40), WeightOrder(block_depth=8, traversal=Traversal.PART_KERNEL_FIRST, ifm_bits=16), "part_kernel",
    ),
    "dilated_9x7": ((8, 9, 7, 8), WeightOrder(block_depth=8, dilation_y=2, dilation_x=1), "depth_first"),
    "depthwise": ((19, 3, 3, 1), WeightOrder(block_depth=16, is_depthwise=True), "depthwise"),
    "depthwise_part_kernel_bit_is_ignored": (
        (8, 5, 5, 1), WeightOrder(block_depth=8, is_depthwise=True, traversal=Traversal.PART_KERNEL_FIRST), "depthwise",
    ),
    "first_of_two_cores": ((17, 3, 3, 9), WeightOrder(block_depth=16, cores=2, core=0), "depth_first"),
    "second_of_two_cores": ((17, 3, 3, 9), WeightOrder(block_depth=16, cores=2, core=1), "depth_first"),
    "whole_blocks_of_two_cores": ((32, 3, 2, 64), WeightOrder(block_depth=32, cores=2, core=1), "depth_first"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_order_is_that_of_the_loop_nest(case: str) -> None:
    shape, order, mode = CASES[case]
    weights = random_weights(shape)
    block_depth = (order.block_depth + 1 - order.core) // 2 if order.cores == 2 else order.block_depth
    expected = sequence(
        weights[order.core :: order.cores],
        mode=mode,
        ifm_bits=order.ifm_bits,
        block_depth=block_depth,
        dilation=(order.dilation_y, order.dilation_x),
        ublock=order.ofm_ublock_depth,
    )
    assert count_symbols(shape, order) == len(expected)
    assert reorder(weights, order).tolist() == expected


@pytest.mark.parametrize("case", CASES)
def test_restoring_gives_back_this_cores_weights(case: str) -> None:
    shape, order, _ = CASES[case]
    weights = random_weights(shape)
    assert np.array_equal(restore(reorder(weights, order), shape, order), weights[order.core :: order.cores])


def test_two_cores_interleave_their_channels() -> None:
    weights = random_weights((7, 1, 2, 3))
    assert np.array_equal(interleave_cores([weights[0::2], weights[1::2]]), weights)


def test_four_by_four_sub_kernels_split_a_5x5_kernel() -> None:
    order = WeightOrder(block_depth=8, is_depthwise=True, has_4x4_sub_kernels=True)
    assert count_symbols((8, 5, 5, 1), order) == 8 * (16 + 4 + 4 + 4)


def test_a_padding_symbol_must_be_zero() -> None:
    order = WeightOrder(block_depth=8)
    symbols = reorder(random_weights((1, 1, 1, 1)), order)
    symbols[-1] = 3
    with pytest.raises(StreamError, match=r"padding symbol 255 must be 0, got 3"):
        restore(symbols, (1, 1, 1, 1), order)


REFUSED: dict[str, tuple[WeightShape, WeightOrder, str]] = {
    "empty": ((0, 1, 1, 1), WeightOrder(block_depth=8), "shape must be positive"),
    "huge": ((1 << 16, 1, 1, 1 << 16), WeightOrder(block_depth=8), "below 2\\*\\*31"),
    "depthwise_with_depth": ((8, 1, 1, 2), WeightOrder(block_depth=8, is_depthwise=True), "IFM depth of 1"),
    "wide_ifm": ((8, 1, 1, 2), WeightOrder(block_depth=8, ifm_bits=32), "8 or 16 bits"),
    "dilation": ((8, 1, 1, 2), WeightOrder(block_depth=8, dilation_y=3), "dilation must be 1 or 2"),
    "core": ((8, 1, 1, 2), WeightOrder(block_depth=8, core=1), "core 1 of 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_impossible_orders_are_refused(case: str) -> None:
    shape, order, message = REFUSED[case]
    with pytest.raises(StreamError, match=message):
        count_symbols(shape, order)


def test_lanes_are_whole_micro_blocks_of_each_piece_of_channels() -> None:
    part = WeightOrder(block_depth=8, traversal=Traversal.PART_KERNEL_FIRST)
    for depth, lanes in {1: 8, 8: 8, 9: 16, 16: 16, 17: 24, 20: 24, 40: 40}.items():
        assert count_symbols((8, 1, 1, depth), part) == 8 * 4 * lanes, depth
    whole = WeightOrder(block_depth=8)
    for depth, lanes in {1: 32, 32: 32, 33: 64}.items():
        assert count_symbols((8, 1, 1, depth), whole) == 8 * lanes, depth
