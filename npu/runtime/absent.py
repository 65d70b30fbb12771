"""Builtin operators of the TFLite schema that the interpreter has no kernel for.

Known without importing the kernels, for those who only look at a model.
"""

from __future__ import annotations

_KINDS = frozenset({
    "ADD_N", "ATAN2", "BITCAST", "BITWISE_XOR", "BROADCAST_ARGS", "BUCKETIZE", "COMPLEX_ABS", "CONCAT_EMBEDDINGS",
    "CONV_3D", "CONV_3D_TRANSPOSE", "DELEGATE", "DILATE", "HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT",
    "HASHTABLE_SIZE", "IMAG", "MATRIX_DIAG", "MATRIX_SET_DIAG", "MULTINOMIAL", "NON_MAX_SUPPRESSION_V4",
    "NON_MAX_SUPPRESSION_V5", "PLACEHOLDER_FOR_GREATER_OP_CODES", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "REAL",
    "REDUCE_WINDOW", "RELU_0_TO_1", "REVERSE_SEQUENCE", "RFFT2D", "RIGHT_SHIFT", "SEGMENT_SUM", "UNIQUE",
    "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN", "UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_SUM",
})  # fmt: skip
_FAMILIES = ("STABLEHLO_", "UNKNOWN_")


def has_no_kernel(kind: str) -> bool:
    """Whether the interpreter refuses a builtin operator of this kind."""
    return kind in _KINDS or kind.startswith(_FAMILIES)
