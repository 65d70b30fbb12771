"""Operator attributes of the TFLite schema's second union, most of them of StableHLO operators; as `npu.graph.attributes`."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from npu.graph.attributes import Attributes, CustomOptionsFormat
from npu.graph.wire import NumberField, Vector, blob, boolean, booleans, i32, i32s, i64, i64s, text


class ComparisonType(IntEnum):
    """Ordering that STABLEHLO_COMPARE uses."""

    NOTYPE = 0
    FLOAT = 1
    FLOAT_TOTAL_ORDER = 2
    SIGNED = 3
    UNSIGNED = 4


class ComparisonDirection(IntEnum):
    """Relation that STABLEHLO_COMPARE tests."""

    EQ = 0
    NE = 1
    GE = 2
    GT = 3
    LE = 4
    LT = 5


class PrecisionConfig(IntEnum):
    """Precision asked of a StableHLO dot product or convolution."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


class RngAlgorithm(IntEnum):
    """Generator of STABLEHLO_RNG_BIT_GENERATOR."""

    DEFAULT = 0
    PHILOX = 1
    THREEFRY = 2


class ReduceWindowFunction(IntEnum):
    """Reduction of REDUCE_WINDOW."""

    UNSUPPORTED = 0
    ADD = 1
    MUL = 2
    MINIMUM = 3
    MAXIMUM = 4
    ALL = 5
    ANY = 6


class StablehloConcatenateOptions(Attributes):
    dimension: i64 = 0


class StablehloBroadcastInDimOptions(Attributes):
    broadcast_dimensions: i64s = ()


class StablehloSliceOptions(Attributes):
    start_indices: i64s = ()
    limit_indices: i64s = ()
    strides: i64s = ()


class StablehloConvolutionOptions(Attributes):
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


class StablehloCustomCallOptions(Attributes):
    call_target_name: text = ""
    has_side_effect: boolean = False
    backend_config: text = ""
    api_version: i32 = 0
    called_computations: i32s = ()
    custom_attributes: blob = b""


class StablehloReduceOptions(Attributes):
    dimensions: i64s = ()
    body_subgraph_index: i32 = 0


class StablehloScatterOptions(Attributes):
    indices_are_sorted: boolean = False
    update_window_dims: i64s = ()
    inserted_window_dims: i64s = ()
    scatter_dims_to_operand_dims: i64s = ()
    index_vector_dim: i64 = 0
    unique_indices: boolean = False
    update_computation_subgraph_index: i32 = 0


class StablehloCompareOptions(Attributes):
    comparison_direction: Annotated[ComparisonDirection, NumberField("uint32")] = ComparisonDirection.EQ
    compare_type: Annotated[ComparisonType, NumberField("uint32")] = ComparisonType.NOTYPE


class StablehloDynamicSliceOptions(Attributes):
    slice_sizes: i64s = ()


class StablehloPadOptions(Attributes):
    edge_padding_low: i64s = ()
    edge_padding_high: i64s = ()
    interior_padding: i64s = ()


class StablehloIotaOptions(Attributes):
    iota_dimension: i64 = 0


class StablehloDotGeneralOptions(Attributes):
    lhs_batching_dimensions: i64s = ()
    rhs_batching_dimensions: i64s = ()
    lhs_contracting_dimensions: i64s = ()
    rhs_contracting_dimensions: i64s = ()
    precision_config: Annotated[tuple[PrecisionConfig, ...], Vector("uint32")] = ()


class StablehloReduceWindowOptions(Attributes):
    window_dimensions: i64s = ()
    window_strides: i64s = ()
    base_dilations: i64s = ()
    window_dilations: i64s = ()
    padding: i64s = ()
    body_subgraph_index: i32 = 0


class StablehloSortOptions(Attributes):
    dimension: i64 = 0
    is_stable: boolean = False
    comparator_subgraph_index: i32 = 0


class StablehloWhileOptions(Attributes):
    cond_subgraph_index: i32 = 0
    body_subgraph_index: i32 = 0


class StablehloGatherOptions(Attributes):
    offset_dims: i64s = ()
    collapsed_slice_dims: i64s = ()
    start_index_map: i64s = ()
    index_vector_dim: i64 = 0
    slice_sizes: i64s = ()
    indices_are_sorted: boolean = False


class StablehloTransposeOptions(Attributes):
    permutation: i64s = ()


class DilateOptions(Attributes): ...


class StablehloRngBitGeneratorOptions(Attributes):
    algorithm: Annotated[RngAlgorithm, NumberField("int8")] = RngAlgorithm.DEFAULT


class ReduceWindowOptions(Attributes):
    reduce_function: Annotated[ReduceWindowFunction, NumberField("int32")] = ReduceWindowFunction.UNSUPPORTED


class StableHLOCompositeOptions(Attributes):
    name: text = ""
    decomposition_subgraph_index: i32 = 0
    composite_attributes: blob = b""
    composite_attributes_format: Annotated[CustomOptionsFormat, NumberField("int8")] = CustomOptionsFormat.FLEXBUFFERS
    version: i32 = 0


class StablehloShiftLeftOptions(Attributes): ...


class StablehloCaseOptions(Attributes):
    branch_subgraph_indices: i32s = ()


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
