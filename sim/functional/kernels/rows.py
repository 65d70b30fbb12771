"""The rows by which the fast kernels know an operation, and what both fast tiers share.

Every number is 64 bits wide; addresses in a row are machine addresses of tables that the plan keeps alive, or byte offsets
with the region they belong to. Which operations use a field is said at the field.
"""

from __future__ import annotations

import numpy as np

from npu.machine.kernels.rows import integers
from npu.native import types as ty
from npu.native.kernel import RowsAt, kernel
from npu.native.memory import compare_bytes, copy_bytes, load_i64, load_u8, store_8
from npu.numerics.byte_sums import FIXED_POINT as FIXED_POINT
from npu.numerics.output_stage import (  # rows name them
    CHANNELS as CHANNELS,
)
from npu.numerics.output_stage import (
    CHANNELS_BYTES as CHANNELS_BYTES,
)
from npu.numerics.output_stage import (
    EVEN_LANES as EVEN_LANES,
)
from npu.numerics.output_stage import (
    FLOOR as FLOOR,
)
from npu.numerics.output_stage import (
    LIMITS as LIMITS,
)
from npu.numerics.output_stage import (
    REQUANTIZE as REQUANTIZE,
)
from npu.numerics.output_stage import (
    SUM as SUM,
)
from sim.functional.kernels import values

GENERAL, CONVOLUTION, DEPTHWISE, ELEMENTWISE, VALUES, COPY, NOTHING = range(7)
"""Kinds: not for these kernels, three of 8 bits, what `values` executes, a contiguous transfer, and what changes no memory."""

NO_ROW = -(1 << 63)
"""In place of an offset, which may be negative."""
ROW = np.dtype(
    [
        *integers(
            "kind",
            "pixels",  # convolution: output pixels; depthwise, elementwise: output rows; copy: bytes
            # Convolution: offset of each pixel's input. Depthwise: of `dwords` input rows of each output row (NO_ROW: padding).
            # Elementwise: of rows. Copy: the offset itself.
            "in_table",
            "in_region",  # -1 if the offsets are machine addresses (not of a copy)
            # Operations that are alike share tables: where in their regions those maps begin to which the offsets of the input
            # (if it is copied into a buffer with padding, those of the copy), of the second input and of the output belong.
            *("in_start", "in2_start", "out_start"),
            # Convolution: a pixel's inputs are `segments` runs of `dwords` 4-byte words at the offsets in the table.
            # Depthwise: a window is `segments` parts of all its rows and up to 4 columns (3 with a stride of 1); the table has
            # the first column of each in the input of the first output column.
            *("segments", "segment_table", "dwords"),
            "input_table",  # convolution: offset of each of these words
            "blocks",  # groups of 16 output channels
            "weights",  # in the order that `packing` says
            "stage",  # address of the CHANNELS of each block
            "out_table",  # convolution: offset of each output pixel; depthwise, elementwise: of each row; copy: the offset
            "out_region",  # -1 if the output is at the machine address `sums`
            "out_brick",  # bytes between groups of 16 output channels
            "tail",  # channels in the last group, 1..16
            "limits",  # address of LIMITS
            *("checks", "check_count"),  # address and number of the CHECKs, of what the constants were made from
            "is_known",  # whether a repeated run may take constants as current, or leave the copy out: `sim.functional.repeats`
            # How threads share it: convolution: pixels or, if `is_by_block`, groups of channels; depthwise: rows or groups;
            # elementwise: rows or, if flat, pixels; `chunk` of them at a time, but for the last chunk, which takes the rest.
            *("is_by_block", "chunk"),
            "pad_rows",  # to copy into a buffer with padding before the operation; 0: none
            *("pad_table", "pad_region"),  # source offset of each of these rows
            # Where the first pixel goes, and bytes from row to row there; the pixels there are dense, `pad_depth` bytes.
            *("pad_target", "pad_pitch"),
            *("pad_width", "pad_depth", "pad_pixel", "pad_brick"),
            "is_overwritten",  # whether the output lies over what is copied there: then all of it is copied first
            # Depthwise, elementwise: bytes between columns and between groups of 16 channels of the input.
            *("in_pixel", "in_brick"),
            "out_pixel",
            "width",  # depthwise, elementwise: output columns
            "in_width",  # depthwise: valid input columns
            "stride",
            "padding_pixel",  # depthwise: address of 64 bytes of zero point
            *("in2_table", "in2_region", "in2_pixel", "in2_brick"),  # elementwise: the second input
            "operands",  # elementwise: address of OPERANDS
            "is_reversed",  # elementwise: whether the first input is IFM2
            "is_flat",  # elementwise: 1 if a line is bytes without gaps, 16 a pixel, and `tail` those of the last pixel alone
            "finish",  # the output stage; sums of SUM are for `values.finish_sums`
            "sums",  # with SUM: the machine address of the sums that `values.finish_sums` takes on
        ),
        ("values", values.NUMBERS),  # of the kind VALUES, and with SUM
    ]
)
"""An operation as the fast kernels know it."""
ROW_BYTES = ROW.itemsize
ROW_TYPE = ty.record(ROW)
ROWS = ROW_TYPE[::1]
WEIGHTS_BYTES = 16 * 4
"""What 16 channels read of the weights for four elements of input."""
CHECK = np.dtype(integers("region", "offset", "bytes", "copy"))
"""A range of memory, and the address of a copy that it must equal."""
OPERAND = np.dtype(integers("zero_point", "multiplier", "rounding", "shift", "rounding_term", "sign_mask", "right_shift"))
"""What is subtracted from an elementwise operation's input, made unsigned, and what the rest is multiplied with; the product
and `rounding` are shifted twice."""
OPERANDS = np.dtype([("first", OPERAND), ("second", OPERAND), ("mode", np.int64), ("fixed_point", FIXED_POINT)])
"""Both inputs of an elementwise operation, and what it does."""
row_at, checks_at, operands_at = (RowsAt(ty.record(row)) for row in (ROW, CHECK, OPERANDS))


