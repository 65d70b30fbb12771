"""Scale records: bias, scale and shift of one output channel in 10 bytes. Nothing else but its kernel knows the layout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from npu.errors import StreamError
from npu.isa.weight_stream.kernels.records import BIAS_BYTES, RECORDS, SHIFT_BYTE, decode_records
from npu.machine.rules import SCALE_RECORD_BYTES
from npu.numerics.arrays import Ints

RecordPlace = tuple[int, int, int, int]
"""A `kernels.RECORDS`."""
_LIMITS = {"bias": (-(1 << 39), (1 << 39) - 1), "scale": (0, (1 << 32) - 1), "shift": (0, 63)}


def encode_scales(biases: npt.ArrayLike, scales: npt.ArrayLike, shifts: npt.ArrayLike) -> bytes:
    """One 10-byte record per channel, not padded.

    `biases` are 40-bit signed, `scales` 32-bit unsigned, `shifts` 0..63; all integers of shape (channels,). StreamError names
    what is out of range.
    """
    bias, scale, shift = (
        integer_column(name, values, *_LIMITS[name])
        for name, values in (("bias", biases), ("scale", scales), ("shift", shifts))
    )
    check_lengths(bias, scale, shift)
    records = np.empty((len(bias), SCALE_RECORD_BYTES), dtype=np.uint8)
    records[:, :BIAS_BYTES] = bias.astype("<i8").view(np.uint8).reshape(-1, 8)[:, :BIAS_BYTES]
    records[:, BIAS_BYTES:SHIFT_BYTE] = scale.astype("<u4").view(np.uint8).reshape(-1, 4)
    records[:, SHIFT_BYTE] = shift
    return records.tobytes()


def decode_scales(data: bytes | npt.NDArray[np.uint8], count: int, _ifm_bits: int = 8) -> tuple[Ints, Ints, Ints]:
    """Biases, scales and shifts, int64 of shape (count,), of the first `count` records of `data`; the same for every IFM."""
    if not 0 <= count <= len(data) // SCALE_RECORD_BYTES:
        raise StreamError(f"scale records: {len(data)} bytes must hold {count} records of {SCALE_RECORD_BYTES} bytes")
    records = np.frombuffer(data, dtype=np.uint8)
    return decode_scales_at([(records.ctypes.data, count, 0, 1)], count)


def decode_scales_at(places: Sequence[RecordPlace] | Ints, count: int) -> tuple[Ints, Ints, Ints]:
    """`decode_scales` of records at machine addresses, where the caller keeps them; `places` have all `count` channels."""
    biases, scales, shifts = (np.empty(count, np.int64) for _ in range(3))
    decode_records(np.array(places, np.int64).reshape(-1).view(RECORDS), biases, scales, shifts)
    if count and shifts.max() > _LIMITS["shift"][1]:
        channel = int(shifts.argmax())
        raise StreamError(f"scale records: bits 7..6 of the shift of channel {channel} must be zero, got {shifts[channel]:#x}")
    return biases, scales, shifts


def check_lengths(bias: Ints, scale: Ints, shift: Ints) -> None:
    """Raise StreamError unless there are as many of each."""
    if not bias.shape == scale.shape == shift.shape:
        raise StreamError(f"scale records: arrays must be equally long, got {bias.shape}, {scale.shape}, {shift.shape}")


def integer_column(name: str, values: npt.ArrayLike, low: int, high: int) -> Ints:
    """The numbers of all channels. StreamError names the first one that is out of range."""
    column = np.asarray(values)
    if column.ndim != 1 or (column.size and column.dtype.kind not in "iu"):
        raise StreamError(f"scale records: {name} must be a list of integers, got {column.dtype} of shape {column.shape}")
    outside = np.flatnonzero((column < low) | (column > high))
    if outside.size:
        channel = int(outside[0])
        raise StreamError(f"scale records: {name} of channel {channel} must be in [{low}, {high}], got {column[channel]}")
    return column.astype(np.int64)
