"""Builds small TFLite models for tests, operator by operator, through the project's writer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from npu.graph.attributes import Attributes
from npu.graph.dtype import DType
from npu.graph.graph import ABSENT, Graph, Model, Op, Quantization, Signature, Tensor
from npu.tflite.writer import write_model

DTYPES = {np.dtype(dtype.numpy): dtype for dtype in DType if dtype.numpy is not None}
"""The element type of a numpy type."""

Shape = Sequence[int]


class ModelBuilder:
    """One subgraph under construction; every method that adds a tensor returns its index.

    >>> b = ModelBuilder()
    >>> x = b.input((1, 8, 8, 16), DType.INT8, scale=0.1, zero_point=-3)
    >>> y = b.op("RELU", [x], (1, 8, 8, 16), DType.INT8, scale=0.1, zero_point=-3)
    >>> b.output(y)
    >>> data = b.build()
    """

    def __init__(self, name: str = "main") -> None:
        self.name = name
        self.tensors: list[Tensor] = []
        self.ops: list[Op] = []
        self.inputs: list[int] = []
        self.outputs: list[int] = []
        self.signatures: list[Signature] = []
        self.metadata: dict[str, bytes] = {}
        self.more_graphs: list[Graph] = []

    def tensor(
        self,
        shape: Shape,
        dtype: DType,
        *,
        scale: float | Sequence[float] | None = None,
        zero_point: int | Sequence[int] = 0,
        axis: int = 0,
        data: npt.NDArray[Any] | None = None,
        name: str | None = None,
        is_variable: bool = False,
        shape_signature: Shape | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> int:
        """Adds a tensor of any sort."""
        self.tensors.append(
            Tensor(
                name=f"t{len(self.tensors)}" if name is None else name,
                shape=tuple(int(size) for size in shape),
                dtype=dtype,
                quantization=None if scale is None else quantization(scale, zero_point, axis),
                data=data,
                is_variable=is_variable,
                shape_signature=None if shape_signature is None else tuple(shape_signature),
                extra=extra or {},
            )
        )
        return len(self.tensors) - 1

    def input(self, shape: Shape, dtype: DType, **options: Any) -> int:
        """Adds an input of the graph; options as for `tensor`."""
        index = self.tensor(shape, dtype, **options)
        self.inputs.append(index)
        return index

    def variable(self, shape: Shape, dtype: DType, **options: Any) -> int:
        """Adds a variable tensor (the state of an SVDF or LSTM), which starts at zero."""
        return self.tensor(shape, dtype, is_variable=True, **options)

    def constant(self, data: npt.ArrayLike, dtype: DType | None = None, **options: Any) -> int:
        """Adds a constant; its element type follows from the array unless given. Options as for `tensor`."""
        array = np.ascontiguousarray(data).reshape(np.shape(data))
        found = dtype or DTYPES[array.dtype]
        return self.tensor(array.shape, found, data=array.astype(found.numpy), **options)

    def op(
        self,
        kind: str,
        inputs: Sequence[int | None],
        shape: Shape,
        dtype: DType,
        scale: float | Sequence[float] | None = None,
        zero_point: int | Sequence[int] = 0,
        *,
        attributes: Attributes | None = None,
        version: int | None = None,
        custom_code: str | None = None,
        custom_options: bytes = b"",
        **options: Any,
    ) -> int:
        """Adds an operator with one output of the given shape and type; None among the inputs is an absent one."""
        output = self.tensor(shape, dtype, scale=scale, zero_point=zero_point, **options)
        self.multi_op(
            kind,
            inputs,
            [output],
            attributes=attributes,
            version=version,
            custom_code=custom_code,
            custom_options=custom_options,
        )
        return output

    def multi_op(
        self,
        kind: str,
        inputs: Sequence[int | None],
        outputs: Sequence[int],
        *,
        attributes: Attributes | None = None,
        version: int | None = None,
        custom_code: str | None = None,
        custom_options: bytes = b"",
        intermediates: Sequence[int] = (),
    ) -> None:
        """Adds an operator whose output tensors exist already. The version is the lowest that knows the types, if not given."""
        given = tuple(ABSENT if index is None else int(index) for index in inputs)
        types = [None if index == ABSENT else self.tensors[index].dtype for index in given]
        self.ops.append(
            Op(
                kind=kind,
                inputs=given,
                outputs=tuple(outputs),
                attributes=attributes,
                version=version or default_version(kind, types),
                custom_code=custom_code,
                custom_options=custom_options,
                intermediates=tuple(intermediates),
            )
        )

    def output(self, *indices: int) -> None:
        """Makes tensors outputs of the graph."""
        self.outputs.extend(indices)

    def signature(self, key: str, inputs: Mapping[str, int], outputs: Mapping[str, int], graph: int = 0) -> None:
        self.signatures.append(Signature(key, graph, dict(inputs), dict(outputs)))

    def subgraph(self, other: ModelBuilder) -> int:
        """Adds another builder's graph as a further subgraph; returns its index."""
        self.more_graphs.append(other.graph())
        return len(self.more_graphs)

    def graph(self) -> Graph:
        return Graph(self.name, tuple(self.tensors), tuple(self.ops), tuple(self.inputs), tuple(self.outputs))

    def model(self) -> Model:
        return Model(
            graphs=(self.graph(), *self.more_graphs),
            signatures=tuple(self.signatures),
            metadata=dict(self.metadata),
            description="built for a test",
        )

    def build(self) -> bytes:
        """The bytes of the model file."""
        return write_model(self.model())


