"""How large the sums of a convolution can become: the only place that bounds them.

Beyond what an accumulator holds, the reference kernels wrap around and the NPU does not.
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


def largest_sum(kind: str, ifm: Tensor | None, weights: Tensor | None, bias: Tensor | None) -> tuple[int, int] | None:
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
