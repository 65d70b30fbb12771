"""A job row: one compiled operation, addresses absolute, sizes in the units named here; declared here and nowhere else.

The names are fields of structured arrays in Python (`row["kind"]`) and attributes in kernels (`row.kind`). Every number is an
int64; what a kind of job has no use for is 0.
"""

from __future__ import annotations

import numpy as np

from npu.native import types as ty
from npu.native.kernel import RowsAt
from npu.numerics.output_stage import CHANNELS_BYTES as CHANNELS_BYTES

_FIELDS = (
    "kind",
    "table",  # address of the indirection table: `segments` input addresses for every output pixel
    "pixel_step",  # of depthwise convolutions: bytes of the table from an output pixel to the next
    "line_step",  # of depthwise convolutions: bytes of the table from an output row to the next
    "segments",  # stretches of input (kernel taps or rows) per output pixel
    "length",  # elements of a stretch: floats, or groups of four bytes
    "weights",  # address of the packed weights
    "weight_step",  # bytes from the weights of 16 channels to those of the next 16
    "stage",  # address of biases and factors: a structure per 16 channels
    "limits",  # address of LIMITS, of scaled 8-bit results
    "finish",  # their output stage
    "out",  # address of the output
    "out_step",  # bytes from one output pixel to the next
    "groups",  # blocks of 16 output channels
    "tail",  # channels in the last block, 1 to 16
    "sign",  # 0x80808080 for int8 inputs, 0 for uint8; `centred` rows: four times the zero point of the weights
    *("zero_point", "low", "high"),  # clamp, as integers or as the bits of float32 numbers; not of what has LIMITS
    "input",  # address of the input of a copy or look-up; of what is added to the sums of an 8-bit product, per pixel
    "input2",
    *("input_step", "input2_step"),  # bytes; the second is of a second operand, or of a second axis
    "rows",
    "row_bytes",
    "width",  # output pixels of a row
    "chunk",  # rows, or blocks of channels, that a thread takes at once; the last chunk is the rest
    "by_blocks",  # whether threads share the blocks of channels of a product or depthwise convolution, not its rows
    "single",  # 1 or 2 if the first or the second operand of a row is one element, or is the exact one of 8-bit sums, else 0
    "is_by_rows",  # 8-bit depthwise: whether four entries of the table are a row of the filter and one column more
    "centred",  # whether the weights of an 8-bit depthwise convolution have a zero point
)
JOB = np.dtype([(name, np.int64) for name in _FIELDS])
JOB_ROW = ty.record(JOB)
jobs_at = RowsAt(JOB_ROW)
JOB_BYTES = JOB.itemsize
JOB_WORDS = JOB_BYTES // 8
"""Lists of jobs are handed over as plain words, whose address takes Python less time than that of an array of records."""

GEMM_FLOAT, GEMM_BYTE, GEMM_REAL, DEPTHWISE_FLOAT, DEPTHWISE_BYTE = range(5)
"""Products: floats, scaled 8-bit results, and 8-bit results that are scaled in double precision; then depthwise ones."""
CASCADE_OF_JOBS = np.dtype(
    [
        (name, np.int64)
        for name in (
            *("height", "width", "pitch"),  # of the map that the first job writes; bytes of a row
            *("buffer", "slots"),  # address and rows of the rolling buffer for it, a multiple of `stride`
            *(
                "stride",
                "before",
                "window",
            ),  # of the depthwise job: rows between windows, rows of padding above, rows that one spans
            *("between", "between_pitch"),  # address of what it writes, bytes of a row
            "stripe",  # so many of these rows at a time
            *("out", "out_pitch", "out_width"),  # of what the last job writes: address, bytes of a row, pixels of a row
        )
    ]
)
"""Buffers and sizes of a CASCADE; its jobs follow: a product, a depthwise convolution and a product of one tap. Where they
write is set for every stripe."""
CASCADE_ROW, CASCADE_BYTES = ty.record(CASCADE_OF_JOBS), CASCADE_OF_JOBS.itemsize
cascades_at = RowsAt(CASCADE_ROW)
COPY_ROWS, LOOK_UP_PAIRS, RESIZE, ADD_BYTES, SUBTRACT_BYTES, SUM_PIXELS = range(5, 11)
FLOAT_ADD, FLOAT_SUBTRACT, FLOAT_MULTIPLY, FLOAT_DIVIDE, FLOAT_SQUARED_DIFFERENCE, FLOAT_CLAMP, FLOAT_TANH = range(11, 18)
SOFTMAX_ROWS, MOVE, FLIP_ROWS = range(18, 21)
MAX_FLOAT, MAX_SIGNED, MAX_UNSIGNED, LOOK_UP, FIXED_POINT_SUM, CASCADE = range(21, 27)
"""The last but one is of 8-bit maps, with FIXED_POINT; the last is three jobs in one, for which `table` is the address of
CASCADE_OF_JOBS for each of `segments` chunks, `pixel_step` bytes apart, and `length` the work of an output row."""
FLOAT_STAGE = np.dtype([("bias", np.float32, (16,))])
REAL_STAGE = np.dtype([("bias", np.int32, (16,)), ("scale", np.float64, (16,))])
"""What products of floats, and those that are scaled in double precision, have for every 16 channels; others have CHANNELS."""
FLOAT_STAGE_BYTES, REAL_STAGE_BYTES = FLOAT_STAGE.itemsize, REAL_STAGE.itemsize
COLUMN_BY_COLUMN = (0, 3, 6, 1, 4, 7, 2, 5, 8)
"""Which entry of the table a depthwise convolution of nine taps reads for each of them."""
LEFT_SHIFT = 20
LOW_BITS = 31 - LEFT_SHIFT
"""Of the product of a difference of bytes and a multiplier, these are rounded off: the reference kernel shifts the difference
left by 20, and divides the product by 2**31. With multiplier = 2**16 * high + low, 2**LOW_BITS divides the high part."""
SUM_OPERAND = np.dtype([(name, np.int32, (16,)) for name in ("offset", "high", "low", "term", "mask", "shift")])
"""An operand of ADD or SUB: what is subtracted, the multiplier in two parts, and `round_away` of the product."""
