"""Folding of tensors of any rank, against numpy's own reshaping and slicing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu.compiler.ir import Storage, View
from npu.compiler.lower.geometry import (
    box,
    concatenation_boxes,
    crop,
    fold_shape,
    laid_out,
    needed_after,
    pitch_as,
    same_padding,
)
from npu.isa.operations import INT8


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


def elements_of(view: View) -> np.ndarray:
    """Where the elements of a view lie in its storage, in row order."""
    (rows, columns), (height, width, depth) = view.pitches, view.shape
    y, x, c = np.indices((height, width, depth))
    return (view.start + y * rows + x * columns + c).reshape(-1)


@given(st.data())
def test_a_map_with_pitches_has_the_elements_of_the_part_that_it_is_another_shape_of(data: st.DataObject) -> None:
    full = tuple(data.draw(st.integers(1, 4)) for _ in range(3))
    offset = tuple(data.draw(st.integers(0, extent - 1)) for extent in full)
    shape = tuple(data.draw(st.integers(1, extent - first)) for extent, first in zip(full, offset, strict=True))
    part = crop(View.whole(Storage("map", full, INT8)), offset, shape)
    count = int(np.prod(shape))
    height = data.draw(st.sampled_from([n for n in range(1, count + 1) if count % n == 0]))
    width = data.draw(st.sampled_from([n for n in range(1, count // height + 1) if count // height % n == 0]))
    other = (height, width, count // height // width)
    pitch = pitch_as(part, other)
    if pitch is not None:
        np.testing.assert_array_equal(elements_of(laid_out(part, (0, 0), other, pitch)), elements_of(part))


@pytest.mark.parametrize(
    ("part", "shape", "pitch"),
    [
        ((6, 1, 20), (1, 6, 20), (720, 120)),  # a column as a row
        ((6, 1, 20), (2, 3, 20), (360, 120)),
        ((1, 6, 8), (2, 3, 8), (60, 20)),  # some channels of a row
        ((6, 6, 8), (1, 36, 8), (720, 20)),
        ((6, 6, 8), (36, 2, 4), (20, 4)),  # heads of an attention
        ((6, 3, 8), (18, 1, 8), None),  # rows lie further apart than columns
        ((6, 6, 8), (18, 1, 16), None),
    ],
)
def test_parts_of_a_map_of_6x6x20_become_other_maps_where_they_lie(
    part: tuple[int, int, int], shape: tuple[int, int, int], pitch: tuple[int, int] | None
) -> None:
    assert pitch_as(crop(View.whole(Storage("map", (6, 6, 20), INT8)), (0, 0, 0), part), shape) == pitch
