"""The entropy decoder: against a slow twin, against Arm's codec, and on damaged streams."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest
from ethosu import mlw_codec

from npu.errors import StreamError
from npu.isa.weight_stream.decode import decode_symbols, decode_weights
from npu.isa.weight_stream.encode import encode_symbols
from npu.isa.weight_stream.order import WeightOrder

from tests.naive import weight_stream as naive
from tests.support.streams import random_weights


def zeros_and(limit: int, share: float, count: int = 3000, seed: int = 0) -> list[int]:
    rng = np.random.default_rng(seed)
    return np.where(rng.random(count) < share, 0, random_weights((count,), seed, limit=limit)).tolist()


SEQUENCES = {
    "bell": random_weights((5000,)).tolist(),
    "wide": random_weights((2000,), limit=255).tolist(),
    "uniform": np.random.default_rng(1).integers(-128, 128, 4000).tolist(),
    "sparse": zeros_and(127, 0.9),
    "half_zero": zeros_and(20, 0.5),
    "all_zero": [0] * 1000,
    "two_values": [5, -5] * 600,
    "one_value": [-77] * 100,
    "single": [3],
    "long_runs": ([0] * 5000 + [1, -2, 3]) * 3,
    "changing": random_weights((3000,), limit=4).tolist() + random_weights((3000,), limit=250).tolist() + [0] * 3000,
    "more_than_a_slice": random_weights((70000,), limit=3).tolist(),
}


def encode_with_codec(sequence: list[int]) -> bytes:
    return bytes(mlw_codec.encode(sequence))


@pytest.mark.parametrize("case", SEQUENCES)
def test_streams_of_arms_encoder_decode(case: str) -> None:
    sequence = SEQUENCES[case]
    assert decode_symbols(encode_with_codec(sequence), len(sequence)).tolist() == sequence


@pytest.mark.parametrize("case", ["bell", "sparse", "half_zero", "two_values", "all_zero", "long_runs", "changing"])
def test_the_slow_twin_agrees(case: str) -> None:
    sequence = SEQUENCES[case]
    assert naive.decode(encode_with_codec(sequence)) == sequence


@pytest.mark.parametrize("case", ["bell", "sparse", "half_zero", "two_values", "changing"])
def test_damaged_streams_decode_as_by_the_slow_twin_or_are_refused(case: str) -> None:
    rng = np.random.default_rng(7)
    data = encode_with_codec(SEQUENCES[case][:400])
    for _ in range(300):
        damaged = bytearray(data[: rng.integers(1, len(data) + 1)])
        for _ in range(rng.integers(0, 4)):
            damaged[rng.integers(len(damaged))] ^= 1 << rng.integers(8)
        try:
            expected = naive.decode(bytes(damaged))
        except naive.MalformedError:
            expected = None
        count = 400 if expected is None else len(expected)
        if expected is None:
            with pytest.raises(StreamError):
                decode_symbols(bytes(damaged), count)
        elif len(expected) < 100_000:
            assert decode_symbols(bytes(damaged), count).tolist() == expected


def test_random_bytes_never_crash() -> None:
    rng = np.random.default_rng(11)
    for _ in range(3000):
        data = rng.integers(0, 256, rng.integers(0, 80), dtype=np.uint8).tobytes()
        count = int(rng.integers(0, 3000))
        with suppress(StreamError):
            assert decode_symbols(data, count).shape == (count,)


def bits(*fields: tuple[int, int]) -> bytes:
    """Bytes of (value, width) fields, first one lowest, padded with ones and 16 spare bytes of ones."""
    value = width = 0
    for number, size in fields:
        value |= number << width
        width += size
    total = -(-width // 8) * 8
    value |= ((1 << (total - width)) - 1) << width
    return value.to_bytes(total // 8, "little") + b"\xff" * 16


RAW_ONE = ((6, 3), (0, 15), (7, 3), (0, 1), (1, 1), (0, 5), (0, 5), (0, 3), (2, 2), (7, 3))
"""One uncompressed weight with code 2, which is 1."""
MALFORMED = {
    "reserved_zero_divisor": (bits((5, 3)), 1, "zero-run divisor must be 0 to 4, 6 or 7"),
    "reserved_weight_divisor": (bits((6, 3), (0, 15), (6, 3), (0, 1), (1, 1)), 1, "weight divisor must be 0 to 5 or 7"),
    "no_palette": (bits((6, 3), (0, 15), (7, 3), (0, 1), (0, 1)), 1, "first slice must carry a palette"),
    "no_palette_after_the_end": (bits(*RAW_ONE) + bits((6, 3), (0, 15), (7, 3), (0, 1), (0, 1)), 2, "must carry a palette"),
    "runs_switched": (bits(*RAW_ONE[:-1], (0, 3), (0, 15), (7, 3), (0, 1), (0, 1)), 2, "zero runs must not be switched"),
    "large_symbol": (
        bits((6, 3), (0, 15), (5, 3), (0, 1), (1, 1), (0, 13), (0xFF, 12), (0x1FF, 12), (0, 5)), 1, "symbols must be below 512",
    ),
    "large_quotient": (
        bits((6, 3), (0, 15), (0, 3), (0, 1), (1, 1), (0, 13), (0xFFF, 12), (0xFFF, 12), (0xFFF, 12), (0xFFF, 12)), 1,
        "quotients must be at most 31",
    ),
    "truncated_header": (b"\x06", 1, "must not end inside a slice"),
    "truncated_palette": (bits(*RAW_ONE[:6], (31, 5), (7, 3))[:8], 1, "must not end inside a slice"),
    "empty": (b"", 0, "without an end marker"),
    "no_end": (bits(*RAW_ONE)[:5], 1, "without an end marker"),
    "too_many": (bits(*RAW_ONE), 0, "must have 0 symbols, got more"),
    "too_few": (bits(*RAW_ONE), 2, "must have 2 symbols, got only 1"),
}  # fmt: skip


def test_a_hand_written_stream_decodes() -> None:
    assert decode_symbols(bits(*RAW_ONE), 1).tolist() == [1]


@pytest.mark.parametrize("case", MALFORMED)
def test_each_rule_is_named_when_broken(case: str) -> None:
    data, count, message = MALFORMED[case]
    with pytest.raises(StreamError, match=message):
        decode_symbols(data, count)


def test_an_error_tells_how_long_the_stream_is() -> None:
    data = MALFORMED["reserved_zero_divisor"][0]
    with pytest.raises(StreamError, match=f"broken before bit [0-9]+ of {len(data) * 8}$"):
        decode_symbols(data, 1)


def test_weights_of_the_wrong_shape_are_refused() -> None:
    with pytest.raises(StreamError, match=r"must have 256 symbols"):
        decode_weights(bits(*RAW_ONE), (1, 1, 1, 1), WeightOrder(block_depth=8))


def test_threads_decode_side_by_side() -> None:
    """Kernels run without Python's lock: what one call writes, another must not read."""
    random = np.random.default_rng(11)
    symbols = [random.integers(-100, 100, 40_000).astype(np.int16) for _ in range(8)]
    streams = [encode_symbols(symbol) for symbol in symbols]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            decoded = pool.map(lambda stream: decode_symbols(stream, 40_000), streams)
            assert all(np.array_equal(one, other) for one, other in zip(decoded, symbols, strict=True))
