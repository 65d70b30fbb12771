"""How operations are shared among threads."""

from __future__ import annotations

import pytest

from npu.native.chunks import Chunks, fastest_chunks


def sizes_of(chunks: Chunks, extent: int) -> list[int]:
    return [chunks.size] * (chunks.number - 1) + [extent - chunks.size * (chunks.number - 1)]


def duration(sizes: list[int], tile: int, threads: int) -> int:
    """When threads are done that take chunks in turn, in tiles."""
    busy_until = [0] * threads
    for size in sizes:
        busy_until[busy_until.index(min(busy_until))] += -(-size // tile)
    return max(busy_until)


@pytest.mark.parametrize("threads", [2, 3, 4])
@pytest.mark.parametrize("tile", [1, 6, 12])
def test_chunks_are_those_by_which_all_is_done_first(threads: int, tile: int) -> None:
    for extent in range(1, 300):
        whole = -(-extent // tile)
        for most in (0, 1, 2, 3, 6):
            chunks = fastest_chunks(threads, extent, tile, most)
            sizes = sizes_of(chunks, extent)
            assert chunks.number <= max(most, 1)
            assert chunks.number == 1 or min(sizes) >= tile
            assert chunks.time == duration(sizes, tile, threads) / whole
            others = [Chunks(0, size, count) for count in range(2, most + 1) for size in range(tile, extent, tile)]
            cut = [sizes_of(other, extent) for other in others if extent - other.size * (other.number - 1) >= tile]
            assert chunks.time <= min([duration(way, tile, threads) / whole for way in cut], default=1.0)


def test_a_rest_of_less_than_a_tile_is_no_chunk_of_its_own() -> None:
    assert sizes_of(fastest_chunks(2, 196, 6, 6), 196)[-1] >= 6
