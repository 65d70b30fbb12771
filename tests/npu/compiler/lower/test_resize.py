"""The rounding of a resize, proved for every sum that it can round, and what its steps are."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from npu.compiler.ir import ConvolutionStep, PoolingStep
from npu.compiler.lower.quantize import mean_scale
from npu.graph import attributes as at
from npu.graph.graph import Graph
from npu.isa.operations import Rounding

from tests.naive.operations import rounding_shift
from tests.support.lowering import assert_exact, lowered
from tests.support.random_graphs import Sketch

MODES = {"plain": (False, False), "aligned": (True, False), "half pixels": (False, True)}


def resize(before: tuple[int, ...], size: tuple[int, int], mode: str) -> Graph:
    s = Sketch(np.random.default_rng(1))
    x = s.input(before, 0.1, 100)
    y = s.tensor((before[0], *size, before[3]), 0.1, 100)
    return s.graph([s.op("RESIZE_BILINEAR", [x, s.numbers(size)], [y], at.ResizeBilinearOptions(*MODES[mode]))])


def reference_rounding(total: int, count: int) -> int:
    """What the reference kernel makes of `total` / `count`, which it holds with 20 fractional bits."""
    value = total * ((1 << 20) // count)
    shifted = value + (1 << 19) if value > 0 else value - (1 << 19)
    return shifted >> 20 if shifted >= 0 else -(-shifted >> 20)


@pytest.mark.parametrize("scale_bits", [31, 32])
@pytest.mark.parametrize("count", [4, 8, 16, 64, 256])
def test_a_sum_is_rounded_as_by_the_reference_kernel(count: int, scale_bits: int) -> None:
    scale = mean_scale(count, scale_bits)
    for total in range(-128 * count, 127 * count + 1):
        assert rounding_shift(total * scale.scale, scale.shift, Rounding.NATURAL) == reference_rounding(total, count)


def corners(total: int) -> list[int]:
    """Elements a, b, c, d of a 2x2 map, near each other, with 9 a + 3 b + 3 c + d = total."""
    base = total // 16
    near = [value for value in range(base - 2, base + 4) if -128 <= value <= 127]
    for a, b, c in product(near, repeat=3):
        if -128 <= total - 9 * a - 3 * b - 3 * c <= 127:
            return [a, b, c, total - 9 * a - 3 * b - 3 * c]
    raise AssertionError(total)


def test_every_sum_of_four_elements_between_half_pixels_equals_the_reference() -> None:
    """The second element of the second row of channel k is the rounded sum k - 2048."""
    sums = range(-128 * 16, 127 * 16 + 1)
    values = np.array([corners(total) for total in sums], np.int8).T.reshape(1, 2, 2, len(sums))
    assert_exact(resize((1, 2, 2, len(sums)), (4, 4), "half pixels"), [values])


@pytest.mark.parametrize("factor", [2, 4, 8])
@pytest.mark.parametrize("mode", MODES)
def test_every_pair_of_neighbours_equals_the_reference(mode: str, factor: int) -> None:
    """Two values side by side, all pairs of them as channels."""
    values = np.arange(-128, 128, dtype=np.int8)
    pairs = np.stack([np.repeat(values, 256), np.tile(values, 256)])
    size = factor * (2 - MODES[mode][0]) + MODES[mode][0]
    for part in np.split(pairs, 4, axis=1):
        assert_exact(resize((1, 1, 2, part.shape[1]), (1, size), mode), [part.reshape(1, 1, 2, -1)])


def test_a_resize_between_half_pixels_is_one_convolution_its_edges_and_corners() -> None:
    steps = lowered(resize((1, 6, 5, 16), (12, 10), "half pixels")).steps
    shapes = sorted((type(step).__name__, step.ofm.shape) for step in steps)
    assert shapes == sorted(
        [(ConvolutionStep.__name__, (10, 8, 16))]
        + [(ConvolutionStep.__name__, (1, 8, 16))] * 2
        + [(ConvolutionStep.__name__, (10, 1, 16))] * 2
        + [(PoolingStep.__name__, (1, 1, 16))] * 4
    )
