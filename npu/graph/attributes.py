"""Operator attributes: one dataclass per options table of the TFLite schema, the only place that lists their fields.

Class names are the schema's, field names its snake_case, field order its field order, defaults its defaults (see
`npu.graph.wire` for how ids and wire types follow from that). An options table that a file leaves out is `None` in
`Op.attributes`, never a table of defaults. A vector or string that a file leaves out reads as empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, ClassVar

from npu.graph.dtype import DType
from npu.graph.wire import (
    Scalar,
    Table,
    Vector,
    blob,
    boolean,
    booleans,
    f32,
    f32s,
    i32,
    i32s,
    i64,
    i64s,
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


class ReduceWindowFunction(IntEnum):
    """Reduction of REDUCE_WINDOW."""

    UNSUPPORTED = 0
    ADD = 1
    MUL = 2
    MINIMUM = 3
    MAXIMUM = 4
    ALL = 5
    ANY = 6


class CustomOptionsFormat(IntEnum):
    """Encoding of free-form options."""

    FLEXBUFFERS = 0


class RngAlgorithm(IntEnum):
    """Generator of STABLEHLO_RNG_BIT_GENERATOR."""

    DEFAULT = 0
    PHILOX = 1
    THREEFRY = 2


class PrecisionConfig(IntEnum):
    """Precision asked of a StableHLO dot product or convolution."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


class ComparisonDirection(IntEnum):
    """Relation that STABLEHLO_COMPARE tests."""

    EQ = 0
    NE = 1
    GE = 2
    GT = 3
    LE = 4
    LT = 5


class ComparisonType(IntEnum):
    """Ordering that STABLEHLO_COMPARE uses."""

    NOTYPE = 0
    FLOAT = 1
    FLOAT_TOTAL_ORDER = 2
    SIGNED = 3
    UNSIGNED = 4


fused_activation = Annotated[FusedActivation, Scalar("int8")]
padding_scheme = Annotated[Padding, Scalar("int8")]
tensor_type = Annotated[DType, Scalar("int8")]


@dataclass(frozen=True, slots=True)
class Attributes(Table):
    """Base of all options tables."""


@dataclass(frozen=True, slots=True)
class Conv2DOptions(Attributes):
    """CONV_2D."""

    padding: padding_scheme = Padding.SAME
    stride_w: i32 = 0
    stride_h: i32 = 0
    fused_activation_function: fused_activation = FusedActivation.NONE
    dilation_w_factor: i32 = 1
    dilation_h_factor: i32 = 1
    quantized_bias_type: tensor_type = DType.FLOAT32


@dataclass(frozen=True, slots=True)
class DepthwiseConv2DOptions(Attributes):
    """DEPTHWISE_CONV_2D."""

    padding: padding_scheme = Padding.SAME
    stride_w: i32 = 0
    stride_h: i32 = 0
    depth_multiplier: i32 = 0
    fused_activation_function: fused_activation = FusedActivation.NONE
    dilation_w_factor: i32 = 1
    dilation_h_factor: i32 = 1


@dataclass(frozen=True, slots=True)
class ConcatEmbeddingsOptions(Attributes):
    """CONCAT_EMBEDDINGS."""

    num_channels: i32 = 0
    num_columns_per_channel: i32s = ()
    embedding_dim_per_channel: i32s = ()


@dataclass(frozen=True, slots=True)
class LSHProjectionOptions(Attributes):
    """LSH_PROJECTION."""

    type: Annotated[LshProjectionType, Scalar("int8")] = LshProjectionType.UNKNOWN


@dataclass(frozen=True, slots=True)
class Pool2DOptions(Attributes):
    """AVERAGE_POOL_2D, L2_POOL_2D, MAX_POOL_2D."""

    padding: padding_scheme = Padding.SAME
    stride_w: i32 = 0
    stride_h: i32 = 0
    filter_width: i32 = 0
    filter_height: i32 = 0
    fused_activation_function: fused_activation = FusedActivation.NONE


