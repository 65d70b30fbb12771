"""The operator table: every builtin operator of the TFLite schema, one row each; the only place that says what an operator is.

A row holds the schema's name, code and class of options; the signature of its operands (see `npu.graph.operands`); the rules
that infer the shapes of its outputs and that scales must follow; its multiply-accumulates; what it costs the NPU; whether a
table of 256 entries computes it; and the types of feature maps with which the NPU runs it. Reader, verifier, checker, lowering,
interpreter and estimates look here. An operator without signature is known by name only: nothing here runs it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum, auto

from npu.graph import attributes as options
from npu.graph import attributes_2 as options_2
from npu.graph import macs, map_types, quantizations
from npu.graph.attributes import Attributes
from npu.graph.dtype import DType
from npu.graph.graph import Op, Tensor
from npu.graph.map_types import MapTypes
from npu.graph.operands import OperandSchema, Role, parse, positions
from npu.graph.shapes import cells, common, gathers, moves, parts, windows
from npu.records import dataclass

UNKNOWN_PREFIX = "UNKNOWN_"
"""Start of the kind of an operator whose code is not in the table; the code follows in decimal."""


class Cost(Enum):
    """What the NPU spends its cycles on, as estimates tell operators apart."""

    VIEW = auto()
    """Another view of the same bytes: nothing."""
    CONVOLUTION = auto()
    DEPTHWISE = auto()
    FULLY_CONNECTED = auto()
    MATMUL = auto()
    AVERAGE_POOL = auto()
    MAX_POOL = auto()
    RESIZE_BILINEAR = auto()
    SUM = auto()
    PRODUCT = auto()
    TABLE = auto()
    SOFTMAX = auto()
    LSTM = auto()
    OTHER = auto()
    """Elements that are read and written once."""


@dataclass(frozen=True, slots=True)
class Operator:
    """A builtin operator; `attributes` is None if it has no options, `is_lut` says that it is a function of one element."""

    name: str
    code: int
    attributes: type[Attributes] | None = None
    operands: str | None = None
    shape: common.ShapeRule | None = None
    quantization: quantizations.QuantizationRule | None = None
    macs: macs.MacRule | None = None
    cost: Cost = Cost.OTHER
    is_lut: bool = False
    npu: tuple[MapTypes, ...] = ()
    """Types of the feature maps that the NPU reads and writes, nothing if it has no lowering (see `npu.graph.map_types`)."""
    npu_with_comparisons: tuple[MapTypes, ...] = ()
    """Further types on an NPU with comparisons of its own."""

    @property
    def signature(self) -> OperandSchema | None:
        """Names and roles of the operands, None if they are not known."""
        return None if self.operands is None else parse(self.operands)


def _rnn(way: str) -> str:
    return f"{way}_weights {way}_recurrent_weights {way}_bias {way}_state"


def _cell(way: str) -> str:
    """The operands of an LSTM cell before its state; the input gate is optional, as are peepholes and projection."""
    gates = (("input", "?"), ("forget", ""), ("cell", ""), ("output", ""))
    return " ".join((
        *(f"{way}{gate}_weights{mark}" for gate, mark in gates),
        *(f"{way}{gate}_recurrent_weights{mark}" for gate, mark in gates),
        *(f"{way}{gate}_peephole_weights?" for gate in ("input", "forget", "output")),
        *(f"{way}{gate}_bias{mark}" for gate, mark in gates),
        f"{way}projection_weights?",
        f"{way}projection_bias?",
    ))  # fmt: skip


def _auxiliary(way: str) -> str:
    return " ".join(f"{way}{gate}_auxiliary_weights?" for gate in ("input", "forget", "cell", "output"))


_BIDIRECTIONAL_RNN = (
    f"ifm {_rnn('forward')} {_rnn('backward')} auxiliary_ifm? forward_auxiliary_weights? backward_auxiliary_weights?"
    " -> ofm backward_ofm?"
)
_LSTM = (
    f"ifm {_cell('')} output_state cell_state"
    " input_norm_weights? forget_norm_weights? cell_norm_weights? output_norm_weights? -> ofm"
)
_BIDIRECTIONAL_LSTM = (
    f"ifm {_cell('forward_')} {_cell('backward_')} forward_output_state forward_cell_state backward_output_state"
    f" backward_cell_state auxiliary_ifm? {_auxiliary('forward_')} {_auxiliary('backward_')} -> ofm backward_ofm?"
)

OPS: tuple[Operator, ...] = (
    Operator("ADD", 0, options.AddOptions, "ifm ifm2 -> ofm", common.elementwise, cost=Cost.SUM, npu=map_types.EVERY),
    Operator("AVERAGE_POOL_2D", 1, options.Pool2DOptions, "ifm -> ofm", windows.pool, cost=Cost.AVERAGE_POOL,
             npu=map_types.QUANTIZED),
    Operator("CONCATENATION", 2, options.ConcatenationOptions, "ifm ifm* -> ofm", parts.concatenation,
             quantization=quantizations.concatenation, npu=map_types.MOVED),
    Operator("CONV_2D", 3, options.Conv2DOptions, "ifm weights bias? -> ofm", windows.convolution, macs=macs.convolution,
             cost=Cost.CONVOLUTION, npu=map_types.QUANTIZED),
    Operator("DEPTHWISE_CONV_2D", 4, options.DepthwiseConv2DOptions, "ifm weights bias? -> ofm", windows.depthwise,
             macs=macs.depthwise, cost=Cost.DEPTHWISE, npu=map_types.QUANTIZED),
    Operator("DEPTH_TO_SPACE", 5, options.DepthToSpaceOptions, "ifm -> ofm", moves.depth_to_space,
             npu=map_types.EIGHT_BITS),
    Operator("DEQUANTIZE", 6, options.DequantizeOptions, "ifm -> ofm", common.same),
    Operator("EMBEDDING_LOOKUP", 7, None, "rows table -> ofm", cells.embedding_lookup),
    Operator("FLOOR", 8, None, "ifm -> ofm", common.same),
    Operator("FULLY_CONNECTED", 9, options.FullyConnectedOptions, "ifm weights bias? -> ofm", windows.fully_connected,
             macs=macs.fully_connected, cost=Cost.FULLY_CONNECTED, npu=map_types.QUANTIZED),
    Operator("HASHTABLE_LOOKUP", 10, None, "lookup keys values -> ofm hits", cells.hashtable_lookup),
    Operator("L2_NORMALIZATION", 11, options.L2NormOptions, "ifm -> ofm", common.same),
    Operator("L2_POOL_2D", 12, options.Pool2DOptions, "ifm -> ofm", windows.pool),
    Operator("LOCAL_RESPONSE_NORMALIZATION", 13, options.LocalResponseNormalizationOptions, "ifm -> ofm", common.same),
    Operator("LOGISTIC", 14, None, "ifm -> ofm", common.same, cost=Cost.TABLE, is_lut=True, npu=map_types.QUANTIZED),
    Operator("LSH_PROJECTION", 15, options.LSHProjectionOptions, "seeds ifm importance? -> ofm", cells.lsh_projection),
    Operator("LSTM", 16, options.LSTMOptions, "ifm operand?* -> ofm operand*", cells.lstm, macs=macs.lstm),
    Operator("MAX_POOL_2D", 17, options.Pool2DOptions, "ifm -> ofm", windows.pool, cost=Cost.MAX_POOL, npu=map_types.QUANTIZED),
    Operator("MUL", 18, options.MulOptions, "ifm ifm2 -> ofm", common.elementwise, cost=Cost.PRODUCT, npu=map_types.EVERY),
    Operator("RELU", 19, None, "ifm -> ofm", common.same, is_lut=True, npu=map_types.QUANTIZED),
    Operator("RELU_N1_TO_1", 20, None, "ifm -> ofm", common.same, is_lut=True, npu=map_types.EIGHT_BITS),
    Operator("RELU6", 21, None, "ifm -> ofm", common.same, is_lut=True, npu=map_types.QUANTIZED),
    Operator("RESHAPE", 22, options.ReshapeOptions, "ifm shape:i32|i64? -> ofm", moves.reshape, cost=Cost.VIEW,
             npu=map_types.MOVED),
    Operator("RESIZE_BILINEAR", 23, options.ResizeBilinearOptions, "ifm size:i32 -> ofm", moves.resize_bilinear,
             cost=Cost.RESIZE_BILINEAR, npu=map_types.QUANTIZED),
    Operator("RNN", 24, options.RNNOptions, "ifm weights recurrent_weights bias state -> ofm", cells.recurrent,
             macs=macs.recurrent(1, 2)),
    Operator("SOFTMAX", 25, options.SoftmaxOptions, "ifm -> ofm", common.same, cost=Cost.SOFTMAX, npu=map_types.SOFTMAX),
    Operator("SPACE_TO_DEPTH", 26, options.SpaceToDepthOptions, "ifm -> ofm", moves.space_to_depth,
             npu=map_types.EIGHT_BITS),
    Operator("SVDF", 27, options.SVDFOptions, "ifm weights time_weights bias? state -> ofm", cells.svdf,
             macs=macs.recurrent(1, 2)),
    Operator("TANH", 28, None, "ifm -> ofm", common.same, cost=Cost.TABLE, is_lut=True, npu=map_types.QUANTIZED),
    Operator("CONCAT_EMBEDDINGS", 29, options.ConcatEmbeddingsOptions),
    Operator("SKIP_GRAM", 30, options.SkipGramOptions, "ifm -> ofm", common.unknown),
    Operator("CALL", 31, options.CallOptions, "operand* -> operand*"),
    Operator("CUSTOM", 32),
    Operator("EMBEDDING_LOOKUP_SPARSE", 33, options.EmbeddingLookupSparseOptions,
             "rows indices shape importance table -> ofm", common.unknown),
    Operator("PAD", 34, options.PadOptions, "ifm paddings:i8|i16|i32|i64 -> ofm", moves.pad, npu=map_types.MOVED),
    Operator("UNIDIRECTIONAL_SEQUENCE_RNN", 35, options.SequenceRNNOptions,
             "ifm weights recurrent_weights bias state -> ofm", cells.sequence_recurrent, macs=macs.recurrent(1, 2)),
    Operator("GATHER", 36, options.GatherOptions, "ifm indices:i16|i32|i64 -> ofm", gathers.gather,
             npu=map_types.MOVED),
    Operator("BATCH_TO_SPACE_ND", 37, options.BatchToSpaceNDOptions, "ifm block:i32 crops:i32 -> ofm", moves.batch_to_space,
             quantization=quantizations.first_input, npu=map_types.QUANTIZED),
    Operator("SPACE_TO_BATCH_ND", 38, options.SpaceToBatchNDOptions, "ifm block:i32 paddings:i32 -> ofm", moves.space_to_batch,
             quantization=quantizations.first_input, npu=map_types.QUANTIZED),
    Operator("TRANSPOSE", 39, options.TransposeOptions, "ifm permutation:i32 -> ofm", moves.transpose, npu=map_types.MOVED),
    Operator("MEAN", 40, options.ReducerOptions, "ifm axes:i32 -> ofm", gathers.reduction, npu=map_types.QUANTIZED),
    Operator("SUB", 41, options.SubOptions, "ifm ifm2 -> ofm", common.elementwise, cost=Cost.SUM, npu=map_types.EVERY),
    Operator("DIV", 42, options.DivOptions, "ifm ifm2 -> ofm", common.elementwise),
    Operator("SQUEEZE", 43, options.SqueezeOptions, "ifm -> ofm", moves.squeeze, cost=Cost.VIEW, npu=map_types.MOVED),
    Operator("UNIDIRECTIONAL_SEQUENCE_LSTM", 44, options.UnidirectionalSequenceLSTMOptions, _LSTM, cells.sequence_lstm,
             macs=macs.full_lstm, cost=Cost.LSTM, npu=map_types.INT8),
    Operator("STRIDED_SLICE", 45, options.StridedSliceOptions, "ifm begin:i32 end:i32 strides:i32 -> ofm", parts.strided_slice,
             npu=map_types.MOVED),
    Operator("BIDIRECTIONAL_SEQUENCE_RNN", 46, options.BidirectionalSequenceRNNOptions, _BIDIRECTIONAL_RNN,
             cells.bidirectional_recurrent, macs=macs.recurrent(1, 2, 5, 6, 10, 11)),
    Operator("EXP", 47, options.ExpOptions, "ifm -> ofm", common.same, cost=Cost.TABLE, is_lut=True, npu=map_types.SIGNED),
    Operator("TOPK_V2", 48, options.TopKV2Options, "ifm k -> ofm indices", gathers.top_k),
    Operator("SPLIT", 49, options.SplitOptions, "axis:i32|i64 ifm -> ofm ofm*", parts.split, npu=map_types.EVERY),
    Operator("LOG_SOFTMAX", 50, options.LogSoftmaxOptions, "ifm -> ofm", common.same),
    Operator("DELEGATE", 51),
    Operator("BIDIRECTIONAL_SEQUENCE_LSTM", 52, options.BidirectionalSequenceLSTMOptions, _BIDIRECTIONAL_LSTM,
             cells.bidirectional_lstm, macs=macs.recurrent(*range(1, 9), 16, *range(18, 26), 33, *range(40, 48))),
    Operator("CAST", 53, options.CastOptions, "ifm -> ofm", common.same),
    Operator("PRELU", 54, None, "ifm weights -> ofm", common.prelu, npu=map_types.QUANTIZED),
    Operator("MAXIMUM", 55, options.MaximumMinimumOptions, "ifm ifm2 -> ofm", common.elementwise, npu=map_types.EVERY),
    Operator("ARG_MAX", 56, options.ArgMaxOptions, "ifm axis:i32|i64 -> ofm", gathers.arg, npu=map_types.ARG),
    Operator("MINIMUM", 57, options.MaximumMinimumOptions, "ifm ifm2 -> ofm", common.elementwise, npu=map_types.EVERY),
    Operator("LESS", 58, options.LessOptions, "ifm ifm2 -> ofm", common.elementwise, npu=map_types.COMPARED,
             npu_with_comparisons=map_types.ORDERED_WORDS),
    Operator("NEG", 59, options.NegOptions, "ifm -> ofm", common.same, is_lut=True, npu=map_types.PLAIN),
    Operator("PADV2", 60, options.PadV2Options, "ifm paddings:i8|i16|i32|i64 value -> ofm", moves.pad,
             quantization=quantizations.padding_value, npu=map_types.MOVED),
    Operator("GREATER", 61, options.GreaterOptions, "ifm ifm2 -> ofm", common.elementwise, npu=map_types.COMPARED,
             npu_with_comparisons=map_types.ORDERED_WORDS),
    Operator("GREATER_EQUAL", 62, options.GreaterEqualOptions, "ifm ifm2 -> ofm", common.elementwise, npu=map_types.COMPARED,
             npu_with_comparisons=map_types.ORDERED_WORDS),
    Operator("LESS_EQUAL", 63, options.LessEqualOptions, "ifm ifm2 -> ofm", common.elementwise, npu=map_types.COMPARED,
             npu_with_comparisons=map_types.ORDERED_WORDS),
    Operator("SELECT", 64, options.SelectOptions, "condition ifm ifm2 -> ofm", common.select, npu=map_types.MOVED),
    Operator("SLICE", 65, options.SliceOptions, "ifm begin:i32|i64 size:i32|i64 -> ofm", parts.slice_, npu=map_types.MOVED),
    Operator("SIN", 66, None, "ifm -> ofm", common.same),
    Operator("TRANSPOSE_CONV", 67, options.TransposeConvOptions, "shape:i32 weights ifm bias? -> ofm",
             windows.transpose_convolution, macs=macs.transposed, cost=Cost.CONVOLUTION, npu=map_types.QUANTIZED),
    Operator("SPARSE_TO_DENSE", 68, options.SparseToDenseOptions, "indices shape values default -> ofm",
             gathers.sparse_to_dense),
    Operator("TILE", 69, options.TileOptions, "ifm multiples:i32|i64 -> ofm", moves.tile, npu=map_types.MOVED),
    Operator("EXPAND_DIMS", 70, options.ExpandDimsOptions, "ifm axis:i32|i64 -> ofm", moves.expand_dims,
             quantization=quantizations.first_input, cost=Cost.VIEW, npu=map_types.MOVED),
    Operator("EQUAL", 71, options.EqualOptions, "ifm ifm2 -> ofm", common.elementwise, npu=map_types.COMPARED,
             npu_with_comparisons=map_types.EQUATED_WORDS),
    Operator("NOT_EQUAL", 72, options.NotEqualOptions, "ifm ifm2 -> ofm", common.elementwise, npu=map_types.COMPARED,
             npu_with_comparisons=map_types.EQUATED_WORDS),
    Operator("LOG", 73, None, "ifm -> ofm", common.same, cost=Cost.TABLE, is_lut=True, npu=map_types.SIGNED),
    Operator("SUM", 74, options.ReducerOptions, "ifm axes:i32 -> ofm", gathers.reduction, npu=map_types.EIGHT_BITS),
    Operator("SQRT", 75, None, "ifm -> ofm", common.same, is_lut=True),
    Operator("RSQRT", 76, None, "ifm -> ofm", common.same, cost=Cost.TABLE, is_lut=True, npu=map_types.SIGNED),
    Operator("SHAPE", 77, options.ShapeOptions, "ifm -> ofm", gathers.shape_of),
    Operator("POW", 78, options.PowOptions, "ifm ifm2 -> ofm", common.elementwise),
    Operator("ARG_MIN", 79, options.ArgMinOptions, "ifm axis -> ofm", gathers.arg),
    Operator("FAKE_QUANT", 80, options.FakeQuantOptions, "ifm -> ofm", common.same),
    Operator("REDUCE_PROD", 81, options.ReducerOptions, "ifm axes -> ofm", gathers.reduction),
    Operator("REDUCE_MAX", 82, options.ReducerOptions, "ifm axes:i32 -> ofm", gathers.reduction,
             quantization=quantizations.first_input, npu=map_types.QUANTIZED),
    Operator("PACK", 83, options.PackOptions, "ifm ifm* -> ofm", parts.pack, quantization=quantizations.every_input,
             npu=map_types.EVERY),
    Operator("LOGICAL_OR", 84, options.LogicalOrOptions, "ifm ifm2 -> ofm", common.elementwise, npu=map_types.LOGIC),
    Operator("ONE_HOT", 85, options.OneHotOptions, "indices depth on off -> ofm", gathers.one_hot),
    Operator("LOGICAL_AND", 86, options.LogicalAndOptions, "ifm ifm2 -> ofm", common.elementwise, npu=map_types.LOGIC),
    Operator("LOGICAL_NOT", 87, options.LogicalNotOptions, "ifm -> ofm", common.same, npu=map_types.LOGIC),
    Operator("UNPACK", 88, options.UnpackOptions, "ifm -> ofm ofm*", parts.unpack, quantization=quantizations.first_input,
             npu=map_types.MOVED),
    Operator("REDUCE_MIN", 89, options.ReducerOptions, "ifm axes:i32 -> ofm", gathers.reduction,
             quantization=quantizations.first_input, npu=map_types.QUANTIZED),
    Operator("FLOOR_DIV", 90, options.FloorDivOptions, "ifm ifm2 -> ofm", common.elementwise),
    Operator("REDUCE_ANY", 91, options.ReducerOptions, "ifm axes:i32 -> ofm", gathers.reduction, npu=map_types.LOGIC),
    Operator("SQUARE", 92, options.SquareOptions, "ifm -> ofm", common.same),
    Operator("ZEROS_LIKE", 93, options.ZerosLikeOptions, "ifm -> ofm", common.same),
    Operator("FILL", 94, options.FillOptions, "shape value -> ofm", gathers.fill, quantization=quantizations.fill),
    Operator("FLOOR_MOD", 95, options.FloorModOptions, "ifm ifm2 -> ofm", common.elementwise),
    Operator("RANGE", 96, options.RangeOptions, "start limit delta -> ofm", common.unknown),
    Operator("RESIZE_NEAREST_NEIGHBOR", 97, options.ResizeNearestNeighborOptions, "ifm size:i32 -> ofm", moves.resize,
             npu=map_types.QUANTIZED),
    Operator("LEAKY_RELU", 98, options.LeakyReluOptions, "ifm -> ofm", common.same, cost=Cost.TABLE, is_lut=True,
             npu=map_types.QUANTIZED),
    Operator("SQUARED_DIFFERENCE", 99, options.SquaredDifferenceOptions, "ifm ifm2 -> ofm", common.elementwise,
             npu=map_types.INT8),
    Operator("MIRROR_PAD", 100, options.MirrorPadOptions, "ifm paddings:i32|i64 -> ofm", moves.mirror_pad,
             quantization=quantizations.first_input, npu=map_types.MOVED),
    Operator("ABS", 101, options.AbsOptions, "ifm -> ofm", common.same, is_lut=True, npu=map_types.SIGNED),
    Operator("SPLIT_V", 102, options.SplitVOptions, "ifm sizes:i32|i64 axis:i32|i64 -> ofm ofm*", parts.split_v,
             npu=map_types.EVERY),
    Operator("UNIQUE", 103, options.UniqueOptions, "ifm -> ofm indices", common.unknown),
    Operator("CEIL", 104, None, "ifm -> ofm", common.same),
    Operator("REVERSE_V2", 105, options.ReverseV2Options, "ifm axes:i32 -> ofm", moves.reverse, npu=map_types.REVERSED),
    Operator("ADD_N", 106, options.AddNOptions, "ifm* -> ofm", common.alike),
    Operator("GATHER_ND", 107, options.GatherNdOptions, "ifm indices -> ofm", gathers.gather_nd),
    Operator("COS", 108, options.CosOptions, "ifm -> ofm", common.same),
    Operator("WHERE", 109, options.WhereOptions, "ifm -> ofm", common.unknown),
    Operator("RANK", 110, options.RankOptions, "ifm -> ofm", gathers.scalar),
    Operator("ELU", 111, None, "ifm -> ofm", common.same, cost=Cost.TABLE, is_lut=True, npu=map_types.INT8),
    Operator("REVERSE_SEQUENCE", 112, options.ReverseSequenceOptions, "ifm lengths -> ofm", moves.reverse_sequence),
    Operator("MATRIX_DIAG", 113, options.MatrixDiagOptions, "ifm -> ofm", moves.matrix_diag),
    Operator("QUANTIZE", 114, options.QuantizeOptions, "ifm -> ofm", common.same, is_lut=True, npu=map_types.REQUANTIZED),
    Operator("MATRIX_SET_DIAG", 115, options.MatrixSetDiagOptions, "ifm diagonal -> ofm", moves.matrix_set_diag),
    Operator("ROUND", 116, None, "ifm -> ofm", common.same),
    Operator("HARD_SWISH", 117, options.HardSwishOptions, "ifm -> ofm", common.same, cost=Cost.TABLE, is_lut=True,
             npu=map_types.EIGHT_BITS),
    Operator("IF", 118, options.IfOptions, "condition operand* -> operand*"),
    Operator("WHILE", 119, options.WhileOptions, "operand* -> operand*"),
    Operator("NON_MAX_SUPPRESSION_V4", 120, options.NonMaxSuppressionV4Options,
             "ifm scores size overlap threshold -> indices count", gathers.suppression),
    Operator("NON_MAX_SUPPRESSION_V5", 121, options.NonMaxSuppressionV5Options,
             "ifm scores size overlap threshold sigma -> indices scores count", gathers.suppression),
    Operator("SCATTER_ND", 122, options.ScatterNdOptions, "indices updates shape -> ofm", gathers.scatter_nd),
    Operator("SELECT_V2", 123, options.SelectV2Options, "condition ifm ifm2 -> ofm", common.select_v2, npu=map_types.MOVED),
    Operator("DENSIFY", 124, options.DensifyOptions, "ifm -> ofm", common.same),
    Operator("SEGMENT_SUM", 125, options.SegmentSumOptions, "ifm segments -> ofm", gathers.segments),
    Operator("BATCH_MATMUL", 126, options.BatchMatMulOptions, "ifm ifm2 -> ofm", windows.batch_matmul, macs=macs.matmul,
             cost=Cost.MATMUL, npu=map_types.SIGNED),
    Operator("PLACEHOLDER_FOR_GREATER_OP_CODES", 127),
    Operator("CUMSUM", 128, options.CumsumOptions, "ifm axis -> ofm", common.same),
    Operator("CALL_ONCE", 129, options.CallOnceOptions, "->"),
    Operator("BROADCAST_TO", 130, options.BroadcastToOptions, "ifm shape -> ofm", moves.broadcast_to),
    Operator("RFFT2D", 131, options.Rfft2dOptions, "ifm lengths -> ofm", moves.rfft2d),
    Operator("CONV_3D", 132, options.Conv3DOptions, macs=macs.convolution_3d),
    Operator("IMAG", 133, None, "ifm -> ofm", common.same),
    Operator("REAL", 134, None, "ifm -> ofm", common.same),
    Operator("COMPLEX_ABS", 135, None, "ifm -> ofm", common.same),
    Operator("HASHTABLE", 136, options.HashtableOptions),
    Operator("HASHTABLE_FIND", 137, options.HashtableFindOptions),
    Operator("HASHTABLE_IMPORT", 138, options.HashtableImportOptions),
    Operator("HASHTABLE_SIZE", 139, options.HashtableSizeOptions),
    Operator("REDUCE_ALL", 140, options.ReducerOptions, "ifm axes:i32 -> ofm", gathers.reduction, npu=map_types.LOGIC),
    Operator("CONV_3D_TRANSPOSE", 141, options.Conv3DOptions),
    Operator("VAR_HANDLE", 142, options.VarHandleOptions, "-> resource", gathers.scalar),
    Operator("READ_VARIABLE", 143, options.ReadVariableOptions, "resource -> ofm", common.unknown),
    Operator("ASSIGN_VARIABLE", 144, options.AssignVariableOptions, "resource ifm ->"),
    Operator("BROADCAST_ARGS", 145, None, "shape shape2 -> ofm", gathers.broadcast_shape),
    Operator("RANDOM_STANDARD_NORMAL", 146, options.RandomOptions),
    Operator("BUCKETIZE", 147, options.BucketizeOptions, "ifm -> ofm", common.same),
    Operator("RANDOM_UNIFORM", 148, options.RandomOptions),
    Operator("MULTINOMIAL", 149, options.RandomOptions),
    Operator("GELU", 150, options.GeluOptions, "ifm -> ofm", common.same, cost=Cost.TABLE, is_lut=True,
             npu=map_types.QUANTIZED),
    Operator("DYNAMIC_UPDATE_SLICE", 151, options.DynamicUpdateSliceOptions, "ifm update start -> ofm",
             parts.dynamic_update_slice),
    Operator("RELU_0_TO_1", 152, None, "ifm -> ofm", common.same, is_lut=True, npu=map_types.EIGHT_BITS),
    Operator("UNSORTED_SEGMENT_PROD", 153, options.UnsortedSegmentProdOptions,
             "ifm segments count -> ofm", gathers.unsorted_segments),
    Operator("UNSORTED_SEGMENT_MAX", 154, options.UnsortedSegmentMaxOptions,
             "ifm segments count -> ofm", gathers.unsorted_segments),
    Operator("UNSORTED_SEGMENT_SUM", 155, options.UnsortedSegmentSumOptions,
             "ifm segments count -> ofm", gathers.unsorted_segments),
    Operator("ATAN2", 156, options.ATan2Options, "ifm ifm2 -> ofm", common.alike),
    Operator("UNSORTED_SEGMENT_MIN", 157, options.UnsortedSegmentMinOptions,
             "ifm segments count -> ofm", gathers.unsorted_segments),
    Operator("SIGN", 158, options.SignOptions, "ifm -> ofm", common.same),
    Operator("BITCAST", 159, options.BitcastOptions),
    Operator("BITWISE_XOR", 160, options.BitwiseXorOptions, "ifm ifm2 -> ofm", common.elementwise),
    Operator("RIGHT_SHIFT", 161, options.RightShiftOptions, "ifm ifm2 -> ofm", common.elementwise),
    Operator("STABLEHLO_LOGISTIC", 162),
    Operator("STABLEHLO_ADD", 163),
    Operator("STABLEHLO_DIVIDE", 164),
    Operator("STABLEHLO_MULTIPLY", 165),
    Operator("STABLEHLO_MAXIMUM", 166),
    Operator("STABLEHLO_RESHAPE", 167),
    Operator("STABLEHLO_CLAMP", 168),
    Operator("STABLEHLO_CONCATENATE", 169, options_2.StablehloConcatenateOptions),
    Operator("STABLEHLO_BROADCAST_IN_DIM", 170, options_2.StablehloBroadcastInDimOptions),
    Operator("STABLEHLO_CONVOLUTION", 171, options_2.StablehloConvolutionOptions),
    Operator("STABLEHLO_SLICE", 172, options_2.StablehloSliceOptions),
    Operator("STABLEHLO_CUSTOM_CALL", 173, options_2.StablehloCustomCallOptions),
    Operator("STABLEHLO_REDUCE", 174, options_2.StablehloReduceOptions),
    Operator("STABLEHLO_ABS", 175),
    Operator("STABLEHLO_AND", 176),
    Operator("STABLEHLO_COSINE", 177),
    Operator("STABLEHLO_EXPONENTIAL", 178),
    Operator("STABLEHLO_FLOOR", 179),
    Operator("STABLEHLO_LOG", 180),
    Operator("STABLEHLO_MINIMUM", 181),
    Operator("STABLEHLO_NEGATE", 182),
    Operator("STABLEHLO_OR", 183),
    Operator("STABLEHLO_POWER", 184),
    Operator("STABLEHLO_REMAINDER", 185),
    Operator("STABLEHLO_RSQRT", 186),
    Operator("STABLEHLO_SELECT", 187),
    Operator("STABLEHLO_SUBTRACT", 188),
    Operator("STABLEHLO_TANH", 189),
    Operator("STABLEHLO_SCATTER", 190, options_2.StablehloScatterOptions),
    Operator("STABLEHLO_COMPARE", 191, options_2.StablehloCompareOptions),
    Operator("STABLEHLO_CONVERT", 192),
    Operator("STABLEHLO_DYNAMIC_SLICE", 193, options_2.StablehloDynamicSliceOptions),
    Operator("STABLEHLO_DYNAMIC_UPDATE_SLICE", 194),
    Operator("STABLEHLO_PAD", 195, options_2.StablehloPadOptions),
    Operator("STABLEHLO_IOTA", 196, options_2.StablehloIotaOptions),
    Operator("STABLEHLO_DOT_GENERAL", 197, options_2.StablehloDotGeneralOptions),
    Operator("STABLEHLO_REDUCE_WINDOW", 198, options_2.StablehloReduceWindowOptions),
    Operator("STABLEHLO_SORT", 199, options_2.StablehloSortOptions),
    Operator("STABLEHLO_WHILE", 200, options_2.StablehloWhileOptions),
    Operator("STABLEHLO_GATHER", 201, options_2.StablehloGatherOptions),
    Operator("STABLEHLO_TRANSPOSE", 202, options_2.StablehloTransposeOptions),
    Operator("DILATE", 203, options_2.DilateOptions),
    Operator("STABLEHLO_RNG_BIT_GENERATOR", 204, options_2.StablehloRngBitGeneratorOptions),
    Operator("REDUCE_WINDOW", 205, options_2.ReduceWindowOptions),
    Operator("STABLEHLO_COMPOSITE", 206, options_2.StableHLOCompositeOptions),
    Operator("STABLEHLO_SHIFT_LEFT", 207, options_2.StablehloShiftLeftOptions),
    Operator("STABLEHLO_CBRT", 208),
    Operator("STABLEHLO_CASE", 209, options_2.StablehloCaseOptions),
)  # fmt: skip

BY_NAME: dict[str, Operator] = {op.name: op for op in OPS}
BY_CODE: dict[int, Operator] = {op.code: op for op in OPS}
MAP_TYPES: Mapping[str, tuple[MapTypes, ...]] = {op.name: op.npu for op in sorted(OPS, key=lambda op: op.name) if op.npu}
"""What the compiler lowers, with the types of its feature maps."""


def map_types_of(kind: str, *, compares: bool) -> tuple[MapTypes, ...]:
    """The types of an operator that the compiler lowers, on an NPU with comparisons of its own or without."""
    return MAP_TYPES[kind] + (BY_NAME[kind].npu_with_comparisons if compares else ())


def inputs_with(role: Role, op: Op) -> tuple[int, ...]:
    """Positions of an operator's inputs with a role; all are feature maps of an operator of which nothing is known."""
    row = BY_NAME.get(op.kind)
    if row is None or row.operands is None:
        return tuple(range(len(op.inputs))) if role is Role.FEATURE_MAP else ()
    return positions(row.operands, role, len(op.inputs))


