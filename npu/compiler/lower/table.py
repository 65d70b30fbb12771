"""The one table of what the compiler can lower: operator kind to the function that makes its steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from npu.compiler.lower import admit
from npu.compiler.lower.activation import lower_function, lower_quantize, lower_rectifier
from npu.compiler.lower.arg_max import lower_arg_max
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.convolution import lower_convolution, lower_depthwise, lower_fully_connected
from npu.compiler.lower.depth_to_space import lower_depth_to_space, lower_space_to_depth
from npu.compiler.lower.elementwise import (
    lower_add,
    lower_maximum,
    lower_minimum,
    lower_mul,
    lower_negative,
    lower_squared_difference,
    lower_sub,
)
from npu.compiler.lower.lstm import lower_lstm
from npu.compiler.lower.matmul import lower_batch_matmul
from npu.compiler.lower.mean import lower_mean, lower_sum
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
from npu.compiler.lower.prelu import lower_prelu
from npu.compiler.lower.reduction import lower_reduce_max, lower_reduce_min
from npu.compiler.lower.repetition import lower_mirror_pad, lower_tile
from npu.compiler.lower.resize import lower_resize_bilinear, lower_resize_nearest
from npu.compiler.lower.softmax import lower_softmax
from npu.compiler.lower.transpose import lower_transpose
from npu.compiler.lower.transposed import lower_transpose_conv
from npu.graph.graph import Op
from npu.records import dataclass


@dataclass(frozen=True, slots=True)
class Lowering:
    """What makes the steps of an operator, and the limit of the hardware that it must keep beyond those of all operators.

    `needs_options`: the schema's defaults do not stand for options that the file leaves out.
    """

    make_steps: Callable[[Builder, Op], None]
    limit: admit.OperandLimit | None = None
    needs_options: bool = False


LOWERED: Mapping[str, Lowering] = {
    "ABS": Lowering(lower_function),
    "ADD": Lowering(lower_add),
    "ARG_MAX": Lowering(lower_arg_max, admit.over_the_last_axis),
    "AVERAGE_POOL_2D": Lowering(lower_average_pool, needs_options=True),
    "BATCH_MATMUL": Lowering(lower_batch_matmul, needs_options=True),
    "CONCATENATION": Lowering(lower_concatenation, needs_options=True),
    "CONV_2D": Lowering(lower_convolution, needs_options=True),
    "DEPTHWISE_CONV_2D": Lowering(lower_depthwise, needs_options=True),
    "DEPTH_TO_SPACE": Lowering(lower_depth_to_space),
    "ELU": Lowering(lower_function),
    "EXP": Lowering(lower_function),
    "EXPAND_DIMS": Lowering(lower_reshape),
    "FULLY_CONNECTED": Lowering(lower_fully_connected),
    "GELU": Lowering(lower_function, needs_options=True),
    "HARD_SWISH": Lowering(lower_function),
    "LEAKY_RELU": Lowering(lower_function, needs_options=True),
    "LOG": Lowering(lower_function),
    "LOGISTIC": Lowering(lower_function),
    "MAXIMUM": Lowering(lower_maximum),
    "MAX_POOL_2D": Lowering(lower_max_pool, needs_options=True),
    "MEAN": Lowering(lower_mean),
    "MINIMUM": Lowering(lower_minimum),
    "MIRROR_PAD": Lowering(lower_mirror_pad, admit.around_height_and_width, needs_options=True),
    "MUL": Lowering(lower_mul),
    "NEG": Lowering(lower_negative),
    "PACK": Lowering(lower_pack, needs_options=True),
    "PAD": Lowering(lower_pad),
    "PADV2": Lowering(lower_pad),
    "PRELU": Lowering(lower_prelu, admit.of_one_image),
    "QUANTIZE": Lowering(lower_quantize),
    "REDUCE_MAX": Lowering(lower_reduce_max),
    "REDUCE_MIN": Lowering(lower_reduce_min),
    "RELU": Lowering(lower_rectifier),
    "RELU6": Lowering(lower_rectifier),
    "RELU_N1_TO_1": Lowering(lower_rectifier),
    "RESHAPE": Lowering(lower_reshape),
    "RESIZE_BILINEAR": Lowering(lower_resize_bilinear, needs_options=True),
    "RESIZE_NEAREST_NEIGHBOR": Lowering(lower_resize_nearest, needs_options=True),
    "RSQRT": Lowering(lower_function),
    "SLICE": Lowering(lower_slice),
    "SOFTMAX": Lowering(lower_softmax, needs_options=True),
    "SPACE_TO_DEPTH": Lowering(lower_space_to_depth),
    "SPLIT": Lowering(lower_split),
    "SPLIT_V": Lowering(lower_split_v),
    "SQUARED_DIFFERENCE": Lowering(lower_squared_difference),
    "SQUEEZE": Lowering(lower_reshape),
    "STRIDED_SLICE": Lowering(lower_strided_slice, admit.forwards, needs_options=True),
    "SUB": Lowering(lower_sub),
    "SUM": Lowering(lower_sum),
    "TANH": Lowering(lower_function),
    "TILE": Lowering(lower_tile),
    "TRANSPOSE": Lowering(lower_transpose, admit.counted_from_the_first),
    "TRANSPOSE_CONV": Lowering(lower_transpose_conv, needs_options=True),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Lowering(lower_lstm, needs_options=True),
    "UNPACK": Lowering(lower_unpack, needs_options=True),
}
