"""What a subgraph makes of the operators and types of a file: nodes, options with the schema's defaults, numpy types."""

from __future__ import annotations

from typing import Any

import numpy as np

from npu.errors import InterpreterError
from npu.graph.dtype import DType
from npu.graph.graph import Op
from npu.graph.ops import BY_NAME
from npu.runtime.delegate import Node

_WITHOUT_NUMPY = {DType.STRING, DType.RESOURCE, DType.VARIANT}


def node_of(index: int, op: Op) -> Node:
    """Operator `index` of a file."""
    return Node(
        index=index,
        inputs=op.inputs,
        outputs=op.outputs,
        attributes=op.attributes,
        custom_options=op.custom_options,
        intermediates=op.intermediates,
        name=op.name,
    )


def attributes_of(op: Op, label: str) -> Any:
    """The options of an operator, the schema's defaults where the file has none."""
    row = BY_NAME.get(op.kind)
    if row is None or row.attributes is None:
        return op.attributes
    if op.attributes is not None and not isinstance(op.attributes, row.attributes):
        raise InterpreterError(f"{label}: must have {row.attributes.__name__}, got {type(op.attributes).__name__}")
    return row.attributes() if op.attributes is None else op.attributes


def storage_of(dtype: DType) -> np.dtype[Any]:
    """The numpy type of a tensor's buffer: objects for strings and the like, uint16 for bfloat16, bytes for packed integers."""
    if dtype in _WITHOUT_NUMPY:
        return np.dtype(object)
    return dtype.numpy or (np.dtype(np.uint16) if dtype is DType.BFLOAT16 else np.dtype(np.int8))
