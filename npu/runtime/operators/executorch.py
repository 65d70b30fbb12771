"""Kernels of ExecuTorch around its delegates: quantize_per_tensor and dequantize_per_tensor.

Sources: kernels/quantized/cpu/op_quantize.cpp and op_dequantize.cpp of ExecuTorch. Both compute in float32; quantizing
multiplies by the inverse of the scale and rounds ties to even, where TFLite's QUANTIZE divides and rounds them away from zero.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from npu.errors import InterpreterError
from npu.runtime.custom import CustomOperator
from npu.runtime.delegate import Context, Node, Status

QUANTIZE, DEQUANTIZE = "executorch.quantize_per_tensor", "executorch.dequantize_per_tensor"
QUANTIZE_KERNELS = {"quantize_per_tensor": QUANTIZE, "dequantize_per_tensor": DEQUANTIZE}
"""Custom codes by the names of kernels."""
_LAYOUT = struct.Struct("<dqqq")


class QuantizeCall(NamedTuple):
    """The numbers that a call gives."""

    scale: float
    zero_point: int
    minimum: int
    maximum: int

    def to_bytes(self) -> bytes:
        """As custom options of the operator."""
        return _LAYOUT.pack(*self)


def _init(_: Context, options: bytes) -> QuantizeCall:
    if len(options) != _LAYOUT.size:
        raise InterpreterError(f"{QUANTIZE}: must have {_LAYOUT.size} bytes of options, got {len(options)}")
    return QuantizeCall(*_LAYOUT.unpack(options))


def _quantize(context: Context, node: Node) -> Status:
    given: QuantizeCall = node.user_data
    source, target = (context.tensors[ends[0]].array for ends in (node.inputs, node.outputs))
    with np.errstate(all="ignore"):
        inverse = np.float32(1) / np.float32(given.scale)
        scaled = np.rint(inverse * source.astype(np.float32)) + np.float64(given.zero_point)
        target[...] = np.nan_to_num(np.clip(scaled, given.minimum, given.maximum), nan=given.minimum)
    return Status.OK


def _dequantize(context: Context, node: Node) -> Status:
    given: QuantizeCall = node.user_data
    source, target = (context.tensors[ends[0]].array for ends in (node.inputs, node.outputs))
    with np.errstate(all="ignore"):
        target[...] = (source.astype(np.int64) - given.zero_point).astype(np.float32) * np.float32(given.scale)
    return Status.OK


CUSTOM_OPERATORS: Mapping[str, CustomOperator] = {
    QUANTIZE: CustomOperator(_quantize, init=_init),
    DEQUANTIZE: CustomOperator(_dequantize, init=_init),
}