def is_matrix_of_weights(op: Op, position: int, tensor: Tensor) -> bool:
    """Whether an input is the constant int8 matrix of a BATCH_MATMUL, one for all batches: weights rather than a map."""
    is_right = op.kind == "BATCH_MATMUL" and position == 1 and tensor.data is not None and not tensor.is_variable
    return is_right and tensor.dtype is DType.INT8 and tensor.elements == math.prod(tensor.shape[-2:])


def kind_of_code(code: int) -> str:
    """The kind of builtin operator `code`: its name, or "UNKNOWN_<code>"."""
    return BY_CODE[code].name if code in BY_CODE else f"{UNKNOWN_PREFIX}{code}"


def code_of_kind(kind: str) -> int:
    """The builtin code of an operator kind, the inverse of `kind_of_code`. Raises KeyError for a kind that is neither."""
    if kind in BY_NAME:
        return BY_NAME[kind].code
    digits = kind.removeprefix(UNKNOWN_PREFIX)
    if digits == kind or not digits.removeprefix("-").isdecimal():
        raise KeyError(kind)
    return int(digits)


MOVES = frozenset({
    "CONCATENATION", "SPLIT", "SPLIT_V", "PACK", "UNPACK", "SLICE", "STRIDED_SLICE", "PAD", "PADV2", "MIRROR_PAD", "TRANSPOSE",
    "TILE", "DEPTH_TO_SPACE", "SPACE_TO_DEPTH", "RESIZE_NEAREST_NEIGHBOR", "GATHER", "BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND",
    "REVERSE_V2", "QUANTIZE", "READ_VARIABLE", "ASSIGN_VARIABLE",
})  # fmt: skip
"""Operators that a compiler makes of copies, or of addresses and paddings of their neighbours."""

REDUCTIONS = frozenset(op.name for op in OPS if op.shape in (gathers.reduction, gathers.arg))
"""Operators that make one element of many along whole axes."""

IN_PIECES = frozenset({
    *MOVES & MAP_TYPES.keys() - {"RESIZE_NEAREST_NEIGHBOR"}, *(op.name for op in OPS if op.is_lut or op.cost is Cost.VIEW),
    "ADD", "ARG_MAX", "AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "EQUAL", "GREATER", "GREATER_EQUAL", "LESS",
    "LESS_EQUAL", "LOGICAL_AND", "LOGICAL_NOT", "LOGICAL_OR", "MAXIMUM", "MAX_POOL_2D", "MEAN", "MINIMUM", "MUL", "NOT_EQUAL",
    "PRELU", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "SELECT", "SELECT_V2", "SOFTMAX", "SQUARED_DIFFERENCE",
    "SUB", "SUM",
})  # fmt: skip
"""Operators that the NPU does in pieces as long as its registers can say: moves, single positions and windows."""
