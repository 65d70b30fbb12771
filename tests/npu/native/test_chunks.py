"""How operations are shared among threads."""

from __future__ import annotations

import pytest

from npu.native.chunks import Chunks, fastest_chunks


def sizes_of(chunks: Chunks, extent: int) -> list[int]:
    return [chunks.size] * (chunks.number - 1) + [extent - chunks.size * (chunks.number - 1)]


def cost(extent: int, tiles: tuple[int, ...]) -> int:
    return min(-(-extent // tile) * tile for tile in tiles)


def duration(sizes: list[int], tiles: tuple[int, ...], threads: int) -> int:
    """When threads are done that take chunks in turn, in tiles."""
    busy_until = [0] * threads
    for size in sizes:
        busy_until[busy_until.index(min(busy_until))] += cost(size, tiles)
    return max(busy_until)


@pytest.mark.parametrize("threads", [2, 3, 4])
@pytest.mark.parametrize("tiles", [(1,), (6, 5), (12,)])
def test_chunks_are_those_by_which_all_is_done_first(threads: int, tiles: tuple[int, ...]) -> None:
    for extent in (*range(1, 40), *range(45, 300, 17)):
        for most in (0, 1, 2, 3, 6):
            chunks = fastest_chunks(threads, extent, tiles, most)
            sizes = sizes_of(chunks, extent)
            assert chunks.number <= max(most, 1)
            assert chunks.number == 1 or min(sizes) >= tiles[0]
            assert chunks.time == duration(sizes, tiles, threads) / cost(extent, tiles)
            others = [Chunks(0, size, number) for number in range(2, most + 1) for size in range(tiles[0], extent)]
            cut = [sizes_of(other, extent) for other in others if extent - other.size * (other.number - 1) >= tiles[0]]
            assert chunks.time <= min([duration(way, tiles, threads) / cost(extent, tiles) for way in cut], default=1.0)


def test_a_rest_of_less_than_a_tile_is_no_chunk_of_its_own() -> None:
    assert sizes_of(fastest_chunks(2, 196, (6,), 6), 196)[-1] >= 6


def test_of_two_sizes_of_tiles_chunks_have_the_one_that_leaves_less_over() -> None:
    assert fastest_chunks(2, 196, (8, 7), 2) == Chunks(0.5, 98, 2)
    assert fastest_chunks(2, 49, (6, 5), 2) == Chunks(0.5, 24, 2)


def test_of_equal_ones_the_fewest_chunks_are_taken() -> None:
    assert fastest_chunks(2, 960, (6,), 12) == Chunks(0.5, 480, 2)
    assert fastest_chunks(3, 960, (1,), 12) == Chunks(pytest.approx(1 / 3), 320, 3)
