"""The one table of what the compiler can lower: operator kind to the function that makes its steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from npu.compiler.lower.activation import (
    lower_abs,
    lower_hard_swish,
    lower_leaky_relu,
    lower_quantize,
    lower_rectifier,
    lower_table,
)
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.convolution import lower_convolution, lower_depthwise, lower_fully_connected
from npu.compiler.lower.elementwise import lower_add, lower_maximum, lower_minimum, lower_mul, lower_sub
from npu.compiler.lower.mean import lower_mean
from npu.compiler.lower.memory import (
    lower_concatenation,
    lower_pack,
    lower_pad,
    lower_reshape,
    lower_slice,
    lower_split,
    lower_split_v,
    lower_strided_slice,
    lower_unpack,
)
from npu.compiler.lower.pooling import lower_average_pool, lower_max_pool
from npu.compiler.lower.resize import lower_resize_bilinear, lower_resize_nearest
from npu.compiler.lower.softmax import lower_softmax
from npu.compiler.lower.transposed import lower_transpose_conv
from npu.graph.graph import Op

Lowering: TypeAlias = Callable[[Builder, Op], None]
"""Makes the steps of one operator."""

LOWERED: Mapping[str, Lowering] = {
    "ABS": lower_abs,
    "ADD": lower_add,
    "AVERAGE_POOL_2D": lower_average_pool,
    "CONCATENATION": lower_concatenation,
    "CONV_2D": lower_convolution,
    "DEPTHWISE_CONV_2D": lower_depthwise,
    "EXPAND_DIMS": lower_reshape,
    "FULLY_CONNECTED": lower_fully_connected,
    "HARD_SWISH": lower_hard_swish,
    "LEAKY_RELU": lower_leaky_relu,
    "LOGISTIC": lower_table,
    "MAXIMUM": lower_maximum,
    "MAX_POOL_2D": lower_max_pool,
    "MEAN": lower_mean,
    "MINIMUM": lower_minimum,
    "MUL": lower_mul,
    "PACK": lower_pack,
    "PAD": lower_pad,
    "PADV2": lower_pad,
    "QUANTIZE": lower_quantize,
    "RELU": lower_rectifier,
    "RELU6": lower_rectifier,
    "RELU_N1_TO_1": lower_rectifier,
    "RESHAPE": lower_reshape,
    "RESIZE_BILINEAR": lower_resize_bilinear,
    "RESIZE_NEAREST_NEIGHBOR": lower_resize_nearest,
    "SLICE": lower_slice,
    "SOFTMAX": lower_softmax,
    "SPLIT": lower_split,
    "SPLIT_V": lower_split_v,
    "SQUEEZE": lower_reshape,
    "STRIDED_SLICE": lower_strided_slice,
    "SUB": lower_sub,
    "TANH": lower_table,
    "TRANSPOSE_CONV": lower_transpose_conv,
    "UNPACK": lower_unpack,
}
