"""Profile `u55-u65`: what Ethos-U55 and Ethos-U65 run through this project's compiler and simulator.

An operator or limit is listed only if the compiler lowers it and the simulator runs it bit for bit like the reference kernels.
Limits that differ between products come from the variant's fields. It starts from the limits of `v0.1`, widens a few, and adds
operators of its own and what exactness on the hardware needs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from constraints import observe, v0_1
from constraints import u55_u65_observe as seen
from constraints.rule import AtLeast, AtMost, Exactly, Limit, Observe, OneOf, Predicate, Profile, Range, Rule, RuleSet
from constraints.u55_u65_observe import LSTM
from npu.graph.dtype import DType
from npu.graph.map_types import SOFTMAX_SCALES, WEIGHT_TYPES, ZERO_POINTS, shown
from npu.graph.ops import IN_PIECES, MAP_TYPES, map_types_of
from npu.graph.permutation import side_by_side
from npu.graph.progressions import MOST_PARTS
from npu.graph.resizes import LARGEST_WEIGHTS
from npu.graph.verify import MAX_EXTENT, MAX_RANK
from npu.hardware.variant import Variant
from npu.isa.families import family_of
from npu.numerics.arg_max import MOST_KEYS, MOST_PLACES, most_compared
from npu.numerics.comparison import EQUALITIES, MOST_SYMBOLS, RELATIONS
from npu.numerics.lstm_gates import CELL_EXPONENTS, MOST_TIMES

OPERATORS = tuple(sorted(MAP_TYPES))
WHOLE = tuple(kind for kind in OPERATORS if kind not in IN_PIECES)
"""Operators whose maps the registers must be able to say: for them the limit of `v0.1` for dimensions holds."""
WEIGHTED = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")
WINDOWED = ("AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D")
MEANS = ("MEAN", "SUM")
PADS = ("PAD", "PADV2")
FLAT = (*WEIGHTED, "AVERAGE_POOL_2D", "MAX_POOL_2D", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
"""Operators with height, width and depth."""
REDUCTIONS = ("REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN")
REPLACED = ("V-DW-10", "V-GEN-1", "V-GEN-3", "V-GEN-4", "V-PAD-1", "V-PAD-2", "V-PAD-3", "V-RSZ-1", "V-RSZ-2")
"""Limits of `v0.1` that are none here, or that one here replaces: a wider one, or for fused activations what the reference
kernels really apply."""
BINARY = ("ADD", "MAXIMUM", "MINIMUM", "MUL", "SQUARED_DIFFERENCE", "SUB")
WITH_ATTRIBUTES = (
    "CONCATENATION", "GELU", "LEAKY_RELU", "MIRROR_PAD", "PACK", "SOFTMAX", "STRIDED_SLICE", "UNPACK",
)  # fmt: skip


def _type_rules() -> Iterator[Rule]:
    """One rule for all operators of the same types."""
    kinds: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for kind, pairs in MAP_TYPES.items():
        with_comparisons = map_types_of(kind, compares=True)
        kinds.setdefault((tuple(map(shown, pairs)), tuple(map(shown, with_comparisons))), []).append(kind)
    for (types, more), row in kinds.items():
        short = "-".join(type_name.replace("uint", "U").replace("int", "I").upper() for type_name in types)
        name = row[0] if " TO " in short else short
        rule = Rule(f"N-TYPE-{name}", tuple(row), OneOf(types, others=("float32", "int64")),
                    "feature maps must be of type {limit}", seen.map_types, fix="quantize the model fully")  # fmt: skip
        yield rule if types == more else _with_comparisons(rule, more)


def _with_comparisons(rule: Rule, types: tuple[str, ...]) -> Rule:
    """The rule with further types on an NPU that has comparisons of its own."""
    usual, more = rule.limit, OneOf(types, others=("float32", "int64"))

    def limit_of(variant: Variant) -> Limit:
        return more if family_of(variant.accelerator.product).compares else usual

    return replace(rule, limit_of=limit_of, details=(f"Ethos-U85: {more}",))


def _constants(says: str, *names: tuple[int, str]) -> tuple[str, Observe]:
    return f"{says} must be {{limit}}", observe.both(*(observe.input_constant(position, name) for position, name in names))


def _larger(field: str) -> str:
    return f"Ethos-U85 has more: {field} in configs/base/ethos-u85.yaml"


def _widened(rule: Rule) -> Rule:
    """A limit of `v0.1` with the numbers that the variant's description has for it."""
    if rule.id == "V-GEN-2":
        return replace(rule, operators=WHOLE)
    if rule.id in ("V-CONV-2", "V-DW-2"):
        return replace(rule, limit=FAR_DILATED, details=(TAKEN_APART,), fix=None)
    if rule.id in ("V-CONV-3", "V-DW-3"):
        return replace(rule, observe=seen.kernel_height, says="kernel height must be {limit}",
                       limit_of=lambda variant: Range(1, variant.accelerator.max_kernel_height),
                       details=(_larger("max_kernel_height"),))  # fmt: skip
    if rule.id in ("V-CONV-4", "V-DW-4"):
        return replace(rule, observe=seen.kernel_product, says="kernel width x height must be {limit}",
                       limit_of=lambda variant: Range(1, variant.accelerator.max_kernel_elements),
                       details=(_larger("max_kernel_elements"),))  # fmt: skip
    if rule.id in ("V-CONV-9", "V-DW-9", "V-AVG-1", "V-MAX-1"):
        return replace(rule, limit=BATCH)
    if rule.id in ("V-CONV-8", "V-DW-8", "V-FC-3"):
        return replace(rule, limit=BIAS_TYPE)
    if rule.id in ("V-CONV-1", "V-DW-1", "V-AVG-2", "V-MAX-2"):
        return replace(
            rule,
            observe=seen.effective_strides,
            limit=FAR_APART,
            details=("A stride along an axis on which the OFM has one element does not count.", TAKEN_APART),
            fix=None,
        )
    return rule


