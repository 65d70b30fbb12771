"""How operations are shared among threads."""

from __future__ import annotations

import pytest

from npu.native.helpers import fastest_chunk


def duration(extent: int, size: int, threads: int) -> int:
    """When threads are done that take chunks of a size in turn."""
    busy_until = [0] * threads
    for start in range(0, extent, size):
        busy_until[busy_until.index(min(busy_until))] += min(size, extent - start)
    return max(busy_until)


@pytest.mark.parametrize("threads", [2, 3, 4])
@pytest.mark.parametrize("least", [1, 12])
def test_chunks_are_those_by_which_all_is_done_first(threads: int, least: int) -> None:
    for extent in range(1, 300):
        for most in (1, 2, 3, 6):
            share, size = fastest_chunk(threads, extent, least, most)
            assert share == duration(extent, size, threads) / extent
            sizes = {-(-extent // (count * least)) * least for count in range(2, most + 1)}
            assert share <= min([duration(extent, other, threads) / extent for other in sizes], default=1.0)
            assert -(-extent // size) <= max(most, 1)
