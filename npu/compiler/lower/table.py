"""The one table of what the compiler can lower: operator kind to the function that makes its steps.

Functions stand here by module and name: a model imports the modules of its own operators only.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from npu.compiler.lower import admit
from npu.compiler.lower.builder import Builder
from npu.graph.graph import Op
from npu.records import dataclass


@dataclass(frozen=True, slots=True)
class Lowering:
    """What makes the steps of an operator, and the limit of the hardware that it must keep beyond those of all operators.

    `function`: its module in this package, and its name. `needs_options`: the schema's defaults do not stand for options that
    the file leaves out.
    """

    function: str
    limit: admit.OperandLimit | None = None
    needs_options: bool = False

    def make_steps(self, builder: Builder, op: Op) -> None:
        """Add the steps of `op`."""
        module, _, name = self.function.partition(".")
        getattr(import_module(f"{__package__}.{module}"), name)(builder, op)


LOWERED: Mapping[str, Lowering] = {
    "ABS": Lowering("activation.lower_function"),
    "ADD": Lowering("elementwise.lower_add"),
    "ARG_MAX": Lowering("arg_max.lower_arg_max"),
    "AVERAGE_POOL_2D": Lowering("pooling.lower_average_pool", needs_options=True),
    "BATCH_MATMUL": Lowering("matmul.lower_batch_matmul", admit.of_factors, needs_options=True),
    "BATCH_TO_SPACE_ND": Lowering("batches.lower_batch_to_space"),
    "CONCATENATION": Lowering("memory.lower_join", needs_options=True),
    "CONV_2D": Lowering("convolution.lower_convolution", needs_options=True),
    "DEPTHWISE_CONV_2D": Lowering("convolution.lower_depthwise", needs_options=True),
    "DEPTH_TO_SPACE": Lowering("depth_to_space.lower_depth_to_space"),
    "ELU": Lowering("activation.lower_function"),
    "EQUAL": Lowering("comparison.lower_comparison", admit.of_small_scales),
    "EXP": Lowering("activation.lower_function"),
    "EXPAND_DIMS": Lowering("memory.lower_reshape"),
    "FULLY_CONNECTED": Lowering("convolution.lower_fully_connected"),
    "GATHER": Lowering("gather.lower_gather", admit.of_few_parts),
    "GELU": Lowering("activation.lower_function", needs_options=True),
    "GREATER": Lowering("comparison.lower_comparison", admit.of_small_scales),
    "GREATER_EQUAL": Lowering("comparison.lower_comparison", admit.of_small_scales),
    "HARD_SWISH": Lowering("activation.lower_function"),
    "LEAKY_RELU": Lowering("activation.lower_function", needs_options=True),
    "LESS": Lowering("comparison.lower_comparison", admit.of_small_scales),
    "LESS_EQUAL": Lowering("comparison.lower_comparison", admit.of_small_scales),
    "LOG": Lowering("activation.lower_function"),
    "LOGICAL_AND": Lowering("elementwise.lower_minimum"),
    "LOGICAL_NOT": Lowering("elementwise.lower_not"),
    "LOGICAL_OR": Lowering("elementwise.lower_maximum"),
    "LOGISTIC": Lowering("activation.lower_function"),
    "MAXIMUM": Lowering("elementwise.lower_maximum"),
    "MAX_POOL_2D": Lowering("pooling.lower_max_pool", needs_options=True),
    "MEAN": Lowering("mean.lower_mean"),
    "MINIMUM": Lowering("elementwise.lower_minimum"),
    "MIRROR_PAD": Lowering("repetition.lower_mirror_pad", needs_options=True),
    "MUL": Lowering("elementwise.lower_mul"),
    "NEG": Lowering("elementwise.lower_negative"),
    "NOT_EQUAL": Lowering("comparison.lower_comparison", admit.of_small_scales),
    "PACK": Lowering("memory.lower_join", needs_options=True),
    "PAD": Lowering("memory.lower_pad"),
    "PADV2": Lowering("memory.lower_pad"),
    "PRELU": Lowering("prelu.lower_prelu", admit.of_one_image),
    "QUANTIZE": Lowering("activation.lower_quantize"),
    "REDUCE_ALL": Lowering("reduction.lower_reduce_min"),
    "REDUCE_ANY": Lowering("reduction.lower_reduce_max"),
    "REDUCE_MAX": Lowering("reduction.lower_reduce_max"),
    "REDUCE_MIN": Lowering("reduction.lower_reduce_min"),
    "RELU": Lowering("activation.lower_rectifier"),
    "RELU6": Lowering("activation.lower_rectifier"),
    "RELU_0_TO_1": Lowering("activation.lower_rectifier"),
    "RELU_N1_TO_1": Lowering("activation.lower_rectifier"),
    "RESHAPE": Lowering("memory.lower_reshape"),
    "RESIZE_BILINEAR": Lowering("resize.lower_resize_bilinear", needs_options=True),
    "RESIZE_NEAREST_NEIGHBOR": Lowering("resize.lower_resize_nearest", needs_options=True),
    "REVERSE_V2": Lowering("reverse.lower_reverse"),
    "RSQRT": Lowering("activation.lower_function"),
    "SELECT": Lowering("select.lower_select", admit.of_truth_values),
    "SELECT_V2": Lowering("select.lower_select", admit.of_truth_values),
    "SLICE": Lowering("memory.lower_slice"),
    "SOFTMAX": Lowering("softmax.lower_softmax", needs_options=True),
    "SPACE_TO_BATCH_ND": Lowering("batches.lower_space_to_batch"),
    "SPACE_TO_DEPTH": Lowering("depth_to_space.lower_space_to_depth"),
    "SPLIT": Lowering("memory.lower_split"),
    "SPLIT_V": Lowering("memory.lower_split_v"),
    "SQUARED_DIFFERENCE": Lowering("elementwise.lower_squared_difference"),
    "SQUEEZE": Lowering("memory.lower_reshape"),
    "STRIDED_SLICE": Lowering("memory.lower_strided_slice", admit.forwards, needs_options=True),
    "SUB": Lowering("elementwise.lower_sub"),
    "SUM": Lowering("mean.lower_sum"),
    "TANH": Lowering("activation.lower_function"),
    "TILE": Lowering("repetition.lower_tile"),
    "TRANSPOSE": Lowering("transpose.lower_transpose", admit.counted_from_the_first),
    "TRANSPOSE_CONV": Lowering("transposed.lower_transpose_conv", admit.of_the_declared_size, needs_options=True),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Lowering("lstm.lower_lstm", needs_options=True),
    "UNPACK": Lowering("memory.lower_unpack", needs_options=True),
}