BATCH = Range(1, 256)
FAR_APART = Range(1, 64)
FAR_DILATED = Range(1, 1024)
TAKEN_APART = "More than the hardware's 3 (strides) or 2 (dilations) take copies or several windows, at most 1024 of these."
BIAS_TYPE = OneOf((DType.INT32, DType.INT64), others=(DType.INT16, DType.FLOAT32))
CONSTANT = v0_1.CONSTANT
COMPUTED_TOO = OneOf(("constant", "computed"), others=("absent",))
PRESENT = Exactly("present", others=("absent",))
EQUAL_PAIR = Predicate("equal", seen.equal, examples=(((8, 8), True), ((8, 9), False)))
RESIZED = (
    (((1, 1), (5, 7), False), True), (((6, 8), (6, 8), False), True), (((6, 8), (12, 16), False), True),
    (((6, 8), (24, 32), False), True), (((6, 8), (48, 64), False), True), (((1, 8), (1, 32), False), True),
    (((6, 1), (12, 1), False), True), (((6, 8), (18, 24), False), False), (((6, 8), (96, 128), False), False),
    (((6, 8), (12, 32), False), False), (((6, 8), (12, 8), False), False), (((6, 8), (11, 15), False), False),
)  # fmt: skip
ALIGNED = (
    (((6, 8), (11, 15), True), True), (((6, 8), (21, 29), True), True), (((6, 8), (41, 57), True), True),
    (((1, 8), (1, 29), True), True), (((6, 8), (16, 22), True), False), (((6, 8), (81, 113), True), False),
    (((6, 8), (12, 16), True), False), (((6, 8), (11, 29), True), False),
)  # fmt: skip
"""((IFM height, width), (OFM height, width), align_corners) and whether the hardware resizes so."""
MEANT = (2, 3, 4, 5)
RESIZE_CASES = (
    "IFM width and height are both 1", "OFM has the width and height of the IFM",
    "align_corners: OFM width and height, less 1, are 2, 4 or 8 times those of the IFM, less 1",
    "no align_corners: OFM width and height are 2, 4 or 8 times those of the IFM (one that is 1 may stay 1)",
)  # fmt: skip
BILINEAR_PLACES = (
    "Ethos-U85, int8: OFM less than 14 times smaller, not so much larger that rounded steps lead the reference kernel behind "
    "the IFM (from 55 elements on)",
    "Ethos-U85, uint8: OFM less than 14 times smaller, IFM / OFM (both less 1 with align_corners) a fraction by a power of 2 "
    "up to 128, with half_pixel_centers up to 64",
    "Ethos-U85, int16: as int8, where the fractions of both axes, as registers say them, have a product of at most "
    f"{LARGEST_WEIGHTS[DType.INT16]}",
)
NEAREST_PLACES = (
    "Ethos-U85: OFM less than 14 times smaller, IFM / OFM a fraction that registers can say (by up to 1024), "
    "where float32, in which the reference kernel counts, names the same elements",
)
RESIZE = Predicate("one of the cases below", seen.resize_fits, examples=(*RESIZED, *ALIGNED))
BILINEAR, NEAREST = (
    Predicate(RESIZE.description, partial(seen.resize_fits_places, is_nearest=is_nearest)) for is_nearest in (False, True)
)
"""With an operation for resizes."""
MATRICES = ("int8, int8", "int8, constant int8", "int16, constant int8")
SCALED = Exactly("per tensor", others=("none", "per channel"))


