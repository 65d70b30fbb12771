"""The one table of what the compiler can lower: operator kind to its form and the function that makes its steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from npu.compiler.lower import admit
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
from npu.compiler.lower.transpose import lower_transpose
from npu.compiler.lower.transposed import lower_transpose_conv
from npu.graph.graph import Op


@dataclass(frozen=True, slots=True)
class Lowering:
    """What an operator must look like, and what makes its steps."""

    form: admit.Form
    make_steps: Callable[[Builder, Op], None]


LOWERED: Mapping[str, Lowering] = {
    "ABS": Lowering(admit.UNARY, lower_abs),
    "ADD": Lowering(admit.BINARY, lower_add),
    "AVERAGE_POOL_2D": Lowering(admit.POOL, lower_average_pool),
    "CONCATENATION": Lowering(admit.CONCATENATION, lower_concatenation),
    "CONV_2D": Lowering(admit.CONVOLUTION, lower_convolution),
    "DEPTHWISE_CONV_2D": Lowering(admit.DEPTHWISE, lower_depthwise),
    "EXPAND_DIMS": Lowering(admit.RESHAPE, lower_reshape),
    "FULLY_CONNECTED": Lowering(admit.FULLY_CONNECTED, lower_fully_connected),
    "HARD_SWISH": Lowering(admit.UNARY, lower_hard_swish),
    "LEAKY_RELU": Lowering(admit.LEAKY_RELU, lower_leaky_relu),
    "LOGISTIC": Lowering(admit.UNARY, lower_table),
    "MAXIMUM": Lowering(admit.BINARY, lower_maximum),
    "MAX_POOL_2D": Lowering(admit.POOL, lower_max_pool),
    "MEAN": Lowering(admit.MEAN, lower_mean),
    "MINIMUM": Lowering(admit.BINARY, lower_minimum),
    "MUL": Lowering(admit.BINARY, lower_mul),
    "PACK": Lowering(admit.PACK, lower_pack),
    "PAD": Lowering(admit.PAD, lower_pad),
    "PADV2": Lowering(admit.PAD_WITH_VALUE, lower_pad),
    "QUANTIZE": Lowering(admit.UNARY, lower_quantize),
    "RELU": Lowering(admit.UNARY, lower_rectifier),
    "RELU6": Lowering(admit.UNARY, lower_rectifier),
    "RELU_N1_TO_1": Lowering(admit.UNARY, lower_rectifier),
    "RESHAPE": Lowering(admit.RESHAPE, lower_reshape),
    "RESIZE_BILINEAR": Lowering(admit.RESIZE_BILINEAR, lower_resize_bilinear),
    "RESIZE_NEAREST_NEIGHBOR": Lowering(admit.RESIZE_NEAREST, lower_resize_nearest),
    "SLICE": Lowering(admit.SLICE, lower_slice),
    "SOFTMAX": Lowering(admit.SOFTMAX, lower_softmax),
    "SPLIT": Lowering(admit.SPLIT, lower_split),
    "SPLIT_V": Lowering(admit.SPLIT_V, lower_split_v),
    "SQUEEZE": Lowering(admit.RESHAPE, lower_reshape),
    "STRIDED_SLICE": Lowering(admit.STRIDED_SLICE, lower_strided_slice),
    "SUB": Lowering(admit.BINARY, lower_sub),
    "TANH": Lowering(admit.UNARY, lower_table),
    "TRANSPOSE": Lowering(admit.TRANSPOSE, lower_transpose),
    "TRANSPOSE_CONV": Lowering(admit.TRANSPOSE_CONV, lower_transpose_conv),
    "UNPACK": Lowering(admit.UNPACK, lower_unpack),
}
