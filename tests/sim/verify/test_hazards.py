"""The judge's walk over blocks against every element of every fetch, counted one by one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from npu.hardware.catalogue import load_variant
from npu.isa.decoded import Decoded
from npu.isa.operations import (
    INT8,
    INT16,
    INT32,
    Activation,
    Block,
    Convolution,
    ElementType,
    FeatureMap,
    IfmPadding,
    KernelWindow,
    Layout,
    Pooling,
    PoolingMode,
    Scale,
    ShramLayout,
    Traversal,
)
from sim.verify.footprint import Footprint
from sim.verify.hazards import HazardTracker

VARIANT = load_variant("ethos-u65-256")
COMMON = {"shram": ShramLayout(8, 16, 4), "activation": Activation(-128, 127)}
NOTHING = Footprint((), ())
CHANNELS_OF_FETCH = {
    ("sum", INT8): 32,
    ("sum", INT16): 16,
    ("sum", INT32): 32,
    ("depth_first", INT8): 32,
    ("depth_first", INT16): 16,
    ("part_kernel", INT8): 16,
    ("part_kernel", INT16): 16,
    ("maximum", INT8): None,
    ("maximum", INT16): None,
}
"""Channels of an IFM block as Vela's `calc_ifm_block_depth` has them; None: those of the OFM block."""
CASES = {f"{work}_{element}": (work, element) for work, element in CHANNELS_OF_FETCH}