def _finds_places(variant: Variant) -> bool:
    return family_of(variant.accelerator.product).finds_places


def _matrices_limit(variant: Variant) -> OneOf:
    """That of an NPU whose array multiplies two maps, or of one that has sums of products of 8 bits."""
    return OneOf((*MATRICES, "int16, int16") if family_of(variant.accelerator.product).multiplies_maps else MATRICES)


def _resize_limit(own: Predicate, variant: Variant) -> Predicate:
    """That of an NPU with an operation for resizes, or of one without."""
    return own if seen.has_resize(variant) else RESIZE


def _least_cell(variant: Variant) -> int:
    """Weights from which the exact gates of a cell take fewer cycles on the NPU.

    Measured on cells of 8 to 128 units and as many features: where both take as long, within a tenth.
    """
    weights = 15360 + (40 << 20) // variant.accelerator.macs_per_cycle**2  # where both have the same clock
    return int(weights * variant.cpu.clock_hz / variant.system.clock_hz)


HARDWARE = (
    *_type_rules(),
    Rule("N-GEN-1", (), PRESENT, "data input and output must be {limit}", seen.presence),
    Rule("N-GEN-2", (), SCALED, "feature maps must be quantized {limit}, with a positive scale",
         observe.of_each(lambda tensor: seen.has_scale(tensor.quantization), seen.quantized_maps),
         fix="convert the model with full integer quantization"),
    Rule("N-GEN-3", (),
         Predicate("those of their type: int8 -128 to 127, uint8 0 to 255, int16 0", seen.fits_type,
                   examples=tuple(
                       ((point, dtype), is_inside)
                       for dtype, (low, high) in ZERO_POINTS.items()
                       for point, is_inside in ((low - 1, False), (low, True), (high, True), (high + 1, False)))),
         "zero points of feature maps must be {limit}", seen.typed_zero_points),
    Rule("N-GEN-4", (), Range(0, 6), "rank of feature maps must be {limit}", seen.ranks,
         fix="merge neighbouring dimensions with a RESHAPE",
         details=("RESHAPE, SQUEEZE and EXPAND_DIMS may have any.",)),
    Rule("N-GEN-6", FLAT, Range(0, 4), "rank of feature maps must be {limit}", seen.ranks,
         fix="merge neighbouring dimensions with a RESHAPE"),
    Rule("N-GEN-5", (), AtMost(1 << 14), "factor from input scales to output scale must be {limit}", seen.rescale_factor,
         details=("Operators that copy, compare or look values up may have any.",)),
    Rule("N-GEN-7", tuple(kind for kind in OPERATORS if kind in IN_PIECES), Range(1, MAX_EXTENT),
         "tensor dimensions must each be {limit}", observe.tensor_dimensions,
         details=("Maps longer than 65,536 are done in pieces.",)),
    Rule("N-ACT-1", (), OneOf(("RELU", "RELU6", "RELU_N1_TO_1"), others=("TANH", "SIGN_BIT")),
         "the fused activation, if there is one, must be {limit}", seen.fused_activation,
         fix="write the activation as an operator of its own", details=("Reference int8 kernels ignore a fused TANH.",)),
    Rule("N-ACT-2", ("ADD", "MUL", "SUB"), Exactly("NONE", others=("RELU", "RELU6")),
         "fused activation of int32 maps must be {limit}", seen.int32_activation,
         fix="write the activation as an operator of its own", details=("Results of 32 bits are not clamped.",)),
    Rule("N-WIN-1", ("CONV_2D", "DEPTHWISE_CONV_2D"), Range(1, 65535), "dimensions of the weights must each be {limit}",
         seen.weight_dimensions),
    Rule("N-OPT-1", WITH_ATTRIBUTES, PRESENT, "options table must be {limit}", seen.options),
    Rule("N-W-1", WEIGHTED, Exactly("positive scales", others=("no scale",)), "weights must have {limit}",
         seen.weight_quantization),
    Rule("N-W-2", WEIGHTED, Exactly(0, others=(1,)), "zero points of int8 weights must be {limit}", seen.weight_zero_points),
    Rule("N-W-7", WEIGHTED,
         Predicate("of the maps' type, int8 for int16", lambda pair: WEIGHT_TYPES.get(pair[1]) is pair[0],
                   examples=(((DType.INT8, DType.INT8), True), ((DType.UINT8, DType.UINT8), True),
                             ((DType.INT8, DType.INT16), True), ((DType.UINT8, DType.INT8), False))),
         "weights must be {limit}", seen.typed_weights),
    Rule("N-W-3", WEIGHTED, CONSTANT, "bias, if there is one, must be {limit}", seen.bias_constant),
    Rule("N-W-8", WEIGHTED,
         Predicate("below 2**31, or 2**39 with a bias of 64 bits, and below 2**31 when scaled", lambda pair: pair[0] < pair[1],
                   examples=((((1 << 31) - 1, 1 << 31), True), ((1 << 31, 1 << 31), False),
                             (((1 << 39) - 1, 1 << 39), True), ((1 << 39, 1 << 39), False))),
         "largest possible sum of products and bias must be {limit}", seen.sums_of_products,
         details=("A channel of so small a scale that every sum gives zero does not count.",)),
    Rule("N-W-4", WEIGHTED,
         Predicate("1 or the number of output channels", lambda pair: pair[0] in (1, pair[1]),
                   examples=(((1, 8), True), ((8, 8), True), ((2, 8), False))),
         "number of weight scales must be {limit}", seen.scale_count),
    Rule("N-CONV-1", ("TRANSPOSE_CONV",), EQUAL_PAIR, "filter channels and IFM channels must be {limit}", seen.filter_channels),
    Rule("N-BMM-1", ("BATCH_MATMUL",), OneOf(MATRICES,
         others=("int16, int16",)), "matrices must be of type {limit}", seen.matrices,
         limit_of=_matrices_limit, details=("Ethos-U85: also int16, int16, constant or not.",)),
    Rule("N-BMM-2", ("BATCH_MATMUL",), OneOf(("per tensor", "per channel"), others=("none",)),
         "a constant matrix must be quantized {limit}, with a positive scale", seen.matrix_quantization,
         details=("One with several scales makes zeros of everything, as LiteRT's kernel takes 0 for their scale.",)),
    Rule("N-CAT-1", ("CONCATENATION",), Exactly("NONE", others=("RELU", "RELU6")), "fused activation must be {limit}",
         seen.unit_activation, fix="apply the activation before the operands are joined"),
    Rule("N-PAD-1", PADS, CONSTANT, *_constants("padding tensor", (1, "padding tensor"))),
    Rule("N-PAD-2", PADS, Range(0, 65535), "padding counts must each be {limit}", observe.padding_counts),
    Rule("N-PAD-3", PADS, OneOf(((1, 2), (2, 2), (3, 2), (4, 2), (5, 2)), others=((0, 2), (6, 2))),
         "padding tensor must have shape {limit}", observe.paddings_shape),
    Rule("N-PAD-5", PADS, OneOf((DType.INT32, DType.INT64), others=(DType.INT16, DType.FLOAT32)),
         "padding tensor must be of type {limit}", observe.paddings_type),
    Rule("N-PAD-6", ("PADV2",), CONSTANT, *_constants("padding value", (2, "padding value"))),
    Rule("N-MEAN-1", MEANS, CONSTANT, *_constants("axes", (1, "axes"))),
    Rule("N-MEAN-2", MEANS,
         Predicate("side by side", lambda axes: side_by_side(*axes) is not None,
                   examples=(((MEANT, (1, 2)), True), ((MEANT, (3,)), True), ((MEANT, (1, 2, 3)), True),
                             ((MEANT, (0, 3)), False),
                             ((MEANT, (1, 3)), False), (((2, 3, 1, 4), (1, 3)), True))),
         "axes must lie {limit}", seen.reduced, fix="reduce in two steps",
         details=("Dimensions of one element do not count.",)),
    Rule("N-MEAN-4", MEANS, Range(1, 65536), "elements of one mean or sum must be {limit}", seen.mean_elements,
         fix="reduce in two steps"),
    Rule("N-TC-1", ("TRANSPOSE_CONV",), Range(1, 8), "stride height and width must each be {limit}", seen.transposed_strides,
         details=("A stride along an axis on which the IFM has one element does not count.",)),
    Rule("N-TC-2", ("TRANSPOSE_CONV",), Range(1, 64), "kernel height and width must each be {limit}", seen.kernel_sides),
    Rule("N-TC-3", ("TRANSPOSE_CONV",), EQUAL_PAIR,
         "size of the OFM and the one that stride, kernel and padding give must be {limit}", seen.transposed_size),
    Rule("N-TC-4", ("TRANSPOSE_CONV",), OneOf(("constant", "fixed by the OFM"), others=("computed",)),
         "output shape must be {limit}", seen.shape_of_the_result,
         details=("A computed one is taken to be the shape that the OFM declares, as tflite-micro takes it.",)),
    Rule("N-TC-5", ("TRANSPOSE_CONV",), v0_1.EIGHT_BIT, "weights must be {limit}", observe.weight_type),
    Rule("N-TC-6", ("TRANSPOSE_CONV",), CONSTANT, "weights must be {limit}", observe.weights_constant),
    Rule("N-TC-7", ("TRANSPOSE_CONV",), AtMost(8323072), "sum of the weights must be {limit}", observe.weight_sum,
         details=("The largest sum over one output channel of |weight - zero point| counts.",)),
    Rule("N-TC-8", ("TRANSPOSE_CONV",), BIAS_TYPE, "bias, if there is one, must be of type {limit}", observe.bias_type),
    Rule("N-TC-9", ("TRANSPOSE_CONV",), BATCH, "IFM batch size must be {limit}", observe.batch,
         fix=v0_1.BATCH_TO_HEIGHT),
    Rule("N-TR-1", ("TRANSPOSE",), CONSTANT, *_constants("permutation", (1, "permutation"))),
    Rule("N-TR-2", ("TRANSPOSE",), v0_1.INT32, "permutation must be of type {limit}", seen.order_type),
    Rule("N-TR-3", ("TRANSPOSE",), Range(1, 6), "rank of the IFM must be {limit}", seen.transposed_rank),
    Rule("N-TR-4", ("TRANSPOSE",), Range(0, 5), "axes of the permutation must each be {limit}", seen.permuted_axes),
    Rule("N-TR-6", ("TRANSPOSE",), EQUAL_PAIR, "scale and zero point of IFM and OFM must be {limit}", seen.both_quantizations,
         fix="requantize with a QUANTIZE before it"),
    Rule("N-TR-7", ("TRANSPOSE",), AtMost(1024), "copies of two axes that it takes must be {limit}", seen.copies,
         fix="permute in several steps that move fewer axes each",
         details=("Neighbours that stay so count as one axis; a copy takes two axes, and a third that stays the last.",)),
    Rule("N-SLICE-1", ("SLICE",), CONSTANT, *_constants("begin and size", (1, "begin"), (2, "size"))),
    Rule("N-SS-1", ("STRIDED_SLICE",), CONSTANT,
         *_constants("begin, end and strides", (1, "begin"), (2, "end"), (3, "strides"))),
    Rule("N-SS-2", ("STRIDED_SLICE",), Range(1, 65535), "strides must each be {limit}", seen.strides),
    Rule("N-GATHER-1", ("GATHER",), CONSTANT, *_constants("indices", (1, "indices")),
         limit_of=lambda variant: COMPUTED_TOO if family_of(variant.accelerator.product).gathers else CONSTANT,
         details=("Ethos-U85: constant or computed",)),
    Rule("N-GATHER-5", ("GATHER",), Exactly(1, others=(2,)),
         "elements of dimensions between the common ones and the axis of computed indices must be {limit}",
         seen.gathered_between, fix="transpose the input so that the axis comes first"),
    Rule("N-GATHER-6", ("GATHER",), Exactly(DType.INT32, others=(DType.INT64,)), "computed indices must be of type {limit}",
         seen.computed_indices_type),
    Rule("N-GATHER-2", ("GATHER",),
         Predicate("from 0 to below the extent of the axis", lambda value: 0 <= value[0] < value[1],
                   examples=(((-1, 8), False), ((0, 8), True), ((7, 8), True), ((8, 8), False))),
         "indices must be {limit}", seen.indices_within, details=("TFLite's kernel refuses others, too.",)),
    Rule("N-GATHER-3", ("GATHER",), Exactly(0, others=(1,)), "batch dimensions must be {limit}", seen.common_dimensions),
    Rule("N-GATHER-4", ("GATHER",),
         Predicate(f"at most {seen.FEW_PARTS}, or at most {MOST_PARTS} of {seen.LEAST_PART} elements each on average",
                   seen.is_worth_parts,
                   examples=(((1, 1), True), ((32, 32), True), ((33, 528), True), ((33, 495), False),
                             ((1024, 1 << 14), True), ((1025, 16400), False))),
         "evenly spaced parts of the indices must be {limit}", seen.gathered_parts,
         details=("A part is copied at once: 0, 12, 1, 13, 2, 14 are two, 0, 1, 2 and 12, 13, 14.",
                  "More parts of fewer elements are faster on the CPU.")),
    Rule("N-LSTM-1", (LSTM,), Exactly((), others=(("peephole",), ("projection",), ("normalisation",))),
         "parts of the cell beside its gates must be {limit}", seen.cell_parts),
    Rule("N-LSTM-2", (LSTM,), Range(*CELL_EXPONENTS), "scale of the cell state must be a power of 2 with an exponent {limit}",
         seen.cell_exponent),
    Rule("N-LSTM-3", (LSTM,), Range(1, MOST_TIMES), "times must be {limit}", seen.times, fix="process the sequence in pieces"),
    Rule("N-LSTM-5", (LSTM,), AtLeast(14336), "weights of the gates must be {limit}", seen.cell_weights,
         limit_of=lambda variant: AtLeast(_least_cell(variant)),
         details=("The more of them, the less count the 90 operations of the gates at every time; a smaller cell is faster on "
                  "the CPU.",)),
    Rule("N-LSTM-4", (LSTM,), Exactly(5, others=(0,)), "number of intermediate tensors must be {limit}", seen.intermediates),
    Rule("N-QUANT-1", ("QUANTIZE",),
         Predicate("below 1", lambda factor: factor < 1, examples=((0.5, True), (1.0, False), (2.0, False))),
         "factor from the scale of an int32 map to the output's must be {limit}", seen.int32_factor),
    Rule("N-QUANT-2", ("QUANTIZE",), Exactly(0, others=(1,)), "zero point of an int32 output must be {limit}",
         seen.int32_zero_point),
    Rule("N-QUANT-3", ("QUANTIZE",), AtLeast(16), "elements of an int32 output must be {limit}", seen.int32_elements,
         details=("Fewer take fewer cycles on the CPU.",)),
    Rule("N-RED-1", REDUCTIONS, CONSTANT, *_constants("axes", (1, "axes"))),
    Rule("N-RED-2", REDUCTIONS, AtMost(65536), "elements behind each other that are compared must be {limit}",
         seen.compared_elements, fix="reduce in two steps"),
    Rule("N-CMP-1", EQUALITIES, AtMost(MOST_SYMBOLS), "symbols that tell equal values of both operands must be {limit}",
         seen.compared_symbols, fix="give both operands the same quantization",
         details=("On one scale, as TFLite's kernels round: one for each number that both have values for, and one for all "
                  "other values of each. A constant of one element may have any scale.",)),
    Rule("N-CMP-2", tuple(RELATIONS),
         Predicate("below 1", lambda scale: scale < 1, examples=((0.5, True), (1.0, False), (2.0, False))),
         "scales of what is compared must be {limit}", seen.compared_scales,
         details=("LiteRT's kernel ends the process else.",)),
    Rule("N-SEL-1", ("SELECT", "SELECT_V2"), Exactly(DType.BOOL, others=(DType.INT8, DType.FLOAT32)),
         "condition must be of type {limit}", seen.condition_type),
    Rule("N-REV-1", ("REVERSE_V2",), CONSTANT, *_constants("axes", (1, "axes"))),
    Rule("N-REV-2", ("REVERSE_V2",), AtMost(0), "axes along which elements change places must be {limit}", seen.reversed_axes,
         limit_of=lambda variant: AtMost(MAX_RANK if family_of(variant.accelerator.product).transposes else 0),
         details=("Ethos-U85, which can store results backwards: any",)),
    Rule("N-TILE-1", ("TILE",), CONSTANT, *_constants("multiples", (1, "multiples"))),
    Rule("N-BATCH-1", ("BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND"), CONSTANT,
         *_constants("block, and paddings or crops,", (1, "block"), (2, "paddings or crops"))),
    Rule("N-MIR-1", ("MIRROR_PAD",), CONSTANT, *_constants("padding tensor", (1, "padding tensor"))),
    Rule("N-MIR-2", ("MIRROR_PAD",), OneOf(((1, 2), (2, 2), (3, 2), (4, 2), (5, 2)), others=((0, 2), (6, 2))),
         "padding tensor must have shape {limit}", observe.paddings_shape),
    Rule("N-MIR-4", ("MIRROR_PAD",), Range(0, 256), "padding counts must each be {limit}", observe.padding_counts),
    Rule("N-PRELU-1", ("PRELU",), CONSTANT, *_constants("slopes", (1, "slopes"))),
    Rule("N-PRELU-2", ("PRELU",),
         Predicate("8-bit, with extents of the IFM or 1 and one batch", seen.slopes_fit,
                   examples=(((8, (4,), (1, 5, 6, 4)), True), ((8, (1, 1, 4), (1, 5, 6, 4)), True),
                             ((8, (5, 6, 4), (1, 5, 6, 4)), True), ((8, (5,), (1, 5, 6, 4)), False),
                             ((16, (4,), (1, 5, 6, 4)), False), ((8, (2, 5, 6, 4), (2, 5, 6, 4)), False))),
         "slopes must be {limit}", seen.slopes),
    Rule("N-ARG-1", ("ARG_MAX",), CONSTANT, *_constants("axis", (1, "axis"))),
    Rule("N-ARG-2", ("ARG_MAX",), Exactly(-1, others=(-2, -4)), "axis, counted from the end, must be {limit}", seen.last_axis,
         limit_of=lambda variant: Range(-MAX_RANK, -1) if _finds_places(variant) else Exactly(-1),
         details=("Ethos-U85: any",)),
    Rule("N-ARG-3", ("ARG_MAX",), Range(1, MOST_KEYS), "elements along the axis must be {limit}", seen.compared,
         limit_of=lambda variant: Range(1, most_compared(finds_places=_finds_places(variant))),
         details=(f"Ethos-U85: in the range [1, {MOST_PLACES}]",)),
    Rule("N-SPLIT-1", ("SPLIT",), CONSTANT, *_constants("axis", (0, "axis"))),
    Rule("N-SPLIT-2", ("SPLIT_V",), CONSTANT, *_constants("sizes and axis", (1, "sizes"), (2, "axis"))),
    Rule("N-SM-1", ("SOFTMAX",), OneOf(tuple((shown(pair), *expected) for pair, expected in SOFTMAX_SCALES.items()), others=(
        ("int8", 1 / 255, -128), ("int8", 1 / 256, 0), ("int8 to int16", 1 / 32768, 0))),
         "types, scale and zero point of the output must be {limit}", seen.softmax_output,
         details=("Scales may differ by a thousandth.",)),
    Rule("N-SM-2", ("SOFTMAX",),
         Predicate("positive and finite", lambda beta: 0 < beta < math.inf,
                   examples=((1.0, True), (0.0, False), (-1.0, False))),
         "beta must be {limit}", observe.attributes(beta="beta")),
    Rule("N-SM-3", ("SOFTMAX",), Range(1, 65535), "IFM channels must be {limit}", seen.channels),
    Rule("N-RSZ-1", ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), CONSTANT, *_constants("output size", (1, "output size"))),
    Rule("N-RSZ-2", ("RESIZE_BILINEAR",), RESIZE,
         "width and height of IFM and OFM must be {limit}", seen.resize_forms, fix="resize by 2, 4 or 8",
         limit_of=partial(_resize_limit, BILINEAR), details=(*RESIZE_CASES, *BILINEAR_PLACES)),
    Rule("N-NN-1", ("RESIZE_NEAREST_NEIGHBOR",), RESIZE,
         "width and height of IFM and OFM must be {limit}", seen.resize_forms, fix="resize by 2, 4 or 8",
         limit_of=partial(_resize_limit, NEAREST), details=(*RESIZE_CASES, *NEAREST_PLACES)),
)  # fmt: skip

PROFILE = Profile(
    name="u55-u65",
    version="1",
    device="NPU",
    summary="What Ethos-U55 and Ethos-U65 run through this project's compiler and simulator.",
    rule_sets=(
        RuleSet("quantized", OPERATORS, tuple(_widened(rule) for rule in v0_1.RULES if rule.id not in REPLACED) + HARDWARE),
    ),
    unlisted_rule="N-LIST",
    notes=(
        *v0_1.READINGS,
        "Limits with an id `V-...` are those of profile `v0.1`, those with `N-...` belong to this compiler; stride and "
        "dilation follow the target's description.",
        "Four more reasons depend on the whole model: `CONSISTENCY`, where the file declares other shapes or scales than "
        "TFLite's kernels compute; `JOB-WORK`, where an NPU job would hold nothing but reshapes, or copies and "
        "single values that the CPU makes in less time than it takes around a job; and, found when the model "
        "is compiled, `MEMORY-ARENA`, where only an operator's tensors fit the arena, not the maps of its steps in stripes, "
        "and `LOWERING`, where the compiler cannot lower what the profile takes.",
    ),
)
