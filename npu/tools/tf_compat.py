"""Which TensorFlow operations the TFLite compatibility guide names, with its conditions, and how they fare here.

The guide is an early revision; `npu` runs more than it lists. A model that still holds a TensorFlow operation (a custom
operator called Flex...) has no TFLite equivalent for it and is reported as not convertible.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from npu.errors import UserError
from npu.graph.graph import Model
from npu.records import dataclass
from npu.runtime.registry import OPERATORS, find_custom

FLEX_PREFIX = "Flex"
NOT_READY = frozenset(
    {
        "CALL", "CONCAT_EMBEDDINGS", "CUSTOM", "EMBEDDING_LOOKUP", "EMBEDDING_LOOKUP_SPARSE", "HASHTABLE_LOOKUP",
        "LSH_PROJECTION", "LSTM", "RESIZE_BILINEAR", "RNN", "SKIP_GRAM", "SVDF", "TANH",
    }
)  # fmt: skip
"""Operators that the guide calls present but not ready for custom models."""
ALIASES = {"CONV_2D_TRANSPOSE": "TRANSPOSE_CONV", "TOP_K": "TOPK_V2"}
"""The guide's names of operators, where the schema has others."""


class GuideStatus(Enum):
    """What the guide says of a TensorFlow operation."""

    MAPPED = "mapped"
    """Becomes a TFLite operator, under a condition."""
    REMOVED = "removed"
    """Usually removed, folded or fused while converting; not convertible where that fails and no operator exists."""
    UNSUPPORTED = "unsupported"
    """Said to be unsupported; later converters know it."""


@dataclass(frozen=True, slots=True)
class TensorFlowOperation:
    """One row of the guide. `operators` are the TFLite operators that it becomes today, () for none."""

    id: str
    name: str
    status: GuideStatus
    note: str
    operators: tuple[str, ...] = ()

    @property
    def runs_here(self) -> bool:
        """Whether the interpreter has kernels for all of them."""
        return all(operator in OPERATORS for operator in self.operators)


_MAPPED = (
    ("batch_to_space_nd", "input of rank 4, no crops", "BATCH_TO_SPACE_ND"),
    ("exp", "", "EXP"),
    ("fake_quant*", "records ranges for quantized conversion", "FAKE_QUANT"),
    ("matmul", "second argument constant, no transposition", "FULLY_CONNECTED"),
    ("nn.avg_pool", "", "AVERAGE_POOL_2D"),
    ("nn.conv2d", "filter constant", "CONV_2D"),
    ("nn.depthwise_conv2d", "filter constant, rate [1,1]", "DEPTHWISE_CONV_2D"),
    ("nn.l2_normalize", "along the last dimension", "L2_NORMALIZATION"),
    ("nn.local_response_normalization", "", "LOCAL_RESPONSE_NORMALIZATION"),
    ("nn.log_softmax", "axis not given", "LOG_SOFTMAX"),
    ("nn.max_pool", "", "MAX_POOL_2D"),
    ("nn.softmax", "rank 2, last axis", "SOFTMAX"),
    ("nn.top_k", "", "TOPK_V2"),
    ("one_hot", "", "ONE_HOT"),
    ("pad", "neither mode nor constant_values", "PAD"),
    ("reduce_mean", "no reduction_indices", "MEAN"),
    ("reshape", "", "RESHAPE"),
    ("sigmoid", "", "LOGISTIC"),
    ("space_to_batch_nd", "input of rank 4", "SPACE_TO_BATCH_ND"),
    ("space_to_depth", "", "SPACE_TO_DEPTH"),
    ("split", "num not given, num_or_size_splits a scalar count", "SPLIT"),
    ("squeeze", "axis not given", "SQUEEZE"),
    ("squared_difference", "", "SQUARED_DIFFERENCE"),
    ("strided_slice", "neither ellipsis_mask nor new_axis_mask", "STRIDED_SLICE"),
    ("transpose", "no conjugate", "TRANSPOSE"),
)
_REMOVED = (
    ("add", "fused as a bias, or folded", "ADD"),
    ("check_numerics", "removed", ""),
    ("constant", "becomes a constant tensor", ""),
    ("div", "folded, or fused as a factor of the weights", "DIV"),
    ("divide", "folded, or fused as a factor of the weights", "DIV"),
    ("fake_quant_with_min_max_args", "becomes the scale of a tensor", "FAKE_QUANT"),
    ("fake_quant_with_min_max_vars", "becomes the scale of a tensor", "FAKE_QUANT"),
    ("identity", "removed", ""),
    ("maximum", "fused into an activation", "MAXIMUM"),
    ("minimum", "fused into an activation", "MINIMUM"),
    ("multiply", "folded, or fused as a factor of the weights", "MUL"),
    ("no_op", "removed", ""),
    ("placeholder", "becomes an input tensor", ""),
    ("placeholder_with_default", "becomes an input or constant tensor", ""),
    ("realdiv", "folded, or fused as a factor of the weights", "DIV"),
    ("reduce_max", "folded", "REDUCE_MAX"),
    ("reduce_min", "folded", "REDUCE_MIN"),
    ("reduce_sum", "folded", "SUM"),
    ("rsqrt", "folded, e.g. in batch normalisation", "RSQRT"),
    ("shape", "folded where the shape is known", "SHAPE"),
    ("sqrt", "folded", "SQRT"),
    ("square", "folded", "SQUARE"),
    ("subtract", "folded, e.g. in batch normalisation", "SUB"),
    ("tile", "folded", "TILE"),
    ("nn.batch_norm_with_global_normalization", "fused into the convolution before it", ""),
    ("nn.bias_add", "fused into the operator before it", "ADD"),
    ("nn.fused_batch_norm", "fused into the convolution before it", ""),
    ("nn.relu", "fused into the operator before it", "RELU"),
    ("nn.relu6", "fused into the operator before it", "RELU6"),
)
_UNSUPPORTED = (
    ("depth_to_space", "has a TFLite operator today", "DEPTH_TO_SPACE"),
    ("image.resize_bilinear", "has a TFLite operator today", "RESIZE_BILINEAR"),
    ("tanh", "has a TFLite operator today", "TANH"),
)


