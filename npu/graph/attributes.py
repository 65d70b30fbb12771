"""Operator attributes: one dataclass per options table of the TFLite schema, the only place that lists their fields.

Class names are the schema's, field names its snake_case, field order its field order, defaults its defaults (see
`npu.graph.wire` for how ids and wire types follow from that). An options table that a file leaves out is `None` in
`Op.attributes`, never a table of defaults. A vector or string that a file leaves out reads as empty.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, ClassVar

from npu.graph.dtype import DType
from npu.graph.wire import (
    NumberField,
    Table,
    blob,
    boolean,
    f32,
    f32s,
    i32,
    i32s,
    i64,
    text,
    u32,
)


class Padding(IntEnum):
    """Padding of convolutions and pools."""

    SAME = 0
    VALID = 1


class FusedActivation(IntEnum):
    """Activation that an operator applies to its result."""

    NONE = 0
    RELU = 1
    RELU_N1_TO_1 = 2
    RELU6 = 3
    TANH = 4
    SIGN_BIT = 5


class LshProjectionType(IntEnum):
    """Kind of LSH_PROJECTION."""

    UNKNOWN = 0
    SPARSE = 1
    DENSE = 2


class WeightsFormat(IntEnum):
    """Layout of FULLY_CONNECTED weights."""

    DEFAULT = 0
    SHUFFLED4x16INT8 = 1


class LstmKernelType(IntEnum):
    """Inputs that an LSTM has: all of them, or the five of the basic kernel."""

    FULL = 0
    BASIC = 1


class CombinerType(IntEnum):
    """Reduction of EMBEDDING_LOOKUP_SPARSE."""

    SUM = 0
    MEAN = 1
    SQRTN = 2


class MirrorPadMode(IntEnum):
    """Whether MIRROR_PAD repeats the edge element (SYMMETRIC) or not (REFLECT)."""

    REFLECT = 0
    SYMMETRIC = 1


class CustomOptionsFormat(IntEnum):
    """Encoding of free-form options."""

    FLEXBUFFERS = 0


fused_activation = Annotated[FusedActivation, NumberField("int8")]
padding_scheme = Annotated[Padding, NumberField("int8")]
tensor_type = Annotated[DType, NumberField("int8")]


class Attributes(Table):
    """Base of all options tables."""


class Conv2DOptions(Attributes):
    padding: padding_scheme = Padding.SAME
    stride_w: i32 = 0
    stride_h: i32 = 0
    fused_activation_function: fused_activation = FusedActivation.NONE
    dilation_w_factor: i32 = 1
    dilation_h_factor: i32 = 1
    quantized_bias_type: tensor_type = DType.FLOAT32


class DepthwiseConv2DOptions(Attributes):
    padding: padding_scheme = Padding.SAME
    stride_w: i32 = 0
    stride_h: i32 = 0
    depth_multiplier: i32 = 0
    fused_activation_function: fused_activation = FusedActivation.NONE
    dilation_w_factor: i32 = 1
    dilation_h_factor: i32 = 1


class ConcatEmbeddingsOptions(Attributes):
    num_channels: i32 = 0
    num_columns_per_channel: i32s = ()
    embedding_dim_per_channel: i32s = ()


class LSHProjectionOptions(Attributes):
    type: Annotated[LshProjectionType, NumberField("int8")] = LshProjectionType.UNKNOWN


class Pool2DOptions(Attributes):
    padding: padding_scheme = Padding.SAME
    stride_w: i32 = 0
    stride_h: i32 = 0
    filter_width: i32 = 0
    filter_height: i32 = 0
    fused_activation_function: fused_activation = FusedActivation.NONE


class SVDFOptions(Attributes):
    rank: i32 = 0
    fused_activation_function: fused_activation = FusedActivation.NONE
    asymmetric_quantize_inputs: boolean = False


class RNNOptions(Attributes):
    fused_activation_function: fused_activation = FusedActivation.NONE
    asymmetric_quantize_inputs: boolean = False


class FullyConnectedOptions(Attributes):
    fused_activation_function: fused_activation = FusedActivation.NONE
    weights_format: Annotated[WeightsFormat, NumberField("int8")] = WeightsFormat.DEFAULT
    keep_num_dims: boolean = False
    asymmetric_quantize_inputs: boolean = False
    quantized_bias_type: tensor_type = DType.FLOAT32
    quant_spec: blob = b""


class SoftmaxOptions(Attributes):
    beta: f32 = 0.0


class ConcatenationOptions(Attributes):
    axis: i32 = 0
    fused_activation_function: fused_activation = FusedActivation.NONE


class AddOptions(Attributes):
    fused_activation_function: fused_activation = FusedActivation.NONE
    pot_scale_int16: boolean = True


class L2NormOptions(Attributes):
    fused_activation_function: fused_activation = FusedActivation.NONE


class LocalResponseNormalizationOptions(Attributes):
    radius: i32 = 0
    bias: f32 = 0.0
    alpha: f32 = 0.0
    beta: f32 = 0.0


class LSTMOptions(Attributes):
    fused_activation_function: fused_activation = FusedActivation.NONE
    cell_clip: f32 = 0.0
    proj_clip: f32 = 0.0
    kernel_type: Annotated[LstmKernelType, NumberField("int8")] = LstmKernelType.FULL
    asymmetric_quantize_inputs: boolean = False


class ResizeBilinearOptions(Attributes):
    deprecated_ids: ClassVar[tuple[int, ...]] = (0, 1)

    align_corners: boolean = False
    half_pixel_centers: boolean = False


class CallOptions(Attributes):
    subgraph: u32 = 0


class ReshapeOptions(Attributes):
    new_shape: i32s = ()


class SkipGramOptions(Attributes):
    ngram_size: i32 = 0
    max_skip_size: i32 = 0
    include_all_ngrams: boolean = False


class SpaceToDepthOptions(Attributes):
    block_size: i32 = 0


class EmbeddingLookupSparseOptions(Attributes):
    combiner: Annotated[CombinerType, NumberField("int8")] = CombinerType.SUM


class MulOptions(Attributes):
    fused_activation_function: fused_activation = FusedActivation.NONE


class PadOptions(Attributes): ...


class GatherOptions(Attributes):
    axis: i32 = 0
    batch_dims: i32 = 0


class BatchToSpaceNDOptions(Attributes): ...


class SpaceToBatchNDOptions(Attributes): ...


class TransposeOptions(Attributes): ...


class ReducerOptions(Attributes):
    keep_dims: boolean = False


class SubOptions(Attributes):
    fused_activation_function: fused_activation = FusedActivation.NONE
    pot_scale_int16: boolean = True


class DivOptions(Attributes):
    fused_activation_function: fused_activation = FusedActivation.NONE


class SqueezeOptions(Attributes):
    squeeze_dims: i32s = ()


class SequenceRNNOptions(Attributes):
    time_major: boolean = False
    fused_activation_function: fused_activation = FusedActivation.NONE
    asymmetric_quantize_inputs: boolean = False


class StridedSliceOptions(Attributes):
    begin_mask: i32 = 0
    end_mask: i32 = 0
    ellipsis_mask: i32 = 0
    new_axis_mask: i32 = 0
    shrink_axis_mask: i32 = 0
    offset: boolean = False


class ExpOptions(Attributes): ...


class TopKV2Options(Attributes): ...


class SplitOptions(Attributes):
    num_splits: i32 = 0


class LogSoftmaxOptions(Attributes): ...


class CastOptions(Attributes):
    in_data_type: tensor_type = DType.FLOAT32
    out_data_type: tensor_type = DType.FLOAT32


class DequantizeOptions(Attributes): ...


class MaximumMinimumOptions(Attributes): ...


class ArgMaxOptions(Attributes):
    output_type: tensor_type = DType.FLOAT32


class LessOptions(Attributes): ...


class NegOptions(Attributes): ...


class PadV2Options(Attributes): ...


class GreaterOptions(Attributes): ...


class GreaterEqualOptions(Attributes): ...


class LessEqualOptions(Attributes): ...


class SelectOptions(Attributes): ...


class SliceOptions(Attributes): ...


class TransposeConvOptions(Attributes):
    padding: padding_scheme = Padding.SAME
    stride_w: i32 = 0
    stride_h: i32 = 0
    fused_activation_function: fused_activation = FusedActivation.NONE
    quantized_bias_type: tensor_type = DType.FLOAT32


class SparseToDenseOptions(Attributes):
    validate_indices: boolean = False


class TileOptions(Attributes): ...


class ExpandDimsOptions(Attributes): ...


class EqualOptions(Attributes): ...


class NotEqualOptions(Attributes): ...


class ShapeOptions(Attributes):
    out_type: tensor_type = DType.FLOAT32


class PowOptions(Attributes): ...


class ArgMinOptions(Attributes):
    output_type: tensor_type = DType.FLOAT32


class FakeQuantOptions(Attributes):
    min: f32 = 0.0
    max: f32 = 0.0
    num_bits: i32 = 0
    narrow_range: boolean = False


class PackOptions(Attributes):
    values_count: i32 = 0
    axis: i32 = 0


class LogicalOrOptions(Attributes): ...


class OneHotOptions(Attributes):
    axis: i32 = 0


class LogicalAndOptions(Attributes): ...


class LogicalNotOptions(Attributes): ...


class UnpackOptions(Attributes):
    num: i32 = 0
    axis: i32 = 0


class FloorDivOptions(Attributes): ...


class SquareOptions(Attributes): ...


class ZerosLikeOptions(Attributes): ...


class FillOptions(Attributes): ...


class BidirectionalSequenceLSTMOptions(Attributes):
    fused_activation_function: fused_activation = FusedActivation.NONE
    cell_clip: f32 = 0.0
    proj_clip: f32 = 0.0
    merge_outputs: boolean = False
    time_major: boolean = True
    asymmetric_quantize_inputs: boolean = False


class BidirectionalSequenceRNNOptions(Attributes):
    time_major: boolean = False
    fused_activation_function: fused_activation = FusedActivation.NONE
    merge_outputs: boolean = False
    asymmetric_quantize_inputs: boolean = False


class UnidirectionalSequenceLSTMOptions(Attributes):
    fused_activation_function: fused_activation = FusedActivation.NONE
    cell_clip: f32 = 0.0
    proj_clip: f32 = 0.0
    time_major: boolean = False
    asymmetric_quantize_inputs: boolean = False
    diagonal_recurrent_tensors: boolean = False


class FloorModOptions(Attributes): ...


class RangeOptions(Attributes): ...


class ResizeNearestNeighborOptions(Attributes):
    align_corners: boolean = False
    half_pixel_centers: boolean = False


class LeakyReluOptions(Attributes):
    alpha: f32 = 0.0


class SquaredDifferenceOptions(Attributes): ...


class MirrorPadOptions(Attributes):
    mode: Annotated[MirrorPadMode, NumberField("int8")] = MirrorPadMode.REFLECT


class AbsOptions(Attributes): ...


class SplitVOptions(Attributes):
    num_splits: i32 = 0


class UniqueOptions(Attributes):
    idx_out_type: tensor_type = DType.INT32


class ReverseV2Options(Attributes): ...


class AddNOptions(Attributes): ...


class GatherNdOptions(Attributes): ...


class CosOptions(Attributes): ...


class WhereOptions(Attributes): ...


class RankOptions(Attributes): ...


class ReverseSequenceOptions(Attributes):
    seq_dim: i32 = 0
    batch_dim: i32 = 0


class MatrixDiagOptions(Attributes): ...


class QuantizeOptions(Attributes): ...


class MatrixSetDiagOptions(Attributes): ...


class HardSwishOptions(Attributes): ...


class IfOptions(Attributes):
    then_subgraph_index: i32 = 0
    else_subgraph_index: i32 = 0


class WhileOptions(Attributes):
    cond_subgraph_index: i32 = 0
    body_subgraph_index: i32 = 0


class DepthToSpaceOptions(Attributes):
    block_size: i32 = 0


class NonMaxSuppressionV4Options(Attributes): ...


class NonMaxSuppressionV5Options(Attributes): ...


class ScatterNdOptions(Attributes): ...


class SelectV2Options(Attributes): ...


class DensifyOptions(Attributes): ...


class SegmentSumOptions(Attributes): ...


class BatchMatMulOptions(Attributes):
    adj_x: boolean = False
    adj_y: boolean = False
    asymmetric_quantize_inputs: boolean = False


class CumsumOptions(Attributes):
    exclusive: boolean = False
    reverse: boolean = False


class CallOnceOptions(Attributes):
    init_subgraph_index: i32 = 0


class BroadcastToOptions(Attributes): ...


class Rfft2dOptions(Attributes): ...


class Conv3DOptions(Attributes):
    padding: padding_scheme = Padding.SAME
    stride_d: i32 = 0
    stride_w: i32 = 0
    stride_h: i32 = 0
    fused_activation_function: fused_activation = FusedActivation.NONE
    dilation_d_factor: i32 = 1
    dilation_w_factor: i32 = 1
    dilation_h_factor: i32 = 1


class HashtableOptions(Attributes):
    table_id: i32 = 0
    key_dtype: tensor_type = DType.FLOAT32
    value_dtype: tensor_type = DType.FLOAT32


class HashtableFindOptions(Attributes): ...


class HashtableImportOptions(Attributes): ...


class HashtableSizeOptions(Attributes): ...


class VarHandleOptions(Attributes):
    container: text = ""
    shared_name: text = ""


class ReadVariableOptions(Attributes): ...


class AssignVariableOptions(Attributes): ...


class RandomOptions(Attributes):
    seed: i64 = 0
    seed2: i64 = 0


class BucketizeOptions(Attributes):
    boundaries: f32s = ()


class GeluOptions(Attributes):
    approximate: boolean = False


class DynamicUpdateSliceOptions(Attributes): ...


class UnsortedSegmentProdOptions(Attributes): ...


class UnsortedSegmentMaxOptions(Attributes): ...


class UnsortedSegmentMinOptions(Attributes): ...


class UnsortedSegmentSumOptions(Attributes): ...


class ATan2Options(Attributes): ...


class SignOptions(Attributes): ...


class BitcastOptions(Attributes): ...


class BitwiseXorOptions(Attributes): ...


class RightShiftOptions(Attributes): ...


BUILTIN_OPTIONS: tuple[type[Attributes], ...] = (
    Conv2DOptions,
    DepthwiseConv2DOptions,
    ConcatEmbeddingsOptions,
    LSHProjectionOptions,
    Pool2DOptions,
    SVDFOptions,
    RNNOptions,
    FullyConnectedOptions,
    SoftmaxOptions,
    ConcatenationOptions,
    AddOptions,
    L2NormOptions,
    LocalResponseNormalizationOptions,
    LSTMOptions,
    ResizeBilinearOptions,
    CallOptions,
    ReshapeOptions,
    SkipGramOptions,
    SpaceToDepthOptions,
    EmbeddingLookupSparseOptions,
    MulOptions,
    PadOptions,
    GatherOptions,
    BatchToSpaceNDOptions,
    SpaceToBatchNDOptions,
    TransposeOptions,
    ReducerOptions,
    SubOptions,
    DivOptions,
    SqueezeOptions,
    SequenceRNNOptions,
    StridedSliceOptions,
    ExpOptions,
    TopKV2Options,
    SplitOptions,
    LogSoftmaxOptions,
    CastOptions,
    DequantizeOptions,
    MaximumMinimumOptions,
    ArgMaxOptions,
    LessOptions,
    NegOptions,
    PadV2Options,
    GreaterOptions,
    GreaterEqualOptions,
    LessEqualOptions,
    SelectOptions,
    SliceOptions,
    TransposeConvOptions,
    SparseToDenseOptions,
    TileOptions,
    ExpandDimsOptions,
    EqualOptions,
    NotEqualOptions,
    ShapeOptions,
    PowOptions,
    ArgMinOptions,
    FakeQuantOptions,
    PackOptions,
    LogicalOrOptions,
    OneHotOptions,
    LogicalAndOptions,
    LogicalNotOptions,
    UnpackOptions,
    FloorDivOptions,
    SquareOptions,
    ZerosLikeOptions,
    FillOptions,
    BidirectionalSequenceLSTMOptions,
    BidirectionalSequenceRNNOptions,
    UnidirectionalSequenceLSTMOptions,
    FloorModOptions,
    RangeOptions,
    ResizeNearestNeighborOptions,
    LeakyReluOptions,
    SquaredDifferenceOptions,
    MirrorPadOptions,
    AbsOptions,
    SplitVOptions,
    UniqueOptions,
    ReverseV2Options,
    AddNOptions,
    GatherNdOptions,
    CosOptions,
    WhereOptions,
    RankOptions,
    ReverseSequenceOptions,
    MatrixDiagOptions,
    QuantizeOptions,
    MatrixSetDiagOptions,
    HardSwishOptions,
    IfOptions,
    WhileOptions,
    DepthToSpaceOptions,
    NonMaxSuppressionV4Options,
    NonMaxSuppressionV5Options,
    ScatterNdOptions,
    SelectV2Options,
    DensifyOptions,
    SegmentSumOptions,
    BatchMatMulOptions,
    CumsumOptions,
    CallOnceOptions,
    BroadcastToOptions,
    Rfft2dOptions,
    Conv3DOptions,
    HashtableOptions,
    HashtableFindOptions,
    HashtableImportOptions,
    HashtableSizeOptions,
    VarHandleOptions,
    ReadVariableOptions,
    AssignVariableOptions,
    RandomOptions,
    BucketizeOptions,
    GeluOptions,
    DynamicUpdateSliceOptions,
    UnsortedSegmentProdOptions,
    UnsortedSegmentMaxOptions,
    UnsortedSegmentMinOptions,
    UnsortedSegmentSumOptions,
    ATan2Options,
    SignOptions,
    BitcastOptions,
    BitwiseXorOptions,
    RightShiftOptions,
)
"""Members of the schema's union BuiltinOptions: member n of a file is entry n - 1."""
