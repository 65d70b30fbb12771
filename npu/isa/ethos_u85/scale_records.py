"""Scale records of Ethos-U85: bias, scale and shift of one output channel in 10 bytes, by the width of the IFM.

Beside 8 bits: a bias of 4 bytes and a scale of 31 bits; beside 16 bits: a bias of 6 bytes and a scale of 15 bits; then the
shift.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npu.errors import StreamError
from npu.isa.scale_records import check_lengths, integer_column
from npu.machine.rules import SCALE_RECORD_BYTES
from npu.numerics.arrays import Ints

_SHIFT_BYTE = 8
_BIAS_BYTES = {8: 4, 16: 6}
_LARGEST_SHIFT = 63


def scale_bits(ifm_bits: int) -> int:
    """Those of a scale, of which the record has the bytes between bias and shift, without a sign."""
    return 8 * (_SHIFT_BYTE - _BIAS_BYTES[ifm_bits]) - 1


def encode_scales(biases: npt.ArrayLike, scales: npt.ArrayLike, shifts: npt.ArrayLike, ifm_bits: int) -> bytes:
    """One 10-byte record per channel, not padded; all integers of shape (channels,). StreamError names what is out of range."""
    bias_bytes = _BIAS_BYTES[ifm_bits]
    bias_limit, largest_scale = 1 << 8 * bias_bytes - 1, (1 << scale_bits(ifm_bits)) - 1
    bias = integer_column("bias", biases, -bias_limit, bias_limit - 1)
    scale, shift = integer_column("scale", scales, 0, largest_scale), integer_column("shift", shifts, 0, _LARGEST_SHIFT)
    check_lengths(bias, scale, shift)
    records = np.zeros((len(bias), SCALE_RECORD_BYTES), np.uint8)
    records[:, :bias_bytes] = _bytes(bias, bias_bytes)
    records[:, bias_bytes:_SHIFT_BYTE] = _bytes(scale, _SHIFT_BYTE - bias_bytes)
    records[:, _SHIFT_BYTE] = shift
    return records.tobytes()


def _bytes(numbers: Ints, count: int) -> npt.NDArray[np.uint8]:
    """The lowest bytes of numbers, (numbers, count)."""
    return numbers.astype("<i8").view(np.uint8).reshape(-1, 8)[:, :count]


def decode_scales(data: npt.NDArray[np.uint8], count: int, ifm_bits: int) -> tuple[Ints, Ints, Ints]:
    """Biases, scales and shifts, int64 of shape (count,), of the first `count` records. StreamError if they are none."""
    if not 0 <= count <= len(data) // SCALE_RECORD_BYTES:
        raise StreamError(f"scale records: {len(data)} bytes must hold {count} records of {SCALE_RECORD_BYTES} bytes")
    records = np.frombuffer(data, np.uint8)[: count * SCALE_RECORD_BYTES].reshape(count, SCALE_RECORD_BYTES)
    bias_bytes = _BIAS_BYTES[ifm_bits]
    biases, scales, shifts = (
        _signed(records[:, :bias_bytes]),
        _signed(records[:, bias_bytes:_SHIFT_BYTE]),
        records[:, _SHIFT_BYTE],
    )
    if count and (records[:, -1].any() or shifts.max() > _LARGEST_SHIFT or scales.min() < 0):
        wrong = (records[:, -1] != 0) | (shifts > _LARGEST_SHIFT) | (scales < 0)
        channel = int(wrong.argmax())
        got = records[channel].tobytes().hex(" ")
        raise StreamError(
            f"scale records: scale, shift and last byte of channel {channel} must leave their high bits zero, got {got}"
        )
    return biases, scales, shifts.astype(np.int64)


def _signed(columns: npt.NDArray[np.uint8]) -> Ints:
    """Little-endian numbers of a few bytes."""
    wide = np.zeros((len(columns), 8), np.uint8)
    wide[:, 8 - columns.shape[1] :] = columns
    numbers: Ints = wide.view("<i8").reshape(-1) >> 8 * (8 - columns.shape[1])
    return numbers
