"""Tensor descriptions as the dictionaries that scripts written for LiteRT expect."""

from __future__ import annotations

from typing import Any

import numpy as np

from npu.graph.dtype import DType
from npu.runtime.subgraph import Subgraph
from npu.runtime.tensor import RuntimeTensor


def tensor_details(tensor: RuntimeTensor) -> dict[str, Any]:
    """A tensor as the dictionary that LiteRT scripts expect."""
    quantization = tensor.quantization
    quantized = tensor.is_quantized
    scales = quantization.scales if quantization is not None and quantized else np.array([], np.float32)
    zero_points = quantization.zero_points if quantization is not None and quantized else np.array([], np.int64)
    signature = tensor.source.shape_signature
    return {
        "name": tensor.name,
        "index": tensor.index,
        "shape": np.array(tensor.shape, np.int32),
        "shape_signature": np.array(signature if signature else tensor.shape, np.int32),
        "dtype": _scalar_type(tensor.dtype),
        "quantization": (tensor.scale, tensor.zero_point) if scales.size == 1 else (0.0, 0),
        "quantization_parameters": {
            "scales": scales.astype(np.float32),
            "zero_points": zero_points.astype(np.int32),
            "quantized_dimension": quantization.axis if quantization is not None and quantized else 0,
            "block_size": 0,
        },
        "sparsity_parameters": {},
    }


def operator_details(graph: Subgraph, index: int) -> dict[str, Any]:
    """A node as the dictionary that LiteRT scripts expect: name, tensor numbers (-1 where absent) and their types."""
    node, registration = graph.get_node_and_registration(index)
    return {
        "index": index,
        "op_name": registration.custom_name or registration.builtin_code,
        "inputs": np.array(node.inputs, np.int32),
        "outputs": np.array(node.outputs, np.int32),
        "operand_types": [_scalar_type(graph.tensors[i].dtype) for i in node.inputs if i >= 0],
        "result_types": [_scalar_type(graph.tensors[i].dtype) for i in node.outputs if i >= 0],
    }


def _scalar_type(dtype: DType) -> Any:
    if dtype is DType.STRING:
        return np.bytes_
    return dtype.numpy.type if dtype.numpy is not None else np.void
