"""In which chunks threads share an extent of work."""

from __future__ import annotations

from typing import NamedTuple


class Chunks(NamedTuple):
    """`number` chunks: all but the last are of `size`, and it takes the rest."""

    time: float
    """Until the last thread is done, in that of one thread that takes all."""
    size: int
    number: int


def fastest_chunks(threads: int, extent: int, tiles: tuple[int, ...], most: int) -> Chunks:
    """At most `most` chunks, taken in turn, by which all is done first: of equal ones the fewest, so that threads whose
    steps are cut alike find in their caches what they wrote.

    A chunk costs whole tiles, of one of the sizes that there are, and has no fewer than the largest.
    """
    whole = _cost(extent, tiles)
    choices = [Chunks(1.0, extent, 1)]
    for number in range(2, most + 1):
        for size in _sizes(extent, tiles, number):
            last = extent - (number - 1) * size
            if min(size, last) >= tiles[0]:
                duration = _duration(threads, number, _cost(size, tiles), _cost(last, tiles))
                choices.append(Chunks(duration / whole, size, number))
    return min(choices, key=lambda chunks: (chunks.time, chunks.number))


def _sizes(extent: int, tiles: tuple[int, ...], number: int) -> set[int]:
    """Of about so many chunks: even ones, and whole tiles."""
    whole = {extent // (number * tile) * tile + more for tile in tiles for more in (0, tile)}
    return whole | {-(-extent // number)}


def _cost(extent: int, tiles: tuple[int, ...]) -> int:
    return min(-(-extent // tile) * tile for tile in tiles)


def _duration(threads: int, number: int, usual: int, last: int) -> int:
    """When all are done with `number` - 1 chunks of one duration and a last one."""
    rounds, busy = divmod(number - 1, threads)
    return max((rounds + (busy > 0)) * usual, rounds * usual + last)