def quantization(scale: float | Sequence[float], zero_point: int | Sequence[int] = 0, axis: int = 0) -> Quantization:
    """Affine quantization parameters, with one zero point for each scale."""
    scales = np.atleast_1d(np.asarray(scale, np.float32))
    zero_points = np.broadcast_to(np.atleast_1d(np.asarray(zero_point, np.int64)), scales.shape)
    return Quantization(scales, np.array(zero_points), axis)


def default_version(kind: str, types: Sequence[DType | None]) -> int:
    """A version of the operator that LiteRT's reference kernels have and that knows the types of its inputs."""
    first = next((dtype for dtype in types if dtype is not None), None)
    versions = VERSIONS.get(kind, {})
    return versions.get(first, versions.get(None, 1))


_2_AND_3 = {DType.INT8: 2, DType.INT16: 3}
_2_AND_4 = {DType.INT8: 2, DType.INT16: 4}
VERSIONS: dict[str, dict[DType | None, int]] = {
    "CONV_2D": {DType.INT8: 3, DType.INT16: 4},
    "DEPTHWISE_CONV_2D": {DType.INT8: 3, DType.INT16: 5, None: 2},
    "TRANSPOSE_CONV": {DType.INT8: 3, DType.INT16: 3},
    "FULLY_CONNECTED": {DType.INT8: 4, DType.INT16: 4},
    "ADD": {DType.INT8: 2, DType.INT16: 2},
    "SUB": _2_AND_3,
    "MUL": _2_AND_4,
    "AVERAGE_POOL_2D": _2_AND_3,
    "MAX_POOL_2D": _2_AND_3,
    "SOFTMAX": _2_AND_3,
    "LOGISTIC": _2_AND_3,
    "TANH": _2_AND_3,
    "RELU": _2_AND_3,
    "RELU6": _2_AND_3,
    "LEAKY_RELU": {DType.INT8: 2, DType.INT16: 2},
    "MEAN": _2_AND_3,
    "PAD": _2_AND_3,
    "PADV2": _2_AND_3,
    "CONCATENATION": _2_AND_3,
    "RESIZE_BILINEAR": _2_AND_3,
    "RESIZE_NEAREST_NEIGHBOR": _2_AND_3,
    "MAXIMUM": _2_AND_3,
    "MINIMUM": _2_AND_3,
    "QUANTIZE": {DType.INT8: 2, DType.UINT8: 2, DType.INT16: 2},
    "DEQUANTIZE": _2_AND_3,
    "STRIDED_SLICE": _2_AND_4,
    "SPLIT": _2_AND_4,
    "TRANSPOSE": _2_AND_4,
    "SLICE": _2_AND_3,
    "GATHER": _2_AND_4,
    "PACK": _2_AND_3,
    "UNPACK": _2_AND_3,
    "BATCH_MATMUL": _2_AND_3,
    "MIRROR_PAD": _2_AND_3,
    "SVDF": {DType.INT8: 3},
    "UNIDIRECTIONAL_SEQUENCE_LSTM": {DType.INT8: 3, DType.INT16: 3},
    "ARG_MAX": {DType.INT8: 2},
    "ARG_MIN": {DType.INT8: 2},
}
"""Operator versions by the type of the first input; None: of any other type. Operators that are not here have version 1."""
