"""The weight encoder: its streams decode to the same weights everywhere, and are short."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from ethosu import mlw_codec
from hypothesis import given, settings
from hypothesis import strategies as st

from npu.errors import StreamError
from npu.isa.operations import Traversal
from npu.isa.weight_stream.decode import decode_symbols, decode_weights
from npu.isa.weight_stream.encode import encode_naively, encode_symbols, encode_weights, expected_bytes, stand_in
from npu.isa.weight_stream.order import WeightOrder

from tests.naive import weight_stream as naive
from tests.npu.isa.weight_stream.test_decode import SEQUENCES
from tests.support.shared import shared_models
from tests.support.streams import jobs, random_weights, weight_streams


@pytest.mark.parametrize("case", SEQUENCES)
def test_arms_decoder_gives_back_the_weights(case: str) -> None:
    sequence = SEQUENCES[case]
    data = encode_symbols(np.array(sequence, np.int16))
    assert len(data) % 16 == 0
    assert list(mlw_codec.decode(bytearray(data))) == sequence
    assert decode_symbols(data, len(sequence)).tolist() == sequence


@pytest.mark.parametrize("case", ["bell", "sparse", "half_zero", "long_runs", "changing", "single"])
def test_the_slow_twin_gives_back_the_weights(case: str) -> None:
    sequence = SEQUENCES[case]
    assert naive.decode(encode_symbols(np.array(sequence, np.int16))) == sequence


@pytest.mark.parametrize("case", SEQUENCES)
def test_streams_are_never_longer_than_the_naive_ones(case: str) -> None:
    symbols = np.array(SEQUENCES[case], np.int16)
    naive_data = encode_naively(symbols)
    assert naive.decode(naive_data) == SEQUENCES[case]
    assert len(encode_symbols(symbols)) <= len(naive_data)


@pytest.mark.parametrize(
    "case", ["bell", "wide", "uniform", "sparse", "half_zero", "two_values", "changing", "more_than_a_slice", "all_zero"]
)
def test_streams_are_about_as_short_as_those_of_arms_encoder(case: str) -> None:
    symbols = np.array(SEQUENCES[case], np.int16)
    assert len(encode_symbols(symbols)) <= len(bytes(mlw_codec.encode(SEQUENCES[case]))) * 1.02 + 16


DIGESTS = {
    "bell": "5e08ce9923f39520",
    "wide": "1401918dec95917f",
    "uniform": "fc426a30d8baffb6",
    "sparse": "410b3e7b0ef3c3e5",
    "half_zero": "b519d1c8ca274393",
    "all_zero": "63666b84a8238a8b",
    "two_values": "8b126fafa66a8ec6",
    "one_value": "379f76c9f7fa9b0e",
    "single": "a07891992f68539c",
    "long_runs": "79b14b9a6402692a",
    "changing": "24b67466b720b0cc",
    "more_than_a_slice": "a2a15811be206b69",
}
"""Of the streams since zeros that fill up groups of taps take a bit each. A faster search chooses the same."""


@pytest.mark.parametrize("case", SEQUENCES)
def test_streams_have_the_bytes_that_they_had(case: str) -> None:
    data = encode_symbols(np.array(SEQUENCES[case], np.int16))
    assert hashlib.blake2b(data, digest_size=8).hexdigest() == DIGESTS[case]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.integers(-255, 255).map(lambda value: [value]),
            st.integers(1, 200).map(lambda count: [0] * count),
            st.tuples(st.integers(-255, 255), st.integers(1, 60)).map(lambda pair: [pair[0]] * pair[1]),
            st.lists(st.integers(-3, 3), min_size=1, max_size=100),
        ),
        min_size=1,
        max_size=40,
    ).map(lambda pieces: [value for piece in pieces for value in piece])
)
def test_any_weights_survive(sequence: list[int]) -> None:
    symbols = np.array(sequence, np.int16)
    data = encode_symbols(symbols)
    assert decode_symbols(data, len(sequence)).tolist() == sequence
    assert list(mlw_codec.decode(bytearray(data))) == sequence
    assert len(data) <= len(encode_naively(symbols))


@pytest.mark.parametrize("core", [0, 1])
@pytest.mark.parametrize("traversal", Traversal)
def test_weights_of_an_operation_survive(traversal: Traversal, core: int) -> None:
    weights = random_weights((21, 3, 5, 19))
    order = WeightOrder(block_depth=16, traversal=traversal, dilation_x=2, core=core, cores=2)
    data = encode_weights(weights, order)
    assert np.array_equal(decode_weights(data, (21, 3, 5, 19), order), weights[core::2])


REFUSED = {
    "too_large": (np.array([256], np.int16), r"must be in \[-255, 255\], got 256 to 256"),
    "too_small": (np.array([0, -256], np.int16), r"must be in \[-255, 255\], got -256 to 0"),
    "empty": (np.array([], np.int16), r"at least one weight"),
    "too_many": (np.broadcast_to(np.int16(0), 1 << 31), r"fewer than 2\*\*31 with what fills them up, got 2147483648"),
    "matrix": (np.zeros((2, 2), np.int16), r"at least one weight, got shape \(2, 2\)"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_stream_can_hold_is_refused(case: str) -> None:
    symbols, message = REFUSED[case]
    with pytest.raises(StreamError, match=message):
        encode_symbols(symbols)


@pytest.mark.parametrize("name", [name for name in shared_models() if "vela" in name])
def test_real_weights_take_no_more_bytes_than_vela_needed(name: str) -> None:
    theirs = ours = 0
    for job in jobs(shared_models()[name].read_bytes()):
        for stream in weight_streams(job):
            weights = decode_weights(stream.data, stream.shape, stream.order)
            symbols = np.array(list(mlw_codec.decode(bytearray(stream.data))), np.int16)
            data = encode_symbols(symbols)
            assert np.array_equal(decode_weights(data, stream.shape, stream.order), weights)
            theirs, ours = theirs + len(stream.data), ours + len(data)
    assert ours <= theirs


def test_weights_without_a_pattern_take_their_own_bits() -> None:
    """Every value but 0 as often as another: 9 bits each, and what a stream has beside them."""
    rng = np.random.default_rng(1)
    weights = (rng.integers(1, 256, (16, 8, 8, 32)) * rng.choice([-1, 1], (16, 8, 8, 32))).astype(np.int16)
    order = WeightOrder(block_depth=16, traversal=Traversal.DEPTH_FIRST, ifm_bits=8)
    assert len(encode_weights(weights, order)) * 8 < 9.05 * weights.size


def test_zeros_that_fill_up_groups_of_taps_take_few_bytes() -> None:
    """A third more symbols, all of them zeros in long rows: a bit each, in slices of their own, and no zero runs elsewhere."""
    weights = np.random.default_rng(1).normal(0, 40, (32, 3, 3, 32)).clip(-127, 127).astype(np.int16)
    plain, filled = (WeightOrder(block_depth=32, traversal=traversal, ifm_bits=8) for traversal in Traversal)
    data = encode_weights(weights, filled)
    assert len(data) < 1.08 * len(encode_weights(weights, plain))
    assert np.array_equal(decode_weights(data, weights.shape, filled), weights)


def test_a_stand_in_is_about_as_long_as_the_stream_and_of_no_other_weights() -> None:
    rng = np.random.default_rng(2)
    order = WeightOrder(block_depth=16, traversal=Traversal.DEPTH_FIRST, ifm_bits=8)
    bell, sparse = (rng.normal(0, 20, (16, 3, 3, 32)).astype(np.int16) * (rng.random((16, 3, 3, 32)) < p) for p in (1, 0.2))
    for weights in (bell, sparse):
        made = stand_in(weights, order)
        assert len(made) == pytest.approx(len(encode_weights(weights, order)), rel=0.1, abs=32)
        assert len(made) % 16 == 0
        assert made == stand_in(weights, order)
        assert made != stand_in(-weights, order)


@pytest.mark.parametrize("count", [64, 300, 1024, 20000])
@pytest.mark.parametrize("kind", ["uniform", "with -128", "bell", "narrow", "sparse", "few values"])
def test_bytes_are_expected_as_they_are_coded(kind: str, count: int) -> None:
    """The entropy of few weights would be much less."""
    rng = np.random.default_rng(3)
    bell = rng.normal(0, 30, count).round().clip(-127, 127)
    weights = {
        "uniform": rng.integers(-127, 128, count),
        "with -128": rng.integers(-128, 128, count),
        "bell": bell,
        "narrow": bell // 8,
        "sparse": bell * (rng.random(count) < 0.2),
        "few values": rng.choice([-90, -7, 3, 55], count),
    }[kind].astype(np.int16)
    encoded = len(encode_symbols(weights))
    assert expected_bytes(weights) == pytest.approx(encoded, rel=0.03, abs=20)


def test_weights_beyond_the_codes_have_no_expected_bytes() -> None:
    with pytest.raises(StreamError, match=r"must be in \[-255, 255\]"):
        expected_bytes(np.array([1, 256], np.int16))


@pytest.mark.parametrize("axis", range(4))
def test_more_weights_than_any_stream_can_hold_are_refused(axis: int) -> None:
    shape = tuple(1 << 31 if position == axis else 1 for position in range(4))
    order = WeightOrder(block_depth=16, traversal=Traversal.DEPTH_FIRST, ifm_bits=8)
    with pytest.raises(StreamError, match=r"below 2\*\*31 elements"):
        decode_weights(b"", (shape[0], shape[1], shape[2], shape[3]), order)
