"""Folding of tensors of any rank, against numpy's own reshaping and slicing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu.compiler.lower.geometry import box, concatenation_boxes, fold_shape, needed_after, same_padding


@pytest.mark.parametrize(
    ("shape", "folded"),
    [
        ((), (1, 1, 1)),
        ((5,), (1, 1, 5)),
        ((4, 5), (1, 4, 5)),
        ((3, 4, 5), (3, 4, 5)),
        ((1, 3, 4, 5), (3, 4, 5)),
        ((2, 3, 4, 5), (6, 4, 5)),
        ((2, 2, 3, 4, 5), (12, 4, 5)),
    ],
)
def test_surplus_dimensions_fold_into_the_height(shape: tuple[int, ...], folded: tuple[int, int, int]) -> None:
    assert fold_shape(shape) == folded


@given(st.data())
def test_the_boxes_of_a_slice_hold_its_elements_in_row_order(data: st.DataObject) -> None:
    full = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    offset = [data.draw(st.integers(0, n - 1)) for n in full]
    shape = [data.draw(st.integers(1, n - o)) for n, o in zip(full, offset, strict=True)]
    values = np.arange(np.prod(full)).reshape(full)
    wanted = values[tuple(slice(o, o + n) for o, n in zip(offset, shape, strict=True))].reshape(-1)
    folded = values.reshape(fold_shape(full))
    found = [
        folded[tuple(slice(o, o + n) for o, n in zip(b.offset, b.shape, strict=True))].reshape(-1)
        for b in box(offset, shape, full)
    ]
    assert np.array_equal(np.concatenate(found), wanted)


def test_a_concatenation_of_channels_is_one_box_for_every_input_even_with_batches() -> None:
    boxes = concatenation_boxes((2, 3, 4, 9), 3, [(2, 3, 4, 2), (2, 3, 4, 7)])
    assert [[(b.offset, b.shape) for b in part] for part in boxes] == [
        [((0, 0, 0), (6, 4, 2))],
        [((0, 0, 2), (6, 4, 7))],
    ]


@pytest.mark.parametrize(
    ("extent", "kernel", "stride", "padding"),
    [(5, 3, 1, (1, 1)), (4, 3, 2, (0, 1)), (5, 2, 1, (0, 1)), (7, 4, 1, (1, 2)), (9, 1, 3, (0, 0)), (1, 7, 1, (3, 3))],
)
def test_same_padding_puts_the_surplus_behind(extent: int, kernel: int, stride: int, padding: tuple[int, int]) -> None:
    assert same_padding(extent, -(-extent // stride), kernel, stride) == padding


def test_a_window_that_stops_short_needs_nothing_behind_the_end() -> None:
    assert needed_after(extent=8, output=3, kernel=1, stride=3, before=0) == 0
    assert needed_after(extent=6, output=3, kernel=3, stride=2, before=0) == 1