@dataclass(frozen=True, slots=True)
class SVDFOptions(Attributes):
    """SVDF."""

    rank: i32 = 0
    fused_activation_function: fused_activation = FusedActivation.NONE
    asymmetric_quantize_inputs: boolean = False


@dataclass(frozen=True, slots=True)
class RNNOptions(Attributes):
    """RNN."""

    fused_activation_function: fused_activation = FusedActivation.NONE
    asymmetric_quantize_inputs: boolean = False


@dataclass(frozen=True, slots=True)
class FullyConnectedOptions(Attributes):
    """FULLY_CONNECTED."""

    fused_activation_function: fused_activation = FusedActivation.NONE
    weights_format: Annotated[WeightsFormat, Scalar("int8")] = WeightsFormat.DEFAULT
    keep_num_dims: boolean = False
    asymmetric_quantize_inputs: boolean = False
    quantized_bias_type: tensor_type = DType.FLOAT32
    quant_spec: blob = b""


@dataclass(frozen=True, slots=True)
class SoftmaxOptions(Attributes):
    """SOFTMAX."""

    beta: f32 = 0.0


@dataclass(frozen=True, slots=True)
class ConcatenationOptions(Attributes):
    """CONCATENATION."""

    axis: i32 = 0
    fused_activation_function: fused_activation = FusedActivation.NONE


@dataclass(frozen=True, slots=True)
class AddOptions(Attributes):
    """ADD."""

    fused_activation_function: fused_activation = FusedActivation.NONE
    pot_scale_int16: boolean = True


@dataclass(frozen=True, slots=True)
class L2NormOptions(Attributes):
    """L2_NORMALIZATION."""

    fused_activation_function: fused_activation = FusedActivation.NONE


@dataclass(frozen=True, slots=True)
class LocalResponseNormalizationOptions(Attributes):
    """LOCAL_RESPONSE_NORMALIZATION."""

    radius: i32 = 0
    bias: f32 = 0.0
    alpha: f32 = 0.0
    beta: f32 = 0.0


@dataclass(frozen=True, slots=True)
class LSTMOptions(Attributes):
    """LSTM."""

    fused_activation_function: fused_activation = FusedActivation.NONE
    cell_clip: f32 = 0.0
    proj_clip: f32 = 0.0
    kernel_type: Annotated[LstmKernelType, Scalar("int8")] = LstmKernelType.FULL
    asymmetric_quantize_inputs: boolean = False


@dataclass(frozen=True, slots=True)
class ResizeBilinearOptions(Attributes):
    """RESIZE_BILINEAR."""

    deprecated_ids: ClassVar[tuple[int, ...]] = (0, 1)

    align_corners: boolean = False
    half_pixel_centers: boolean = False


@dataclass(frozen=True, slots=True)
class CallOptions(Attributes):
    """CALL."""

    subgraph: u32 = 0


@dataclass(frozen=True, slots=True)
class ReshapeOptions(Attributes):
    """RESHAPE."""

    new_shape: i32s = ()


@dataclass(frozen=True, slots=True)
class SkipGramOptions(Attributes):
    """SKIP_GRAM."""

    ngram_size: i32 = 0
    max_skip_size: i32 = 0
    include_all_ngrams: boolean = False


@dataclass(frozen=True, slots=True)
class SpaceToDepthOptions(Attributes):
    """SPACE_TO_DEPTH."""

    block_size: i32 = 0


@dataclass(frozen=True, slots=True)
class EmbeddingLookupSparseOptions(Attributes):
    """EMBEDDING_LOOKUP_SPARSE."""

    combiner: Annotated[CombinerType, Scalar("int8")] = CombinerType.SUM


@dataclass(frozen=True, slots=True)
class MulOptions(Attributes):
    """MUL."""

    fused_activation_function: fused_activation = FusedActivation.NONE


@dataclass(frozen=True, slots=True)
class PadOptions(Attributes):
    """PAD."""


@dataclass(frozen=True, slots=True)
class GatherOptions(Attributes):
    """GATHER."""

    axis: i32 = 0
    batch_dims: i32 = 0