def _rows(prefix: str, status: GuideStatus, table: Sequence[tuple[str, str, str]]) -> tuple[TensorFlowOperation, ...]:
    return tuple(
        TensorFlowOperation(f"{prefix}-{number}", name, status, note, (operator,) if operator else ())
        for number, (name, note, operator) in enumerate(table, 1)
    )


OPERATIONS = (
    *_rows("T-C", GuideStatus.MAPPED, _MAPPED),
    *_rows("T-R", GuideStatus.REMOVED, _REMOVED),
    *_rows("T-U", GuideStatus.UNSUPPORTED, _UNSUPPORTED),
)


def find_operations(names: Sequence[str]) -> tuple[TensorFlowOperation, ...]:
    """The rows of the given operations (`tf.` may lead the name), all if there are none. UserError for an unknown name."""
    if not names:
        return OPERATIONS
    known = {row.name.removesuffix("*"): row for row in OPERATIONS}
    operations = []
    for name in names:
        key = name.removeprefix("tf.")
        row = known.get(key) or next((row for row in OPERATIONS if row.name.rpartition(".")[2] == key), None)
        if row is None:
            raise UserError(f"tf-compat: operation must be one that the guide names (npu tf-compat lists them), got '{name}'")
        operations.append(row)
    return tuple(operations)


@dataclass(frozen=True, slots=True)
class Survivor:
    """An operator of a file that a plain TFLite runtime cannot run, or that the guide calls not ready."""

    subgraph: int
    index: int
    kind: str
    is_convertible: bool
    reason: str


def judge(model: Model) -> list[Survivor]:
    """What is wrong with the operators of a model: TensorFlow operations that survived, and operators without a kernel here."""
    survivors = []
    for subgraph, graph in enumerate(model.graphs):
        for index, op in enumerate(graph.ops):
            custom = op.custom_code or ""
            if custom.startswith(FLEX_PREFIX):
                name = custom.removeprefix(FLEX_PREFIX)
                reason = f"not convertible: TensorFlow operation {name} survived and has no TFLite equivalent"
                survivors.append(Survivor(subgraph, index, custom, False, reason))
            elif op.kind == "CUSTOM" and custom != "ethos-u" and find_custom(custom) is None:
                survivors.append(Survivor(subgraph, index, custom, True, "custom operator: needs a registered kernel"))
            elif op.kind != "CUSTOM" and op.kind not in OPERATORS:
                survivors.append(Survivor(subgraph, index, op.kind, True, "no CPU kernel here"))
    return survivors
