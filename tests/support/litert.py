"""LiteRT's reference kernels as the oracle of results."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from npu.graph.attributes import Conv2DOptions, FullyConnectedOptions, Padding, ReshapeOptions
from npu.graph.dtype import DType
from npu.graph.graph import ABSENT, Graph, Model, Op, Tensor
from npu.numerics.arrays import Array
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model

from tests.support.interpreters import run

_QUANTIZED = (DType.INT8, DType.UINT8, DType.INT16)


def run_reference(model: bytes, inputs: list[Array], *, fully_connected: Literal["litert", "npu"] = "litert") -> list[Array]:
    """Outputs of the first subgraph under LiteRT's reference kernels, in model order.

    `fully_connected="npu"` computes every quantized FULLY_CONNECTED as 1x1 CONV_2D, whose rounding is the hardware's;
    LiteRT's own reference kernel of FULLY_CONNECTED rounds once, in double precision.
    """
    content = model if fully_connected == "litert" else write_model(with_convolutions(read_model(model)))
    interpreter = Interpreter(
        model_content=content,
        experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
        num_threads=1,
        experimental_preserve_all_tensors=False,
    )
    for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
        if tuple(detail["shape"]) != np.shape(value):
            interpreter.resize_tensor_input(detail["index"], np.shape(value))
    return run(interpreter, inputs)


def random_inputs(model: bytes, seed: int) -> list[Array]:
    """Inputs of the first subgraph: integers over their whole range, floats from a normal distribution."""
    graph = read_model(model).graphs[0]
    generator = np.random.default_rng(seed)
    return [random_array(graph.tensors[index].shape, graph.tensors[index].dtype, generator) for index in graph.inputs]


def random_array(shape: tuple[int, ...], dtype: DType, generator: np.random.Generator) -> Array:
    numpy_type = dtype.numpy
    assert numpy_type is not None, f"no random {dtype}"
    if numpy_type.kind == "b":
        return generator.integers(0, 2, shape).astype(bool)
    if numpy_type.kind in "iu":
        limits = np.iinfo(numpy_type)
        return generator.integers(limits.min, limits.max, shape, numpy_type, endpoint=True)
    return generator.standard_normal(shape).astype(numpy_type)


def repaired(model: bytes) -> bytes:
    """The model in a form that LiteRT loads: vectors with a quantized dimension other than 0 get 0 (the reader does so)."""
    return write_model(read_model(model))


def with_convolutions(model: Model) -> Model:
    """The model with RESHAPE, 1x1 CONV_2D and RESHAPE in place of every quantized FULLY_CONNECTED."""
    return replace(model, graphs=tuple(_Rewrite(graph).graph() for graph in model.graphs))


class _Rewrite:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._tensors = list(graph.tensors)
        self._ops: list[Op] = []

    def graph(self) -> Graph:
        for op in self._graph.ops:
            if op.kind == "FULLY_CONNECTED" and self._is_quantized(op):
                self._convolution(op)
            else:
                self._ops.append(op)
        return replace(self._graph, tensors=tuple(self._tensors), ops=tuple(self._ops))

    def _is_quantized(self, op: Op) -> bool:
        return all(self._tensors[index].dtype in _QUANTIZED for index in (*op.inputs[:2], op.outputs[0]))

    def _add(self, tensor: Tensor) -> int:
        self._tensors.append(replace(tensor, shape_signature=None))
        return len(self._tensors) - 1

    def _reshape(self, source: int, target: int) -> None:
        self._ops.append(Op("RESHAPE", (source,), (target,), ReshapeOptions(self._tensors[target].shape)))

    def _convolution(self, op: Op) -> None:
        """FULLY_CONNECTED over the last axis: rows x depth to rows x units, as images of one column."""
        source, weights, target = self._tensors[op.inputs[0]], self._tensors[op.inputs[1]], self._tensors[op.outputs[0]]
        options = op.attributes if isinstance(op.attributes, FullyConnectedOptions) else FullyConnectedOptions()
        units, depth = weights.shape
        rows = source.elements // depth
        assert weights.data is not None, "the weights must be constant"
        ifm = self._add(replace(source, name=f"{source.name}_as_image", shape=(1, rows, 1, depth), data=None))
        kernel = self._add(
            replace(
                weights,
                name=f"{weights.name}_as_kernel",
                shape=(units, 1, 1, depth),
                data=weights.data.reshape(units, 1, 1, depth),
            )
        )
        bias = op.inputs[2] if len(op.inputs) > 2 and op.inputs[2] != ABSENT else self._zero_bias(source, weights, units)
        ofm = self._add(replace(target, name=f"{target.name}_as_image", shape=(1, rows, 1, units), data=None))
        self._reshape(op.inputs[0], ifm)
        attributes = Conv2DOptions(
            padding=Padding.VALID,
            stride_w=1,
            stride_h=1,
            fused_activation_function=options.fused_activation_function,
        )
        version = 4 if source.dtype is DType.INT16 else 3
        self._ops.append(Op("CONV_2D", (ifm, kernel, bias), (ofm,), attributes, version))
        self._reshape(ofm, op.outputs[0])

    def _zero_bias(self, source: Tensor, weights: Tensor, units: int) -> int:
        dtype = DType.INT64 if source.dtype is DType.INT16 else DType.INT32
        return self._add(Tensor("zero_bias", (units,), dtype, data=np.zeros(units, dtype.numpy)))