@dataclass(frozen=True, slots=True)
class BatchToSpaceNDOptions(Attributes):
    """BATCH_TO_SPACE_ND."""


@dataclass(frozen=True, slots=True)
class SpaceToBatchNDOptions(Attributes):
    """SPACE_TO_BATCH_ND."""


@dataclass(frozen=True, slots=True)
class TransposeOptions(Attributes):
    """TRANSPOSE."""


@dataclass(frozen=True, slots=True)
class ReducerOptions(Attributes):
    """MEAN, SUM, REDUCE_PROD, REDUCE_MAX, REDUCE_MIN, REDUCE_ANY, REDUCE_ALL."""

    keep_dims: boolean = False


@dataclass(frozen=True, slots=True)
class SubOptions(Attributes):
    """SUB."""

    fused_activation_function: fused_activation = FusedActivation.NONE
    pot_scale_int16: boolean = True


@dataclass(frozen=True, slots=True)
class DivOptions(Attributes):
    """DIV."""

    fused_activation_function: fused_activation = FusedActivation.NONE


@dataclass(frozen=True, slots=True)
class SqueezeOptions(Attributes):
    """SQUEEZE."""

    squeeze_dims: i32s = ()


@dataclass(frozen=True, slots=True)
class SequenceRNNOptions(Attributes):
    """UNIDIRECTIONAL_SEQUENCE_RNN."""

    time_major: boolean = False
    fused_activation_function: fused_activation = FusedActivation.NONE
    asymmetric_quantize_inputs: boolean = False


@dataclass(frozen=True, slots=True)
class StridedSliceOptions(Attributes):
    """STRIDED_SLICE."""

    begin_mask: i32 = 0
    end_mask: i32 = 0
    ellipsis_mask: i32 = 0
    new_axis_mask: i32 = 0
    shrink_axis_mask: i32 = 0
    offset: boolean = False


@dataclass(frozen=True, slots=True)
class ExpOptions(Attributes):
    """EXP."""


@dataclass(frozen=True, slots=True)
class TopKV2Options(Attributes):
    """TOPK_V2."""


@dataclass(frozen=True, slots=True)
class SplitOptions(Attributes):
    """SPLIT."""

    num_splits: i32 = 0


@dataclass(frozen=True, slots=True)
class LogSoftmaxOptions(Attributes):
    """LOG_SOFTMAX."""


@dataclass(frozen=True, slots=True)
class CastOptions(Attributes):
    """CAST."""

    in_data_type: tensor_type = DType.FLOAT32
    out_data_type: tensor_type = DType.FLOAT32


@dataclass(frozen=True, slots=True)
class DequantizeOptions(Attributes):
    """DEQUANTIZE."""


@dataclass(frozen=True, slots=True)
class MaximumMinimumOptions(Attributes):
    """MAXIMUM, MINIMUM."""


@dataclass(frozen=True, slots=True)
class ArgMaxOptions(Attributes):
    """ARG_MAX."""

    output_type: tensor_type = DType.FLOAT32


@dataclass(frozen=True, slots=True)
class LessOptions(Attributes):
    """LESS."""


@dataclass(frozen=True, slots=True)
class NegOptions(Attributes):
    """NEG."""


@dataclass(frozen=True, slots=True)
class PadV2Options(Attributes):
    """PADV2."""


@dataclass(frozen=True, slots=True)
class GreaterOptions(Attributes):
    """GREATER."""


@dataclass(frozen=True, slots=True)
class GreaterEqualOptions(Attributes):
    """GREATER_EQUAL."""


@dataclass(frozen=True, slots=True)
class LessEqualOptions(Attributes):
    """LESS_EQUAL."""


@dataclass(frozen=True, slots=True)
class SelectOptions(Attributes):
    """SELECT."""


@dataclass(frozen=True, slots=True)
class SliceOptions(Attributes):
    """SLICE."""


