"""The places of resizes in whole numbers, against the reference kernels element by element."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from npu.numerics.resize_axis import Interpolation, ResizedAxis, ResizePlaces, resized_axis

Weights = dict[int, Fraction]
"""By elements of the input."""
MODES = {"plain": (False, False), "aligned": (True, False), "half pixels": (False, True), "both": (True, True)}
SIZES = [
    *product(range(1, 25), range(1, 25)),
    (33, 513),
    (65, 1025),
    (300, 40),
    (7, 1000),
    (1, 900),
    (900, 1),
    (40, 3),
    (512, 37),
]


def weighed(*pairs: tuple[int, Fraction]) -> Weights:
    weights: Weights = {}
    for element, weight in pairs:
        weights[element] = weights.get(element, Fraction(0)) + weight
    return {element: weight for element, weight in weights.items() if weight}


def by_places(axis: ResizedAxis, out: int, *, is_nearest: bool) -> list[Weights]:
    """What the operation makes of an axis."""
    places, made = axis.places, []
    for o in range(out):
        before, behind = divmod(o * places.step + places.offset, places.scale)
        ends = [axis.first + min(max(element, 0), axis.count - 1) for element in (before, before + 1)]
        share = Fraction(behind, places.scale)
        if is_nearest:
            share = Fraction(1 if 2 * share >= 1 else 0)
        made.append(weighed((ends[0], 1 - share), (ends[1], share)))
    return made


def nearest(size: int, out: int, *, aligned: bool, half: bool) -> list[Weights]:
    """As resize_nearest_neighbor.h counts, in float32."""
    one = np.float32(1)
    scale = (one * (size - 1)) / np.float32(out - 1) if aligned and out > 1 else (one * size) / np.float32(out)
    made = []
    for o in range(out):
        place = (np.float32(o) + np.float32(0.5 if half else 0)) * scale
        whole = int(place)
        element = whole + (place - np.float32(whole) >= np.float32(0.5)) if aligned else whole
        made.append(weighed((min(int(element), size - 1), Fraction(1))))
    return made


def fixed(size: int, out: int, *, aligned: bool, half: bool) -> list[Weights] | None:
    """As ResizeBilinearInteger of resize_bilinear.h counts; None where it reads behind the last element."""
    scale = (1024 * size + out // 2) // out
    if aligned and out > 1:
        scale = (1024 * (size - 1) + (out - 1) // 2) // (out - 1)
    made = []
    for o in range(out):
        place = o * scale + (scale // 2 - 512 if half else 0)
        lower, upper = max(int(place / 1024), 0), min(int((place + 1023) / 1024), size - 1)
        if lower >= size:
            return None
        share = Fraction(place - 1024 * lower, 1024)
        made.append(weighed((lower, 1 - share), (upper, share)))
    return made


def by_float(size: int, out: int, *, aligned: bool, half: bool) -> list[Weights]:
    """As ResizeBilinear of resize_bilinear.h counts for uint8, in float32."""
    one = np.float32(1)
    scale = (one * (size - 1)) / np.float32(out - 1) if aligned and out > 1 else (one * size) / np.float32(out)
    made = []
    for o in range(out):
        place = (np.float32(o) + np.float32(0.5)) * scale - np.float32(0.5) if half else np.float32(o) * scale
        lower, upper = max(int(np.floor(place)), 0), min(int(np.ceil(place)), size - 1)
        share = Fraction(float(place - np.float32(lower)))
        made.append(weighed((lower, 1 - share), (upper, share)))
    return made


def axis_of(size: int, out: int, interpolation: Interpolation, mode: str) -> ResizedAxis | None:
    return resized_axis(size, out, interpolation, *MODES[mode])


@pytest.mark.parametrize("mode", MODES)
def test_nearest_places_give_the_elements_of_float32(mode: str) -> None:
    aligned, half = MODES[mode]
    left_out = []
    for size, out in SIZES:
        axis = axis_of(size, out, Interpolation.NEAREST, mode)
        if axis is None:
            left_out.append((size, out))
        else:
            assert by_places(axis, out, is_nearest=True) == nearest(size, out, aligned=aligned, half=half), (size, out)
    assert len(left_out) < len(SIZES) // 20, left_out


@pytest.mark.parametrize("mode", ["plain", "aligned", "half pixels"])
def test_places_of_int8_have_the_weights_of_the_reference_kernel(mode: str) -> None:
    aligned, half = MODES[mode]
    for size, out in SIZES:
        axis, expected = axis_of(size, out, Interpolation.FIXED, mode), fixed(size, out, aligned=aligned, half=half)
        is_far = out > 1 and size - aligned >= 14 * (out - aligned)
        assert (axis is None) == (expected is None or is_far), (size, out)
        if axis is not None:
            assert by_places(axis, out, is_nearest=False) == expected, (size, out)


@pytest.mark.parametrize("mode", ["plain", "aligned", "half pixels"])
def test_places_of_uint8_are_those_that_float32_does_not_round(mode: str) -> None:
    aligned, half = MODES[mode]
    taken = 0
    for size, out in SIZES:
        axis = axis_of(size, out, Interpolation.FLOAT, mode)
        if axis is not None:
            taken += 1
            assert by_places(axis, out, is_nearest=False) == by_float(size, out, aligned=aligned, half=half), (size, out)
    assert taken > 100


@pytest.mark.parametrize(
    ("size", "out", "mode", "expected"),
    [
        (1, 128, "plain", True),
        (1, 256, "plain", False),
        (33, 33 * 128 - 127, "aligned", True),
        (33, 33 * 256 - 255, "aligned", False),
        (1, 64, "half pixels", True),
        (1, 128, "half pixels", False),
        (3, 9, "plain", False),
        (2, 3, "plain", False),
        (3, 2, "plain", True),
    ],
)
def test_uint8_is_cut_into_powers_of_2_up_to_128(size: int, out: int, mode: str, *, expected: bool) -> None:
    assert (axis_of(size, out, Interpolation.FLOAT, mode) is not None) == expected


def test_sums_of_uint8_with_the_finest_places_fit_float32() -> None:
    """Beyond the first element one weight is up to one and a half, along both axes."""
    axis = axis_of(2, 128, Interpolation.FLOAT, "half pixels")
    assert axis is not None
    largest = axis.places.scale - axis.places.offset
    assert 255 * largest**2 < 1 << 24


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ((33, 513, Interpolation.FLOAT, True, False), ResizedAxis(ResizePlaces(16, 1, 0), 0, 33)),
        ((5, 13, Interpolation.FIXED, False, True), ResizedAxis(ResizePlaces(1024, 394, -315), 0, 5)),
        ((5, 13, Interpolation.NEAREST, False, False), ResizedAxis(ResizePlaces(26, 10, -13), 0, 5)),
        ((30, 3, Interpolation.FIXED, False, True), ResizedAxis(ResizePlaces(2, 20, 1), 4, 22)),
        ((100, 1, Interpolation.NEAREST, False, True), ResizedAxis(ResizePlaces(2, 0, 1), 49, 2)),
        ((7, 7, Interpolation.NEAREST, False, True), ResizedAxis(ResizePlaces(1, 1, 0), 0, 7)),
        ((1, 5, Interpolation.NEAREST, True, False), ResizedAxis(ResizePlaces(1, 0, 0), 0, 1)),
        ((14, 1, Interpolation.FIXED, False, False), ResizedAxis(ResizePlaces(1, 0, 0), 0, 2)),
        ((28, 2, Interpolation.FIXED, False, False), None),
        ((1, 55, Interpolation.FIXED, False, False), None),
        ((5, 13, Interpolation.FIXED, True, True), None),
        ((5, 1025, Interpolation.NEAREST, False, False), ResizedAxis(ResizePlaces(410, 2, -205), 0, 5)),
        ((7, 1025, Interpolation.NEAREST, False, False), None),
        ((0, 5, Interpolation.NEAREST, False, False), None),
        ((5, 0, Interpolation.FIXED, False, False), None),
    ],
)
def test_the_numbers_of_an_axis(case: tuple[int, int, Interpolation, bool, bool], expected: ResizedAxis | None) -> None:
    assert resized_axis(*case) == expected
