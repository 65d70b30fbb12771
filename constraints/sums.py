"""How large the sums of a convolution can become: the only place that bounds them.

Beyond what an accumulator holds, and where a scaled sum needs more than 32 bits, the reference kernels wrap around and the NPU
does not.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from npu.graph.dtype import DType
from npu.graph.graph import Tensor

_RANGES = {DType.INT8: (-128, 127), DType.UINT8: (0, 255), DType.INT16: (-32768, 32767)}
_NARROW, _WIDE = 1 << 31, 1 << 39
"""What the reference kernels add up in, and, with a bias of 64 bits, the accumulators of the NPU."""
_LARGEST_WEIGHT = 255
_NO_STEP = 0.49
"""A scaled sum below it is rounded to zero, however often it is rounded."""


def largest_sum(
    kind: str, ifm: Tensor | None, weights: Tensor | None, bias: Tensor | None, ofm: Tensor | None = None
) -> tuple[int, int] | None:
    """The magnitude that a sum of products and bias can have, and what it must stay below: those of the worst channel.

    None if sizes alone show that all do, or if it cannot be told. A negative sum counts as one less: -2**31 has 32 bits.
    A channel whose results are zero whatever the sum, wrapped around or not, does not count: quantizers give such a channel a
    bias that is cut off, mostly at -2**31.
    """
    if ifm is None or ifm.dtype not in _RANGES or weights is None or weights.data is None or weights.data.ndim == 0:
        return None
    if any(data.dtype.kind not in "iuf" for data in (weights.data, None if bias is None else bias.data) if data is not None):
        return None
    axis = weights.data.ndim - 1 if kind == "DEPTHWISE_CONV_2D" else 0
    least, most = _RANGES[ifm.dtype]
    zero_point = 0 if ifm.quantization is None else ifm.quantization.zero_point
    reach = max(most - zero_point, zero_point - least)
    is_wide = ifm.dtype is DType.INT16 and (bias is None or bias.dtype is DType.INT64)
    ratios = _ratios(ifm, weights, ofm)
    rooms = np.minimum(float(_WIDE if is_wide else _NARROW), _rooms_of_results(ifm.dtype, ratios))
    added = np.zeros(1) if bias is None or bias.data is None else bias.data.astype(np.float64).reshape(-1)
    products = math.prod(weights.data.shape) // max(1, weights.data.shape[axis])
    if products * _LARGEST_WEIGHT * reach + np.abs(added).max(initial=0) < rooms.min(initial=_WIDE):
        return None
    others = tuple(other for other in range(weights.data.ndim) if other != axis)
    values = weights.data.astype(np.int64) - (0 if weights.quantization is None else weights.quantization.zero_point)
    above, below = (np.sum(bound(values, 0), axis=others).astype(np.float64) for bound in (np.maximum, np.minimum))
    if any(row.size not in (1, above.size) for row in (added, rooms)):
        return None
    low, high = float(least - zero_point), float(most - zero_point)
    ends = above * high + below * low, above * low + below * high
    sums = np.max([np.maximum(sum_, -1 - sum_) for end in ends for sum_ in (end, end + added)], axis=0)
    is_faint = (ratios * np.maximum(sums, _NARROW) < _NO_STEP) & (ifm.dtype is not DType.INT16)
    sums = np.where(is_faint, 0.0, sums)
    worst = int(np.argmax(sums / rooms)) if sums.size else 0
    return (int(sums[worst]), int(rooms[worst if rooms.size > 1 else 0])) if sums.any() else None


def _ratios(ifm: Tensor, weights: Tensor, ofm: Tensor | None) -> npt.NDArray[np.float64]:
    """What sums are multiplied by, one for all channels or one each; NaN where it cannot be told."""
    unknown = np.full(1, math.nan)
    quantizations = [None if tensor is None else tensor.quantization for tensor in (ifm, weights, ofm)]
    if any(one is None for one in quantizations):
        return unknown
    of_ifm, of_weights, of_ofm = (np.asarray(one.scales, np.float64) for one in quantizations if one is not None)
    if not of_weights.size or of_ifm.size != 1 or of_ofm.size != 1 or not float(of_ofm[0]) > 0:
        return unknown
    ratios = of_weights.reshape(-1) * float(of_ifm[0]) / float(of_ofm[0])
    return np.where((ratios > 0) & (ratios < math.inf), ratios, math.nan)


def _rooms_of_results(dtype: DType, ratios: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """What sums must stay below for their scaled values to have 32 bits.

    The kernels of 8 bits shift a sum to the left before they multiply it by a factor of 1/2 to 1; those of int16 keep the low
    32 bits of the scaled sum.
    """
    known = np.where(np.isnan(ratios), 1.0, ratios)
    rooms = np.minimum(_NARROW / known, _WIDE) if dtype is DType.INT16 else _NARROW / 2.0 ** np.clip(np.frexp(known)[1], 0, 31)
    return np.where(np.isnan(ratios), float(_WIDE), np.floor(rooms))