@dataclass(frozen=True, slots=True)
class TransposeConvOptions(Attributes):
    """TRANSPOSE_CONV."""

    padding: padding_scheme = Padding.SAME
    stride_w: i32 = 0
    stride_h: i32 = 0
    fused_activation_function: fused_activation = FusedActivation.NONE
    quantized_bias_type: tensor_type = DType.FLOAT32


@dataclass(frozen=True, slots=True)
class SparseToDenseOptions(Attributes):
    """SPARSE_TO_DENSE."""

    validate_indices: boolean = False


@dataclass(frozen=True, slots=True)
class TileOptions(Attributes):
    """TILE."""


@dataclass(frozen=True, slots=True)
class ExpandDimsOptions(Attributes):
    """EXPAND_DIMS."""


@dataclass(frozen=True, slots=True)
class EqualOptions(Attributes):
    """EQUAL."""


@dataclass(frozen=True, slots=True)
class NotEqualOptions(Attributes):
    """NOT_EQUAL."""


@dataclass(frozen=True, slots=True)
class ShapeOptions(Attributes):
    """SHAPE."""

    out_type: tensor_type = DType.FLOAT32


@dataclass(frozen=True, slots=True)
class PowOptions(Attributes):
    """POW."""


@dataclass(frozen=True, slots=True)
class ArgMinOptions(Attributes):
    """ARG_MIN."""

    output_type: tensor_type = DType.FLOAT32


@dataclass(frozen=True, slots=True)
class FakeQuantOptions(Attributes):
    """FAKE_QUANT."""

    min: f32 = 0.0
    max: f32 = 0.0
    num_bits: i32 = 0
    narrow_range: boolean = False


@dataclass(frozen=True, slots=True)
class PackOptions(Attributes):
    """PACK."""

    values_count: i32 = 0
    axis: i32 = 0


@dataclass(frozen=True, slots=True)
class LogicalOrOptions(Attributes):
    """LOGICAL_OR."""


@dataclass(frozen=True, slots=True)
class OneHotOptions(Attributes):
    """ONE_HOT."""

    axis: i32 = 0


@dataclass(frozen=True, slots=True)
class LogicalAndOptions(Attributes):
    """LOGICAL_AND."""


@dataclass(frozen=True, slots=True)
class LogicalNotOptions(Attributes):
    """LOGICAL_NOT."""


@dataclass(frozen=True, slots=True)
class UnpackOptions(Attributes):
    """UNPACK."""

    num: i32 = 0
    axis: i32 = 0


@dataclass(frozen=True, slots=True)
class FloorDivOptions(Attributes):
    """FLOOR_DIV."""


@dataclass(frozen=True, slots=True)
class SquareOptions(Attributes):
    """SQUARE."""


@dataclass(frozen=True, slots=True)
class ZerosLikeOptions(Attributes):
    """ZEROS_LIKE."""


@dataclass(frozen=True, slots=True)
class FillOptions(Attributes):
    """FILL."""


@dataclass(frozen=True, slots=True)
class BidirectionalSequenceLSTMOptions(Attributes):
    """BIDIRECTIONAL_SEQUENCE_LSTM."""

    fused_activation_function: fused_activation = FusedActivation.NONE
    cell_clip: f32 = 0.0
    proj_clip: f32 = 0.0
    merge_outputs: boolean = False
    time_major: boolean = True
    asymmetric_quantize_inputs: boolean = False


@dataclass(frozen=True, slots=True)
class BidirectionalSequenceRNNOptions(Attributes):
    """BIDIRECTIONAL_SEQUENCE_RNN."""

    time_major: boolean = False
    fused_activation_function: fused_activation = FusedActivation.NONE
    merge_outputs: boolean = False
    asymmetric_quantize_inputs: boolean = False


@dataclass(frozen=True, slots=True)
class UnidirectionalSequenceLSTMOptions(Attributes):
    """UNIDIRECTIONAL_SEQUENCE_LSTM."""

    fused_activation_function: fused_activation = FusedActivation.NONE
    cell_clip: f32 = 0.0
    proj_clip: f32 = 0.0
    time_major: boolean = False
    asymmetric_quantize_inputs: boolean = False
    diagonal_recurrent_tensors: boolean = False