def a_map(rng: np.random.Generator, element: ElementType, height: int, width: int, depth: int) -> FeatureMap:
    size, is_bricked = element.bytes, bool(rng.integers(2))
    bricks = -(-depth // 16)
    row = width * (16 * bricks if is_bricked else depth) * size
    return FeatureMap(
        1,
        height,
        width,
        depth,
        element,
        Layout.NHCWB16 if is_bricked else Layout.NHWC,
        0,
        (0, 0, 0, 0),
        height,
        height,
        width,
        row,
        16 * size if is_bricked else depth * size,
        16 * width * size,
    )


def address(fm: FeatureMap, y: int, x: int, c: int) -> int:
    if fm.layout is Layout.NHWC:
        return y * fm.stride_y + x * fm.stride_x + c * fm.element.bytes
    return y * fm.stride_y + c // 16 * fm.stride_c + (x * 16 + c % 16) * fm.element.bytes


def blocks(operation: Pooling | Convolution) -> Iterator[list[tuple[int, int, int]]]:
    """The elements of each OFM block: depth first, then width, then height."""
    ofm, block = operation.ofm, operation.block
    starts = product(range(0, ofm.height, block.height), range(0, ofm.width, block.width), range(0, ofm.depth, block.depth))
    for y, x, c in starts:
        rows, columns = range(y, min(y + block.height, ofm.height)), range(x, min(x + block.width, ofm.width))
        yield list(product(rows, columns, range(c, min(c + block.depth, ofm.depth))))


def fetched(operation: Pooling | Convolution, channels_of_fetch: int | None) -> Iterator[set[int]]:
    """The addresses of each fetch."""
    kernel, padding, ifm = operation.kernel, operation.padding, operation.ifm
    for elements in blocks(operation):
        window = {
            (y * kernel.stride_y + ky - padding.top, x * kernel.stride_x + kx - padding.left)
            for y, x, _ in elements
            for ky in range(kernel.height)
            for kx in range(kernel.width)
        }
        plane = [(y, x) for y, x in window if 0 <= y < ifm.height and 0 <= x < ifm.width]
        if channels_of_fetch is None:
            yield {address(ifm, y, x, c) for y, x in plane for c in {c for _, _, c in elements}}
            continue
        for first in range(0, ifm.depth, channels_of_fetch):
            channels = range(first, min(first + channels_of_fetch, ifm.depth))
            yield {address(ifm, y, x, c) for y, x in plane for c in channels}


def reads_too_early(first: Pooling, second: Pooling | Convolution, channels_of_fetch: int | None) -> bool:
    """Fetch i of the second starts when all but `blockdep` - i blocks of the first are done."""
    made = [{address(first.ofm, *element) for element in elements} for elements in blocks(first)]
    for i, read in zip(range(second.blockdep), fetched(second, channels_of_fetch), strict=False):
        if any(read & block for block in made[::-1][: second.blockdep - i]):
            return True
    return False


def pair(work: str, element: ElementType, rng: np.random.Generator) -> tuple[Pooling, Pooling | Convolution]:
    """Two operations, the second of which reads what the first writes."""
    height, width, depth = (int(rng.integers(1, end)) for end in (6, 6, 81))
    size = int(rng.choice([1, 3]))
    shared = a_map(rng, element, height, width, depth)

    def block(depths: list[int]) -> Block:
        return Block(int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.choice(depths)))

    first = Pooling(
        ifm=shared, ofm=shared, kernel=KernelWindow(), mode=PoolingMode.MAX, scale=None, block=block([8, 16, 32, 64]), **COMMON
    )
    out_depth = {"maximum": depth, "sum": 1}.get(work, 24)
    around = IfmPadding(*[size // 2] * 4)
    window = {
        "ifm": shared,
        "ofm": a_map(rng, element, height, width, out_depth),
        "kernel": KernelWindow(size, size),
        "padding": around,
        "block": block([8, 16]),
        "blockdep": int(rng.integers(1, 4)),
        **COMMON,
    }
    if work in ("sum", "maximum"):
        mode = PoolingMode.REDUCE_SUM if work == "sum" else PoolingMode.MAX
        return first, Pooling(mode=mode, scale=Scale(1, 0), **window)  # type: ignore[arg-type]
    traversal = Traversal.PART_KERNEL_FIRST if work == "part_kernel" else Traversal.DEPTH_FIRST
    return first, Convolution(traversal=traversal, weights=(), scales=(), scale=None, **window)  # type: ignore[arg-type]


def is_found(first: Pooling, second: Pooling | Convolution) -> bool:
    tracker = HazardTracker(VARIANT)
    tracker.step(Decoded(first, 0, 0), NOTHING)
    return [conflict.rule for conflict in tracker.step(Decoded(second, 1, 1), NOTHING)] == ["HAZARD-BLOCKDEP"]


@pytest.mark.parametrize("case", CASES)
def test_the_judge_finds_what_is_read_too_early_and_nothing_else(case: str) -> None:
    work, element = CASES[case]
    rng = np.random.default_rng(sorted(CASES).index(case))
    verdicts = []
    for _ in range(300):
        first, second = pair(work, element, rng)
        expected = reads_too_early(first, second, CHANNELS_OF_FETCH[work, element])
        assert is_found(first, second) == expected, (first, second)
        verdicts.append(expected)
    assert min(verdicts.count(True), verdicts.count(False)) >= 30


def test_the_second_fetch_of_a_sum_of_32_bits_begins_at_channel_32() -> None:
    """One pixel of 64 channels, made in blocks of 16: channels 32 to 63 are fetched while the last block is unfinished."""
    shared = a_map(np.random.default_rng(0), INT32, 1, 1, 64)
    first = Pooling(
        ifm=shared, ofm=shared, kernel=KernelWindow(), mode=PoolingMode.MAX, scale=None, block=Block(1, 1, 16), **COMMON
    )
    ofm = a_map(np.random.default_rng(0), INT32, 1, 1, 1)
    for blockdep, is_early in ((1, False), (2, True)):
        second = Pooling(
            ifm=shared,
            ofm=ofm,
            kernel=KernelWindow(),
            mode=PoolingMode.REDUCE_SUM,
            scale=Scale(1, 0),
            block=Block(1, 1, 8),
            blockdep=blockdep,
            **COMMON,
        )
        assert is_found(first, second) == is_early
