"""A .tflite file of a graph, written with LiteRT's own object API: an oracle must not read what the product's writer wrote."""

from __future__ import annotations

import warnings
from dataclasses import fields
from enum import Enum
from typing import Any

import flatbuffers
import numpy as np

from npu.graph.graph import Graph, Op, Tensor

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from ai_edge_litert import schema_py_generated as schema


def graph_bytes(graph: Graph) -> bytes:
    """The file contents of a model with this one graph."""
    model = schema.ModelT()
    model.version = 3
    model.description = ""
    model.buffers = [schema.BufferT()]
    model.operatorCodes = []
    model.metadata, model.signatureDefs = [], []
    subgraph = schema.SubGraphT()
    subgraph.name = graph.name
    subgraph.inputs, subgraph.outputs = list(graph.inputs), list(graph.outputs)
    subgraph.tensors = [_tensor(t, model.buffers) for t in graph.tensors]
    kinds = list(dict.fromkeys((op.kind, op.version) for op in graph.ops))
    for kind, version in kinds:
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, kind)
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        code.version = version
        model.operatorCodes.append(code)
    subgraph.operators = [_operator(op, kinds.index((op.kind, op.version))) for op in graph.ops]
    model.subgraphs = [subgraph]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _tensor(tensor: Tensor, buffers: list[Any]) -> Any:
    out = schema.TensorT()
    out.name = tensor.name
    out.shape = list(tensor.shape)
    out.type = tensor.dtype.value
    if tensor.data is not None:
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(tensor.data).tobytes(), np.uint8)
        out.buffer = len(buffers)
        buffers.append(buffer)
    if tensor.quantization is not None:
        out.quantization = schema.QuantizationParametersT()
        out.quantization.scale = tensor.quantization.scales
        out.quantization.zeroPoint = tensor.quantization.zero_points
        out.quantization.quantizedDimension = tensor.quantization.axis
    return out


def _operator(op: Op, code: int) -> Any:
    out = schema.OperatorT()
    out.opcodeIndex = code
    out.inputs, out.outputs = list(op.inputs), list(op.outputs)
    if op.attributes is not None:
        name = type(op.attributes).__name__
        options = getattr(schema, f"{name}T")()
        for field in fields(op.attributes):
            head, *rest = field.name.split("_")
            value = getattr(op.attributes, field.name)
            value = value.value if isinstance(value, Enum) else value
            target = head + "".join(part.title() for part in rest)
            if hasattr(options, target):
                setattr(options, target, list(value) if isinstance(value, tuple) else value)
        out.builtinOptions = options
        out.builtinOptionsType = getattr(schema.BuiltinOptions, name)
    return out