@dataclass(frozen=True, slots=True)
class FloorModOptions(Attributes):
    """FLOOR_MOD."""


@dataclass(frozen=True, slots=True)
class RangeOptions(Attributes):
    """RANGE."""


@dataclass(frozen=True, slots=True)
class ResizeNearestNeighborOptions(Attributes):
    """RESIZE_NEAREST_NEIGHBOR."""

    align_corners: boolean = False
    half_pixel_centers: boolean = False


@dataclass(frozen=True, slots=True)
class LeakyReluOptions(Attributes):
    """LEAKY_RELU."""

    alpha: f32 = 0.0


@dataclass(frozen=True, slots=True)
class SquaredDifferenceOptions(Attributes):
    """SQUARED_DIFFERENCE."""


@dataclass(frozen=True, slots=True)
class MirrorPadOptions(Attributes):
    """MIRROR_PAD."""

    mode: Annotated[MirrorPadMode, Scalar("int8")] = MirrorPadMode.REFLECT


@dataclass(frozen=True, slots=True)
class AbsOptions(Attributes):
    """ABS."""


@dataclass(frozen=True, slots=True)
class SplitVOptions(Attributes):
    """SPLIT_V."""

    num_splits: i32 = 0


@dataclass(frozen=True, slots=True)
class UniqueOptions(Attributes):
    """UNIQUE."""

    idx_out_type: tensor_type = DType.INT32


@dataclass(frozen=True, slots=True)
class ReverseV2Options(Attributes):
    """REVERSE_V2."""


@dataclass(frozen=True, slots=True)
class AddNOptions(Attributes):
    """ADD_N."""


@dataclass(frozen=True, slots=True)
class GatherNdOptions(Attributes):
    """GATHER_ND."""


@dataclass(frozen=True, slots=True)
class CosOptions(Attributes):
    """COS."""


@dataclass(frozen=True, slots=True)
class WhereOptions(Attributes):
    """WHERE."""


@dataclass(frozen=True, slots=True)
class RankOptions(Attributes):
    """RANK."""


@dataclass(frozen=True, slots=True)
class ReverseSequenceOptions(Attributes):
    """REVERSE_SEQUENCE."""

    seq_dim: i32 = 0
    batch_dim: i32 = 0


@dataclass(frozen=True, slots=True)
class MatrixDiagOptions(Attributes):
    """MATRIX_DIAG."""


@dataclass(frozen=True, slots=True)
class QuantizeOptions(Attributes):
    """QUANTIZE."""


@dataclass(frozen=True, slots=True)
class MatrixSetDiagOptions(Attributes):
    """MATRIX_SET_DIAG."""


@dataclass(frozen=True, slots=True)
class HardSwishOptions(Attributes):
    """HARD_SWISH."""


@dataclass(frozen=True, slots=True)
class IfOptions(Attributes):
    """IF."""

    then_subgraph_index: i32 = 0
    else_subgraph_index: i32 = 0


@dataclass(frozen=True, slots=True)
class WhileOptions(Attributes):
    """WHILE."""

    cond_subgraph_index: i32 = 0
    body_subgraph_index: i32 = 0


@dataclass(frozen=True, slots=True)
class DepthToSpaceOptions(Attributes):
    """DEPTH_TO_SPACE."""

    block_size: i32 = 0


@dataclass(frozen=True, slots=True)
class NonMaxSuppressionV4Options(Attributes):
    """NON_MAX_SUPPRESSION_V4."""


@dataclass(frozen=True, slots=True)
class NonMaxSuppressionV5Options(Attributes):
    """NON_MAX_SUPPRESSION_V5."""


@dataclass(frozen=True, slots=True)
class ScatterNdOptions(Attributes):
    """SCATTER_ND."""


@dataclass(frozen=True, slots=True)
class SelectV2Options(Attributes):
    """SELECT_V2."""


@dataclass(frozen=True, slots=True)
class DensifyOptions(Attributes):
    """DENSIFY."""


