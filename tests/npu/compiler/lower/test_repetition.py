"""TILE: where its copies come from."""

from __future__ import annotations

import pytest

from npu.graph import attributes as at
from npu.isa.operations import Pooling
from npu.layouts import MapShape

from tests.support.architectures.layers import Layers
from tests.support.ethos_u85 import exact_operations


def tiled(shape: MapShape, times: tuple[int, ...]) -> bytes:
    net = Layers(1)
    x = net.input(*shape)
    full = [extent * count for extent, count in zip((1, *shape), times, strict=True)]
    return net.finish(net.like("TILE", x, full, at.TileOptions(), more=[net.ints(*times)]))


@pytest.mark.parametrize(
    ("times", "again"), [((1, 2, 1, 1), 2), ((1, 3, 1, 1), 3), ((1, 4, 1, 1), 2)], ids=["twice", "thrice", "four times"]
)
def test_what_is_there_but_once_is_read_from_the_input_again(times: tuple[int, ...], again: int) -> None:
    copies = [one for one in exact_operations(tiled((60, 6, 16), times), "ethos-u85-1024") if isinstance(one, Pooling)]
    places = [one.ifm.addresses[0] for one in copies]
    assert places.count(places[0]) == again
