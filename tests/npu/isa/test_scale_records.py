"""Scale records: bytes written out, limits, and the share of each core."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu.errors import StreamError
from npu.isa.scale_records import decode_scales, encode_scales

RECORDS = st.lists(
    st.tuples(st.integers(-(1 << 39), (1 << 39) - 1), st.integers(0, (1 << 32) - 1), st.integers(0, 63)), max_size=20
)


def test_a_record_is_as_written_out() -> None:
    assert encode_scales([-2], [0x12345678], [38]) == bytes.fromhex("feffffffff 78563412 26")


@given(RECORDS)
def test_records_survive(records: list[tuple[int, int, int]]) -> None:
    columns = [np.array([record[k] for record in records], np.int64) for k in range(3)]
    decoded = decode_scales(encode_scales(*columns) + bytes(6), len(records))
    assert all(np.array_equal(one, other) for one, other in zip(decoded, columns, strict=True))


REFUSED = {
    "bias": (([1 << 39], [1], [1]), r"bias of channel 0 must be in \[-549755813888, 549755813887\], got 549755813888"),
    "scale": (([0, 0], [1, -1], [1, 1]), r"scale of channel 1 must be in \[0, 4294967295\], got -1"),
    "shift": (([0], [1], [64]), r"shift of channel 0 must be in \[0, 63\], got 64"),
    "lengths": (([0], [1, 2], [3]), r"arrays must be equally long"),
    "floats": (([0.5], [1], [3]), r"bias must be a list of integers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_named(case: str) -> None:
    columns, message = REFUSED[case]
    with pytest.raises(StreamError, match=message):
        encode_scales(*columns)


def test_too_few_bytes_are_refused() -> None:
    with pytest.raises(StreamError, match=r"29 bytes must hold 3 records of 10 bytes"):
        decode_scales(bytes(29), 3)


def test_reserved_bits_of_the_shift_are_refused() -> None:
    with pytest.raises(StreamError, match=r"bits 7..6 of the shift of channel 1 must be zero, got 0x40"):
        decode_scales(bytes(19) + b"\x40", 2)
