"""How large the sums of a convolution can become: the only place that bounds them.

Beyond what an accumulator holds, and where a scaled sum needs more than 32 bits, the reference kernels wrap around and the NPU
does not.
"""

from __future__ import annotations

import math

import numpy as np

from npu.graph.dtype import DType
from npu.graph.graph import Tensor

_RANGES = {DType.INT8: (-128, 127), DType.UINT8: (0, 255), DType.INT16: (-32768, 32767)}
_NARROW, _WIDE = 1 << 31, 1 << 39
"""What the reference kernels add up in, and, with a bias of 64 bits, the accumulators of the NPU."""
_LARGEST_WEIGHT = 255


def largest_sum(
    kind: str, ifm: Tensor | None, weights: Tensor | None, bias: Tensor | None, ofm: Tensor | None = None
) -> tuple[int, int] | None:
    """The largest magnitude that a sum of products and bias can have, and what it must stay below.

    None if sizes alone show that it does, or if it cannot be told.
    """
    if ifm is None or ifm.dtype not in _RANGES or weights is None or weights.data is None or weights.data.ndim == 0:
        return None
    if any(data.dtype.kind not in "iuf" for data in (weights.data, None if bias is None else bias.data) if data is not None):
        return None
    axis = weights.data.ndim - 1 if kind == "DEPTHWISE_CONV_2D" else 0
    least, most = _RANGES[ifm.dtype]
    zero_point = 0 if ifm.quantization is None else ifm.quantization.zero_point
    reach = max(most - zero_point, zero_point - least)
    room = _WIDE if ifm.dtype is DType.INT16 and (bias is None or bias.dtype is DType.INT64) else _NARROW
    room = min(room, _room_of_result(ifm, weights, ofm))
    added = np.zeros(1) if bias is None or bias.data is None else np.abs(bias.data.astype(np.float64)).reshape(-1)
    products = math.prod(weights.data.shape) // max(1, weights.data.shape[axis])
    if products * _LARGEST_WEIGHT * reach + added.max(initial=0) < room:
        return None
    others = tuple(other for other in range(weights.data.ndim) if other != axis)
    offset = 0 if weights.quantization is None else weights.quantization.zero_point
    sums = np.abs(weights.data.astype(np.int64) - offset).sum(axis=others).astype(np.float64)
    if added.size not in (1, sums.size):
        return None
    return int((sums * reach + added).max(initial=0)), room


def _room_of_result(ifm: Tensor, weights: Tensor, ofm: Tensor | None) -> int:
    """What a sum must stay below for its scaled value to have 32 bits.

    The kernels of 8 bits shift a sum to the left before they multiply it by a factor of 1/2 to 1; those of int16 keep the low
    32 bits of the scaled sum.
    """
    quantizations = [None if tensor is None else tensor.quantization for tensor in (ifm, weights, ofm)]
    if any(one is None for one in quantizations):
        return _WIDE
    of_ifm, of_weights, of_ofm = (np.asarray(one.scales, np.float64) for one in quantizations if one is not None)
    if not of_weights.size or of_ifm.size != 1 or of_ofm.size != 1 or not float(of_ofm[0]) > 0:
        return _WIDE
    ratio = float(of_weights.max()) * float(of_ifm[0]) / float(of_ofm[0])
    if not 0 < ratio < math.inf:
        return _WIDE
    if ifm.dtype is DType.INT16:
        return int(min(_NARROW / ratio, _WIDE))
    return _NARROW >> min(max(math.frexp(ratio)[1], 0), 31)
