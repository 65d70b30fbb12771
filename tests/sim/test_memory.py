"""What the simulated memories refuse, and the words they refuse it with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npu.errors import SimulationError
from npu.hardware.catalogue import load_variant
from npu.isa.operations import INT8, FeatureMap, Layout
from sim.memory import NpuMemory, feature_map_ranges

VARIANT = load_variant("ethos-u55-128")
MAP = FeatureMap(1, 4, 5, 3, INT8, Layout.NHWC, 0, (0, 0, 0, 0), 4, 4, 5, 15, 3, 1)


def memory(size: int = 64) -> NpuMemory:
    read_only = np.zeros(32, np.uint8)
    read_only.flags.writeable = False
    return NpuMemory({0: read_only, 1: np.zeros(size, np.uint8)}, VARIANT)


def test_a_map_that_just_fits_is_accepted() -> None:
    memory(60).check_feature_map(MAP, writes=True)


@pytest.mark.parametrize(
    ("fm", "text"),
    {
        "one byte too far": (MAP, r"region 1: bytes must lie within its 59 bytes, got \[0x0, 0x3c\)"),
        "negative": (replace(MAP, stride_y=-15), r"region 1: bytes must lie within its 59 bytes, got \[-0x2d, 0xf\)"),
        "no such region": (replace(MAP, region=5), r"region 5: the region must be one of those present \(0, 1\), got 5"),
        "second tile": (replace(MAP, tile_height_0=2, addresses=(0, 0, 40, 0)), r"got \[0x28, 0x46\)"),
        "empty": (replace(MAP, depth=0), "extent must be positive, got 4x5x0"),
        "empty tile": (replace(MAP, tile_width_0=0), "tile sizes must be positive, got 4, 4, 0"),
    }.values(),
)
def test_a_map_outside_its_region_is_refused(fm: FeatureMap, text: str) -> None:
    with pytest.raises(SimulationError, match=text):
        memory(59).check_feature_map(fm)


def test_a_read_only_region_is_not_written() -> None:
    with pytest.raises(SimulationError, match="write of region 0: the region must be writable"):
        memory().check(0, 0, 4, writes=True)


@pytest.mark.parametrize("address", [0x5FF0, 0x57F0])
def test_only_the_tables_of_shram_are_in_reach(address: int) -> None:
    area = rf"SHRAM: bytes must lie in the area of look-up tables \[0x5800, 0x6000\) of ethos-u55-128, got \[{address:#x}, "
    with pytest.raises(SimulationError, match=area):
        memory().shram_view(0, address, 32)
    assert memory().shram_view(0, 0x5800, 2048).size == 2048


@pytest.mark.parametrize(
    ("regions", "text"),
    [
        ({8: np.zeros(1, np.uint8)}, r"region number must be in \[0, 7\], got 8"),
        ({1: np.zeros(1, np.int8)}, "region 1 must be a contiguous uint8 vector, got int8"),
        ({1: np.zeros((2, 2), np.uint8)}, "region 1 must be a contiguous uint8 vector"),
        ({1: np.zeros(8, np.uint8)[::2]}, "region 1 must be a contiguous uint8 vector"),
    ],
)
def test_only_flat_byte_arrays_are_regions(regions: dict[int, np.ndarray], text: str) -> None:
    with pytest.raises(SimulationError, match=text):
        NpuMemory(regions, VARIANT)


@pytest.mark.parametrize(
    ("depth", "whole", "expected"), [(3, False, (0, 67)), (3, True, (0, 80)), (20, False, (0, 160)), (16, True, (0, 80))]
)
def test_the_range_of_a_brick_map_ends_with_its_last_element(depth: int, whole: bool, expected: tuple[int, int]) -> None:
    fm = replace(MAP, height=1, depth=depth, layout=Layout.NHCWB16, stride_y=0, stride_x=16, stride_c=80)
    assert feature_map_ranges(fm, whole_bricks=whole) == [expected]


def test_regions_share_bytes_where_their_arrays_do_and_nowhere_else() -> None:
    whole, apart = np.zeros(64, np.uint8), np.zeros(64, np.uint8)
    memory = NpuMemory({0: whole, 1: whole[16:48], 2: apart}, load_variant("ethos-u55-128"))
    assert [distance for *_, distance in memory.shape] == [None, 16, None]
    touching = NpuMemory({0: whole[:32], 1: whole[32:]}, load_variant("ethos-u55-128"))
    assert [distance for *_, distance in touching.shape] == [None, None]
