"""Softmax, and the interpolated 16-bit sigmoid and tanh, over arrays."""

from __future__ import annotations

import math

import numpy as np

from npu.native import types as ty
from npu.native.kernel import RowsAt, kernel
from npu.native.memory import small_buffer, store_8_at, store_16_at
from npu.numerics.arrays import Array
from npu.numerics.rounding import rounding_divide_by_power_of_two, saturating_rounding_doubling_high_mul
from npu.runtime.kernels.integer_functions import reciprocal

_ROWS = ty.constant(ty.float32, 2)
_integers_at = RowsAt(ty.int64, has_length=True)

# The reference kernel's table has these entries one above the rounded sigmoid; measured on its int16 LOGISTIC and TANH.
_ONE_ABOVE = frozenset(
    (
        4, 8, 12, 14, 15, 16, 17, 19, 20, 21, 22, 25, 27, 28, 29, 30, 31, 33, 34, 35, 37, 39, 40, 41, 43, 44, 45, 46, 49, 50,
        54, 62, 63, 64, 66, 82, 86, 93, 100, 103, 112, 116, 135, 255,
    )
)  # fmt: skip
_SIGMOID = np.array(
    [min(65535, math.floor(65536 / (1 + math.exp(-i / 24)) + 0.5)) + (i in _ONE_ABOVE) for i in range(256)], np.int64
)


@kernel(ty.void(_ROWS, ty.float32, ty.float32[:, ::1]))
def _softmax_rows(rows, beta, out):  # type: ignore[no-untyped-def]
    for i in range(rows.shape[0]):
        largest = np.float32(-np.inf)
        for j in range(rows.shape[1]):
            largest = max(largest, rows[i, j])
        total = np.float32(0)
        for j in range(rows.shape[1]):
            out[i, j] = math.exp((rows[i, j] - largest) * beta)
            total += out[i, j]
        for j in range(rows.shape[1]):
            out[i, j] = out[i, j] / total


def softmax_float(rows: Array, beta: np.float32) -> Array:
    """Softmax of float32 rows, summed in order."""
    out = np.empty_like(rows)
    _softmax_rows(rows, beta, out)
    return out


@kernel(ty.void(ty.constant(ty.uint8, 2), ty.int64[::1], ty.int64, ty.int64, ty.int64, ty.uint8[:, ::1]))
def softmax_8bit(rows, exponentials, flip, bits, offset, out):  # type: ignore[no-untyped-def]
    """Softmax of rows of bytes, which `flip` makes unsigned, as numbers of `bits` bits, scale 2**-bits, `offset` for 0.

    `exponentials` (256), Q0.31, by the distance from the row's maximum: `integer_functions.softmax_table`. The TFLite reference
    kernel of SOFTMAX: sums with 12 integer bits, one reciprocal per row. `out` is the memory of the results.
    """
    most, start, width = (np.int64(1) << bits) - 1, np.int64(out.ctypes.data), rows.shape[1]
    results, twelve = _integers_at(small_buffer(), 256), np.int64(12)
    for i in range(rows.shape[0]):
        largest, farthest, total = np.int64(0), np.int64(255), np.int64(0)
        for j in range(width):
            value = np.int64(rows[i, j]) ^ flip
            largest, farthest = max(largest, value), min(farthest, value)
        for j in range(width):
            exponential = exponentials[largest - (np.int64(rows[i, j]) ^ flip)]
            total += (exponential + 2048) >> twelve  # rounded: none is below 0
        inverse, over = reciprocal(total)
        farthest = largest - farthest
        for j in range(min(width, farthest + 1)):
            d = largest - (np.int64(rows[i, j]) ^ flip) if width <= farthest else np.int64(j)
            result = saturating_rounding_doubling_high_mul(exponentials[d], inverse)
            results[d] = min(rounding_divide_by_power_of_two(result, over + twelve - bits), most) + offset
        for j in range(width):
            result = results[largest - (np.int64(rows[i, j]) ^ flip)]
            if bits == 8:
                store_8_at(start, i * width + j, result)
            else:
                store_16_at(start, i * width + j, result)


def softmax_16bit(difference: Array, exponential: Array, reciprocal: Array) -> Array:
    """Softmax of int16 rows, given their rescaled distance to the row's maximum; both tables have 513 samples."""
    terms = look_up(np.clip(difference + 32767, -32768, 32767), exponential)
    total = terms.sum(axis=1, keepdims=True)
    headroom = 31 - np.floor(np.log2(np.maximum(total, 1))).astype(np.int64)
    shifted = ((total << (headroom - 1)) + (1 << 13)) >> 14
    inverse = look_up(np.clip(shifted - (1 << 15) - (1 << 16), -32768, 32767), reciprocal)
    right = 31 - headroom
    rounded = (terms * inverse + (np.int64(1) << np.maximum(right - 1, 0))) >> np.maximum(right, 0)
    result: Array = np.clip(rounded, 0, 32767)
    return result


def look_up(values: Array, table: Array) -> Array:
    """int16 values through a table of 513 samples, interpolated with slopes of 16 bits, which wrap; int64 result."""
    index = (values >> 7) + 256
    base = table[index]
    slope = (table[index + 1] - base).astype(np.int16)
    result: Array = base + ((slope * (values & 127) + 64) >> 7)
    return result


def _interpolated_sigmoid(scaled: Array) -> Array:
    """65536 * 512 * sigmoid, interpolated on 512 steps per entry, before the final shift; for the magnitude of `scaled`."""
    magnitude = np.abs(scaled)
    index = np.minimum(magnitude >> 9, 254)
    low, high = _SIGMOID[index], _SIGMOID[index + 1]
    return np.where(magnitude >> 9 >= 255, 0x7FFF << 10, (low << 9) + (magnitude & 0x1FF) * (high - low))


def sigmoid_16bit(values: Array, multiplier: int, shift: int) -> Array:
    """int16 logistic; the input is scaled by multiplier / 2**shift to three times Q3.12. int64 result in Q0.15."""
    rounding = 1 << (shift - 1) if shift > 0 else 0
    scaled = (values.astype(np.int64) * multiplier + rounding) >> shift
    result = _interpolated_sigmoid(scaled)
    rounded: Array = np.where(scaled >= 0, result + (1 << 9), (1 << 25) - result + (1 << 9) - 1) >> 10
    return rounded


def tanh_16bit(values: Array, multiplier: int, shift: int) -> Array:
    """int16 hyperbolic tangent from the same table: 2 * sigmoid(2 x) - 1. int64 result in Q0.15."""
    rounding = 1 << (shift - 1) if shift > 0 else 0
    scaled = (values.astype(np.int64) * multiplier + rounding) >> shift
    magnitude = np.abs(scaled)
    index = np.minimum(magnitude >> 8, 254)
    low, high = _SIGMOID[index], _SIGMOID[index + 1]
    result = np.where(magnitude >> 8 >= 255, 0xFFFF << 8, (low << 8) + (magnitude & 0xFF) * (high - low))
    positive = result - (1 << 23) + (1 << 7)
    negative = -result + (1 << 23) + (1 << 7) - 1
    return np.where(scaled >= 0, positive, negative) >> 8