@dataclass(frozen=True, slots=True)
class SegmentSumOptions(Attributes):
    """SEGMENT_SUM."""


@dataclass(frozen=True, slots=True)
class BatchMatMulOptions(Attributes):
    """BATCH_MATMUL."""

    adj_x: boolean = False
    adj_y: boolean = False
    asymmetric_quantize_inputs: boolean = False


@dataclass(frozen=True, slots=True)
class CumsumOptions(Attributes):
    """CUMSUM."""

    exclusive: boolean = False
    reverse: boolean = False


@dataclass(frozen=True, slots=True)
class CallOnceOptions(Attributes):
    """CALL_ONCE."""

    init_subgraph_index: i32 = 0


@dataclass(frozen=True, slots=True)
class BroadcastToOptions(Attributes):
    """BROADCAST_TO."""


@dataclass(frozen=True, slots=True)
class Rfft2dOptions(Attributes):
    """RFFT2D."""


@dataclass(frozen=True, slots=True)
class Conv3DOptions(Attributes):
    """CONV_3D, CONV_3D_TRANSPOSE."""

    padding: padding_scheme = Padding.SAME
    stride_d: i32 = 0
    stride_w: i32 = 0
    stride_h: i32 = 0
    fused_activation_function: fused_activation = FusedActivation.NONE
    dilation_d_factor: i32 = 1
    dilation_w_factor: i32 = 1
    dilation_h_factor: i32 = 1


@dataclass(frozen=True, slots=True)
class HashtableOptions(Attributes):
    """HASHTABLE."""

    table_id: i32 = 0
    key_dtype: tensor_type = DType.FLOAT32
    value_dtype: tensor_type = DType.FLOAT32


@dataclass(frozen=True, slots=True)
class HashtableFindOptions(Attributes):
    """HASHTABLE_FIND."""


@dataclass(frozen=True, slots=True)
class HashtableImportOptions(Attributes):
    """HASHTABLE_IMPORT."""


@dataclass(frozen=True, slots=True)
class HashtableSizeOptions(Attributes):
    """HASHTABLE_SIZE."""


@dataclass(frozen=True, slots=True)
class VarHandleOptions(Attributes):
    """VAR_HANDLE."""

    container: text = ""
    shared_name: text = ""


@dataclass(frozen=True, slots=True)
class ReadVariableOptions(Attributes):
    """READ_VARIABLE."""


@dataclass(frozen=True, slots=True)
class AssignVariableOptions(Attributes):
    """ASSIGN_VARIABLE."""


@dataclass(frozen=True, slots=True)
class RandomOptions(Attributes):
    """RANDOM_STANDARD_NORMAL, RANDOM_UNIFORM, MULTINOMIAL."""

    seed: i64 = 0
    seed2: i64 = 0


@dataclass(frozen=True, slots=True)
class BucketizeOptions(Attributes):
    """BUCKETIZE."""

    boundaries: f32s = ()


@dataclass(frozen=True, slots=True)
class GeluOptions(Attributes):
    """GELU."""

    approximate: boolean = False


@dataclass(frozen=True, slots=True)
class DynamicUpdateSliceOptions(Attributes):
    """DYNAMIC_UPDATE_SLICE."""


@dataclass(frozen=True, slots=True)
class UnsortedSegmentProdOptions(Attributes):
    """UNSORTED_SEGMENT_PROD."""


@dataclass(frozen=True, slots=True)
class UnsortedSegmentMaxOptions(Attributes):
    """UNSORTED_SEGMENT_MAX."""


@dataclass(frozen=True, slots=True)
class UnsortedSegmentMinOptions(Attributes):
    """UNSORTED_SEGMENT_MIN."""


@dataclass(frozen=True, slots=True)
class UnsortedSegmentSumOptions(Attributes):
    """UNSORTED_SEGMENT_SUM."""


@dataclass(frozen=True, slots=True)
class ATan2Options(Attributes):
    """ATAN2."""


@dataclass(frozen=True, slots=True)
class SignOptions(Attributes):
    """SIGN."""


