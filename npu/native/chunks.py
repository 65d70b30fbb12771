"""In which chunks threads share an extent of work."""

from __future__ import annotations

from typing import NamedTuple


class Chunks(NamedTuple):
    """`number` chunks: all but the last are of `size`, and it takes the rest."""

    time: float
    """Until the last thread is done, in that of one thread that takes all."""
    size: int
    number: int


def fastest_chunks(threads: int, extent: int, tile: int, most: int) -> Chunks:
    """At most `most` chunks, taken in turn, by which all is done first. Each costs whole tiles, and has no fewer than one."""
    whole = _tiles(extent, tile)
    choices = [Chunks(1.0, extent, 1)]
    for count in range(2, most + 1):
        least = extent // (count * tile) * tile
        for size in (least, least + tile):
            last = extent - (count - 1) * size
            if size > 0 and last >= tile:
                choices.append(Chunks(_duration(threads, count, size // tile, _tiles(last, tile)) / whole, size, count))
    return min(choices)


def _tiles(extent: int, tile: int) -> int:
    return -(-extent // tile)


def _duration(threads: int, count: int, usual: int, last: int) -> int:
    """When all are done with `count` - 1 chunks of one duration and a last one."""
    rounds, busy = divmod(count - 1, threads)
    return max((rounds + (busy > 0)) * usual, rounds * usual + last)
