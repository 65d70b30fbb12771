"""The one table of operators that the interpreter can run: kind to implementation with its type combinations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from npu.errors import InterpreterError
from npu.runtime.custom import CustomOperator, find_custom_operator
from npu.runtime.implementation import Implementation

_KINDS = {
    "convolution": "CONV_2D DEPTHWISE_CONV_2D TRANSPOSE_CONV",
    "pooling": "AVERAGE_POOL_2D MAX_POOL_2D L2_POOL_2D",
    "fully_connected": "FULLY_CONNECTED BATCH_MATMUL",
    "activation": (
        "LOGISTIC TANH RELU RELU6 RELU_N1_TO_1 RELU_0_TO_1 LEAKY_RELU PRELU ELU HARD_SWISH GELU SOFTMAX LOG_SOFTMAX"
    ),
    "arithmetic": (
        "ADD SUB MUL DIV SQUARED_DIFFERENCE MAXIMUM MINIMUM FLOOR_DIV FLOOR_MOD ADD_N ATAN2 BITWISE_XOR RIGHT_SHIFT POW"
    ),
    "shape": "RESHAPE SQUEEZE EXPAND_DIMS SHAPE RANK FILL RANGE ZEROS_LIKE BROADCAST_TO BROADCAST_ARGS ONE_HOT",
    "reduction": "MEAN SUM REDUCE_PROD REDUCE_MAX REDUCE_MIN REDUCE_ANY REDUCE_ALL ARG_MAX ARG_MIN TOPK_V2 CUMSUM",
    "quantize": "QUANTIZE DEQUANTIZE CAST FAKE_QUANT DENSIFY",
    "slicing": "SLICE STRIDED_SLICE DYNAMIC_UPDATE_SLICE",
    "elementwise": "ABS NEG SQUARE SQRT RSQRT EXP LOG SIN COS CEIL FLOOR ROUND SIGN LOGICAL_NOT",
    "resize": "RESIZE_NEAREST_NEIGHBOR RESIZE_BILINEAR",
    "gather": "GATHER GATHER_ND SELECT SELECT_V2 WHERE UNIQUE BUCKETIZE SCATTER_ND SPARSE_TO_DENSE",
    "layout": (
        "CONCATENATION PACK UNPACK SPLIT SPLIT_V TRANSPOSE PAD PADV2 MIRROR_PAD DEPTH_TO_SPACE SPACE_TO_DEPTH "
        "SPACE_TO_BATCH_ND BATCH_TO_SPACE_ND REVERSE_V2 REVERSE_SEQUENCE MATRIX_DIAG MATRIX_SET_DIAG TILE"
    ),
    "comparison": "EQUAL NOT_EQUAL GREATER GREATER_EQUAL LESS LESS_EQUAL LOGICAL_AND LOGICAL_OR",
    "control": "IF WHILE CALL CALL_ONCE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE",
    "normalization": "L2_NORMALIZATION LOCAL_RESPONSE_NORMALIZATION",
    "embedding": "EMBEDDING_LOOKUP EMBEDDING_LOOKUP_SPARSE HASHTABLE_LOOKUP",
    "lstm": "LSTM UNIDIRECTIONAL_SEQUENCE_LSTM BIDIRECTIONAL_SEQUENCE_LSTM",
    "rnn": "RNN UNIDIRECTIONAL_SEQUENCE_RNN BIDIRECTIONAL_SEQUENCE_RNN",
    "svdf": "SVDF",
    "text": "LSH_PROJECTION SKIP_GRAM",
    "suppression": "NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5",
    "spectrum": "RFFT2D REAL IMAG COMPLEX_ABS",
    "segments": "SEGMENT_SUM UNSORTED_SEGMENT_SUM UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_MIN",
}
"""Kinds of operators by the module that has their rows, so that a model imports the modules of its own operators only."""
_MODULES = {kind: module for module, kinds in _KINDS.items() for kind in kinds.split()}
_CUSTOM_MODULES = ("npu.runtime.operators.detection", "npu.runtime.operators.executorch")


class _Operators(Mapping[str, Implementation]):
    """Rows by kind; a module is imported when one of its kinds is asked for."""

    def __init__(self) -> None:
        self._rows: dict[str, Implementation] = {}

    def __getitem__(self, kind: str) -> Implementation:
        if kind not in self._rows:
            rows = import_module(f"npu.runtime.operators.{_MODULES[kind]}").OPERATORS
            self._rows.update({row.kind: row for row in rows})
        return self._rows[kind]

    def __contains__(self, kind: object) -> bool:
        return kind in _MODULES

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


OPERATORS: Mapping[str, Implementation] = _Operators()


def find_operator(kind: str, label: str) -> Implementation:
    """The implementation of an operator; InterpreterError if there is none."""
    if kind not in OPERATORS:
        raise InterpreterError(f"{label}: must be an operator that has a CPU kernel, got {kind}")
    return OPERATORS[kind]


def find_custom(name: str) -> CustomOperator | None:
    """The kernel of a custom operator: one that was registered, else one of this project, None if there is neither."""
    registered = find_custom_operator(name)
    if registered is not None:
        return registered
    for module in _CUSTOM_MODULES:
        operators: Mapping[str, CustomOperator] = import_module(module).CUSTOM_OPERATORS
        if name in operators:
            return operators[name]
    return None