@dataclass(frozen=True, slots=True)
class BitcastOptions(Attributes):
    """BITCAST."""


@dataclass(frozen=True, slots=True)
class BitwiseXorOptions(Attributes):
    """BITWISE_XOR."""


@dataclass(frozen=True, slots=True)
class RightShiftOptions(Attributes):
    """RIGHT_SHIFT."""


@dataclass(frozen=True, slots=True)
class StablehloConcatenateOptions(Attributes):
    """STABLEHLO_CONCATENATE."""

    dimension: i64 = 0


@dataclass(frozen=True, slots=True)
class StablehloBroadcastInDimOptions(Attributes):
    """STABLEHLO_BROADCAST_IN_DIM."""

    broadcast_dimensions: i64s = ()


@dataclass(frozen=True, slots=True)
class StablehloSliceOptions(Attributes):
    """STABLEHLO_SLICE."""

    start_indices: i64s = ()
    limit_indices: i64s = ()
    strides: i64s = ()


@dataclass(frozen=True, slots=True)
class StablehloConvolutionOptions(Attributes):
    """STABLEHLO_CONVOLUTION."""

    window_strides: i64s = ()
    padding: i64s = ()
    lhs_dilation: i64s = ()
    rhs_dilation: i64s = ()
    window_reversal: booleans = ()
    input_batch_dimension: i64 = 0
    input_feature_dimension: i64 = 0
    input_spatial_dimensions: i64s = ()
    kernel_input_feature_dimension: i64 = 0
    kernel_output_feature_dimension: i64 = 0
    kernel_spatial_dimensions: i64s = ()
    output_batch_dimension: i64 = 0
    output_feature_dimension: i64 = 0
    output_spatial_dimensions: i64s = ()
    feature_group_count: i64 = 0
    batch_group_count: i64 = 0
    precision_config: Annotated[tuple[PrecisionConfig, ...], Vector("uint32")] = ()


@dataclass(frozen=True, slots=True)
class StablehloCustomCallOptions(Attributes):
    """STABLEHLO_CUSTOM_CALL."""

    call_target_name: text = ""
    has_side_effect: boolean = False
    backend_config: text = ""
    api_version: i32 = 0
    called_computations: i32s = ()
    custom_attributes: blob = b""


@dataclass(frozen=True, slots=True)
class StablehloReduceOptions(Attributes):
    """STABLEHLO_REDUCE."""

    dimensions: i64s = ()
    body_subgraph_index: i32 = 0


@dataclass(frozen=True, slots=True)
class StablehloScatterOptions(Attributes):
    """STABLEHLO_SCATTER."""

    indices_are_sorted: boolean = False
    update_window_dims: i64s = ()
    inserted_window_dims: i64s = ()
    scatter_dims_to_operand_dims: i64s = ()
    index_vector_dim: i64 = 0
    unique_indices: boolean = False
    update_computation_subgraph_index: i32 = 0


@dataclass(frozen=True, slots=True)
class StablehloCompareOptions(Attributes):
    """STABLEHLO_COMPARE."""

    comparison_direction: Annotated[ComparisonDirection, Scalar("uint32")] = ComparisonDirection.EQ
    compare_type: Annotated[ComparisonType, Scalar("uint32")] = ComparisonType.NOTYPE


@dataclass(frozen=True, slots=True)
class StablehloDynamicSliceOptions(Attributes):
    """STABLEHLO_DYNAMIC_SLICE."""

    slice_sizes: i64s = ()


@dataclass(frozen=True, slots=True)
class StablehloPadOptions(Attributes):
    """STABLEHLO_PAD."""

    edge_padding_low: i64s = ()
    edge_padding_high: i64s = ()
    interior_padding: i64s = ()


@dataclass(frozen=True, slots=True)
class StablehloIotaOptions(Attributes):
    """STABLEHLO_IOTA."""

    iota_dimension: i64 = 0


