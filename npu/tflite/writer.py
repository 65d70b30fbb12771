"""`Model` to TFLite file; the only place that makes the file's tables. The same model always gives the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from npu.digests import blake2b
from npu.errors import ModelError
from npu.graph.attributes import Attributes, CustomOptionsFormat
from npu.graph.attributes_2 import BUILTIN_OPTIONS_2
from npu.graph.graph import Graph, Model, Op, Signature, Tensor
from npu.graph.ops import code_of_kind
from npu.graph.wire import UnknownMember
from npu.tflite.flatbuffer import TableWriter
from npu.tflite.schema import (
    BUFFER_ALIGNMENT,
    GREATER_OP_CODES,
    IDENTIFIER,
    Buffer,
    MetadataTable,
    ModelTable,
    OperatorCode,
    OperatorTable,
    QuantizationParameters,
    SignatureDef,
    SubGraphTable,
    TensorMap,
    TensorTable,
)

MAX_FILE_BYTES = (1 << 31) - 1
"""What the signed and unsigned 32-bit offsets of a flatbuffer reach."""


def write_model(model: Model) -> bytes:
    """The bytes of a TFLite file: equal constants share a buffer, every buffer starts on a multiple of 16 bytes.

    Raises ModelError for a model of more than 2 GiB, and for values that the format cannot hold.
    """
    return _ModelWriter(model).file()


class _ModelWriter:
    """State of writing one model: the operator codes and buffers that its tables refer to by index."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._codes: dict[tuple[str, str | None, int], int] = {}
        self._buffers: dict[bytes, int] = {b"": 0}
        self._contents: list[npt.NDArray[np.uint8] | None] = [None]

    def file(self) -> bytes:
        model = self._model
        subgraphs = tuple(self._graph(graph) for graph in model.graphs)
        metadata = tuple(
            MetadataTable(name, self._buffer(np.frombuffer(contents, np.uint8))) for name, contents in model.metadata.items()
        )
        root = ModelTable(
            version=model.version,
            operator_codes=tuple(_operator_code(*key) for key in self._codes),
            subgraphs=subgraphs,
            description=model.description,
            buffers=tuple(Buffer(data) for data in self._contents),
            metadata_buffer=model.extra.get("metadata_buffer"),
            metadata=metadata,
            signature_defs=tuple(_signature(signature) for signature in model.signatures),
            external_buffer_groups=model.extra.get("external_buffer_groups", ()),
            external_buffers=model.extra.get("external_buffers", ()),
        )
        constant_bytes = sum(data.size for data in self._contents if data is not None)
        if constant_bytes > MAX_FILE_BYTES:
            raise ModelError(f"model: must have at most {MAX_FILE_BYTES} bytes of constants, got {constant_bytes}")
        data = TableWriter(BUFFER_ALIGNMENT).file(root, IDENTIFIER)
        if len(data) > MAX_FILE_BYTES:
            raise ModelError(f"model: file must have at most {MAX_FILE_BYTES} bytes, got {len(data)}")
        return data

    def _graph(self, graph: Graph) -> SubGraphTable:
        return SubGraphTable(
            tensors=tuple(self._tensor(tensor) for tensor in graph.tensors),
            inputs=graph.inputs,
            outputs=graph.outputs,
            operators=tuple(self._op(op) for op in graph.ops),
            name=graph.name,
            debug_metadata_index=graph.extra.get("debug_metadata_index", -1),
        )

    def _tensor(self, tensor: Tensor) -> TensorTable:
        extra = tensor.extra
        return TensorTable(
            shape=tensor.shape,
            type=tensor.dtype,
            buffer=0 if tensor.data is None else self._buffer(_bytes_of(tensor.data), is_constant=True),
            name=tensor.name,
            quantization=_quantization(tensor),
            is_variable=tensor.is_variable,
            sparsity=extra.get("sparsity"),
            shape_signature=tensor.shape_signature,
            has_rank=tensor.has_rank,
            variant_tensors=extra.get("variant_tensors"),
            external_buffer=extra.get("external_buffer", 0),
        )

    def _buffer(self, data: npt.NDArray[np.uint8], *, is_constant: bool = False) -> int:
        """Index of the buffer with these contents; a constant without elements has an empty buffer of its own, not none."""
        key = blake2b(data.data).digest() if data.size or is_constant else b""
        if key not in self._buffers:
            self._buffers[key] = len(self._contents)
            self._contents.append(data)
        return self._buffers[key]

    def _op(self, op: Op) -> OperatorTable:
        extra = op.extra
        first, second = _options(op)
        return OperatorTable(
            opcode_index=self._codes.setdefault((op.kind, op.custom_code, op.version), len(self._codes)),
            inputs=op.inputs,
            outputs=op.outputs,
            builtin_options=first,
            custom_options=op.custom_options,
            custom_options_format=extra.get("custom_options_format", CustomOptionsFormat.FLEXBUFFERS),
            mutating_variable_inputs=extra.get("mutating_variable_inputs"),
            intermediates=op.intermediates or None,
            builtin_options_2=second,
            debug_metadata_index=extra.get("debug_metadata_index", -1),
        )


def _bytes_of(data: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(data).reshape(-1).view(np.uint8)


def _operator_code(kind: str, custom_code: str | None, version: int) -> OperatorCode:
    """Old readers know only the deprecated byte, which holds codes up to 126 itself."""
    try:
        code = code_of_kind(kind)
    except KeyError:
        raise ModelError(f"operator kind must be in the TFLite schema, got {kind!r}") from None
    return OperatorCode(min(code, GREATER_OP_CODES), custom_code or "", version, code)


def _quantization(tensor: Tensor) -> QuantizationParameters | None:
    quantization = tensor.quantization
    if quantization is None:
        kept: QuantizationParameters | None = tensor.extra.get("quantization")
        return kept
    return QuantizationParameters(
        min=quantization.minimum,
        max=quantization.maximum,
        scale=np.asarray(quantization.scales, np.float32).reshape(-1),
        zero_point=np.asarray(quantization.zero_points, np.int64).reshape(-1),
        details=tensor.extra.get("details"),
        quantized_dimension=quantization.axis,
    )


def _options(op: Op) -> tuple[Attributes | UnknownMember | None, Attributes | UnknownMember | None]:
    """The members of the two options unions."""
    first: Attributes | UnknownMember | None = op.extra.get("builtin_options")
    second: Attributes | UnknownMember | None = None
    if type(op.attributes) in BUILTIN_OPTIONS_2:
        second = op.attributes
    elif op.attributes is not None:
        first = op.attributes
    if first is None and "unknown_options" in op.extra:
        first = UnknownMember(op.extra["unknown_options"])
    if second is None and "unknown_options_2" in op.extra:
        second = UnknownMember(op.extra["unknown_options_2"])
    return first, second


def _signature(signature: Signature) -> SignatureDef:
    return SignatureDef(
        inputs=_arguments(signature.inputs),
        outputs=_arguments(signature.outputs),
        signature_key=signature.key,
        subgraph_index=signature.graph,
    )


def _arguments(entries: Mapping[str, int]) -> tuple[TensorMap, ...]:
    return tuple(TensorMap(name, tensor) for name, tensor in entries.items())
