"""The operators that an application registers with TensorFlow Lite Micro's `MicroMutableOpResolver`.

Source of the names: the public methods of tensorflow/lite/micro/micro_mutable_op_resolver.h (commit 933f830).
"""

from __future__ import annotations

from npu.errors import ModelError
from npu.graph.ethos_u import CUSTOM_CODE
from npu.graph.graph import Model
from npu.records import dataclass

# fmt: off
_KERNELS = frozenset((
    "ABS", "ADD", "ADD_N", "ARG_MAX", "ARG_MIN", "ASSIGN_VARIABLE", "AVERAGE_POOL_2D", "BATCH_MATMUL", "BATCH_TO_SPACE_ND",
    "BROADCAST_ARGS", "BROADCAST_TO", "CALL_ONCE", "CAST", "CEIL", "CONCATENATION", "CONV_2D", "COS", "CUMSUM",
    "DEPTHWISE_CONV_2D", "DEPTH_TO_SPACE", "DEQUANTIZE", "DIV", "DYNAMIC_UPDATE_SLICE", "ELU", "EMBEDDING_LOOKUP", "EQUAL",
    "EXP", "EXPAND_DIMS", "FILL", "FLOOR", "FLOOR_DIV", "FLOOR_MOD", "FULLY_CONNECTED", "GATHER", "GATHER_ND", "GREATER",
    "GREATER_EQUAL", "HARD_SWISH", "IF", "L2_NORMALIZATION", "L2_POOL_2D", "LEAKY_RELU", "LESS", "LESS_EQUAL", "LOG",
    "LOGICAL_AND", "LOGICAL_NOT", "LOGICAL_OR", "LOGISTIC", "LOG_SOFTMAX", "MAXIMUM", "MAX_POOL_2D", "MEAN", "MINIMUM",
    "MIRROR_PAD", "MUL", "NEG", "NOT_EQUAL", "PACK", "PAD", "PADV2", "PRELU", "QUANTIZE", "READ_VARIABLE", "REDUCE_ALL",
    "REDUCE_MAX", "REDUCE_MIN", "RELU", "RELU6", "RESHAPE", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "REVERSE_V2",
    "ROUND", "RSQRT", "SELECT_V2", "SHAPE", "SIN", "SLICE", "SOFTMAX", "SPACE_TO_BATCH_ND", "SPACE_TO_DEPTH", "SPLIT",
    "SPLIT_V", "SQRT", "SQUARE", "SQUARED_DIFFERENCE", "SQUEEZE", "STRIDED_SLICE", "SUB", "SUM", "SVDF", "TANH",
    "TRANSPOSE", "TRANSPOSE_CONV", "UNIDIRECTIONAL_SEQUENCE_LSTM", "UNPACK", "VAR_HANDLE", "WHILE", "ZEROS_LIKE",
))
# fmt: on
"""Builtin operators that TensorFlow Lite Micro has."""
_METHODS = {
    "BATCH_MATMUL": "AddBatchMatMul",
    "CUMSUM": "AddCumSum",
    "PADV2": "AddPadV2",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "AddUnidirectionalSequenceLSTM",
}
"""Methods whose names do not follow from the operator's."""
_CUSTOM_METHODS = {CUSTOM_CODE: "AddEthosU", "TFLite_Detection_PostProcess": "AddDetectionPostprocess"}


@dataclass(frozen=True, slots=True)
class ResolverEntry:
    """One operator of a model. Without a `method` the application brings the kernel: a custom operator of its own."""

    name: str
    versions: tuple[int, ...]
    method: str | None


def registrations(model: Model) -> tuple[ResolverEntry, ...]:
    """The operators of a model, each once, by name. ModelError for a builtin that TensorFlow Lite Micro lacks."""
    versions: dict[tuple[str, str], set[int]] = {}
    for graph in model.graphs:
        for op in graph.ops:
            versions.setdefault((op.kind, op.name), set()).add(op.version)
    lacking = sorted({kind for kind, _ in versions} - _KERNELS - {"CUSTOM"})
    if lacking:
        raise ModelError(
            f"export: every operator left on the CPU must be one that TensorFlow Lite Micro has, got {', '.join(lacking)}; "
            "npu check tells why the NPU does not take them"
        )
    rows = (ResolverEntry(name, tuple(sorted(used)), method_of(kind, name)) for (kind, name), used in versions.items())
    return tuple(sorted(rows, key=lambda row: row.name))


def method_of(kind: str, name: str) -> str | None:
    """The resolver's method that adds an operator, None for a custom operator of the application."""
    if kind == "CUSTOM":
        return _CUSTOM_METHODS.get(name)
    words = "".join(word.capitalize() for word in kind.split("_"))
    return _METHODS.get(kind, f"Add{words}".replace("2d", "2D"))