@dataclass(frozen=True, slots=True)
class StablehloDotGeneralOptions(Attributes):
    """STABLEHLO_DOT_GENERAL."""

    lhs_batching_dimensions: i64s = ()
    rhs_batching_dimensions: i64s = ()
    lhs_contracting_dimensions: i64s = ()
    rhs_contracting_dimensions: i64s = ()
    precision_config: Annotated[tuple[PrecisionConfig, ...], Vector("uint32")] = ()


@dataclass(frozen=True, slots=True)
class StablehloReduceWindowOptions(Attributes):
    """STABLEHLO_REDUCE_WINDOW."""

    window_dimensions: i64s = ()
    window_strides: i64s = ()
    base_dilations: i64s = ()
    window_dilations: i64s = ()
    padding: i64s = ()
    body_subgraph_index: i32 = 0


@dataclass(frozen=True, slots=True)
class StablehloSortOptions(Attributes):
    """STABLEHLO_SORT."""

    dimension: i64 = 0
    is_stable: boolean = False
    comparator_subgraph_index: i32 = 0


@dataclass(frozen=True, slots=True)
class StablehloWhileOptions(Attributes):
    """STABLEHLO_WHILE."""

    cond_subgraph_index: i32 = 0
    body_subgraph_index: i32 = 0


@dataclass(frozen=True, slots=True)
class StablehloGatherOptions(Attributes):
    """STABLEHLO_GATHER."""

    offset_dims: i64s = ()
    collapsed_slice_dims: i64s = ()
    start_index_map: i64s = ()
    index_vector_dim: i64 = 0
    slice_sizes: i64s = ()
    indices_are_sorted: boolean = False


@dataclass(frozen=True, slots=True)
class StablehloTransposeOptions(Attributes):
    """STABLEHLO_TRANSPOSE."""

    permutation: i64s = ()


@dataclass(frozen=True, slots=True)
class DilateOptions(Attributes):
    """DILATE."""


@dataclass(frozen=True, slots=True)
class StablehloRngBitGeneratorOptions(Attributes):
    """STABLEHLO_RNG_BIT_GENERATOR."""

    algorithm: Annotated[RngAlgorithm, Scalar("int8")] = RngAlgorithm.DEFAULT


@dataclass(frozen=True, slots=True)
class ReduceWindowOptions(Attributes):
    """REDUCE_WINDOW."""

    reduce_function: Annotated[ReduceWindowFunction, Scalar("int32")] = ReduceWindowFunction.UNSUPPORTED


@dataclass(frozen=True, slots=True)
class StableHLOCompositeOptions(Attributes):
    """STABLEHLO_COMPOSITE."""

    name: text = ""
    decomposition_subgraph_index: i32 = 0
    composite_attributes: blob = b""
    composite_attributes_format: Annotated[CustomOptionsFormat, Scalar("int8")] = CustomOptionsFormat.FLEXBUFFERS
    version: i32 = 0


@dataclass(frozen=True, slots=True)
class StablehloShiftLeftOptions(Attributes):
    """STABLEHLO_SHIFT_LEFT."""


@dataclass(frozen=True, slots=True)
class StablehloCaseOptions(Attributes):
    """STABLEHLO_CASE."""

    branch_subgraph_indices: i32s = ()


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

BUILTIN_OPTIONS_2: tuple[type[Attributes], ...] = (
    StablehloConcatenateOptions,
    StablehloBroadcastInDimOptions,
    StablehloSliceOptions,
    StablehloConvolutionOptions,
    StablehloCustomCallOptions,
    StablehloReduceOptions,
    StablehloScatterOptions,
    StablehloCompareOptions,
    StablehloDynamicSliceOptions,
    StablehloPadOptions,
    StablehloIotaOptions,
    StablehloDotGeneralOptions,
    StablehloReduceWindowOptions,
    StablehloSortOptions,
    StablehloWhileOptions,
    StablehloGatherOptions,
    StablehloTransposeOptions,
    DilateOptions,
    StablehloRngBitGeneratorOptions,
    ReduceWindowOptions,
    StableHLOCompositeOptions,
    StablehloShiftLeftOptions,
    StablehloCaseOptions,
)
"""Members of the schema's union BuiltinOptions2, likewise."""
