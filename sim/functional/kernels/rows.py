"""The row of numbers by which the fast kernels know an operation, and what both fast tiers share.

A row is int64; addresses in it are machine addresses of tables that the plan keeps alive, or byte offsets with the
region they belong to. Which fields an operation uses is said at the field.
"""

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.kernel import kernel
from npu.native.memory import compare_bytes, copy_bytes, load_i64, load_u8, store_8, store_64
from sim.functional.kernels import values

KIND = 0
"""GENERAL (not for these kernels), CONVOLUTION, DEPTHWISE, ELEMENTWISE (of 8 bits), VALUES (the others), COPY, NOTHING."""
GENERAL, CONVOLUTION, DEPTHWISE, ELEMENTWISE, VALUES, COPY, NOTHING = range(7)
PIXELS = 1
"""Convolution: output pixels. Depthwise, elementwise: output rows. Copy: bytes."""
IN_TABLE = 2
"""Convolution: offset of each pixel's input. Depthwise: of DWORDS input rows of each output row (-1: padding). Elementwise:
of rows."""
IN_REGION = 3
"""Region of the input, -1 if the offsets are machine addresses (of a copy)."""
SEGMENTS = 4
SEGMENT_TABLE = 5
DWORDS = 6
"""Convolution: a pixel's inputs are SEGMENTS runs of DWORDS 4-byte words at the offsets in SEGMENT_TABLE. Depthwise: a window
is SEGMENTS parts of 3 rows and 4 columns; the table has for each the first row in IN_TABLE, the first input column that is
taken in, and the columns taken in before the first output."""
BLOCKS = 7
"""Groups of 16 output channels."""
WEIGHTS = 8
"""In the order that `packing` says; of the 4 columns of a depthwise kernel's part the last is the last."""
STAGE = 9
"""Per block, vectors of 16 int32: bias, left shift, multiplier, rounding term, sign mask, right shift; then what
FLOOR needs: two vectors of 8 int64 to add to the products of even and odd channels, a right shift of the high halves."""
OUT_TABLE = 10
"""Convolution: offset of each output pixel. Others: of each output row."""
OUT_REGION = 11
"""Region of the output, -1 if it is at the machine address SUMS."""
OUT_BRICK = 12
"""Bytes between groups of 16 output channels."""
TAIL = 13
"""Channels in the last group, 1..16."""
XOR = 14
"""0x80808080 for signed inputs, 0 for unsigned."""
ZERO_POINT = 15
LOW = 16
HIGH = 17
CHECKS = 18
"""Address of (region, offset, bytes, address of the copy) of what the constants were made from."""
CHECK_COUNT = 19
PAD_ROWS = 20
"""Rows to copy into a buffer with padding before the operation; 0: none."""
PAD_TABLE = 21
"""Source offset of each row; PAD_REGION is its region."""
PAD_REGION = 22
PAD_TARGET = 23
PAD_PITCH = 24
"""Where the first pixel goes, and bytes from row to row there; the pixels there are dense, PAD_DEPTH bytes."""
PAD_WIDTH = 25
PAD_DEPTH = 26
PAD_PIXEL = 27
PAD_BRICK = 28
IN_PIXEL = 29
IN_BRICK = 30
"""Depthwise, elementwise: bytes between columns and between groups of 16 channels of the input."""
OUT_PIXEL = 31
WIDTH = 32
"""Depthwise, elementwise: output columns."""
IN_WIDTH = 33
"""Depthwise: valid input columns."""
STRIDE = 36
PADDING_PIXEL = 37
"""Depthwise: address of 16 bytes of zero point."""
IN2_TABLE = 38
IN2_REGION = 39
IN2_PIXEL = 40
IN2_BRICK = 41
"""Elementwise: the second input."""
OPERANDS = 42
"""Elementwise: address of 17 int64: what the two operands are multiplied with, and the mode (see `sim.functional.fast`)."""
FINISH = 43
"""REQUANTISE; FLOOR, one addition and two shifts: exact where negative results are clamped away, as after a RELU; or SUM: the
sums themselves, 16 int32, which `values.finish_sums` takes on."""
REQUANTISE, FLOOR, SUM = range(3)
SUMS = 44
"""With SUM: the machine address of the sums that `values.finish_sums` takes on."""
NUMBERS = 45
"""VALUES, and with SUM: what `values` takes."""
ROW_LENGTH = NUMBERS + values.LENGTH
STAGE_VECTORS = 9
STAGE_BYTES = 64 * STAGE_VECTORS


@kernel(ty.boolean(ty.int64[::1], ty.int64[::1]))
def is_current(row, bases):  # type: ignore[no-untyped-def]
    """Whether the bytes from which the row's constants were made are still in memory."""
    if row[CHECKS] == 0:
        return False
    for k in range(row[CHECK_COUNT]):
        entry = row[CHECKS] + 32 * k
        source = bases[load_i64(entry)] + load_i64(entry + 8)
        if compare_bytes(source, load_i64(entry + 24), load_i64(entry + 16)) != 0:
            return False
    return True


@kernel(ty.void(ty.int64[::1], ty.int64[::1]))
def fill_padded(row, bases):  # type: ignore[no-untyped-def]
    """Copy the input into the middle of its padded buffer as dense height, width, depth."""
    depth = row[PAD_DEPTH]
    for y in range(row[PAD_ROWS]):
        source = bases[row[PAD_REGION]] + load_i64(row[PAD_TABLE] + 8 * y)
        target = row[PAD_TARGET] + y * row[PAD_PITCH]
        if row[PAD_PIXEL] == depth and row[PAD_BRICK] == 16:
            copy_bytes(target, source, row[PAD_WIDTH] * depth)
            continue
        for b in range((depth + 15) // 16):
            count = min(np.int64(16), depth - 16 * b)
            for x in range(row[PAD_WIDTH]):
                at = source + b * row[PAD_BRICK] + x * row[PAD_PIXEL]
                to = target + x * depth + 16 * b
                if count == 16:
                    store_64(to, load_i64(at))
                    store_64(to + 8, load_i64(at + 8))
                else:
                    for k in range(count):
                        store_8(to + k, load_u8(at + k))


@kernel(ty.void(ty.int64[::1], ty.int64[::1]))
def copy_row(row, bases):  # type: ignore[no-untyped-def]
    """A contiguous transfer."""
    source = bases[row[IN_REGION]] + row[IN_TABLE]
    copy_bytes(bases[row[OUT_REGION]] + row[OUT_TABLE], source, row[PIXELS])


@kernel(ty.int64(ty.int64[::1], ty.int64, ty.int64))
def base_of(bases, region, absolute):  # type: ignore[no-untyped-def]
    """Base address of a region; `absolute` for region -1."""
    return absolute if region < 0 else bases[region]
