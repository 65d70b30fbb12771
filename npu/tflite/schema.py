"""The tables of a TFLite file around the options: the only place that lists them, for reader and writer alike.

Declared as in `npu.graph.attributes`: class and field names are the schema's, fields in schema order. None stands for a
vector or table that the file leaves out.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt

from npu.graph.attributes import BUILTIN_OPTIONS, Attributes, CustomOptionsFormat, tensor_type
from npu.graph.attributes_2 import BUILTIN_OPTIONS_2
from npu.graph.dtype import DType
from npu.graph.wire import (
    NumberArray,
    NumberField,
    SubTable,
    SubTables,
    Table,
    UnionMember,
    UnknownMember,
    Vector,
    blob,
    boolean,
    i8,
    i32,
    text,
    u32,
    u64,
)

IDENTIFIER = b"TFL3"
"""File identifier at byte 4."""
VERSION = 3
"""The only schema version in use."""
BUFFER_ALIGNMENT = 16
"""Alignment in bytes that TFLite asks of tensor data."""
GREATER_OP_CODES = 127
"""OperatorCode.deprecated_builtin_code of operators whose code does not fit it."""

optional_i32s = Annotated[tuple[int, ...] | None, Vector("int32")]
optional_booleans = Annotated[tuple[bool, ...] | None, Vector("bool")]
bytes_view = Annotated[npt.NDArray[np.uint8] | None, NumberArray("uint8")]
f32_view = Annotated[npt.NDArray[np.float32] | None, NumberArray("float32")]
i64_view = Annotated[npt.NDArray[np.int64] | None, NumberArray("int64")]


class DimensionType(IntEnum):
    """How one dimension of a sparse tensor is stored."""

    DENSE = 0
    SPARSE_CSR = 1


class CustomQuantization(Table):
    custom: blob = b""


class BlockwiseQuantization(Table):
    scales: i32 = 0
    zero_points: i32 = 0
    block_size: i32 = 0
    block_shape: optional_i32s = None


class MultiAxisQuantization(Table):
    scales: i32 = 0
    zero_points: i32 = 0
    block_size: i32 = 0
    quantized_dimensions: optional_i32s = None


quantization_details = Annotated[
    CustomQuantization | BlockwiseQuantization | MultiAxisQuantization | UnknownMember | None,
    UnionMember((CustomQuantization, BlockwiseQuantization, MultiAxisQuantization)),
]


class QuantizationParameters(Table, eq=False):
    min: f32_view = None
    max: f32_view = None
    scale: f32_view = None
    zero_point: i64_view = None
    details: quantization_details = None
    quantized_dimension: i32 = 0


class Int32Vector(Table, eq=False):
    values: Annotated[npt.NDArray[np.int32] | None, NumberArray("int32")] = None


class Uint16Vector(Table, eq=False):
    values: Annotated[npt.NDArray[np.uint16] | None, NumberArray("uint16")] = None


class Uint8Vector(Table, eq=False):
    values: Annotated[npt.NDArray[np.uint8] | None, NumberArray("uint8")] = None


index_vector = Annotated[
    Int32Vector | Uint16Vector | Uint8Vector | UnknownMember | None, UnionMember((Int32Vector, Uint16Vector, Uint8Vector))
]


class DimensionMetadata(Table, eq=False):
    format: Annotated[DimensionType, NumberField("int8")] = DimensionType.DENSE
    dense_size: i32 = 0
    array_segments: index_vector = None
    array_indices: index_vector = None


class SparsityParameters(Table, eq=False):
    traversal_order: optional_i32s = None
    block_map: optional_i32s = None
    dim_metadata: Annotated[tuple[DimensionMetadata, ...] | None, SubTables()] = None


class VariantSubType(Table):
    shape: optional_i32s = None
    type: tensor_type = DType.FLOAT32
    has_rank: boolean = False


class TensorTable(Table, eq=False):
    shape: optional_i32s = None
    type: tensor_type = DType.FLOAT32
    buffer: u32 = 0
    name: text = ""
    quantization: Annotated[QuantizationParameters | None, SubTable()] = None
    is_variable: boolean = False
    sparsity: Annotated[SparsityParameters | None, SubTable()] = None
    shape_signature: optional_i32s = None
    has_rank: boolean = False
    variant_tensors: Annotated[tuple[VariantSubType, ...] | None, SubTables()] = None
    external_buffer: u32 = 0


class OperatorCode(Table):
    deprecated_builtin_code: i8 = 0
    custom_code: text = ""
    version: i32 = 1
    builtin_code: i32 = 0


class OperatorTable(Table):
    opcode_index: u32 = 0
    inputs: optional_i32s = None
    outputs: optional_i32s = None
    builtin_options: Annotated[Attributes | UnknownMember | None, UnionMember(BUILTIN_OPTIONS)] = None
    custom_options: blob = b""
    custom_options_format: Annotated[CustomOptionsFormat, NumberField("int8")] = CustomOptionsFormat.FLEXBUFFERS
    mutating_variable_inputs: optional_booleans = None
    intermediates: optional_i32s = None
    large_custom_options_offset: u64 = 0
    large_custom_options_size: u64 = 0
    builtin_options_2: Annotated[Attributes | UnknownMember | None, UnionMember(BUILTIN_OPTIONS_2)] = None
    debug_metadata_index: i32 = -1


class SubGraphTable(Table, eq=False):
    tensors: Annotated[tuple[TensorTable, ...], SubTables()] = ()
    inputs: optional_i32s = None
    outputs: optional_i32s = None
    operators: Annotated[tuple[OperatorTable, ...], SubTables()] = ()
    name: text = ""
    debug_metadata_index: i32 = -1


class Buffer(Table, eq=False):
    """Contents inside the file's tables (`data`), or anywhere in the file from byte `offset` where that is above 1."""

    data: bytes_view = None
    offset: u64 = 0
    size: u64 = 0


class ExternalBufferGroup(Table):
    name: text = ""


class ExternalBuffer(Table):
    id: u32 = 0
    group: u32 = 0
    offset: u64 = 0
    length: u64 = 0
    packing: text = ""


class MetadataTable(Table):
    name: text = ""
    buffer: u32 = 0


class TensorMap(Table):
    name: text = ""
    tensor_index: u32 = 0


class SignatureDef(Table):
    deprecated_ids: ClassVar[tuple[int, ...]] = (3,)

    inputs: Annotated[tuple[TensorMap, ...], SubTables()] = ()
    outputs: Annotated[tuple[TensorMap, ...], SubTables()] = ()
    signature_key: text = ""
    subgraph_index: u32 = 0


class ModelTable(Table, eq=False):
    version: u32 = 0
    operator_codes: Annotated[tuple[OperatorCode, ...], SubTables()] = ()
    subgraphs: Annotated[tuple[SubGraphTable, ...], SubTables()] = ()
    description: text = ""
    buffers: Annotated[tuple[Buffer, ...], SubTables()] = ()
    metadata_buffer: optional_i32s = None
    metadata: Annotated[tuple[MetadataTable, ...], SubTables()] = ()
    signature_defs: Annotated[tuple[SignatureDef, ...], SubTables()] = ()
    external_buffer_groups: Annotated[tuple[ExternalBufferGroup, ...], SubTables()] = ()
    external_buffers: Annotated[tuple[ExternalBuffer, ...], SubTables()] = ()
