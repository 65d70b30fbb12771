"""Weights of streams put where groups of 16 channels have them: against numpy's indices, and on damaged streams."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from npu.errors import StreamError
from npu.isa.weight_stream.decode import GroupedStream, GroupedWeights, decode_groups, decode_weights
from npu.isa.weight_stream.encode import encode_symbols
from npu.isa.weight_stream.order import WeightOrder, WeightShape, reorder

from tests.npu.isa.weight_stream.test_order import CASES
from tests.support.streams import random_weights


class Stream:
    """A stream, and zeros for its groups, from the first input to the last or the other way."""

    def __init__(
        self, symbols: npt.NDArray[np.int16], shape: WeightShape, order: WeightOrder, *, is_reversed: bool = False
    ) -> None:
        elements = np.arange(shape[1] * shape[2] * shape[3])[:: -1 if is_reversed else 1]
        self.order, group_bytes = order, -(-elements.size // 4) * 64
        self.groups = np.zeros(-(-shape[0] // 16) * group_bytes, np.int8)
        self.weights = GroupedWeights(shape, order, elements // 4 * 64 + elements % 4, group_bytes)
        self.data = np.frombuffer(encode_symbols(symbols), np.uint8)

    def row(self) -> GroupedStream:
        return self.weights.stream(self.data.ctypes.data, self.data.size, self.groups.ctypes.data)


def expected_groups(weights: npt.NDArray[np.int16], order: WeightOrder, *, is_reversed: bool) -> npt.NDArray[np.int16]:
    channels, flat = weights.shape[0], weights.reshape(weights.shape[0], -1)[:, :: -1 if is_reversed else 1]
    padded = np.zeros((-(-channels // 16) * 16, -(-flat.shape[1] // 4) * 4), np.int16)
    padded[order.core : channels : order.cores, : flat.shape[1]] = flat[order.core :: order.cores]
    return padded.reshape(-1, 16, padded.shape[1] // 4, 4).transpose(0, 2, 1, 3).reshape(-1)


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_groups_hold_the_weights_where_they_belong(case: str, is_reversed: bool) -> None:
    shape, order, _ = CASES[case]
    weights = random_weights(shape)
    stream = Stream(reorder(weights, order), shape, order, is_reversed=is_reversed)
    assert decode_groups([stream.row()]).tolist() == [True]
    assert np.array_equal(stream.groups, expected_groups(weights, order, is_reversed=is_reversed))


@pytest.mark.parametrize("threads", [1, 2, 3, 50])
def test_many_streams_decode_as_each_alone(threads: int) -> None:
    weights = {case: random_weights(shape) for case, (shape, _, _) in CASES.items()}
    streams = [Stream(reorder(weights[case], order), shape, order) for case, (shape, order, _) in CASES.items()]
    assert decode_groups([stream.row() for stream in streams], threads).tolist() == [True] * len(streams)
    for stream, values in zip(streams, weights.values(), strict=True):
        assert np.array_equal(stream.groups, expected_groups(values, stream.order, is_reversed=False))


def test_no_streams_are_none() -> None:
    assert decode_groups([]).tolist() == []


@pytest.mark.parametrize(
    ("weight", "fits"), [(127, True), (-128, True), (128, False), (-129, False), (255, False), (-255, False)]
)
@pytest.mark.parametrize("depth", [8, 7])
def test_groups_take_weights_of_eight_bits(weight: int, fits: bool, depth: int) -> None:
    shape, order = (1, 1, 1, depth), WeightOrder(block_depth=8)
    weights = np.zeros(shape, np.int16)
    weights[0, 0, 0, 5] = weight
    common, other = Stream(reorder(random_weights(shape), order), shape, order), Stream(reorder(weights, order), shape, order)
    assert decode_groups([common.row(), other.row(), common.row()]).tolist() == [True, fits, True]


def test_a_padding_symbol_must_be_zero() -> None:
    shape, order = (1, 1, 1, 1), WeightOrder(block_depth=8)
    symbols = reorder(random_weights(shape), order)
    symbols[-1] = 3
    stream = Stream(symbols, shape, order)
    with pytest.raises(StreamError, match=r"padding symbol 255 must be 0, got 3"):
        decode_groups([stream.row()])


def test_damaged_streams_are_refused_with_the_words_of_a_single_one() -> None:
    rng, shape, order = np.random.default_rng(5), (24, 1, 1, 16), WeightOrder(block_depth=16)
    stream = Stream(reorder(random_weights(shape), order), shape, order)
    whole, said = stream.data, set()
    for _ in range(300):
        stream.data = data = whole[: rng.integers(1, whole.size + 1)].copy()
        data[rng.integers(data.size)] ^= 1 << rng.integers(8)
        stream.groups[:] = 0
        found = [refusal(lambda: decode_weights(stream.data, shape, order)), refusal(lambda: decode_groups([stream.row()] * 2))]
        assert found[0] == found[1]
        said.add(found[0].split(",")[0].split(" got")[0])
    assert len(said) > 3


@pytest.mark.parametrize("rest", [0x00, 0xFF, 0x5A])
def test_what_an_earlier_stream_has_left_behind_a_cut_one_changes_nothing(rest: int) -> None:
    shape, order = (24, 1, 1, 16), WeightOrder(block_depth=16)
    stream, earlier = (Stream(reorder(random_weights(shape), order), shape, order) for _ in range(2))
    earlier.data, whole = np.full(4096, rest, np.uint8), stream.data
    for size in range(1, whole.size + 1):
        stream.data = whole[:size].copy()
        alone = refusal(lambda: decode_weights(stream.data.tobytes(), shape, order))
        assert refusal(lambda: decode_groups([earlier.row()]))
        assert refusal(lambda: decode_groups([stream.row()])) == alone, size


def refusal(decode: Callable[[], object]) -> str:
    """What an error says; empty if there is none."""
    try:
        decode()
    except StreamError as error:
        return str(error)
    return ""
