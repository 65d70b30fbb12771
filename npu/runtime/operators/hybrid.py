"""Dynamic-range quantization: float activations quantized while running, for int8 weights."""

from __future__ import annotations

import numpy as np

from npu.numerics.arrays import Array
from npu.numerics.scaling import round_away


def quantize_rows(rows: Array, *, asymmetric: bool) -> tuple[Array, Array, Array]:
    """Rows (n, k) as int8 with a float32 scale and an int32 zero point per row.

    Formulas of TFLite's SymmetricQuantizeFloats (range of the largest magnitude, 127 steps) and AsymmetricQuantizeFloats (255
    steps,
    zero point chosen where the error is smaller, range widened to include zero).
    """
    values = np.zeros(rows.shape, np.int8)
    scales = np.ones(rows.shape[0], np.float32)
    zero_points = np.zeros(rows.shape[0], np.int32)
    for i, row in enumerate(rows):
        if asymmetric:
            values[i], scales[i], zero_points[i] = _asymmetric(row)
        else:
            values[i], scales[i] = _symmetric(row)
    return values, scales, zero_points


def _symmetric(row: Array) -> tuple[Array, np.float32]:
    largest = np.float32(np.max(np.abs(row), initial=np.float32(0)))
    if largest == 0:
        return np.zeros(row.shape, np.int8), np.float32(1)
    inverse = np.float32(127) / largest
    return np.clip(round_away(row * inverse), -127, 127).astype(np.int8), largest / np.float32(127)


def _asymmetric(row: Array) -> tuple[Array, np.float32, int]:
    low = min(0.0, float(np.min(row, initial=np.float32(0))))
    high = max(0.0, float(np.max(row, initial=np.float32(0))))
    if low == high:
        return np.zeros(row.shape, np.int8), np.float32(1), 0
    scale = float((np.float32(high) - np.float32(low)) / np.float32(255))
    from_low, from_high = -128 - low / scale, 127 - high / scale
    error_low, error_high = 128 + abs(low / scale), 127 + abs(high / scale)
    candidate = from_low if error_low < error_high else from_high
    zero_point = (
        -128 if candidate <= -128 else 127 if candidate >= 127 else int(np.sign(candidate) * np.floor(abs(candidate) + 0.5))
    )
    inverse = np.float32(1.0 / scale)
    values = zero_point + round_away(row * inverse)  # in this order: a tie is one before the zero point is added
    return np.clip(values, -128, 127).astype(np.int8), np.float32(scale), zero_point


def dequantize_rows(
    acc: Array, input_scales: Array, weight_scales: Array, bias: Array | None, *, per_channel: bool = False
) -> Array:
    """acc * input scale * weight scale + bias, in float32; per-channel kernels apply the weight scale first."""
    sums, outer, inner = acc.astype(np.float32), input_scales.astype(np.float32), weight_scales.astype(np.float32)
    values = sums * inner * outer if per_channel else sums * (outer * inner)
    if bias is not None:
        values = values + bias.reshape(-1)
    return values.astype(np.float32)
