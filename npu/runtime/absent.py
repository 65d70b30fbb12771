"""Builtin operators of the TFLite schema that the interpreter has no kernel for.

Known without importing the kernels, for those who only look at a model.
"""

from __future__ import annotations

_KINDS = frozenset({
    "BITCAST", "CONCAT_EMBEDDINGS", "CONV_3D", "CONV_3D_TRANSPOSE", "DELEGATE", "DILATE", "HASHTABLE", "HASHTABLE_FIND",
    "HASHTABLE_IMPORT", "HASHTABLE_SIZE", "MULTINOMIAL", "PLACEHOLDER_FOR_GREATER_OP_CODES", "RANDOM_STANDARD_NORMAL",
    "RANDOM_UNIFORM", "REDUCE_WINDOW",
})  # fmt: skip
_FAMILIES = ("STABLEHLO_", "UNKNOWN_")


def has_no_kernel(kind: str) -> bool:
    """Whether the interpreter refuses a builtin operator of this kind."""
    return kind in _KINDS or kind.startswith(_FAMILIES)