@kernel(ty.boolean(ROW_TYPE, ty.int64[::1]))
def is_current(row, bases):  # type: ignore[no-untyped-def]
    """Whether the bytes from which the row's constants were made are still in memory."""
    if row.checks == 0:
        return False
    for k in range(row.check_count):
        check = checks_at(row.checks)[k]
        place = bases[check.region] + check.offset
        if place != check.copy and compare_bytes(place, check.copy, check.bytes) != 0:  # constants are their own copy
            return False
    return True


@kernel(ty.void(ROW_TYPE, ty.int64[::1], ty.int64, ty.int64))
def fill_padded(row, bases, first, last):  # type: ignore[no-untyped-def]
    """Copy the rows `first` to `last` of the input into the middle of its padded buffer as dense height, width, depth."""
    depth = row.pad_depth
    for y in range(first, last):
        source = bases[row.pad_region] + row.in_start + load_i64(row.pad_table + 8 * y)
        target = row.pad_target + y * row.pad_pitch
        if row.pad_pixel == depth and (row.pad_brick == 16 or depth <= 16):
            copy_bytes(target, source, row.pad_width * depth)
            continue
        for b in range((depth + 15) // 16):
            count = min(np.int64(16), depth - 16 * b)
            for x in range(row.pad_width):
                at = source + b * row.pad_brick + x * row.pad_pixel
                to = target + x * depth + 16 * b
                if count == 16:
                    copy_bytes(to, at, np.int64(16))
                else:
                    for k in range(count):
                        store_8(to + k, load_u8(at + k))


@kernel(ty.void(ROW_TYPE, ty.int64[::1], ty.int64, ty.int64))
def fill_window(row, bases, first, last):  # type: ignore[no-untyped-def]
    """The rows of the padded buffer that the pixels `first` to `last` of a convolution read."""
    top = load_i64(row.in_table + 8 * first) - row.pad_target
    end = load_i64(row.in_table + 8 * (last - 1)) + load_i64(row.segment_table + 8 * (row.segments - 1)) + 4 * row.dwords
    past = (end - row.pad_target + row.pad_pitch - 1) // row.pad_pitch
    fill_padded(row, bases, max(np.int64(0), top // row.pad_pitch), min(row.pad_rows, past))


@kernel(ty.int64(ROW_TYPE))
def extent(row):  # type: ignore[no-untyped-def]
    """How many of what `chunk` counts there are."""
    if row.is_by_block != 0:
        return row.blocks
    return row.width if row.kind == ELEMENTWISE and row.is_flat != 0 else row.pixels


@kernel(ty.void(ROW_TYPE, ty.int64[::1]))
def copy_row(row, bases):  # type: ignore[no-untyped-def]
    """A contiguous transfer."""
    source = bases[row.in_region] + row.in_table
    copy_bytes(bases[row.out_region] + row.out_table, source, row.pixels)


@kernel(ty.int64(ROW_TYPE, ty.int64[::1]))
def input_base(row, bases):  # type: ignore[no-untyped-def]
    """What the offsets of the first input are counted from."""
    return np.int64(0) if row.in_region < 0 else bases[row.in_region] + row.in_start


@kernel(ty.int64(ROW_TYPE, ty.int64[::1]))
def output_base(row, bases):  # type: ignore[no-untyped-def]
    """What the offsets of the output are counted from."""
    return row.sums if row.out_region < 0 else bases[row.out_region] + row.out_start
